#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/messages.h"
#include "cli/model_flags.h"
#include "cli/running_model.h"
#include "cli/shapes.h"
#include "core/frontends/onnx_export.h"
#include "core/relay/passes/infer_type.h"
#include "tuner/load_model.h"
#include "tuner/precision.h"

namespace lathe::cli {

int quantize_command(Flags& flags) {
  std::string model, path;
  std::vector<std::string> shapes, samples;
  tuner::CalibrationOptions options;
  int64_t seed = 0;
  flags.add("--model MODEL", model, "a zoo name, or a .relay or .onnx file", Flags::Need::kRequired);
  add_shape_flag(flags, shapes);
  flags.add("--out FILE", path, "the ONNX file to write", Flags::Need::kRequired);
  flags.add(
      "--calibrate NAME=FILE", samples,
      "a .npy file of typical values of an input, one or several along its first axis or one more; again for "
      "further ones and other inputs, which are random where not given");
  flags.add("--samples", options.samples, 1, 10000, "random inputs to calibrate on");
  flags.exclude("--calibrate", "--samples");
  flags.add("--seed", seed, 0, INT64_MAX, "of the random inputs");
  if (!flags.parse()) return kSuccess;
  options.seed = static_cast<uint64_t>(seed);
  for (const std::string& file : samples) {
    const auto [name, opened] = open_input("--calibrate", file);
    options.inputs[name].push_back(opened.read());
  }
  // Whoever runs the file: by the row that stands for any machine.
  const relay::Module loaded = tuner::load_model(model, parse_shapes(shapes));
  const relay::Module module = naming(model, [&] {
    return relay::infer_type(tuner::quantize_model(loaded, options, relay::NarrowCosts(Target())));
  });
  onnx::export_file(module, path);
  say("wrote {}", path);
  return kSuccess;
}

}  // namespace lathe::cli
