// The spec of tensor programs; run after each pass in debug builds and on every program read from outside.
#pragma once

#include <optional>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Nothing, or what is wrong first: a mask of constants (prologue.h) that marks what is no input, undefined
/// or doubly defined variables and buffers, types, ranks, indices that provably leave the buffer (an access
/// no select or condition guards), blocks that use outer loop variables, iterator bindings that leave the
/// domain or visit a reduction step not exactly once (bindings.h), accesses that the declared reads and
/// writes do not cover, a reduction with neither init nor an earlier write of its buffer, a parallel loop
/// that carries a reduction, vectors and Alloc at the scheduled level.
std::optional<std::string> find_fault(const Func& func);
/// Throws Error with the fault and the program's text.
void verify(const Func& func);
/// The same for the lowered level: vectors are fine, blocks and vectorized loops are not; a variable or
/// buffer may be defined in several branches.
std::optional<std::string> find_lowered_fault(const Func& func);

}  // namespace lathe::tir
