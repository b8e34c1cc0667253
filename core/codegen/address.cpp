#include "core/codegen/address.h"

#include <algorithm>

#include "core/arith/simplify.h"

namespace lathe::codegen {
namespace {
/// Merges by node. Equal terms in nodes of their own stay apart here; the emitter finds them
/// (Emitter::access).
void add_term(std::vector<std::pair<Expr, int64_t>>& terms, const Expr& e, int64_t coefficient) {
  for (auto& [term, c] : terms)
    if (term == e) {
      c += coefficient;
      return;
    }
  terms.emplace_back(e, coefficient);
}

/// What is open of a stride, times e; null stands for 1.
Expr strided(const Expr& e, const Expr& stride) {
  if (!stride) return e;
  return e * (e.dtype().lanes > 1 ? broadcast(stride, e.dtype().lanes) : stride);
}

/// Adds coefficient * stride * e: through sums, products with constants, ramps and broadcasts; whatever else
/// there is becomes a term.
void accumulate(FlatAccess& sum, const Expr& e, int64_t coefficient, const Expr& stride = {}) {
  if (const int64_t* constant = as_int(e)) {
    if (!stride) sum.constant += coefficient * *constant;
    if (stride && *constant != 0) add_term(sum.terms, stride, coefficient * *constant);
    return;
  }
  if (const Binary* b = e.as<Binary>()) {
    if (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub) {
      accumulate(sum, b->a, coefficient, stride);
      accumulate(sum, b->b, b->op == BinaryOp::kAdd ? coefficient : -coefficient, stride);
      return;
    }
    const int64_t *x = as_int(b->a), *y = as_int(b->b);
    if (b->op == BinaryOp::kMul && (x || y))
      return accumulate(sum, x ? b->b : b->a, coefficient * (x ? *x : *y), stride);
  }
  if (const Broadcast* all = e.as<Broadcast>()) return accumulate(sum, all->value, coefficient, stride);
  if (const Ramp* lanes = e.as<Ramp>(); lanes && as_int(lanes->stride)) {
    if (stride)
      add_term(sum.vector_terms, ramp(0, lanes->stride * stride, lanes->dtype.lanes), coefficient);
    else
      sum.lane_stride += coefficient * *as_int(lanes->stride);
    return accumulate(sum, lanes->base, coefficient, stride);
  }
  add_term(e.dtype().lanes > 1 ? sum.vector_terms : sum.terms, strided(e, stride), coefficient);
}

/// The c of e // c or e % c, in any number of lanes; 0 when `e` is none.
int64_t divisor(const Expr& e, BinaryOp op) {
  const Binary* binary = e.as<Binary>();
  if (!binary || binary->op != op) return 0;
  const Broadcast* all = binary->b.as<Broadcast>();
  const int64_t* c = as_int(all ? all->value : binary->b);
  return c && *c > 0 ? *c : 0;
}

/// Whether both leave the same remainder by c; of ramps it is that of their first lanes.
bool are_congruent(const Expr& x, const Expr& y, int64_t c) {
  if (structural_equal(x, y)) return true;
  const Ramp *a = x.as<Ramp>(), *b = y.as<Ramp>();
  if (a && b)
    return a->dtype == b->dtype && structural_equal(a->stride, b->stride) &&
           are_congruent(a->base, b->base, c);
  return x.dtype() == kInt64 && y.dtype() == kInt64 && is_int(simplify(floormod(x - y, c)), 0);
}

/// The constant c as a divisor of `like`.
Expr divisor_of(const Expr& like, int64_t c) {
  return like.dtype().lanes > 1 ? broadcast(Expr(c), like.dtype().lanes) : Expr(c);
}

/// A sum of digits: its one quotient, and what is added to that, the same for all lanes.
struct ShiftedQuotient {
  Expr quotient, shift;  // null: 0
};
ShiftedQuotient shifted_quotient(const Expr& e) {
  if (divisor(e, BinaryOp::kFloorDiv) > 0) return {e, {}};
  const Binary* sum = e.as<Binary>();
  if (!sum || (sum->op != BinaryOp::kAdd && sum->op != BinaryOp::kSub)) return {};
  auto of_all_lanes = [](const Expr& x) {
    const Broadcast* all = x.as<Broadcast>();
    return all ? all->value : x.dtype() == kInt64 ? x : Expr();
  };
  auto shifted = [&](const Expr& x, const Expr& by) -> ShiftedQuotient {
    auto [quotient, shift] = shifted_quotient(x);
    const Expr more = quotient ? of_all_lanes(by) : Expr();
    if (!more) return {};
    if (sum->op == BinaryOp::kSub) return {quotient, shift ? shift - more : 0 - more};
    return {quotient, shift ? shift + more : more};
  };
  if (ShiftedQuotient found = shifted(sum->a, sum->b); found.quotient) return found;
  return sum->op == BinaryOp::kAdd ? shifted(sum->b, sum->a) : ShiftedQuotient{};
}

/// The line of which e is a digit in c's: x of x // c, and x + j*c of x // c + j, as the simplifier writes
/// (x - 4) // 81 % 32, ((x + 77) // 81 + 31) % 32, and (16*i + l) // 7 % 7, (2*i + (2*i + l) // 7) % 7. Null
/// when e is neither.
Expr line_in(const Expr& e, int64_t c) {
  const auto [quotient, shift] = shifted_quotient(e);
  if (!quotient || divisor(quotient, BinaryOp::kFloorDiv) != c) return {};
  const Expr& line = quotient.as<Binary>()->a;
  if (!shift) return line;
  const Ramp* lanes = line.as<Ramp>();
  if (!lanes) return line.dtype() == kInt64 ? simplify(line + shift * c) : Expr();
  return ramp(simplify(lanes->base + shift * c), lanes->stride, line.dtype().lanes);
}

/// The c of e // c, and of e // c + j; 0 when e is no such digit.
int64_t digit_divisor(const Expr& e) {
  const Expr quotient = shifted_quotient(e).quotient;
  return quotient ? divisor(quotient, BinaryOp::kFloorDiv) : 0;
}

/// line % c; of a ramp within a multiple of its lanes one with a remainder of its first lane.
Expr remainder_of(const Expr& line, int64_t c) {
  const Ramp* lanes = line.as<Ramp>();
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  const int64_t span = stride ? *stride * line.dtype().lanes : 0;
  if (span > 0 && c % span == 0 && is_int(simplify(floormod(lanes->base, span)), 0))
    return ramp(simplify(floormod(lanes->base, c)), lanes->stride, line.dtype().lanes);
  return floormod(line, divisor_of(line, c));
}

/// What the sum of high_factor * high and k * low is k times, or null: k*c*(e // c) + k*(f % c) = k*e where e
/// and f leave the same remainder: what runs over the ends of rows is one line in memory. They need not be
/// the same expression: of the place in a fused loop, (t % 27)*16, the simplifier drops the `% 27` in a
/// remainder by 24, which 27*16 is a multiple of, and not in the quotient. In the same way a digit further
/// up, of a tensor of three dimensions that was reshaped: k*c*(e // (m*c)) + k*(f // m % c) = k*(e // m), and
/// k*c*(e // c % m) + k*(f % c) = k*(e % (c*m)).
Expr joined_digits(const Expr& high, int64_t high_factor, const Expr& low, int64_t k) {
  const int64_t c = divisor(low, BinaryOp::kFloorMod);
  if (c == 0 || high_factor != k * c) return {};
  const Expr& digit = low.as<Binary>()->a;
  if (const int64_t m = divisor(high, BinaryOp::kFloorMod)) {
    const Expr upper = line_in(high.as<Binary>()->a, c);
    if (!upper || !are_congruent(upper, digit, c)) return {};
    return remainder_of(upper, c * m);
  }
  const int64_t whole = divisor(high, BinaryOp::kFloorDiv);
  if (whole == 0) return {};
  const Expr& line = high.as<Binary>()->a;
  if (whole == c && are_congruent(line, digit, c)) return line;
  const int64_t m = digit_divisor(digit);
  if (m <= 1 || whole != m * c) return {};
  const Expr lower = line_in(digit, m);
  if (!lower || !are_congruent(line, lower, whole)) return {};
  return floordiv(line, divisor_of(line, m));
}

/// Joins two terms that are digits of one place; whether there were such.
bool join_rows(FlatAccess& sum, std::vector<std::pair<Expr, int64_t>>& terms) {
  for (size_t low = 0; low < terms.size(); ++low)
    for (size_t high = 0; high < terms.size(); ++high) {
      const int64_t k = terms[low].second;
      const Expr joined = joined_digits(terms[high].first, terms[high].second, terms[low].first, k);
      if (low == high || !joined) continue;
      terms.erase(terms.begin() + static_cast<int64_t>(std::max(low, high)));
      terms.erase(terms.begin() + static_cast<int64_t>(std::min(low, high)));
      accumulate(sum, joined, k);
      return true;
    }
  return false;
}
}  // namespace

FlatAccess flatten(const tir::Buffer& buffer, std::span<const Expr> indices) {
  FlatAccess sum;
  // Row-major: from the last dimension on, each stride is the product of the dimensions behind it, of the
  // numbers among them and of the others.
  int64_t stride = 1;
  Expr open;
  for (size_t d = buffer->shape.size(); d-- > 0;) {
    const Expr& extent = buffer->shape[d];
    // The index of a dimension of one element is 0; saying so keeps needless terms out.
    if (!is_int(extent, 1)) accumulate(sum, indices[d], stride, open);
    sum.lanes = std::max<int>(sum.lanes, indices[d].dtype().lanes);
    if (const int64_t* number = as_int(extent))
      stride *= *number;
    else
      open = open ? extent * open : extent;
  }
  // A joined pair may be one half of another.
  while (join_rows(sum, sum.terms) || join_rows(sum, sum.vector_terms)) {
  }
  std::erase_if(sum.terms, [](const auto& term) { return term.second == 0; });
  return sum;
}

namespace {
/// A vector term as a digit of consecutive numbers: where they begin, every how many of them the digit jumps,
/// and what it rises by from one to the next between jumps. No start for other terms.
struct Digit {
  Expr start;
  int64_t spacing = 0, slope = 0;
};
Digit digit_of(const Expr& term) {
  Digit digit{.spacing = divisor(term, BinaryOp::kFloorDiv)};
  Expr line = digit.spacing > 0 ? term.as<Binary>()->a : Expr();
  if (const int64_t modulus = divisor(term, BinaryOp::kFloorMod)) {
    line = term.as<Binary>()->a;
    digit.spacing = digit_divisor(line);
    if (digit.spacing > 0)
      line = line_in(line, digit.spacing);
    else
      digit.spacing = modulus, digit.slope = 1;
  }
  const Ramp* lanes = line ? line.as<Ramp>() : nullptr;
  if (lanes && is_int(lanes->stride, 1)) digit.start = lanes->base;
  return digit;
}

/// Lane l of a vector of ramps, broadcasts and arithmetic; null where there is something else.
Expr lane_of(const Expr& e, int64_t l) {
  if (const Broadcast* all = e.as<Broadcast>()) return all->value;
  if (const Ramp* lanes = e.as<Ramp>()) return l == 0 ? lanes->base : lanes->base + lanes->stride * l;
  const Binary* b = e.as<Binary>();
  const Expr x = b ? lane_of(b->a, l) : Expr(), y = x ? lane_of(b->b, l) : Expr();
  return y ? binary(b->op, x, y) : Expr();
}
}  // namespace

std::optional<BrokenLine> broken_line(const FlatAccess& access) {
  const int64_t last = access.lanes - 1;
  BrokenLine line;
  for (FlatAccess* part : {&line.first, &line.second})
    *part = {.terms = access.terms, .constant = access.constant, .lane_stride = 1, .lanes = access.lanes};
  line.second.constant += last * access.lane_stride - last;
  Digit finest;
  int64_t slope = access.lane_stride;
  std::vector<Digit> digits;
  for (const auto& [term, coefficient] : access.vector_terms) {
    const Digit digit = digit_of(term);
    const Expr first = lane_of(term, 0), end = lane_of(term, last);
    if (!digit.start || !first || !end) return {};
    line.first.terms.emplace_back(first, coefficient);
    line.second.terms.emplace_back(end, coefficient);
    slope += coefficient * digit.slope;
    if (!finest.start || digit.spacing < finest.spacing) finest = digit;
    digits.push_back(digit);
  }
  if (!finest.start || slope != 1 || access.lanes > finest.spacing || finest.spacing > INT32_MAX) return {};
  for (const Digit& digit : digits)
    if (digit.spacing % finest.spacing != 0 || !are_congruent(digit.start, finest.start, finest.spacing))
      return {};
  line.before = finest.spacing - floormod(finest.start, finest.spacing);
  return line;
}

AddressKey key_of(const FlatAccess& access, const tir::Buffer& buffer) {
  AddressKey key{buffer.get(), {}};
  // Without the constant: accesses that differ by it share a pointer.
  for (const auto& [term, coefficient] : access.terms) key.terms.emplace_back(term.get(), coefficient);
  // By address, which decides nothing but where the key is found.
  std::sort(key.terms.begin(), key.terms.end());
  return key;
}

bool is_non_negative(const Expr& e) {
  if (const int64_t* constant = as_int(e)) return *constant >= 0;
  // Loop indices start at 0.
  if (e.as<VarNode>()) return true;
  if (const Broadcast* b = e.as<Broadcast>()) return is_non_negative(b->value);
  if (const Ramp* r = e.as<Ramp>()) return is_non_negative(r->base) && is_non_negative(r->stride);
  const Binary* b = e.as<Binary>();
  if (!b) return false;
  switch (b->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMin:
      return is_non_negative(b->a) && is_non_negative(b->b);
    case BinaryOp::kMax:
      return is_non_negative(b->a) || is_non_negative(b->b);
    case BinaryOp::kMod:
      return is_non_negative(b->a);
    case BinaryOp::kFloorMod:
      return is_non_negative(b->b);
    default:
      return false;
  }
}

}  // namespace lathe::codegen
