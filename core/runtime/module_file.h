// A compiled model: in memory, and as a `.lathe` file that the runtime loads with no compiler
// (docs/module-file.md).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/kernel.h"
#include "core/runtime/plan.h"
#include "core/runtime/program/machine.h"
#include "core/runtime/shared_object.h"
#include "core/support/node.h"
#include "core/support/tensor.h"

struct lathe_library;

namespace lathe::runtime {

/// Everything a module file holds.
struct ModuleImage {
  struct Constant {
    int64_t at = 0;  // offset among the constants
    Tensor data;
  };
  /// With a program it has inputs, outputs and no steps: these are the program's.
  Plan plan;
  std::optional<Program> program;
  std::string library;  // the bytes of the shared object
  std::vector<Constant> constants;
  /// Not in the file: what `library` was linked from, for whoever links it otherwise.
  std::vector<std::shared_ptr<const std::string>> objects;
};

/// Writes the file through a temporary and a rename. Throws Error "cannot write PATH: reason".
void write_module(const std::string& path, const ModuleImage& image);

/// The bytes of a module file, wherever they lie.
struct ModuleBytes {
  std::string name;             // of the file, for messages
  std::shared_ptr<void> owner;  // keeps them alive, and unchanged
  std::string_view bytes;       // REQUIRES: at a multiple of kAlignment
};

/// The file, mapped. Throws Error "cannot read PATH: reason".
ModuleBytes map_module(const std::string& path);

/// Reads all of it and throws Error, naming it, when it is not what write_module() wrote. Loading checks all
/// but the constants, which it does not read.
void verify_module(const ModuleBytes& file);

/// What a module file says of itself.
struct ModuleHead {
  Plan plan;
  std::string digest;      // names plan, code and constants: equal digests, equal modules
  int64_t code_bytes = 0;  // machine instructions in its library
};

/// Loads no code, so that the module may be for another machine. Throws Error as Module::open does.
ModuleHead read_module_head(const std::string& path);

/// Throws Unfit, naming the module, this CPU and what it lacks, when the plan's kernels would not run on it.
void require_cpu(const Plan& plan, const std::string& module);

/// A loaded model, immutable: executors in several threads may share one. Constants of a file are mapped, not
/// read or copied, so processes that load the same file share their memory (docs/decisions/007).
class Module {
 public:
  /// Throws Error, naming the file, when it is damaged, truncated or of a newer version; Unfit, naming the
  /// CPU and what it lacks, when the kernels would not run on it. Keeps file.owner.
  static std::shared_ptr<const Module> load(const ModuleBytes& file);
  /// The same in a process that may make no file: the kernels go to `object`, an empty memory file that stays
  /// the caller's and outlives the module.
  static std::shared_ptr<const Module> load(const ModuleBytes& file, int object);
  static std::shared_ptr<const Module> open(const std::string& path) { return load(map_module(path)); }
  /// The same of a library that this process is linked with, and which stays. Throws Error when it is of
  /// another version of this library, or its own parts do not fit each other.
  static std::shared_ptr<const Module> link(const lathe_library& library);
  /// The same without a file; keeps the image's constants.
  static std::shared_ptr<const Module> from_image(ModuleImage image);

  const Plan& plan() const { return plan_; }
  LatheKernel kernel(size_t step) const { return kernels_[step]; }
  /// What runs in place of the plan's steps; null: these run.
  const LoadedProgram* program() const { return program_ ? &*program_ : nullptr; }
  /// Names of the library functions that its program calls, which every executor of it is to be given.
  std::span<const std::string> library_functions() const {
    if (!program_) return {};
    return program_->program.library_functions;
  }
  /// Where constant value `value` lies. REQUIRES: its place is kConstant.
  void* constant(size_t value) const { return constants_[value]; }

 private:
  static std::shared_ptr<const Module> load_with(const ModuleBytes& file,
                                                 FunctionRef<SharedObject(std::string_view)> load_library);
  /// Finds a symbol of the module's code, or nullptr.
  using Find = FunctionRef<void*(const char* symbol)>;
  Module(Plan plan, std::optional<Program> program, Find find);
  static std::vector<LatheKernel> find_kernels(const Plan& plan, Find find);
  void place_constants(FunctionRef<void*(const Value& value)> place);

  Plan plan_;
  std::optional<LoadedProgram> program_;
  std::optional<SharedObject> library_;
  std::vector<LatheKernel> kernels_;  // one a step
  std::vector<void*> constants_;      // one a value; nullptr elsewhere
  std::vector<std::shared_ptr<void>> owners_;
};

}  // namespace lathe::runtime
