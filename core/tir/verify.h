// The spec of tensor programs; run after each pass in debug builds and on every program read from outside.
#pragma once

#include <optional>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Nothing, or what is wrong first: undefined or doubly defined variables and buffers, types, ranks, indices that
/// are provably out of bounds, blocks that use outer loop variables, block iterator bindings that do not cover
/// the domain exactly once, wrong reads/writes, a reduction without init, blocks at the lowered level.
std::optional<std::string> find_fault(const Func& func);
/// Throws Error with the fault and the program's text.
void verify(const Func& func);
/// The same for the lowered level: vectors, no blocks.
std::optional<std::string> find_lowered_fault(const Func& func);

}  // namespace lathe::tir
