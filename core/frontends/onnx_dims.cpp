#include "core/frontends/onnx_dims.h"

#include <algorithm>
#include <string_view>

#include "core/arith/simplify.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {

thread_local OpenDimensions* current_dimensions = nullptr;

/// Far from what sizes, axes and their extremes ("to the end") are.
constexpr int64_t kFirstHandle = -(int64_t{1} << 61);
constexpr int64_t kMostHandles = 1 << 20;

bool is_handle(int64_t number) { return number >= kFirstHandle && number < kFirstHandle + kMostHandles; }

/// Operators that move elements and compute nothing; of `take` the first argument is what moves.
constexpr std::string_view kMoves[] = {"take",    "strided_slice", "concatenate", "reshape",
                                       "squeeze", "expand_dims",   "gather",      "transpose",
                                       "where",   "split",         "stack",       "copy"};

struct Arithmetics {
  std::string_view op;
  Expr (*compute)(Expr, Expr);
};
/// Sizes are not negative, so the division of integers that truncates is the one of sizes.
constexpr Arithmetics kArithmetic[] = {
    {"add", [](Expr a, Expr b) { return a + b; }},
    {"subtract", [](Expr a, Expr b) { return a - b; }},
    {"multiply", [](Expr a, Expr b) { return a * b; }},
    {"divide", [](Expr a, Expr b) { return floordiv(a, b); }},
    {"floor_divide", [](Expr a, Expr b) { return floordiv(a, b); }},
    {"floor_mod", [](Expr a, Expr b) { return floormod(a, b); }},
    {"minimum", [](Expr a, Expr b) { return min(a, b); }},
    {"maximum", [](Expr a, Expr b) { return max(a, b); }},
};

std::string text_of(const Value& value) {
  std::string text;
  for (const Expr& dim : dims_of(value)) text += (text.empty() ? "" : ", ") + relay::print(dim);
  return "(" + text + ")";
}

}  // namespace

OpenDimensions::OpenDimensions() : around_(current_dimensions) { current_dimensions = this; }
OpenDimensions::~OpenDimensions() { current_dimensions = around_; }
OpenDimensions* OpenDimensions::current() { return current_dimensions; }

int64_t OpenDimensions::handle(const Expr& dim) {
  const Expr simple = simplify(dim);
  if (const int64_t* number = as_int(simple)) return *number;
  auto found =
      std::find_if(dims_.begin(), dims_.end(), [&](const Expr& known) { return prove_equal(known, simple); });
  if (found == dims_.end()) found = dims_.insert(found, simple);
  return kFirstHandle + (found - dims_.begin());
}

Expr OpenDimensions::dim(int64_t number) const {
  const int64_t place = number - kFirstHandle;
  return is_handle(number) && place < static_cast<int64_t>(dims_.size()) ? dims_[static_cast<size_t>(place)]
                                                                         : Expr(number);
}

bool holds_handles(const Tensor& tensor) {
  if (!OpenDimensions::current() || tensor.dtype() != kInt64) return false;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (is_handle(tensor.integer(i))) return true;
  return false;
}

bool holds_handles(const Value& value) {
  if (!value) return false;
  if (const auto* tuple = value.as<relay::Tuple>())
    return std::any_of(tuple->items.begin(), tuple->items.end(),
                       [](const Value& item) { return holds_handles(item); });
  const Tensor* tensor = known(value);
  return tensor && holds_handles(*tensor);
}

std::vector<Expr> dims_of(const Value& value) { return type_of(value).shape; }

bool has_open_dims(const Value& value) { return !has_constant_shape(type_of(value)); }

Value dims_constant(std::span<const Expr> dims) {
  std::vector<int64_t> numbers;
  for (const Expr& dim : dims)
    numbers.push_back(as_int(dim) ? int_value(dim) : OpenDimensions::current()->handle(dim));
  return int_constant(numbers);
}

Value reshape_to(const Value& value, const std::vector<Expr>& dims) {
  const std::vector<Expr> from = dims_of(value);
  relay::Ints codes;
  bool constant = !has_open_dims(value), inferred = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (const int64_t* number = as_int(dims[i])) {
      codes.push_back(*number);
      continue;
    }
    constant = false;
    if (i < from.size() && prove_equal(dims[i], from[i])) {
      codes.push_back(0);
    } else {
      if (inferred)
        fail("cannot reshape {}: more than one dimension of the result is open and new", text_of(value));
      inferred = true;
      codes.push_back(-1);
    }
  }
  if (constant) return reshape(value, codes);
  // As a code 0 copies.
  for (size_t i = 0; i < dims.size(); ++i)
    if (is_int(dims[i], 0)) fail("cannot reshape {} to a shape of no elements", text_of(value));
  return emit("reshape", {value}, make<relay::ReshapeAttrs>(codes, false));
}

Value fold_dims(const char* op, std::span<const Value> args) {
  const std::string_view name = op;
  const bool moves = std::find(std::begin(kMoves), std::end(kMoves), name) != std::end(kMoves);
  // What chooses elements has to be a number.
  const bool chooses =
      (name == "where" && holds_handles(args[0])) || (name == "take" && holds_handles(args[1]));
  if (moves && !chooses) return nullptr;
  const Tensor* a = args.size() == 2 ? known(args[0]) : nullptr;
  const Tensor* b = args.size() == 2 ? known(args[1]) : nullptr;
  for (const Arithmetics& row : kArithmetic) {
    if (row.op != name || !a || !b) continue;
    if (a->size() != b->size() && a->size() != 1 && b->size() != 1) break;
    const Tensor& longer = a->size() >= b->size() ? *a : *b;
    Tensor result(longer.shape().size() >= b->shape().size() ? longer.shape() : b->shape(), kInt64);
    OpenDimensions& open = *OpenDimensions::current();
    for (int64_t i = 0; i < result.size(); ++i)
      result.as<int64_t>()[i] = open.handle(row.compute(open.dim(a->integer(a->size() == 1 ? 0 : i)),
                                                        open.dim(b->integer(b->size() == 1 ? 0 : i))));
    return constant(result);
  }
  fail("`{}` of a dimension that is open cannot be compiled; give the input's shape", op);
}

}  // namespace lathe::onnx
