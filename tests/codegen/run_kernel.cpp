#include "tests/codegen/run_kernel.h"

#include "core/codegen/compile.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"

namespace lathe::codegen {

void run_kernel(const tir::Func& lowered, const Target& target, std::span<const Tensor> params,
                const LatheParallel* parallel) {
  Artifact artifact = compile(std::span(&lowered, 1), target);
  runtime::SharedObject object(artifact.bytes);
  auto kernel = reinterpret_cast<LatheKernel>(object.find(lowered->name.c_str()));
  CHECK(kernel, "the artifact has no symbol {}", lowered->name);
  std::vector<void*> buffers;
  for (const Tensor& param : params) buffers.push_back(param.data());
  Tensor workspace = full({artifact.kernels[0].workspace_bytes}, kUInt8, 0xa5);  // what nobody wrote
  int32_t code = kernel(buffers.data(), workspace.data(), parallel ? parallel : runtime::serial_parallel());
  CHECK(code == 0, "kernel {} returned {}", lowered->name, code);
}

}  // namespace lathe::codegen
