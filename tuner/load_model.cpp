#include "tuner/load_model.h"

#include "core/frontends/onnx.h"
#include "core/models/zoo.h"
#include "core/relay/text.h"
#include "core/support/text.h"

namespace lathe::tuner {

relay::Module load_model(const std::string& model, const InputShapes& shapes) {
  if (model.ends_with(".onnx")) return onnx::import_file(model, {.shapes = shapes}).module;
  if (model.ends_with(".relay")) return bind_shapes(relay::parse_module(read_file(model), model), shapes);
  return bind_shapes(models::build_model(model), shapes);
}

}  // namespace lathe::tuner
