// Families: the kernels of one program whose dimensions are open, each scheduled for some of their values.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "core/arith/typical_dims.h"
#include "core/tir/stmt.h"
#include "schedules/open_dims.h"

namespace lathe::schedule {

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
  bool is_small = false;  // of images of few rows and columns, which it has as numbers, or of short rows
};

/// What a build knows of the values that a program's dimensions have in its calls, in the order of dims_of().
struct KnownDims {
  std::vector<int64_t> least, most;                // empty: any
  std::map<std::vector<int64_t>, double> weights;  // of values that are to be fast; empty: no one said
};

/// What is worth a kernel of its own; the first member that has the values in a call is its kernel, and the
/// last one has all. One row of a matrix product wants other register tiles than four, and four others than
/// many; where operands are read through windows, tiles are of one row anyway. Small images, which are little
/// more than their edges, have kernels with their rows and columns as numbers; rows that are added up, of as
/// many elements as registers hold, one that reads them once. REQUIRES: a canonical program.
std::vector<Member> family_of(const tir::Func& program);
/// The same for what is known: without the members that no call has values for, but the last one, and made
/// for values that calls have.
std::vector<Member> family_within(const tir::Func& program, const KnownDims& known);

/// What takes most time is a product of matrices. REQUIRES: a canonical program.
bool is_product(const tir::Func& program);

/// Which dimensions are rows or columns of images that the program convolves along both; none of others.
std::vector<bool> image_dims(const tir::Func& program);

/// The member of a program for these values, of which those that are one value are numbers.
Member member_of(const tir::Func& program, const std::vector<DimValues>& dims);

/// `program` as it is tuned for these values of its dimensions, and its workload as records have it: ones are
/// numbers, as in the member for one of a dimension; the others stay open, and are what schedules are made
/// for and measured with. REQUIRES: as many as dims_of() gives, none negative.
tir::Func program_at(const tir::Func& program, std::span<const int64_t> values);

}  // namespace lathe::schedule
