#include "tuner/dataflow.h"

#include "core/program/stretches.h"
#include "core/relay/lower.h"
#include "core/runtime/kernel.h"
#include "core/runtime/most_bytes.h"
#include "core/tir/prologue.h"

namespace lathe::tuner {

using relay::Call;
using relay::Expr;
using relay::ExprKind;
using relay::Function;

namespace {

/// Dimensions come from the model's file, and their product need not fit 64 bits.
void require_size(const std::vector<int64_t>& shape, DataType dtype) {
  int64_t bytes = dtype.bytes();
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > runtime::kMostBytes)
      fail("the model has a tensor {} {}, which is larger than any memory", to_string(dtype),
           shape_text(shape));
}

/// Appends the tensors of a type, those of nested tuples in order.
void flatten(const relay::Type& type, std::vector<runtime::TensorType>& into) {
  CHECK(type, "the final build needs inferred types");
  if (const auto* tuple = type.as<relay::TupleType>()) {
    for (const relay::Type& item : tuple->items) flatten(item, into);
  } else if (const auto* tensor = type.as<relay::TensorType>()) {
    if (!has_constant_shape(*tensor))
      fail("the model has dimensions that are not known; give inputs with shapes");
    into.push_back({constant_shape(*tensor), tensor->dtype});
    require_size(into.back().shape, into.back().dtype);
  } else {
    fail("values other than tensors and tuples of them cannot be compiled yet");
  }
}

/// As many as flat_types() gives, whatever their shapes.
size_t tensors_in(const relay::Type& type) {
  const auto* tuple = type.as<relay::TupleType>();
  if (!tuple) return 1;
  size_t count = 0;
  for (const relay::Type& item : tuple->items) count += tensors_in(item);
  return count;
}

/// Throws Error when calls of the callee cannot be executed at all.
void require_kernel(const Expr& callee) {
  const Function* function = callee.as<Function>();
  // A tensor program by hand too, as text of a model may have it (decision 001).
  if (callee.as<relay::PrimFunc>() || (function && function->attrs.primitive)) return;
  if (const relay::OpNode* op = callee.as<relay::OpNode>())
    fail("operator {} cannot be compiled: it is in no fused function", op->name);
  fail("calls of {} cannot be compiled yet", callee->type().name);
}

/// Whether a kernel of the plan computes the value: then it lies in the plan's own memory, and so do its
/// parts. Inputs and constants are kept as wholes.
bool is_computed(const Dataflow& flow, Expr expr) {
  for (;;) {
    if (const auto* let = expr.as<relay::Let>()) {
      expr = let->body;
    } else if (Expr value = flow.bound(expr)) {
      expr = value;
    } else if (const Call* call = expr.as<Call>()) {
      Expr callee = flow.callee(*call);
      const Function* function = callee.as<Function>();
      if (!function || !relay::find_view(callee.cast<Function>())) return true;
      expr = call->args[0];
    } else {
      return false;
    }
  }
}

/// Where the result of `call` begins in its first argument, in bytes, when it is a view of it.
std::optional<int64_t> view_offset(const Dataflow& flow, const Call& call, const Expr& callee) {
  const Function* function = callee.as<Function>();
  if (!function || !function->attrs.primitive) return std::nullopt;
  std::optional<relay::View> view = relay::find_view(callee.cast<Function>());
  if (!view) return std::nullopt;
  int64_t position = view->position;
  if (view->position_param) {
    const Tensor& known = flow.constants(call.args[*view->position_param]).at(0);
    if (!known.defined()) return std::nullopt;
    position = known.integer(0);
  }
  // What lies outside is a matter of the operator's mode.
  if (position < 0 || position >= view->extent) return std::nullopt;
  if (view->extent == 1) return 0;
  // Where a part begins is a number of bytes, and whether it lies inside is checked when the plan is made.
  const auto is_closed = [](const relay::Type& type) {
    return has_constant_shape(*type.as<relay::TensorType>());
  };
  if (!is_closed(call.checked_type) || !is_closed(call.args[0]->checked_type)) return std::nullopt;
  const runtime::TensorType result = flat_types(call.checked_type).at(0);
  const int64_t offset = position * shape_size(result.shape) * result.dtype.bytes();
  const bool possible = offset % runtime::kAlignment == 0 && is_computed(flow, call.args[0]);
  return possible ? std::optional(offset) : std::nullopt;
}

}  // namespace

std::vector<runtime::TensorType> flat_types(const relay::Type& type) {
  std::vector<runtime::TensorType> types;
  flatten(type, types);
  return types;
}

/// The order first, then constants along it, each expression once: O(expressions).
Dataflow::Dataflow(const relay::Module& module, const std::string& function) : module_(module) {
  auto main = module->functions.find(function);
  if (main == module->functions.end()) fail("the module has no function @{}", function);
  main_ = main->second;
  for (const relay::Var& param : main_->params)
    // Undefined tensors: parameters are no constants.
    constants_[param.get()].resize(tensors_in(param->checked_type ? param->checked_type : param->annotation));
  visit(main_->body);
  // In the order of execution, so what an expression needs has its constants already.
  for (const Expr& expr : order_)
    if (!constants_.count(expr.get())) constants_[expr.get()] = find_constants(expr);
}

Expr Dataflow::bound(const Expr& var) const {
  const Expr* found = bound_.find(var.get());
  return found ? *found : Expr();
}

Expr Dataflow::callee(const Call& call) const {
  Expr callee = call.callee;
  // A let may bind a global function's name: variables are resolved before globals.
  if (Expr value = bound(callee)) callee = value;
  if (const auto* global = callee.as<relay::GlobalVarNode>()) {
    auto function = module_->functions.find(global->name);
    if (function == module_->functions.end()) fail("the module has no function @{}", global->name);
    callee = function->second;
  }
  return callee;
}

/// What has to be evaluated before `expr`. Notes what lets bind on the way: a let is met before its body, so
/// variables are bound when they are asked for.
std::vector<Expr> Dataflow::needs(const Expr& expr) {
  switch (expr->kind()) {
    case ExprKind::kCall:
      return expr.as<Call>()->args;
    case ExprKind::kTuple:
      return expr.as<relay::Tuple>()->items;
    case ExprKind::kProjection:
      return {expr.as<relay::Projection>()->tuple};
    case ExprKind::kLet: {
      const relay::Let* let = expr.as<relay::Let>();
      bound_[let->var.get()] = let->value;
      return {let->value, let->body};
    }
    case ExprKind::kVar:
      if (Expr value = bound(expr)) return {value};
      return {};
    case ExprKind::kConstant:
    case ExprKind::kFunction:  // let-bound; its calls are what runs
      return {};
    default:
      fail("control flow, closures and references cannot be compiled yet; the model has {}",
           expr->type().name);
  }
}

/// Depth first, in postorder, with a stack of its own: graphs of thousands of operators in a row would
/// overflow the thread's. Each expression once, however often it is shared.
void Dataflow::visit(const Expr& root) {
  struct Frame {
    Expr expr;
    std::vector<Expr> needs;
    size_t next = 0;
  };
  NodeSet seen;
  seen.insert(root.get());
  std::vector<Frame> stack{{root, needs(root)}};
  while (!stack.empty()) {
    // Not to be used after a push, which may move it.
    Frame& frame = stack.back();
    if (frame.next == frame.needs.size()) {
      order_.push_back(frame.expr);
      stack.pop_back();
    } else if (Expr need = frame.needs[frame.next++]; seen.insert(need.get())) {
      stack.push_back({need, needs(need)});
    }
  }
}

/// REQUIRES: those of what `expr` needs are found.
std::vector<Tensor> Dataflow::find_constants(const Expr& expr) const {
  switch (expr->kind()) {
    case ExprKind::kConstant:
      return {expr.as<relay::Constant>()->value};
    case ExprKind::kLet:
      return constants(expr.as<relay::Let>()->body);
    case ExprKind::kVar: {
      Expr value = bound(expr);
      CHECK(value, "a free variable in main");
      return constants(value);
    }
    case ExprKind::kTuple: {
      std::vector<Tensor> all;
      for (const Expr& item : expr.as<relay::Tuple>()->items) {
        const std::vector<Tensor>& part = constants(item);
        all.insert(all.end(), part.begin(), part.end());
      }
      return all;
    }
    case ExprKind::kProjection: {
      const auto& projection = *expr.as<relay::Projection>();
      const std::vector<Tensor>& all = constants(projection.tuple);
      auto [first, count] = slice_of(projection);
      auto begin = all.begin() + static_cast<int64_t>(first);
      return {begin, begin + static_cast<int64_t>(count)};
    }
    case ExprKind::kCall: {
      const Call& call = *expr.as<Call>();
      return std::vector<Tensor>(tensors_in(call.checked_type ? call.checked_type : call.out_type));
    }
    default:
      return {};  // a let-bound function
  }
}

FlatSlice slice_of(const relay::Projection& projection) {
  const auto* type = projection.tuple->checked_type.as<relay::TupleType>();
  CHECK(type, "a projection of what is not a tuple");
  FlatSlice slice;
  for (int64_t i = 0; i < projection.index; ++i) slice.first += tensors_in(type->items[i]);
  slice.count = tensors_in(type->items[projection.index]);
  return slice;
}

KernelCall kernel_call(const Dataflow& flow, const Ref<Call>& call) {
  Expr callee = flow.callee(*call);
  if (std::optional<int64_t> offset = view_offset(flow, *call, callee)) return {call, nullptr, 0, *offset};
  require_kernel(callee);
  int64_t mask = 0;
  size_t tensor = 0;
  for (const Expr& arg : call->args)
    // Numbered like the parameters of the program: tensors of all arguments, tuples flattened. Those beyond
    // the mask's bits count as variable, which is safe: only a chance to transform them ahead is missed.
    for (const Tensor& value : flow.constants(arg)) {
      if (tensor < tir::kMaxMarkedParams && value.defined()) mask |= int64_t{1} << tensor;
      ++tensor;
    }
  return {call, callee, mask};
}

std::vector<std::string> graphs_of(const relay::Module& module) {
  return program::is_outlined(module) ? program::stretches_of(module) : std::vector<std::string>{"main"};
}

std::vector<KernelCall> kernel_calls(const relay::Module& module) {
  std::vector<KernelCall> calls;
  for (const std::string& graph : graphs_of(module)) {
    Dataflow flow(module, graph);
    for (const Expr& expr : flow.order()) {
      if (!expr.as<Call>()) continue;
      KernelCall call = kernel_call(flow, expr.cast<Call>());
      if (!call.is_view()) calls.push_back(std::move(call));
    }
  }
  return calls;
}

}  // namespace lathe::tuner
