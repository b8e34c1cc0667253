#include "core/frontends/onnx_dims.h"

#include <algorithm>
#include <optional>
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

/// Nothing where it depends on the values. Sums and products of dimensions are not negative.
std::optional<bool> known_equal(const Expr& a, const Expr& b) {
  if (prove_equal(a, b)) return true;
  const Expr difference = simplify(a - b);
  if (const int64_t* number = as_int(difference)) return *number == 0;
  auto grows = [](const Expr& dim) {
    bool sum = true;
    post_order(dim, [&](const NodeRef& node) {
      const Binary* binary = node.as<Binary>();
      const IntImm* number = node.as<IntImm>();
      sum &= node.as<VarNode>() || (number && number->value >= 0) ||
             (binary && (binary->op == BinaryOp::kAdd || binary->op == BinaryOp::kMul));
    });
    return sum;
  };
  auto below_all = [&](const Expr& dim, const Expr& number) {
    return as_int(number) && int_value(number) < 0 && grows(dim);
  };
  if (below_all(a, b) || below_all(b, a)) return false;
  return std::nullopt;
}

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
      // The codes have room for one; a tensor of that shape says them all.
      if (inferred) {
        OpenDimensions::current()->learn_from(value);
        return emit("reshape_like", {value, of_shape(dims)});
      }
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

bool moves_alone(const char* op, std::span<const Value> args) {
  const std::string_view name = op;
  // What chooses elements has to be a number.
  if ((name == "where" && holds_handles(args[0])) || (name == "take" && holds_handles(args[1]))) return false;
  return std::find(std::begin(kMoves), std::end(kMoves), name) != std::end(kMoves);
}

Value fold_dims(const char* op, std::span<const Value> args) {
  const std::string_view name = op;
  const Tensor* a = args.size() == 2 ? known(args[0]) : nullptr;
  const Tensor* b = args.size() == 2 ? known(args[1]) : nullptr;
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return nullptr;
  const Tensor& longer = a->size() >= b->size() ? *a : *b;
  const std::vector<int64_t>& shape =
      longer.shape().size() >= b->shape().size() ? longer.shape() : b->shape();
  OpenDimensions& open = *OpenDimensions::current();
  auto element = [&](const Tensor& tensor, int64_t i) {
    return open.dim(tensor.integer(tensor.size() == 1 ? 0 : i));
  };
  for (const Arithmetics& row : kArithmetic) {
    if (row.op != name) continue;
    Tensor result(shape, kInt64);
    for (int64_t i = 0; i < result.size(); ++i)
      result.as<int64_t>()[i] = open.handle(row.compute(element(*a, i), element(*b, i)));
    return constant(result);
  }
  if (name == "equal") {
    Tensor result(shape, kBool);
    for (int64_t i = 0; i < result.size(); ++i) {
      const std::optional<bool> equal = known_equal(element(*a, i), element(*b, i));
      if (!equal) return nullptr;
      result.set_integer(i, *equal);
    }
    return constant(result);
  }
  return nullptr;
}

void OpenDimensions::learn_from(const Value& value) {
  const std::vector<Expr> dims = dims_of(value);
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!as_int(dims[axis]) && !find(dims[axis]))
      places_.emplace_back(dims[axis], Place{value, static_cast<int64_t>(axis)});
}

const OpenDimensions::Place* OpenDimensions::find(const Expr& dim) const {
  for (const auto& [known, place] : places_)
    if (prove_equal(known, dim)) return &place;
  return nullptr;
}

namespace {

const char* operator_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "add";
    case BinaryOp::kSub:
      return "subtract";
    case BinaryOp::kMul:
      return "multiply";
    case BinaryOp::kFloorDiv:
      return "floor_divide";
    case BinaryOp::kFloorMod:
      return "floor_mod";
    case BinaryOp::kMin:
      return "minimum";
    case BinaryOp::kMax:
      return "maximum";
    default:
      return nullptr;
  }
}

/// Rank 0, int64.
Value number_of(const Expr& dim) {
  if (const int64_t* number = as_int(dim)) return constant(tensor_of<int64_t>({*number}, {}, kInt64));
  if (const OpenDimensions::Place* place = OpenDimensions::current()->find(dim)) {
    Value all = emit("shape_of", {place->value}, make<relay::DtypeAttrs>(kInt64));
    return emit("take", {all, scalar(kInt64, static_cast<double>(place->axis))},
                make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
  }
  const Binary* binary = dim.as<Binary>();
  const char* op = binary ? operator_of(binary->op) : nullptr;
  if (!op) fail("no input tells the dimension {}; give the input's shape", relay::print(dim));
  return emit(op, {number_of(binary->a), number_of(binary->b)});
}

/// (1, ..., length, ..., 1) of a vector.
Value along_axis(const Value& vector, size_t axis, size_t rank) {
  relay::Ints codes(rank, 1);
  codes[axis] = -1;
  return emit("reshape", {vector}, make<relay::ReshapeAttrs>(codes, false));
}

/// A vector as long as that, whose elements are of no interest.
Value vector_of(const Expr& length) {
  if (const int64_t* number = as_int(length)) return constant(zeros({*number}, kInt64));
  if (const OpenDimensions::Place* place = OpenDimensions::current()->find(length)) {
    Value row = place->value;
    const auto rank = static_cast<int64_t>(dims_of(row).size());
    for (int64_t axis = rank; axis-- > 0;)
      if (axis != place->axis)
        row = emit("take", {row, scalar(kInt64, 0)},
                   make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis), std::string("clip")));
    // Whatever it was, so that vectors of several tensors go together.
    return emit("arange_like", {row}, make<relay::DtypeAttrs>(kInt64));
  }
  const Binary* binary = length.as<Binary>();
  if (binary && binary->op == BinaryOp::kAdd)
    return emit("concatenate", {tuple_of({vector_of(binary->a), vector_of(binary->b)})},
                make<relay::ConcatenateAttrs>(int64_t{0}));
  if (binary && binary->op == BinaryOp::kMul) {
    Value product =
        emit("add", {along_axis(vector_of(binary->a), 0, 2), along_axis(vector_of(binary->b), 1, 2)});
    return emit("reshape", {product}, make<relay::ReshapeAttrs>(relay::Ints{-1}, false));
  }
  fail("no tensor is as long as the dimension {}; give the input's shape", relay::print(length));
}

}  // namespace

Value as_data(const Value& value) {
  const Tensor* tensor = known(value);
  if (!tensor || !holds_handles(*tensor)) return value;
  const OpenDimensions& open = *OpenDimensions::current();
  if (tensor->shape().empty()) return number_of(open.dim(tensor->integer(0)));
  std::vector<Value> numbers;
  for (int64_t i = 0; i < tensor->size(); ++i)
    numbers.push_back(emit("reshape", {number_of(open.dim(tensor->integer(i)))},
                           make<relay::ReshapeAttrs>(relay::Ints{1}, false)));
  Value vector = numbers.size() == 1
                     ? numbers[0]
                     : emit("concatenate", {tuple_of(numbers)}, make<relay::ConcatenateAttrs>(int64_t{0}));
  return reshape(vector, tensor->shape());
}

Value counted_to(const Expr& length) {
  return emit("arange_like", {vector_of(length)}, make<relay::DtypeAttrs>(kInt64));
}

Value of_shape(const std::vector<Expr>& dims) {
  std::vector<int64_t> numbers;
  for (const Expr& dim : dims) numbers.push_back(as_int(dim) ? int_value(dim) : 1);
  Value result = constant(zeros(numbers, kInt64));
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!as_int(dims[axis]))
      result = emit("add", {result, along_axis(vector_of(dims[axis]), axis, dims.size())});
  return result;
}

}  // namespace lathe::onnx
