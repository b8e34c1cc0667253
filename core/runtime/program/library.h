// Functions that a program calls and its host gives: destination-passing style, as lathe.h says.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/runtime/lathe.h"
#include "core/support/tensor.h"

namespace lathe::runtime {

/// A host's function, and what it is handed. Nothing where the host has given none.
struct LibraryFunction {
  lathe_function function = nullptr;
  void* user_data = nullptr;
};

/// How lathe.h says an element type. REQUIRES: a tensor may be of it.
lathe_type c_type(DataType dtype);
/// REQUIRES: `shape` stays as long as the result is used.
lathe_tensor c_tensor(const std::vector<int64_t>& shape, DataType dtype, void* data);

/// Calls it. Throws Error, naming it, when there is none, and with its message when it says that it failed.
void call_library(const std::string& name, const LibraryFunction& function,
                  std::span<const lathe_tensor> inputs, std::span<const lathe_tensor> outputs);

}  // namespace lathe::runtime
