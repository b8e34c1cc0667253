#include "tests/codegen/run_kernel.h"

#include "core/arith/simplify.h"
#include "core/codegen/compile.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/tir/dims.h"

namespace lathe::codegen {

void run_kernel(const tir::Func& lowered, const Target& target, std::span<const Tensor> params,
                const LatheParallel* parallel) {
  Artifact artifact = compile(std::span(&lowered, 1), target);
  runtime::SharedObject object(artifact.bytes);
  auto kernel = reinterpret_cast<LatheKernel>(object.find(lowered->name.c_str()));
  CHECK(kernel, "the artifact has no symbol {}", lowered->name);
  std::vector<void*> buffers;
  for (const Tensor& param : params) buffers.push_back(param.data());
  // The dimensions are those of the tensors, where they stand alone in a shape.
  VarMap values;
  std::vector<int64_t> dims;
  for (const Var& dim : tir::dims_of(*lowered))
    for (size_t i = 0; i < params.size() && !values.count(dim.get()); ++i)
      for (size_t d = 0; d < params[i].shape().size(); ++d)
        if (lowered->params[i]->shape[d] == dim) values[dim.get()] = Expr(params[i].shape()[d]);
  for (const Var& dim : tir::dims_of(*lowered)) dims.push_back(int_value(values.at(dim.get())));
  int64_t bytes = artifact.kernels[0].workspace_bytes;
  if (const Expr& open = artifact.kernels[0].open_workspace)
    bytes = int_value(simplify(substitute(open, values)));
  Tensor workspace = full({bytes}, kUInt8, 0xa5);  // what nobody wrote
  int32_t code =
      kernel(buffers.data(), workspace.data(), parallel ? parallel : runtime::serial_parallel(), dims.data());
  CHECK(code == 0, "kernel {} returned {}", lowered->name, code);
}

}  // namespace lathe::codegen
