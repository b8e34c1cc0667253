// Sizes that depend on the dimensions which a module leaves open, computed anew when these change.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "core/support/node.h"

namespace lathe::runtime {

/// A number that is not negative, or -1 - k: entry k of a table of sizes.
using Size = int64_t;

constexpr bool is_open(Size size) { return size < 0; }
constexpr size_t entry_of(Size size) { return static_cast<size_t>(-1 - size); }

enum class SizeOp : uint8_t {
  kDim,  // dimension `a`
  kAdd,
  kSub,
  kMul,
  kFloorDiv,  // rounds toward minus infinity, as kFloorMod; by 0 it gives 0
  kFloorMod,  // by 0 it gives the dividend
  kMin,
  kMax,
  kAlign,  // a, rounded up to a multiple of b
  kEqual,  // 1 or 0
  kLess,
};

/// One operation on sizes of entries before it.
struct SizeEntry {
  SizeOp op = SizeOp::kDim;
  Size a = 0, b = 0;
  static constexpr auto fields =
      std::tuple{field("op", &SizeEntry::op), field("a", &SizeEntry::a), field("b", &SizeEntry::b)};
  auto operator<=>(const SizeEntry&) const = default;
};

/// Throws Error when an entry is about something else than dimensions below `dims` and entries before it.
/// Tables read from files pass through here.
void check_sizes(std::span<const SizeEntry> entries, size_t dims);

/// The value of each entry, in `values`. Throws Error when one does not fit 64 bits. REQUIRES: checked; as
/// many values as entries.
void evaluate_sizes(std::span<const SizeEntry> entries, std::span<const int64_t> dims,
                    std::span<int64_t> values);

/// Builds a table in which equal sizes are one entry: two are equal, as far as is known, when their numbers
/// are.
class SizeTable {
 public:
  Size add(SizeOp op, Size a, Size b = 0);
  const std::vector<SizeEntry>& entries() const { return entries_; }

 private:
  std::vector<SizeEntry> entries_;
  std::map<SizeEntry, Size> known_;
};

}  // namespace lathe::runtime
