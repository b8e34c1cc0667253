#include "core/frontends/onnx_dims.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/analysis/sizes.h"
#include "core/relay/ops/attrs_zeros_by.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {

thread_local OpenDimensions* current_dimensions = nullptr;

/// Far from what sizes, axes and their extremes ("to the end") are.
constexpr int64_t kFirstHandle = -(int64_t{1} << 61);
constexpr int64_t kMostHandles = 1 << 20;

bool is_handle(int64_t number) { return number >= kFirstHandle && number < kFirstHandle + kMostHandles; }

std::string text_of(const Value& value) {
  std::string text;
  for (const Expr& dim : dims_of(value)) text += (text.empty() ? "" : ", ") + relay::print(dim);
  return "(" + text + ")";
}

}  // namespace

OpenDimensions::OpenDimensions(Choices& choices) : choices_(choices), around_(current_dimensions) {
  current_dimensions = this;
}
OpenDimensions::~OpenDimensions() { current_dimensions = around_; }
OpenDimensions* OpenDimensions::current() { return current_dimensions; }

bool OpenDimensions::is_at_most(const Expr& a, const Expr& b) const {
  return relay::is_at_most(a, b) || bounds_.bound(bounds_.simplify(b - a)).min >= 0;
}

Expr OpenDimensions::settled(const Expr& dim) const {
  const Bound bound = bounds_.bound(bounds_.simplify(dim));
  return bound.is_point() ? Expr(bound.min) : dim;
}

int64_t OpenDimensions::handle(const Expr& dim) {
  const Expr simple = settled(simplify(dim));
  if (as_int(simple)) return int_value(simple);
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

bool is_about_dims(const Value& value) {
  if (value.as<relay::Constant>()) return true;
  const auto* call = value.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  if (!op) return false;
  if (op->name == "shape_of" || op->name == "zeros_by") return true;
  return std::all_of(call->args.begin(), call->args.end(), is_about_dims);
}

std::vector<Expr> dims_of(const Value& value) { return type_of(value).shape; }

bool has_open_dims(const Value& value) { return !has_constant_shape(type_of(value)); }

Value dims_constant(std::span<const Expr> dims) {
  std::vector<int64_t> numbers;
  for (const Expr& dim : dims)
    numbers.push_back(as_int(dim) ? int_value(dim) : OpenDimensions::current()->handle(dim));
  return int_constant(numbers);
}

namespace {

/// The codes of a reshape to `dims`: one that is open and no copy of the input's is inferred. Nothing where
/// there are more, or as a code a 0 would copy.
std::optional<relay::Ints> reshape_codes(const std::vector<Expr>& from, const std::vector<Expr>& dims) {
  relay::Ints codes;
  bool inferred = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (const int64_t* number = as_int(dims[i])) {
      if (*number == 0) return std::nullopt;
      codes.push_back(*number);
    } else if (i < from.size() && prove_equal(dims[i], from[i])) {
      codes.push_back(0);
    } else if (std::exchange(inferred, true)) {
      return std::nullopt;
    } else {
      codes.push_back(-1);
    }
  }
  return codes;
}

bool same_dims(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return prove_equal(x, y); });
}

}  // namespace

Value reshape_to(const Value& value, const std::vector<Expr>& dims) {
  const auto open = std::find_if(dims.begin(), dims.end(), [](const Expr& dim) { return !as_int(dim); });
  if (open == dims.end() && !has_open_dims(value)) {
    relay::Ints shape;
    for (const Expr& dim : dims) shape.push_back(int_value(dim));
    return reshape(value, shape);
  }
  if (same_dims(dims_of(value), dims)) return value;
  if (const auto codes = reshape_codes(dims_of(value), dims)) {
    const Value result = emit("reshape", {value}, make<relay::ReshapeAttrs>(*codes, false));
    if (same_dims(dims_of(result), dims)) return result;
  }
  // A tensor of that shape says it as it is meant.
  return emit("reshape_like", {value, of_shape(dims)});
}

Value settled(const Value& value) {
  if (!has_open_dims(value)) return value;
  std::vector<Expr> dims = dims_of(value);
  for (Expr& dim : dims) dim = OpenDimensions::current()->settled(dim);
  return reshape_to(value, dims);
}

void OpenDimensions::learn_from(const Value& value) {
  const std::vector<Expr> dims = dims_of(value);
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!as_int(dims[axis]) && !find(dims[axis]))
      places_.emplace_back(dims[axis], Place{value, static_cast<int64_t>(axis)});
}

Expr OpenDimensions::fresh() { return fresh_.emplace_back(var(fmt::format("size{}", fresh_.size()))); }

bool OpenDimensions::can_be_settled(const Expr& dim) const {
  return scopes_ == 0 && dim.as<VarNode>() && std::ranges::find(fresh_, dim) == fresh_.end();
}

namespace {

/// Tells whether two numbers are computed by the same calls from the same values.
class ComputedAlike {
 public:
  bool operator()(const Value& a, const Value& b) {
    if (a == b || alike_.count({a.get(), b.get()})) return true;
    // Numbers that take more calls may differ: what they have in common is a network, perhaps.
    if (++looked_at_ > kMostCalls) return false;
    const auto *x = a.as<relay::Call>(), *y = b.as<relay::Call>();
    const bool alike = x && y ? calls(*x, *y) : a.as<relay::Constant>() && structural_equal(a, b);
    if (alike) alike_.emplace(a.get(), b.get());
    return alike;
  }

 private:
  static constexpr int kMostCalls = 256;

  bool calls(const relay::Call& a, const relay::Call& b) {
    const auto *op = a.callee.as<relay::OpNode>(), *other = b.callee.as<relay::OpNode>();
    return op && other && op->name == other->name && !relay::find_op(op->name)->stateful &&
           structural_equal(a.attrs, b.attrs) &&
           std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), std::ref(*this));
  }

  std::set<std::pair<const lathe::Node*, const lathe::Node*>> alike_;
  int looked_at_ = 0;
};

}  // namespace

Expr OpenDimensions::size_of(const Value& number) {
  for (const auto& [known, size] : sizes_) {
    if (ComputedAlike()(known, number)) return size;
  }
  return sizes_.emplace_back(number, fresh()).second;
}

void OpenDimensions::Scope::leave() {
  if (!left_) {
    current()->places_.resize(places_);
    current()->sizes_.resize(sizes_);
    --current()->scopes_;
  }
  left_ = true;
}

const OpenDimensions::Place* OpenDimensions::find(const Expr& dim) const {
  for (const auto& [known, place] : places_)
    if (prove_equal(known, dim)) return &place;
  return nullptr;
}

bool OpenDimensions::tells(const Expr& dim) const {
  bool told = true;
  post_order(dim, [&](const NodeRef& node) {
    if (node.as<VarNode>()) told &= find(node.cast<ExprNode>()) != nullptr;
  });
  return told;
}

namespace {

/// Rank 0, int64.
Value int64_number_of(const Expr& dim) {
  if (const int64_t* number = as_int(dim)) return constant(tensor_of<int64_t>({*number}, {}, kInt64));
  if (const OpenDimensions::Place* place = OpenDimensions::current()->find(dim)) {
    Value all = emit("shape_of", {place->value}, make<relay::DtypeAttrs>(kInt64));
    return emit("take", {all, scalar(kInt64, static_cast<double>(place->axis))},
                make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
  }
  const Binary* binary = dim.as<Binary>();
  const char* op = binary ? relay::operator_of(binary->op) : nullptr;
  if (!op) fail("no input tells the dimension {}; give the input's shape", relay::print(dim));
  return emit(op, {int64_number_of(binary->a), int64_number_of(binary->b)});
}

}  // namespace

Value number_of(const Expr& dim, DataType dtype) {
  return cast_to(int64_number_of(relay::simplify_size(dim)), dtype);
}

Expr elements_of(std::span<const Expr> dims) {
  Expr product = 1;
  for (const Expr& dim : dims) product = product * dim;
  return simplify(product);
}

Value as_data(const Value& value) {
  if (const auto* tuple = value.as<relay::Tuple>(); tuple && holds_handles(value)) {
    Values items;
    for (const Value& item : tuple->items) items.push_back(as_data(item));
    return tuple_of(items);
  }
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

Value of_shape(const std::vector<Expr>& dims) {
  // Each dimension by the place among the arguments' where it stands alone.
  std::vector<Value> args;
  std::vector<int64_t> first;  // dimension of each argument, among all
  int64_t count = 0;
  VarMap names;
  std::string text;
  for (const Expr& dim : dims) {
    post_order(dim, [&](const NodeRef& node) {
      const VarNode* symbol = node.as<VarNode>();
      if (!symbol || names.count(symbol)) return;
      const OpenDimensions::Place* place = OpenDimensions::current()->find(node.cast<ExprNode>());
      if (!place) fail("no input tells the dimension {}; give the input's shape", symbol->name);
      auto known = std::find(args.begin(), args.end(), place->value);
      if (known == args.end()) {
        known = args.insert(known, place->value);
        first.push_back(count);
        count += static_cast<int64_t>(dims_of(place->value).size());
      }
      names[symbol] = var(fmt::format("d{}", first[static_cast<size_t>(known - args.begin())] + place->axis));
    });
    text += (text.empty() ? "" : ", ") + relay::print(substitute(dim, names));
  }
  return emit("zeros_by", args, make<relay::ZerosByAttrs>("(" + text + ")", kBool));
}

Value counted_to(const Expr& length) {
  if (as_int(length)) return counted(int_value(length), {int_value(length)});
  return emit("arange_like", {of_shape({length})}, make<relay::DtypeAttrs>(kInt64));
}

Value counted_along(const Expr& length, int64_t axis, int64_t rank) {
  relay::Ints codes(static_cast<size_t>(rank), 1);
  codes[static_cast<size_t>(axis)] = -1;
  if (as_int(length)) codes[static_cast<size_t>(axis)] = int_value(length);
  const Value vector = counted_to(length);
  return as_int(length) ? reshape(vector, codes)
                        : emit("reshape", {vector}, make<relay::ReshapeAttrs>(codes, false));
}

Value with_dims(const Value& value, const std::vector<Expr>& dims) {
  const std::vector<Expr> from = dims_of(value);
  if (from.size() != dims.size())
    fail("a tensor of shape {} where one of rank {} must be", text_of(value), dims.size());
  bool same = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    same &= prove_equal(from[d], dims[d]);
    if (as_int(from[d]) && as_int(dims[d]) && int_value(from[d]) != int_value(dims[d]))
      fail("dimension {} of a tensor of shape {} must be {}", d, text_of(value), int_value(dims[d]));
  }
  return same ? value : emit("reshape_like", {value, of_shape(dims)});
}

Value of_extent(const Value& value, int64_t axis, int64_t extent) {
  std::vector<Expr> dims = dims_of(value);
  Expr& dim = dims.at(static_cast<size_t>(axis));
  if (as_int(dim)) return value;
  if (OpenDimensions& open = *OpenDimensions::current(); open.can_be_settled(dim)) {
    open.settle(dim, extent);
    return value;
  }
  dim = extent;
  return with_dims(value, dims);
}

Value repeated_to(const Value& value, const std::vector<Expr>& dims) {
  std::vector<int64_t> numbers;
  for (const Expr& dim : dims) {
    if (!as_int(dim)) return emit("broadcast_to_like", {value, of_shape(dims)});
    numbers.push_back(int_value(dim));
  }
  return broadcast_to(value, numbers);
}

Value padded_along(const Value& value, int64_t axis, const Expr& before, const Expr& after,
                   const Value& fill) {
  Values parts;
  auto add = [&](const Expr& count) {
    if (is_int(count, 0)) return;
    std::vector<Expr> dims = type_of(value).shape;
    dims[static_cast<size_t>(axis)] = count;
    parts.push_back(repeated_to(fill, dims));
  };
  add(before);
  parts.push_back(value);
  add(after);
  return concatenated(parts, axis);
}

namespace {

/// Where the slice ends if that is a number, counted from either end of the axis.
std::optional<int64_t> end_of(const relay::Slice& slice, const Expr& extent) {
  if (!as_int(slice.begin) || slice.stride < 1) return std::nullopt;
  if (as_int(slice.count)) return int_value(slice.begin) + int_value(slice.count) * slice.stride;
  if (slice.stride > 1) return std::nullopt;
  // Of an axis that may be shorter than what is cut off a slice has max(0, n - 3) elements.
  const auto* at_least = slice.count.as<Binary>();
  const bool may_be_cut_off = at_least && at_least->op == BinaryOp::kMax;
  for (const Expr& count :
       may_be_cut_off ? std::vector{at_least->a, at_least->b} : std::vector{slice.count}) {
    const Expr left = simplify(extent - slice.begin - count);
    if (!as_int(left) || int_value(left) < 0) continue;
    const int64_t end = int_value(left) == 0 ? relay::kBeyondAnyAxis : -int_value(left);
    const auto same = relay::numpy_slice(slice.begin, end, 1, extent);
    if (same && prove_equal(same->begin, slice.begin) && prove_equal(same->count, slice.count)) return end;
  }
  return std::nullopt;
}

}  // namespace

Value sliced_by(const Value& value, int64_t axis, const relay::Slice& slice) {
  const Expr extent = dims_of(value).at(static_cast<size_t>(axis));
  if (is_int(slice.begin, 0) && slice.stride == 1 && prove_equal(slice.count, extent)) return value;
  if (const std::optional<int64_t> end = end_of(slice, extent))
    return emit("strided_slice", {value},
                make<relay::StridedSliceAttrs>(relay::Ints{int_value(slice.begin)}, relay::Ints{*end},
                                               relay::Ints{slice.stride}, std::string("end"),
                                               std::optional<relay::Ints>(relay::Ints{axis})));
  Value places = counted_to(slice.count);
  if (slice.stride != 1) places = times(places, scalar(kInt64, static_cast<double>(slice.stride)));
  if (!is_int(slice.begin, 0)) places = plus(places, number_of(slice.begin));
  // Within the axis, as a slice is.
  return emit("take", {value, places},
              make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis), std::string("fast")));
}

}  // namespace lathe::onnx
