#include "core/relay/passes/fold_constant.h"

#include <algorithm>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

double bytes_of(const Type& type) {
  if (const auto* tuple = type.as<TupleType>()) {
    double sum = 0;
    for (const Type& item : tuple->items) sum += bytes_of(item);
    return sum;
  }
  const auto* tensor = type.as<TensorType>();
  if (!tensor || !has_constant_shape(*tensor)) return 0;
  double bytes = tensor->dtype.bytes();
  for (int64_t extent : constant_shape(*tensor)) bytes *= static_cast<double>(extent);
  return bytes;
}

/// Numbers, all of them: an evaluator needs them to hold the result.
bool has_known_sizes(const Type& type) {
  if (const auto* tuple = type.as<TupleType>())
    return std::all_of(tuple->items.begin(), tuple->items.end(), has_known_sizes);
  const auto* tensor = type.as<TensorType>();
  return tensor && has_constant_shape(*tensor);
}

/// What is repeated until it is large (a mask for each head of each row of a batch) is read where it is used
/// sooner than its repetitions are: from memory, which a module would be full of. Not what is repeated on the
/// way, as the scales of blocks of weights are.
bool grows_too_far(const Expr& e) {
  constexpr double kLarge = 16 << 20, kTimes = 4;
  const double made = bytes_of(e->checked_type);
  if (made <= kLarge) return false;
  double read = 0;
  post_order(e, [&](const NodeRef& node) {
    if (const auto* constant = node.as<Constant>()) read += static_cast<double>(constant->value.bytes());
  });
  return made > kTimes * read;
}

/// Finds the largest constant expressions, in an order that depends on the program alone.
class Finder {
 public:
  void search(const Ref<Function>& function) {
    post_order(function, [&](const NodeRef& node) {
      // Post-order: children are known. What is constant waits until something that is not wants it, so only
      // the largest constant expressions are found.
      if (is_constant(node.get())) {
        constant_.insert(node.get());
        return;
      }
      if (is_of_unknown_size(node.get())) return;
      node->for_each_child([&](const NodeRef& child) { need(child); });
    });
  }
  const std::vector<Expr>& found() const { return found_; }

 private:
  bool all_constant(const std::vector<Expr>& exprs) const {
    return std::all_of(exprs.begin(), exprs.end(), [&](const Expr& e) { return constant_.count(e.get()); });
  }

  /// Of constants, which are left as they are: with its size folded it might be refused before it runs, where
  /// nobody comes by.
  bool is_of_unknown_size(const Node* node) const {
    const Call* call = NodeRef(node).as<Call>();
    return call && is_computed(*call) && !has_known_sizes(call->checked_type);
  }

  /// An operator of constants. Constructors, functions and branches are left: nothing could compute them
  /// here. Random numbers, say, are anew in each run.
  bool is_computed(const Call& call) const {
    const Op* op = operator_of(Expr(&call));
    return op && op->compute && !op->stateful && all_constant(call.args);
  }

  /// REQUIRES: known for the children.
  bool is_constant(const Node* node) const {
    if (NodeRef(node).as<Constant>()) return true;
    if (const Tuple* tuple = NodeRef(node).as<Tuple>()) return all_constant(tuple->items);
    if (const Projection* projection = NodeRef(node).as<Projection>())
      return constant_.count(projection->tuple.get());
    const Call* call = NodeRef(node).as<Call>();
    if (!call || !is_computed(*call)) return false;
    CHECK(call->checked_type, "constant folding needs inferred types");
    return has_known_sizes(call->checked_type);
  }

  /// Something that is not constant wants the value of `node`.
  void need(const NodeRef& node) {
    if (!constant_.count(node.get()) || !needed_.insert(node.get()) || node.as<Constant>()) return;
    const auto need_all = [&](const std::vector<Expr>& exprs) {
      with_enough_stack([&] {
        for (const Expr& each : exprs) need(each);
      });
    };
    // A tuple is no tensor to be computed; its items are.
    if (const Tuple* tuple = node.as<Tuple>()) return need_all(tuple->items);
    Expr e = node.cast<RelayNode>();
    if (const Call* call = e.as<Call>(); call && grows_too_far(e)) return need_all(call->args);
    if (e->checked_type.as<TensorType>()) found_.push_back(e);
  }

  NodeSet constant_, needed_;
  std::vector<Expr> found_;
};

class Replace final : public ExprMutator {
 public:
  /// Told what stands for what before it visits anything: the mutator takes that as done.
  Replace(const std::vector<Expr>& exprs, const std::vector<Tensor>& values) {
    CHECK(exprs.size() == values.size(), "{} expressions, {} values", exprs.size(), values.size());
    for (size_t i = 0; i < exprs.size(); ++i) set(exprs[i], typed_constant(values[i]));
  }
};

}  // namespace

Module fold_constant(const Module& module, const Evaluate& evaluate) {
  Finder finder;
  for (const auto& [name, function] : module->functions) finder.search(function);
  if (finder.found().empty()) return module;
  // All at once, over all functions: an evaluator may build one program for them.
  Replace replace(finder.found(), evaluate(finder.found()));
  auto copy = mutate(*module);
  for (auto& [name, function] : copy->functions) function = replace.visit_as(function);
  return seal(std::move(copy));
}

}  // namespace lathe::relay
