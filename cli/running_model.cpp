#include "cli/running_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/support/error.h"

namespace lathe::cli {
namespace {

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

Inputs load_inputs(const std::vector<std::string>& files) {
  Inputs inputs;
  for (const std::string& file : files) {
    size_t equals = file.find('=');
    if (equals == std::string::npos) fail("--input {}: must be NAME=FILE.npy", file);
    std::string name = file.substr(0, equals);
    if (inputs.count(name)) fail("--input {}: the input is given twice", name);
    inputs[name] = load_npy(file.substr(equals + 1));
  }
  return inputs;
}

RunningModel start_module(std::shared_ptr<const runtime::Module> module, const Inputs& inputs, uint64_t seed,
                          int threads) {
  RunningModel running{.pool = std::make_unique<runtime::ThreadPool>(threads)};
  running.executor = std::make_unique<runtime::Executor>(module, running.pool->parallel());
  const runtime::Plan& plan = module->plan();
  for (const auto& [name, tensor] : inputs)
    running.executor->set_input(runtime::find_input(plan, name), tensor);
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const runtime::Value& value = plan.values[plan.inputs[i].value];
    if (!inputs.count(plan.inputs[i].name))
      running.executor->set_input(i, random_tensor(value.shape, value.dtype, seed + i));
  }
  return running;
}

void make_output_folder(const std::string& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("cannot make the folder {}: {}", folder, error.message());
}

void run_and_print(RunningModel& running, const std::string& folder) {
  running.executor->run();
  for (size_t i = 0; i < running.executor->plan().outputs.size(); ++i) {
    Tensor output = running.executor->output(i);
    print_output(running.executor->plan().outputs[i].name, output);
    if (!folder.empty()) save_npy(fmt::format("{}/output_{}.npy", folder, i), output);
  }
}

}  // namespace lathe::cli
