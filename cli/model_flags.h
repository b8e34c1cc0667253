// The flags that name a model and how to run it, shared by the commands that do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"

namespace lathe::cli {

struct ModelFlags {
  std::string model, target = "cpu";
  int64_t threads = 1;
  int64_t seed = 0;

  void add_to(Flags& flags);
};

/// A module ready to run, with the threads it runs on.
struct RunningModel {
  std::unique_ptr<runtime::ThreadPool> pool;
  std::unique_ptr<runtime::Executor> executor;
};

/// Loads or compiles the model, and starts its threads. Throws Error for an unknown model.
RunningModel start_model(const ModelFlags& flags);

/// Binds the inputs: those of `files`, each NAME=FILE.npy, and seeded random numbers for the others.
void bind_inputs(runtime::Executor& executor, const std::vector<std::string>& files, uint64_t seed);

}  // namespace lathe::cli
