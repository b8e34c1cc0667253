#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/messages.h"
#include "cli/model_flags.h"
#include "cli/shapes.h"
#include "core/frontends/onnx_export.h"
#include "core/relay/passes/infer_type.h"
#include "tuner/load_model.h"

namespace lathe::cli {

int export_command(Flags& flags) {
  std::string model, path;
  std::vector<std::string> shapes;
  flags.add("--model MODEL", model, "a zoo name, or a .relay or .onnx file", Flags::Need::kRequired);
  add_shape_flag(flags, shapes);
  flags.add("--out FILE", path, "the ONNX file to write", Flags::Need::kRequired);
  if (!flags.parse()) return kSuccess;
  const relay::Module loaded = tuner::load_model(model, parse_shapes(shapes));
  onnx::export_file(naming(model, [&] { return relay::infer_type(loaded); }), path);
  say("wrote {}", path);
  return kSuccess;
}

}  // namespace lathe::cli
