// Programs run as native code, and by the virtual machine.
#pragma once

#include <string>

#include "core/codegen/host_target.h"
#include "core/program/value.h"
#include "core/runtime/thread_pool.h"
#include "tuner/compile.h"

namespace lathe::program {

/// A program of any main, compiled for this machine.
class Compiled {
 public:
  explicit Compiled(const relay::Module& module)
      : module_(runtime::Module::from_image(tuner::compile_program(module, codegen::host_target()))),
        machine_(*module_->program(), runtime::serial_parallel()),
        virtual_machine_(*module_->program(), runtime::serial_parallel(), runtime::RunBy::kInstructions) {
    CHECK(machine_.is_native() && !virtual_machine_.is_native(), "the module has no native code");
  }

  const runtime::Program& program() const { return module_->program()->program; }
  /// The native code's, and the virtual one.
  runtime::Machine& machine() { return machine_; }
  runtime::Machine& virtual_machine() { return virtual_machine_; }

  /// The value of main, as the interpreter prints it. Nothing is left of it.
  std::string value(runtime::Machine& by) const {
    const runtime::Datum result = by.call(program().main, {});
    std::string text = relay::print(value_of(result, by, program()));
    by.heap().release(result);
    by.heap().free_cycles();
    return text;
  }

 private:
  std::shared_ptr<const runtime::Module> module_;
  runtime::Machine machine_, virtual_machine_;
};

}  // namespace lathe::program
