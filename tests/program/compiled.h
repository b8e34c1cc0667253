// Programs run by the virtual machine.
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
        machine_(*module_->program(), runtime::serial_parallel()) {}

  const runtime::Program& program() const { return module_->program()->program; }
  runtime::Machine& machine() { return machine_; }

  /// The value of main, as the interpreter prints it. Nothing is left of it.
  std::string value() {
    const runtime::Datum result = machine_.call(program().main, {});
    std::string text = relay::print(value_of(result, machine_, program()));
    machine_.heap().release(result);
    machine_.heap().free_cycles();
    return text;
  }

 private:
  std::shared_ptr<const runtime::Module> module_;
  runtime::Machine machine_;
};

}  // namespace lathe::program
