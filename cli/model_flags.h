// The flags that name a model and how to run it, shared by the commands that do.
#pragma once

#include <string>
#include <vector>

#include "cli/best_build.h"
#include "cli/flags.h"
#include "cli/running_model.h"
#include "core/support/error.h"
#include "tracker/wire/wire.h"

namespace lathe::cli {

struct ModelFlags {
  std::string model, target = "cpu", precision = "given";
  std::vector<std::string> shapes;  // --shape
  std::vector<std::string> open;    // --open
  std::string database;             // "": the default one, if it exists
  bool untuned = false;
  int64_t threads = 1;
  double max_relative_error = wire::Evaluation{}.tolerance;  // of the schedules used, as measured

  void add_to(Flags& flags);
  /// Those that say how to build and run it, without which model and from which database.
  void add_build_to(Flags& flags);
};

/// The model's name without folder and ending.
std::string module_name(const std::string& model);

/// Throws what `error` says with the model's name before it, unless it is there or the model is not at fault.
void name_model(const std::string& model, const Error& error);

/// Passes and schedules know no file: what they say while `make` runs gets the model's name.
template <typename Make>
auto naming(const std::string& model, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    name_model(model, error);
    throw;
  }
}

/// The model at a precision of --precision, for that target; says how many of its products stay in float32.
relay::Module at_precision(const relay::Module& model, const std::string& precision, const Target& target);

/// Compiles the model for the shapes given by --shape and by `inputs`, but for the dimensions of --open, with
/// the best schedules of the database. Throws Error for an unknown model or target, shapes that do not fit,
/// or a database that is named and cannot be read.
BestBuild compile(const ModelFlags& flags, const Inputs& inputs);

/// Loads a module file or compiles the model, starts its threads, and binds its inputs: those given, and
/// seeded random numbers for the others. Of open dimensions --shape says what they are in the run.
RunningModel start_model(const ModelFlags& flags, const Inputs& inputs, uint64_t seed);

}  // namespace lathe::cli
