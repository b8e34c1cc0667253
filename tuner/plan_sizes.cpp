#include "tuner/plan_sizes.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/relay/analysis/told_dims.h"
#include "core/relay/text.h"
#include "core/tir/dims.h"
#include "core/tir/own_dims.h"
#include "schedules/family.h"

namespace lathe::tuner {
namespace {

using runtime::Size;
using runtime::SizeOp;

const relay::Type& type_of(const relay::Var& param) {
  return param->checked_type ? param->checked_type : param->annotation;
}

/// The tensor types in a type, in order; null where there is something else.
void flatten(const relay::Type& type, std::vector<const relay::TensorType*>& into) {
  CHECK(type, "the final build needs inferred types");
  if (const auto* tuple = type.as<relay::TupleType>())
    for (const relay::Type& item : tuple->items) flatten(item, into);
  else
    into.push_back(type.as<relay::TensorType>());
}

std::optional<SizeOp> size_op(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return SizeOp::kAdd;
    case BinaryOp::kSub:
      return SizeOp::kSub;
    case BinaryOp::kMul:
      return SizeOp::kMul;
    case BinaryOp::kFloorDiv:
      return SizeOp::kFloorDiv;
    case BinaryOp::kFloorMod:
      return SizeOp::kFloorMod;
    case BinaryOp::kMin:
      return SizeOp::kMin;
    case BinaryOp::kMax:
      return SizeOp::kMax;
    case BinaryOp::kEq:
      return SizeOp::kEqual;
    case BinaryOp::kLt:
      return SizeOp::kLess;
    default:
      return std::nullopt;
  }
}

}  // namespace

void PlanSizes::define_inputs(const relay::Function& main) {
  for (const relay::ToldDim& told : relay::told_dims(main))
    dims_[told.dim.get()] = builder_.dimension({.name = told.dim->name,
                                                .input = static_cast<int64_t>(told.tensor),
                                                .axis = static_cast<int64_t>(told.axis)},
                                               kTypicalDim);
}

Size PlanSizes::of(const Expr& given) const {
  const Expr dim = simplify(given);
  if (const int64_t* number = as_int(dim))
    return *number >= 0 ? *number : builder_.size(SizeOp::kSub, 0, -*number);
  if (dim.as<VarNode>()) {
    auto found = dims_.find(dim.get());
    if (found == dims_.end())
      fail("no input's shape tells the dimension `{}`: say what it is, by shapes of inputs",
           relay::print(dim));
    return found->second;
  }
  const Binary* binary = dim.as<Binary>();
  const std::optional<SizeOp> op = binary ? size_op(binary->op) : std::nullopt;
  if (!op) fail("the model has a dimension that is not known; give inputs with shapes");
  return builder_.size(*op, of(binary->a), of(binary->b));
}

bool PlanSizes::knows(const Expr& given) const {
  bool known = true;
  post_order(simplify(given), [&](const NodeRef& node) {
    const Binary* binary = node.as<Binary>();
    known = known && (node.as<IntImm>() || (binary && size_op(binary->op)) || dims_.count(node.get()) > 0);
  });
  return known;
}

std::vector<runtime::TensorType> PlanSizes::types(const relay::Type& type) const {
  if (dims_.empty()) return flat_types(type);
  std::vector<const relay::TensorType*> tensors;
  flatten(type, tensors);
  std::vector<runtime::TensorType> types;
  for (const relay::TensorType* tensor : tensors) {
    if (!tensor) fail("values other than tensors and tuples of them cannot be compiled yet");
    std::vector<Size> shape;
    for (const Expr& dim : tensor->shape) shape.push_back(of(dim));
    types.push_back({std::move(shape), tensor->dtype});
  }
  return types;
}

std::vector<Size> PlanSizes::dims_of_call(const KernelCall& call, const tir::Func& workload) const {
  if (dims_.empty()) return {};
  std::vector<Size> sizes;
  for (const Expr& dim : tuner::dims_of_call(call, workload)) sizes.push_back(of(dim));
  return sizes;
}

namespace {

/// The variables in shapes, in the order in which they first occur.
std::vector<Expr> variables_of(const std::vector<std::vector<Expr>>& shapes) {
  std::vector<Expr> found;
  for (const std::vector<Expr>& shape : shapes)
    for (const Expr& extent : shape)
      post_order(extent, [&](const NodeRef& node) {
        const auto same = [&](const Expr& value) { return value.same_as(node.get()); };
        if (node.as<VarNode>() && std::none_of(found.begin(), found.end(), same))
          found.push_back(node.cast<ExprNode>());
      });
  return found;
}

/// Finds which of a call's dimensions stands for each of a program's, such that its parameters get the shapes
/// of the call. By its place in an expression none could be told: sums stand in the order of names.
class FittingDims {
 public:
  FittingDims(const tir::FuncNode& func, const std::vector<std::vector<Expr>>& shapes)
      : func_(func), shapes_(shapes), dims_(tir::dims_of(func)), candidates_(variables_of(shapes)) {}

  std::optional<std::vector<Expr>> find() {
    if (!choose(0)) return std::nullopt;
    std::vector<Expr> values;
    for (const Var& dim : dims_) values.push_back(chosen_.at(dim.get()));
    return values;
  }

 private:
  bool choose(size_t i) {
    if (i == dims_.size()) return true;
    const VarNode* dim = dims_[i].get();
    for (const Expr& candidate : candidates_) {
      chosen_[dim] = candidate;
      if (fits(dim) && choose(i + 1)) return true;
    }
    chosen_.erase(dim);
    return false;
  }

  /// All extents with `dim` in them that can be told by now.
  bool fits(const VarNode* dim) const {
    for (size_t p = 0; p < func_.params.size(); ++p) {
      const std::vector<Expr>& extents = func_.params[p]->shape;
      for (size_t d = 0; d < extents.size() && extents.size() == shapes_[p].size(); ++d) {
        bool has = false, all = true;
        post_order(extents[d], [&](const NodeRef& node) {
          has |= node.get() == dim;
          all &= !node.as<VarNode>() || chosen_.count(node.as<VarNode>()) != 0;
        });
        if (has && all && !prove_equal(substitute(extents[d], chosen_), shapes_[p][d])) return false;
      }
    }
    return true;
  }

  const tir::FuncNode& func_;
  const std::vector<std::vector<Expr>>& shapes_;
  const std::vector<Var> dims_;
  const std::vector<Expr> candidates_;
  VarMap chosen_;
};

}  // namespace

/// Dimensions that the shapes of parameters tell are what stands at their place in the call. Else a
/// function's are those of its own types, since they are the graph's.
std::vector<Expr> dims_of_call(const KernelCall& call, const tir::Func& workload) {
  std::vector<const relay::TensorType*> tensors;
  const auto* function = call.callee.as<relay::Function>();
  if (function) {
    for (const relay::Var& param : function->params) flatten(type_of(param), tensors);
    flatten(function->body->checked_type, tensors);
  } else {
    for (const relay::Expr& arg : call.call->args) flatten(arg->checked_type, tensors);
    flatten(call.call->checked_type ? call.call->checked_type : call.call->out_type, tensors);
  }
  std::vector<std::vector<Expr>> shapes;
  for (const relay::TensorType* tensor : tensors)
    shapes.push_back(tensor ? tensor->shape : std::vector<Expr>());
  if (const auto told = tir::told_dims(*workload, shapes)) return *told;
  const auto fitting = function ? FittingDims(*workload, shapes).find() : std::nullopt;
  if (!fitting) fail("tensor program {} has a dimension that stands nowhere by itself", workload->name);
  return *fitting;
}

void PlanSizes::require_equal(const Expr& a, const Expr& b) {
  builder_.require(builder_.size(SizeOp::kEqual, of(a), of(b)),
                   fmt::format("{} = {}", relay::print(simplify(a)), relay::print(simplify(b))));
}

}  // namespace lathe::tuner
