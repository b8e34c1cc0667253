#include "cli/model_flags.h"

#include "core/support/error.h"

namespace lathe::cli {

void ModelFlags::add_to(Flags& flags) {
  flags.add("--model", model, "a .lathe file", Flags::Need::kRequired);
  flags.add("--threads", threads, 1, 1024, "threads to run on");
  flags.add("--seed", seed, 0, INT64_MAX, "of the random inputs");
}

RunningModel start_model(const ModelFlags& flags) {
  RunningModel running{.pool = std::make_unique<runtime::ThreadPool>(static_cast<int>(flags.threads))};
  running.executor =
      std::make_unique<runtime::Executor>(runtime::Module::open(flags.model), running.pool->parallel());
  return running;
}

void bind_inputs(runtime::Executor& executor, const std::vector<std::string>& files, uint64_t seed) {
  const runtime::Plan& plan = executor.plan();
  std::vector<Tensor> inputs(plan.inputs.size());
  for (const std::string& file : files) {
    size_t equals = file.find('=');
    if (equals == std::string::npos) fail("--input {}: must be NAME=FILE.npy", file);
    size_t input = runtime::find_input(plan, file.substr(0, equals));
    if (inputs[input].defined()) fail("--input {}: the input is given twice", file.substr(0, equals));
    inputs[input] = load_npy(file.substr(equals + 1));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const runtime::Value& value = plan.values[plan.inputs[i].value];
    executor.set_input(i,
                       inputs[i].defined() ? inputs[i] : random_tensor(value.shape, value.dtype, seed + i));
  }
}

}  // namespace lathe::cli
