// A module with its inputs, run: what needs the runtime alone.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/shapes.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/npy.h"

namespace lathe::cli {

/// Inputs given on the command line, by name. Their data is read when it is known to be of the shape wanted.
using Inputs = std::map<std::string, NpyFile>;

/// NAME=FILE.npy, as `flag` was given it.
std::pair<std::string, NpyFile> open_input(const char* flag, const std::string& file);

/// NAME=FILE.npy, each, of --input.
Inputs open_inputs(const std::vector<std::string>& files);

/// A module ready to run, with the threads it runs on.
struct RunningModel {
  std::unique_ptr<runtime::ThreadPool> pool;
  std::unique_ptr<runtime::Executor> executor;
};

/// The values of the open dimensions of a plan, in its order, as the shapes of some inputs tell them. Throws
/// Error where these do not say what a dimension is, or two of them something else.
std::vector<int64_t> dims_from(const runtime::Plan& plan, const Shapes& shapes);

/// Starts the threads and binds the inputs: those given, and seeded random numbers for the others. What the
/// module leaves open is as in `shapes`, of inputs by name, and in the inputs given. Throws Error where these
/// do not say what a dimension is, or two of them something else.
RunningModel start_module(std::shared_ptr<const runtime::Module> module, const Inputs& inputs, uint64_t seed,
                          int threads, const Shapes& shapes = {});

/// The folder of a command's outputs, which is made when it is not "". When the command fails it goes again,
/// and what was made above it, unless something is in it by then.
class OutputFolder {
 public:
  /// Throws Error when it cannot be made, or written into.
  explicit OutputFolder(const std::string& folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the deepest first
  int exceptions_;
};

/// Runs it once, prints a line for each output, or one JSON array of all, and saves them as output_0.npy, ...
/// of `folder`, when it is not "".
void run_and_print(RunningModel& running, const std::string& folder, bool as_json = false);

}  // namespace lathe::cli
