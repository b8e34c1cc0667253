// `tune run`: one run of a model, to look at its outputs or to compare them with another build's.
#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/libraries.h"
#include "cli/model_flags.h"
#include "core/support/error.h"

namespace lathe::cli {

int run_model_command(Flags& flags) {
  ModelFlags model;
  std::vector<std::string> inputs, libraries;
  std::string folder;
  int64_t seed = 0;
  bool verify = false, as_json = false;
  model.add_to(flags);
  flags.add("--input NAME=FILE", inputs, "a .npy file, once for each input; others are random");
  add_library_flag(flags, libraries);
  flags.add("--seed", seed, 0, INT64_MAX, "of the random inputs");
  flags.add("--verify", verify, "first compare all bytes of a .lathe file with its checksums");
  flags.add("--out DIR", folder, "folder for output_0.npy, output_1.npy, ... in the model's order");
  flags.add("--json", as_json, "print one JSON array, of the outputs");
  if (!flags.parse()) return kSuccess;

  if (verify) {
    if (!model.model.ends_with(".lathe")) fail("--verify is for .lathe files, --model is {}", model.model);
    runtime::verify_module(runtime::map_module(model.model));
  }
  const LibraryFunctions functions = load_libraries(libraries);
  const OutputFolder made(folder);
  RunningModel running = start_model(model, open_inputs(inputs), static_cast<uint64_t>(seed));
  give_functions(*running.executor, functions);
  run_and_print(running, folder, as_json);
  return kSuccess;
}

}  // namespace lathe::cli
