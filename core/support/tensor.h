// A dense host tensor: what constants, parameters, inputs and outputs are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/support/dtype.h"
#include "core/support/error.h"

namespace lathe {

/// A row-major tensor in host memory, 64-byte aligned, shared between copies of the handle. Treat the data of
/// a tensor that others may hold as constant.
class Tensor {
 public:
  Tensor() = default;
  /// Allocates, uninitialised. REQUIRES: shape[i] >= 0. A scalar has the empty shape.
  Tensor(std::vector<int64_t> shape, DataType dtype);
  /// Wraps memory kept alive by `owner` (a mapped file, say).
  Tensor(std::vector<int64_t> shape, DataType dtype, std::shared_ptr<void> owner, void* data);

  const std::vector<int64_t>& shape() const { return shape_; }
  DataType dtype() const { return dtype_; }
  int64_t size() const;  // elements
  int64_t bytes() const { return size() * dtype_.bytes(); }
  void* data() const { return data_; }
  bool defined() const { return data_ != nullptr; }
  template <typename T>
  T* as() const {
    CHECK(sizeof(T) == static_cast<size_t>(dtype_.bytes()), "{} read as {} bytes", to_string(dtype_),
          sizeof(T));
    return static_cast<T*>(data_);
  }
  template <typename T>
  std::span<T> span() const {
    return {as<T>(), static_cast<size_t>(size())};
  }
  /// The element at flat index i, of any type, as double or int64. Float16 and bfloat16 included.
  double value(int64_t i) const;
  int64_t integer(int64_t i) const;
  void set(int64_t i, double value);
  void set_integer(int64_t i, int64_t value);
  Tensor clone() const;
  /// The same data under another shape of the same size.
  Tensor reshaped(std::vector<int64_t> shape) const;

 private:
  std::vector<int64_t> shape_;
  DataType dtype_;
  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
};

int64_t shape_size(std::span<const int64_t> shape);
Tensor zeros(std::vector<int64_t> shape, DataType dtype);
Tensor full(std::vector<int64_t> shape, DataType dtype, double value);
/// Seeded values of N(0, scale) for floats, small integers for integers. The same on every machine.
Tensor random_tensor(std::vector<int64_t> shape, DataType dtype, uint64_t seed, double scale = 1.0);
template <typename T>
Tensor tensor_of(const std::vector<T>& values, std::vector<int64_t> shape, DataType dtype) {
  Tensor result(std::move(shape), dtype);
  CHECK(result.size() == static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), result.as<T>());
  return result;
}
std::string shape_text(std::span<const int64_t> shape);  // "(1, 3, 224, 224)"

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // round to nearest even
float bfloat_to_float(uint16_t bits);
uint16_t float_to_bfloat(float value);

/// max |a-b| / max |b|, 0 for equal; NaNs equal NaNs, infinities their like; infinity on another shape.
double max_relative_error(const Tensor& a, const Tensor& reference);

/// NumPy .npy files. Throw Error with the path on a malformed file.
Tensor load_npy(const std::string& path);
void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace lathe
