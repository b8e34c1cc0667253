// The spec of tensor programs; run after each pass in debug builds and on every program read from outside.
#pragma once

#include <optional>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// How far a program is lowered, which what stands in it tells.
enum class Level : uint8_t {
  kScheduled,  // blocks
  kLoops,      // loops, some of them to be vectorized, over scalar statements
  kVectors,    // vector statements; what code generation takes
};
/// A program of scalar statements in serial loops is at kLoops, though it is at kVectors too.
Level level_of(const Func& func);
/// "blocks", "loops" or "vectors".
const char* spelling(Level level);

/// Nothing, or which node lacks an operand: what JSON may say and no text can. All else, printing too, takes
/// for granted that there is none.
std::optional<std::string> find_hole(const Func& func);

/// Nothing, or what is wrong first: a mask of constants (prologue.h) that marks what is no input, undefined
/// or doubly defined variables and buffers, types, ranks, indices that provably leave the buffer (an access
/// no select or condition guards), blocks that use outer loop variables, iterator bindings that leave the
/// domain or visit a reduction step not exactly once (bindings.h), accesses that the declared reads and
/// writes do not cover, a reduction with neither init nor an earlier write of its buffer, a parallel loop
/// that carries a reduction, a parallel or vectorized loop inside a vectorized one, vectors and Alloc beside
/// blocks. Below the scheduled level blocks are faults, and a variable or buffer may be defined in several
/// branches; vectors and loops to be vectorized exclude each other.
std::optional<std::string> find_fault(const Func& func, Level level = Level::kScheduled);
/// Throws Error with the fault and the program's text.
void verify(const Func& func, Level level = Level::kScheduled);

}  // namespace lathe::tir
