// A result that begins as a copy of an input, as that of a scatter does.
#pragma once

#include <optional>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// What a lowered program does first and nowhere else: it puts elements of an input, which nothing else
/// reads, at the same places of its only result. Where both share their memory there is nothing to do.
struct LeadingCopy {
  size_t input;  // number of the parameter
  Stmt copy;
};
/// Nothing for a program that is all copy: nobody needs its result in the input's memory.
std::optional<LeadingCopy> leading_copy(const FuncNode& lowered);

}  // namespace lathe::tir
