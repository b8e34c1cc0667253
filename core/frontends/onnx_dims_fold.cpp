// Shape arithmetic on constants among whose numbers are open dimensions.
#include <algorithm>
#include <optional>
#include <string_view>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {

/// Operators that move elements and compute nothing; of `take` the first argument is what moves.
constexpr std::string_view kMoves[] = {"take",    "strided_slice", "concatenate", "reshape",
                                       "squeeze", "expand_dims",   "gather",      "transpose",
                                       "where",   "split",         "stack",       "copy"};

/// a / b, truncated, by the division of sizes, which rounds down; null where the sign of b is not known.
Expr truncated(Expr a, Expr b) {
  const OpenDimensions& open = *OpenDimensions::current();
  if (open.is_at_most(b, -1)) return truncated(0 - a, 0 - b);
  if (!open.is_at_most(0, b)) return nullptr;
  if (open.is_at_most(0, a)) return floordiv(a, b);
  if (open.is_at_most(a, 0)) return 0 - floordiv(0 - a, b);
  return floordiv(max(a, 0), b) - floordiv(max(0 - a, 0), b);
}

struct Arithmetics {
  std::string_view op;
  /// Null where it cannot be said.
  Expr (*compute)(Expr, Expr);
};
constexpr Arithmetics kArithmetic[] = {
    {"add", [](Expr a, Expr b) { return a + b; }},
    {"subtract", [](Expr a, Expr b) { return a - b; }},
    {"multiply", [](Expr a, Expr b) { return a * b; }},
    {"divide", truncated},
    {"floor_divide", [](Expr a, Expr b) { return floordiv(a, b); }},
    {"floor_mod", [](Expr a, Expr b) { return floormod(a, b); }},
    {"minimum", [](Expr a, Expr b) { return min(a, b); }},
    {"maximum", [](Expr a, Expr b) { return max(a, b); }},
};

struct Comparison {
  std::string_view op;
  /// Nothing where it depends on the values.
  std::optional<bool> (*holds)(const Expr&, const Expr&);
};

std::optional<bool> known_less(const Expr& a, const Expr& b) {
  if (relay::is_at_most(a + 1, b)) return true;
  if (relay::is_at_most(b, a)) return false;
  return std::nullopt;
}
std::optional<bool> known_equal(const Expr& a, const Expr& b) {
  if (prove_equal(a, b)) return true;
  if (known_less(a, b).value_or(false) || known_less(b, a).value_or(false)) return false;
  return std::nullopt;
}
std::optional<bool> negated(std::optional<bool> holds) {
  return holds ? std::optional(!*holds) : std::nullopt;
}

constexpr Comparison kComparisons[] = {
    {"equal", known_equal},
    {"not_equal", [](const Expr& a, const Expr& b) { return negated(known_equal(a, b)); }},
    {"less", known_less},
    {"greater", [](const Expr& a, const Expr& b) { return known_less(b, a); }},
    {"less_equal", [](const Expr& a, const Expr& b) { return negated(known_less(b, a)); }},
    {"greater_equal", [](const Expr& a, const Expr& b) { return negated(known_less(a, b)); }},
};

/// Of all elements of a vector.
constexpr Arithmetics kReductions[] = {
    {"sum", [](Expr a, Expr b) { return a + b; }},
    {"prod", [](Expr a, Expr b) { return a * b; }},
    {"max", [](Expr a, Expr b) { return max(a, b); }},
    {"min", [](Expr a, Expr b) { return min(a, b); }},
};

}  // namespace

bool moves_alone(const char* op, std::span<const Value> args) {
  const std::string_view name = op;
  // What chooses elements has to be a number.
  if ((name == "where" && holds_handles(args[0])) || (name == "take" && holds_handles(args[1]))) return false;
  return std::find(std::begin(kMoves), std::end(kMoves), name) != std::end(kMoves);
}

namespace {

const Arithmetics* find_row(std::span<const Arithmetics> rows, std::string_view op) {
  auto found = std::find_if(rows.begin(), rows.end(), [&](const Arithmetics& row) { return row.op == op; });
  return found == rows.end() ? nullptr : &*found;
}

Value folded_reduction(std::string_view op, const Tensor& x, const relay::Attrs& attrs) {
  OpenDimensions& open = *OpenDimensions::current();
  if (op == "negative") {
    Tensor result(x.shape(), kInt64);
    for (int64_t i = 0; i < x.size(); ++i) result.as<int64_t>()[i] = open.handle(0 - open.dim(x.integer(i)));
    return constant(result);
  }
  const Arithmetics* row = find_row(kReductions, op);
  if (!row || x.shape().size() != 1 || x.size() == 0) return nullptr;
  Expr all = open.dim(x.integer(0));
  for (int64_t i = 1; i < x.size(); ++i) all = row->compute(all, open.dim(x.integer(i)));
  const auto* reduce = attrs.as<relay::ReduceAttrs>();
  const std::vector<int64_t> shape(reduce && reduce->keepdims ? 1 : 0, 1);
  return constant(tensor_of<int64_t>({open.handle(relay::simplify_size(all))}, shape, kInt64));
}

}  // namespace

Value fold_dims(const char* op, std::span<const Value> args, const relay::Attrs& attrs) {
  const std::string_view name = op;
  const Tensor* a = args.empty() ? nullptr : known(args[0]);
  if (args.size() == 1 && a) return folded_reduction(name, *a, attrs);
  const Tensor* b = args.size() == 2 ? known(args[1]) : nullptr;
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return nullptr;
  const Tensor& longer = a->size() >= b->size() ? *a : *b;
  const std::vector<int64_t>& shape =
      longer.shape().size() >= b->shape().size() ? longer.shape() : b->shape();
  OpenDimensions& open = *OpenDimensions::current();
  auto element = [&](const Tensor& tensor, int64_t i) {
    return open.dim(tensor.integer(tensor.size() == 1 ? 0 : i));
  };
  if (const Arithmetics* row = find_row(kArithmetic, name)) {
    Tensor result(shape, kInt64);
    for (int64_t i = 0; i < result.size(); ++i) {
      const Expr computed = row->compute(element(*a, i), element(*b, i));
      if (!computed) return nullptr;
      result.as<int64_t>()[i] = open.handle(relay::simplify_size(computed));
    }
    return constant(result);
  }
  for (const Comparison& row : kComparisons) {
    if (row.op != name) continue;
    Tensor result(shape, kBool);
    for (int64_t i = 0; i < result.size(); ++i) {
      const std::optional<bool> holds = row.holds(element(*a, i), element(*b, i));
      if (!holds) return nullptr;
      result.set_integer(i, *holds);
    }
    return constant(result);
  }
  return nullptr;
}

}  // namespace lathe::onnx
