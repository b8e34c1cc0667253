// From the graph of fused functions to the runtime's static plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/runtime/plan_builder.h"
#include "core/tir/prologue.h"
#include "schedules/family.h"
#include "tuner/dataflow.h"

namespace lathe::tuner {

/// The kernel that calls of one callee become.
struct GraphKernel {
  std::string name;
  int64_t workspace_bytes = 0;
  double flops = 0;               // of the unscheduled program; 0 where it depends on dimensions
  std::vector<int64_t> reuse;     // arguments whose memory the result may take over (in_place_arguments)
  std::vector<size_t> dims = {};  // those of the workload's that the kernel takes, numbers of dims_of() it
  Expr open_workspace = {};       // of dims_of() the workload; null: workspace_bytes

  /// Gives tensors that the kernel takes in place of some of the call's constants: run while the plan is
  /// made, once for each distinct set of constants. Null: the kernel takes the arguments of the call.
  std::function<std::vector<Tensor>(std::span<const Tensor>)> prologue = {};
  /// Which of the call's tensors (tuples flattened) the prologue takes. REQUIRES: they are constants in all
  /// calls of the kernel.
  std::vector<size_t> prologue_arguments = {};
  /// Where the inputs of the kernel come from; with a prologue only.
  std::vector<tir::PartParam> arguments = {};
};

/// The kernels of one callee, each for some values of the dimensions that its workload leaves open.
struct KernelFamily {
  struct Member {
    size_t kernel = 0;                      // number of `kernels`
    std::vector<schedule::DimValues> dims;  // of the workload
  };
  std::vector<GraphKernel> kernels;
  std::vector<Member> members;  // the first that has the values is called; the last has all
  tir::Func workload = {};      // of all of them
};

/// The plan of a graph (dataflow.h), with the constants that it reads and without its library. Tuples are
/// flattened: an input `x` of a tuple type becomes x.0, x.1, ...; outputs are named output_0, output_1, ...
/// REQUIRES and throws as Dataflow does (dataflow.h).
runtime::ModuleImage plan_graph(const relay::Module& module,
                                FunctionRef<const KernelFamily&(const KernelCall&)> kernels,
                                const std::string& graph = "main");

}  // namespace lathe::tuner
