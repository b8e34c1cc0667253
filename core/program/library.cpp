#include "core/program/library.h"

namespace lathe::program {
namespace {

std::vector<lathe_tensor> c_tensors(const std::vector<Tensor>& tensors) {
  std::vector<lathe_tensor> result;
  for (const Tensor& tensor : tensors)
    result.push_back(runtime::c_tensor(tensor.shape(), tensor.dtype(), tensor.data()));
  return result;
}

}  // namespace

relay::Interpreter::Library interpreted(std::string name, runtime::LibraryFunction function) {
  return [name = std::move(name), function](const std::vector<Tensor>& inputs, std::vector<Tensor>& results) {
    runtime::call_library(name, function, c_tensors(inputs), c_tensors(results));
  };
}

}  // namespace lathe::program
