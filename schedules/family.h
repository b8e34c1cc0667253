// Families: the kernels of one program whose dimensions are open, each scheduled for some of their values.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/tir/stmt.h"

namespace lathe::schedule {

/// What a dimension is taken for where nothing says more: more than a vector and a register tile have, few
/// enough for the caches, and a whole number of both, so that nothing is padded for its sake.
inline constexpr int64_t kTypicalDim = 64;

/// The values of a dimension that one kernel is for, both included, and the one it is scheduled for. Where
/// they are one value the kernel has it as a number.
struct DimValues {
  int64_t min = 0, max = std::numeric_limits<int64_t>::max(), typical = 0;
  bool is_number() const { return min == max; }
  bool operator==(const DimValues&) const = default;
};

/// Right for all values of the dimensions, and made for these.
struct Member {
  std::vector<DimValues> dims;  // in the order of dims_of()
  tir::Func program;            // unscheduled
};

/// What is worth a kernel of its own; the first member that has the values in a call is its kernel, and the
/// last one has all. One row of a matrix product wants other register tiles than four, and four others than
/// many; where operands are read through windows, tiles are of one row anyway. REQUIRES: a canonical program.
std::vector<Member> family_of(const tir::Func& program);

/// What schedules of `program` take dimension number `i` for.
int64_t typical_dim(const tir::Func& program, size_t i);
/// `program` with these values for its dimensions, as one whose schedule is to be replayed with them open.
tir::Func for_typical_dims(const tir::Func& program, std::span<const int64_t> values);
/// It is such a program, under way or not.
bool is_for_typical_dims(const tir::FuncNode& program);
/// The program, scheduled or not, without typical values.
tir::Func without_typical_dims(const tir::Func& program);

}  // namespace lathe::schedule
