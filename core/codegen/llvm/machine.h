// LLVM's view of a target, and the way from IR to an object file.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "core/tir/target.h"

namespace lathe::codegen {

/// Once a process: LLVM's targets, and its fatal errors turned into Error.
void initialize_llvm();

/// Throws Error when LLVM does not know the target.
std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target);

enum class Effort : uint8_t {
  kHasty,          // nothing here, and the fast selection of instructions and registers in emit_code()
  kCleanUp,        // scalar: of a vectorized program LLVM's vectorizers and unrollers would but waste time
  kAutoVectorize,  // all that LLVM has
};
void optimize(llvm::Module& module, llvm::TargetMachine& machine, Effort effort);

/// Throws Error with LLVM's message when it cannot.
std::string emit_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type);

}  // namespace lathe::codegen
