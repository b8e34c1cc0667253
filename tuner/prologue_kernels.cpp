#include "tuner/prologue_kernels.h"

#include "core/codegen/host_target.h"
#include "core/runtime/cores.h"
#include "core/support/error.h"
#include "core/tir/lower.h"

namespace lathe::tuner {

PrologueKernels::PrologueKernels(const std::vector<tir::Func>& prologues) {
  if (prologues.empty()) return;
  // For this machine even where the model is built for another: its results are data.
  const Target host = codegen::host_target();
  std::vector<tir::Func> lowered;
  for (const tir::Func& prologue : prologues) lowered.push_back(tir::lower(prologue, host));
  codegen::Artifact artifact = codegen::compile(lowered, host);
  library_.emplace(artifact.bytes);
  pool_.emplace(runtime::available_cores());
  for (size_t i = 0; i < prologues.size(); ++i) {
    auto kernel = reinterpret_cast<LatheKernel>(library_->find(artifact.kernels[i].name.c_str()));
    CHECK(kernel, "no symbol {}", artifact.kernels[i].name);
    prologues_.push_back({prologues[i], kernel, artifact.kernels[i].workspace_bytes});
  }
}

std::vector<Tensor> PrologueKernels::run(size_t index, std::span<const Tensor> inputs) const {
  const Prologue& prologue = prologues_.at(index);
  const std::vector<tir::Buffer>& params = prologue.func->params;
  CHECK(inputs.size() + static_cast<size_t>(prologue.func->outputs) == params.size(), "{} inputs",
        inputs.size());
  std::vector<Tensor> tensors(inputs.begin(), inputs.end()), outputs;
  for (size_t i = 0; i < params.size(); ++i) {
    std::vector<int64_t> shape = tir::constant_shape(params[i]);
    if (i >= inputs.size()) {
      // Zeros, for a prologue may leave elements unwritten: padding of transformed weights.
      tensors.push_back(zeros(shape, params[i]->dtype));
      outputs.push_back(tensors.back());
      continue;
    }
    CHECK(tensors[i].shape() == shape && tensors[i].dtype() == params[i]->dtype, "input {} of {}", i,
          prologue.func->name);
    // Kernels assume aligned arguments; a model's constants need not be.
    if (reinterpret_cast<uintptr_t>(tensors[i].data()) % runtime::kAlignment) tensors[i] = tensors[i].clone();
  }
  std::vector<void*> buffers;
  for (const Tensor& tensor : tensors) buffers.push_back(tensor.data());
  Tensor workspace({prologue.workspace_bytes}, kUInt8);
  if (int32_t code = prologue.kernel(buffers.data(), workspace.data(), pool_->parallel(), nullptr))
    fail("{}: check {} failed", prologue.func->name, code);
  return outputs;
}

}  // namespace lathe::tuner
