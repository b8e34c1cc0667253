// The graph of a fused module as the final build and the tuner see it: expressions in order of execution,
// what variables and callees stand for, which arguments are constants, and which calls run kernels.
#pragma once

#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "core/runtime/plan_builder.h"
#include "core/support/node_map.h"

namespace lathe::tuner {

/// The tensors of a type, tuples flattened. Throws Error for other values and for dimensions that are not
/// constant. REQUIRES: `type` is inferred.
std::vector<runtime::TensorType> flat_types(const relay::Type& type);

/// Iterative, so that the depth of the graph does not matter. REQUIRES: types are inferred. Throws Error when
/// there is no such function, and for control flow, closures and references: those of a program are outside
/// its stretches (core/program/stretches.h).
class Dataflow {
 public:
  explicit Dataflow(const relay::Module& module, const std::string& function = "main");

  const relay::Function& main() const { return *main_; }
  /// The expressions of main, each after what it needs, once.
  const std::vector<relay::Expr>& order() const { return order_; }
  /// What a let-bound variable stands for, or null for a parameter.
  relay::Expr bound(const relay::Expr& var) const;
  /// The callee itself: global functions and let-bound functions resolved.
  relay::Expr callee(const relay::Call& call) const;
  /// The tensors of an expression of main, tuples flattened: the values of those that are constants, also by
  /// way of lets, tuples and projections; undefined tensors for the others.
  const std::vector<Tensor>& constants(const relay::Expr& expr) const { return constants_.at(expr.get()); }

 private:
  std::vector<relay::Expr> needs(const relay::Expr& expr);
  void visit(const relay::Expr& root);
  std::vector<Tensor> find_constants(const relay::Expr& expr) const;

  relay::Module module_;
  Ref<relay::Function> main_;
  std::vector<relay::Expr> order_;
  NodeMap<relay::Expr> bound_;
  NodeMap<std::vector<Tensor>> constants_;
};

/// Which tensors of its tuple, flattened, a projection takes.
struct FlatSlice {
  size_t first = 0, count = 0;
};
FlatSlice slice_of(const relay::Projection& projection);

/// A call of main that runs a kernel.
struct KernelCall {
  Ref<relay::Call> call;
  relay::Expr callee;     // resolved: a primitive function or a tensor program
  int64_t constants = 0;  // which of its tensors are constants: a mask as in core/tir/prologue.h
  int64_t offset = 0;     // of a view: where it begins in the first argument, in bytes
  bool is_view() const { return !callee; }
};

/// `call`, when it runs a kernel; null `callee` for primitive functions that compute nothing, which are
/// views. Throws Error when it cannot be executed at all.
KernelCall kernel_call(const Dataflow& flow, const Ref<relay::Call>& call);

/// The functions that are graphs: the stretches of a program, or main.
std::vector<std::string> graphs_of(const relay::Module& module);

/// The kernel calls of all graphs, each in order of execution. Throws Error as Dataflow and kernel_call do,
/// and for parameters whose dimensions are not constant.
std::vector<KernelCall> kernel_calls(const relay::Module& module);

}  // namespace lathe::tuner
