// Lowered tensor programs -> machine code in a shared object.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::codegen {

/// One kernel of an artifact: an exported symbol of type LatheKernel (core/runtime/kernel.h).
struct Kernel {
  std::string name;
  int64_t workspace_bytes = 0;  // what its `workspace` argument must hold
  Expr open_workspace;          // the same where it depends on the function's dimensions; else null
};

/// The bytes of an ELF shared object; equal programs and targets give equal bytes. It needs no symbol of its
/// host but libm's and libc's.
struct Artifact {
  std::string bytes;
  std::string sha256;           // of `bytes`: the artifact's name
  std::vector<Kernel> kernels;  // in the order of the functions given
};

/// The relocatable code of one kernel.
struct Object {
  std::string bytes;  // of an ELF object file
  Kernel kernel;
};

/// Compiles a function of the lowered level (tir::lower). A vectorized program keeps its vectors and its
/// register tiles (docs/decisions/002-kernel-shapes.md); one without vectors gets LLVM's auto-vectorizers
/// instead. Arithmetic is IEEE, save that a*b+c may be contracted. Thread-safe. Throws Error when it cannot
/// be compiled: more than 4 MiB of stack, or stack of a size that is not known, a target that LLVM does not
/// know. REQUIRES: a name that is a C identifier.
Object compile_object(const tir::Func& lowered, const Target& target);

/// The architectures, as triples begin, that this machine has a linker for: its own, and with lld others.
std::vector<std::string> architectures();

/// Objects compiled for `target` as one artifact. Thread-safe. Throws Error without a linker for the target.
/// REQUIRES: distinct names.
Artifact link(std::span<const Object> objects, const Target& target);

/// Both: each function compiled alone, so that a kernel's code does not depend on its neighbours.
Artifact compile(std::span<const tir::Func> lowered, const Target& target);

/// For tests and the curious: what `compile` makes of the functions, as assembly text.
std::string compile_to_assembly(std::span<const tir::Func> lowered, const Target& target);

}  // namespace lathe::codegen
