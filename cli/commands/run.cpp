#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/model_flags.h"
#include "core/support/error.h"

namespace lathe::cli {
namespace {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail("cannot make the folder {}: {}", path, error.message());
}

void print_output(const std::string& name, const Tensor& tensor) {
  fmt::print("{}: {} {}", name, to_string(tensor.dtype()), shape_text(tensor.shape()));
  if (tensor.size() > 0) {
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t place = 0;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      double value = tensor.value(i);
      if (value > most) place = i;
      least = std::min(least, value);
      most = std::max(most, value);
      sum += value;
    }
    fmt::print(", min {:.6g}, mean {:.6g}, max {:.6g} at {}", least, sum / static_cast<double>(tensor.size()),
               most, place);
  }
  fmt::print("\n");
}

}  // namespace

int run_model_command(Flags& flags) {
  ModelFlags model;
  std::vector<std::string> inputs;
  std::string folder;
  int64_t seed = 0;
  bool verify = false;
  model.add_to(flags);
  flags.add("--input", inputs, "NAME=FILE.npy, once for each input; others are random");
  flags.add("--seed", seed, 0, INT64_MAX, "of the random inputs");
  flags.add("--verify", verify, "first compare all bytes of a .lathe file with its checksums");
  flags.add("--out", folder, "folder for output_0.npy, output_1.npy, ... in the model's order");
  if (!flags.parse()) return kSuccess;

  if (verify) {
    if (!model.model.ends_with(".lathe")) fail("--verify is for .lathe files, --model is {}", model.model);
    runtime::verify_module(model.model);
  }
  if (!folder.empty()) make_folder(folder);
  RunningModel running = start_model(model, load_inputs(inputs), static_cast<uint64_t>(seed));
  running.executor->run();
  for (size_t i = 0; i < running.executor->plan().outputs.size(); ++i) {
    Tensor output = running.executor->output(i);
    print_output(running.executor->plan().outputs[i].name, output);
    if (!folder.empty()) save_npy(fmt::format("{}/output_{}.npy", folder, i), output);
  }
  return kSuccess;
}

}  // namespace lathe::cli
