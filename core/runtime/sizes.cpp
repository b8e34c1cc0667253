#include "core/runtime/sizes.h"

#include <algorithm>
#include <bit>

#include "core/support/error.h"
#include "core/support/floor_div.h"

namespace lathe::runtime {
namespace {

// Nearly all divisors are powers of two, and a division takes as long as all else of a small table.
bool is_power_of_two(int64_t b) { return b > 0 && std::has_single_bit(static_cast<uint64_t>(b)); }
int64_t quotient(int64_t a, int64_t b) {
  return is_power_of_two(b) ? a >> std::countr_zero(static_cast<uint64_t>(b)) : floor_div(a, b);
}
int64_t remainder(int64_t a, int64_t b) { return is_power_of_two(b) ? a & (b - 1) : floor_mod(a, b); }

/// False where the result does not fit. A loop may have other sizes in each iteration: the result stays in a
/// register, which it does not as an optional.
inline bool apply(SizeOp op, int64_t a, int64_t b, int64_t& result) {
  switch (op) {
    case SizeOp::kDim:
      return false;
    case SizeOp::kAdd:
      return !__builtin_add_overflow(a, b, &result);
    case SizeOp::kSub:
      return !__builtin_sub_overflow(a, b, &result);
    case SizeOp::kMul:
      return !__builtin_mul_overflow(a, b, &result);
    case SizeOp::kFloorDiv:
      if (a == INT64_MIN && b == -1) return false;
      result = b == 0 ? 0 : quotient(a, b);
      return true;
    case SizeOp::kFloorMod:
      result = b == 0 || b == -1 ? 0 : remainder(a, b);
      return true;
    case SizeOp::kMin:
      result = std::min(a, b);
      return true;
    case SizeOp::kMax:
      result = std::max(a, b);
      return true;
    case SizeOp::kAlign:
      if (b <= 0 || __builtin_add_overflow(a, b - 1, &result)) return false;
      result = quotient(result, b) * b;
      return true;
    case SizeOp::kEqual:
      result = a == b;
      return true;
    case SizeOp::kLess:
      result = a < b;
      return true;
  }
  return false;
}

}  // namespace

void check_sizes(std::span<const SizeEntry> entries, size_t dims) {
  for (size_t i = 0; i < entries.size(); ++i) {
    const SizeEntry& entry = entries[i];
    if (entry.op == SizeOp::kDim) {
      if (entry.a < 0 || entry.a >= static_cast<int64_t>(dims))
        fail("module: size {} is dimension {} of {}", i, entry.a, dims);
      continue;
    }
    for (Size operand : {entry.a, entry.b})
      if (is_open(operand) && (operand == INT64_MIN || entry_of(operand) >= i))
        fail("module: size {} depends on one that is not before it", i);
  }
}

void evaluate_sizes(std::span<const SizeEntry> entries, std::span<const int64_t> dims,
                    std::span<int64_t> values) {
  auto number = [&](Size size) { return is_open(size) ? values[entry_of(size)] : size; };
  for (size_t i = 0; i < entries.size(); ++i) {
    const SizeEntry& entry = entries[i];
    if (entry.op == SizeOp::kDim) {
      values[i] = dims[static_cast<size_t>(entry.a)];
      continue;
    }
    int64_t value = 0;
    if (!apply(entry.op, number(entry.a), number(entry.b), value))
      fail("a size of the model does not fit 64 bits for these dimensions");
    values[i] = value;
  }
}

Size SizeTable::add(SizeOp op, Size a, Size b) {
  if (op != SizeOp::kDim && !is_open(a) && !is_open(b))
    // A negative number stands for an entry, so it stays an operation.
    if (int64_t value = 0; apply(op, a, b, value) && value >= 0) return value;
  if (op == SizeOp::kAdd && a == 0) return b;
  if ((op == SizeOp::kAdd || op == SizeOp::kSub) && b == 0) return a;
  if (op == SizeOp::kMul && (a == 0 || b == 0)) return 0;
  if (op == SizeOp::kMul && a == 1) return b;
  if ((op == SizeOp::kMul || op == SizeOp::kFloorDiv || op == SizeOp::kAlign) && b == 1) return a;
  auto [known, fresh] = known_.try_emplace({op, a, b}, -1 - static_cast<Size>(entries_.size()));
  if (fresh) entries_.push_back({op, a, b});
  return known->second;
}

}  // namespace lathe::runtime
