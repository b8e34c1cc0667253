#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

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

struct Summary {
  double least = INFINITY, most = -INFINITY, mean = 0;
  int64_t place = 0;  // of the largest element
};

/// REQUIRES: the tensor is not empty.
Summary summary_of(const Tensor& tensor) {
  Summary summary;
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = tensor.value(i);
    if (value > summary.most) summary.place = i;
    summary.least = std::min(summary.least, value);
    summary.most = std::max(summary.most, value);
    sum += value;
  }
  summary.mean = sum / static_cast<double>(tensor.size());
  return summary;
}

void print_text(const std::string& name, const Tensor& tensor) {
  fmt::print("{}: {} {}", name, to_string(tensor.dtype()), shape_text(tensor.shape()));
  if (tensor.size() > 0) {
    const Summary summary = summary_of(tensor);
    fmt::print(", min {:.6g}, mean {:.6g}, max {:.6g} at {}", summary.least, summary.mean, summary.most,
               summary.place);
  }
  fmt::print("\n");
}

nlohmann::json output_json(const std::string& name, const Tensor& tensor) {
  nlohmann::json output = {{"name", name}, {"dtype", to_string(tensor.dtype())}, {"shape", tensor.shape()}};
  if (tensor.size() > 0) {
    const Summary summary = summary_of(tensor);
    output.update(
        {{"min", summary.least}, {"mean", summary.mean}, {"max", summary.most}, {"max_at", summary.place}});
  }
  return output;
}

}  // namespace

int run_model_command(Flags& flags) {
  ModelFlags model;
  std::vector<std::string> inputs;
  std::string folder;
  int64_t seed = 0;
  bool verify = false, as_json = false;
  model.add_to(flags);
  flags.add("--input NAME=FILE", inputs, "a .npy file, once for each input; others are random");
  flags.add("--seed", seed, 0, INT64_MAX, "of the random inputs");
  flags.add("--verify", verify, "first compare all bytes of a .lathe file with its checksums");
  flags.add("--out DIR", folder, "folder for output_0.npy, output_1.npy, ... in the model's order");
  flags.add("--json", as_json, "print one JSON array, of the outputs");
  if (!flags.parse()) return kSuccess;

  if (verify) {
    if (!model.model.ends_with(".lathe")) fail("--verify is for .lathe files, --model is {}", model.model);
    runtime::verify_module(runtime::map_module(model.model));
  }
  if (!folder.empty()) make_folder(folder);
  RunningModel running = start_model(model, load_inputs(inputs), static_cast<uint64_t>(seed));
  running.executor->run();
  nlohmann::json outputs = nlohmann::json::array();
  for (size_t i = 0; i < running.executor->plan().outputs.size(); ++i) {
    Tensor output = running.executor->output(i);
    const std::string& name = running.executor->plan().outputs[i].name;
    if (as_json)
      outputs.push_back(output_json(name, output));
    else
      print_text(name, output);
    if (!folder.empty()) save_npy(fmt::format("{}/output_{}.npy", folder, i), output);
  }
  if (as_json) fmt::print("{}\n", outputs.dump());
  return kSuccess;
}

}  // namespace lathe::cli
