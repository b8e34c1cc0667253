// The dimensions of a model's types as sizes of a plan.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/runtime/plan_builder.h"
#include "tuner/dataflow.h"

namespace lathe::tuner {

/// What stands in a call for the dimensions of its workload (tir::dims_of), in their order: expressions of
/// the graph's. Empty where none is open. REQUIRES: workload_of(call).
std::vector<Expr> dims_of_call(const KernelCall& call, const tir::Func& workload);

class PlanSizes {
 public:
  /// REQUIRES: `builder` lives as long.
  explicit PlanSizes(runtime::PlanBuilder& builder) : builder_(builder) {}

  /// Makes the dimensions that main's inputs tell dimensions of the plan, in the order of relay::told_dims().
  void define_inputs(const relay::Function& main);

  /// Another one, or one of a kernel, which is this size here.
  void define(const Var& dim, runtime::Size size) { dims_[dim.get()] = size; }
  bool open() const { return !dims_.empty(); }

  runtime::Size of(const Expr& dim) const;
  /// Whether of() has an answer.
  bool knows(const Expr& dim) const;
  /// The tensors of a type, tuples flattened. Throws Error for other values. REQUIRES: `type` is inferred.
  std::vector<runtime::TensorType> types(const relay::Type& type) const;
  /// What the kernel of a call takes for the dimensions of its workload (tir::dims_of), in their order.
  std::vector<runtime::Size> dims_of_call(const KernelCall& call, const tir::Func& workload) const;
  /// The two must be one number in each run.
  void require_equal(const Expr& a, const Expr& b);

 private:
  runtime::PlanBuilder& builder_;
  std::unordered_map<const lathe::Node*, runtime::Size> dims_;
};

}  // namespace lathe::tuner
