#include "core/runtime/program/library.h"

#include "core/support/error.h"

namespace lathe::runtime {

lathe_type c_type(DataType dtype) {
  switch (dtype.code) {
    case TypeCode::kInt:
      return LATHE_INT;
    case TypeCode::kUInt:
      return LATHE_UINT;
    case TypeCode::kFloat:
      return LATHE_FLOAT;
    case TypeCode::kBFloat:
      return LATHE_BFLOAT;
    case TypeCode::kBool:
      return LATHE_BOOL;
    case TypeCode::kHandle:
      break;
  }
  fail("a tensor of {}", to_string(dtype));
}

lathe_tensor c_tensor(const std::vector<int64_t>& shape, DataType dtype, void* data) {
  return {
      .data = data, .type = c_type(dtype), .bits = dtype.bits, .rank = shape.size(), .shape = shape.data()};
}

void call_library(const std::string& name, const LibraryFunction& function,
                  std::span<const lathe_tensor> inputs, std::span<const lathe_tensor> outputs) {
  if (!function.function) fail("library function `{}` is not given", name);
  lathe_error error;
  error.status = LATHE_OK;
  error.message[0] = '\0';
  const lathe_status status = function.function(inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                                                function.user_data, &error);
  if (status == LATHE_OK) return;
  error.message[sizeof error.message - 1] = '\0';
  if (error.message[0] == '\0') fail("library function `{}` failed with status {}", name, int{status});
  fail("library function `{}`: {}", name, error.message);
}

}  // namespace lathe::runtime
