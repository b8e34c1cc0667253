// From the graph of fused functions to the runtime's static plan.
#pragma once

#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "core/runtime/plan_builder.h"

namespace lathe::tuner {

/// The kernel that calls of one callee become.
struct GraphKernel {
  std::string name;
  int64_t workspace_bytes = 0;
  double flops = 0;  // of the unscheduled program
};

/// What `main` calls that needs a kernel: primitive functions (global ones resolved) and tensor programs,
/// each node once, in order of execution. Functions that only reshape are views and need none. REQUIRES:
/// types are inferred. Throws Error for control flow, closures and references, which cannot be executed yet,
/// and for dimensions that are not constant.
std::vector<relay::Expr> kernel_callees(const relay::Module& module);

/// The plan of `main`, with its constants and without its library. Tuples are flattened: an input `x` of a
/// tuple type becomes x.0, x.1, ...; outputs are named output_0, output_1, ... REQUIRES and throws as above.
runtime::ModuleImage plan_graph(const relay::Module& module,
                                FunctionRef<const GraphKernel&(const relay::Expr& callee)> kernel);

}  // namespace lathe::tuner
