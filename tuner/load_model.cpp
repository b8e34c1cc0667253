#include "tuner/load_model.h"

#include <set>
#include <string>

#include "core/frontends/onnx.h"
#include "core/models/zoo.h"
#include "core/relay/passes/settle_dims.h"
#include "core/relay/text.h"
#include "core/support/error.h"
#include "core/support/file.h"

namespace lathe::tuner {

namespace {

relay::Module loaded(const std::string& model, const InputShapes& shapes, const OpenDims& open) {
  if (model.ends_with(".lathe")) fail("{} is a compiled module; name the model it was made of", model);
  if (model.ends_with(".onnx")) {
    onnx::ImportOptions options{.shapes = shapes};
    std::set<std::string> dims;  // that the inputs leave open
    if (!open.none()) {
      options.keeps_open = [&](const std::string& dim) {
        dims.insert(dim);
        return open.keeps(dim);
      };
      options.least_size = [&](const std::string& dim) { return open.range(dim).min; };
    }
    try {
      return onnx::import_file(model, options).module;
    } catch (const Error&) {
      // A misspelt name leaves its dimension open, and the message would be about that.
      if (!dims.empty()) require_known(open, {dims.begin(), dims.end()});
      throw;
    }
  }
  const bool file = model.ends_with(".relay");
  const relay::Module module =
      file ? relay::parse_module(read_file(model), model) : models::build_model(model);
  try {
    const relay::Module bound = bind_shapes(module, shapes, open);
    return open.none() ? bound : relay::settle_dims(bound);
  } catch (const Error& error) {  // which knows no file, as the importer does
    if (!file) throw;
    fail("{}: {}", model, error.what());
  }
}

/// Whether all dimensions that main's parameters leave open are among those that stay so.
bool are_kept(const relay::Module& module, const OpenDims& open) {
  bool kept = true;
  for (const relay::Var& param : module->functions.at("main")->params)
    post_order(param->annotation, [&](const NodeRef& node) {
      const auto* dim = node.as<VarNode>();
      kept &= !dim || open.keeps(dim->name);
    });
  return kept;
}

}  // namespace

relay::Module load_model(const std::string& model, const InputShapes& shapes, const OpenDims& open) try {
  return loaded(model, shapes, open);
} catch (const Error&) {
  if (open.none() || open.all) throw;
  // What the operators settle, as the channels of a convolution, nobody has to say.
  OpenDims all = open;
  all.all = true;
  relay::Module module;
  try {
    module = loaded(model, shapes, all);
  } catch (const Error&) {
  }
  if (!module || !are_kept(module, open)) throw;
  return module;
}

}  // namespace lathe::tuner
