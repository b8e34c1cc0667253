#include "core/support/tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/support/saturating_int.h"

namespace lathe {

float half_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023,
           bits;
  if (exponent == 0) {
    // Zero and subnormal numbers: multiples of 2^-24.
    float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -value : value;
  }
  // The exponents' biases are 15 and 127.
  bits = exponent == 31 ? sign | 0x7f800000 | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  // NaN: a quiet one.
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000) {                                              // subnormal half
    // Multiples of 2^-24; nearbyint rounds to even, as the other branch does.
    float scaled = std::ldexp(std::fabs(value), 24);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled)));
  }
  // To nearest even: of the 13 bits that go, half a unit rounds up when the last bit that stays is odd. A
  // carry out of the mantissa is the next exponent, as it should be.
  uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

float bfloat_to_float(uint16_t b) {
  uint32_t bits = static_cast<uint32_t>(b) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint16_t float_to_bfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  // A NaN keeps a bit: rounding could carry it over.
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

namespace {
/// Calls f with a pointer of the C++ type that holds elements of `dtype` (16-bit floats excepted).
template <typename F>
auto with_type(DataType dtype, void* data, F&& f) {
  switch (dtype.code) {
    case TypeCode::kBool:
      return f(static_cast<uint8_t*>(data));
    case TypeCode::kInt:
      if (dtype.bits <= 8) return f(static_cast<int8_t*>(data));
      if (dtype.bits == 16) return f(static_cast<int16_t*>(data));
      if (dtype.bits == 32) return f(static_cast<int32_t*>(data));
      return f(static_cast<int64_t*>(data));
    case TypeCode::kUInt:
      if (dtype.bits <= 8) return f(static_cast<uint8_t*>(data));
      if (dtype.bits == 16) return f(static_cast<uint16_t*>(data));
      if (dtype.bits == 32) return f(static_cast<uint32_t*>(data));
      return f(static_cast<uint64_t*>(data));
    case TypeCode::kFloat:
      if (dtype.bits == 64) return f(static_cast<double*>(data));
      return f(static_cast<float*>(data));
    default:
      return f(static_cast<uint64_t*>(data));
  }
}
bool is_half(DataType t) { return t.is_float() && t.bits == 16; }
float half_value(DataType t, uint16_t bits) {
  return t.code == TypeCode::kBFloat ? bfloat_to_float(bits) : half_to_float(bits);
}
}  // namespace

int64_t shape_size(std::span<const int64_t> shape) {
  // So many that their bytes fit 64 bits, whatever their type.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 64;
  int64_t size = 1;
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(size, dim, &size) || size > kMost)
      fail("a tensor of shape {} has too many elements", shape_text(shape));
  return size;
}

Tensor::Tensor(std::vector<int64_t> shape, DataType dtype) : shape_(std::move(shape)), dtype_(dtype) {
  // aligned_alloc wants a multiple of the alignment; at least one line beyond the last element.
  size_t wanted = (static_cast<size_t>(bytes()) + 127) / 64 * 64;  // a vector load past the end stays inside
  data_ = std::aligned_alloc(64, wanted);
  if (!data_)
    fail("cannot allocate {} bytes for a tensor {} {}", wanted, to_string(dtype_), shape_text(shape_));
  // Memory that was never written to is none yet: masked lanes there cost what a fault does
  // (runtime/pages.cpp).
  static_cast<volatile char*>(data_)[bytes()] = 0;
  owner_ = std::shared_ptr<void>(data_, std::free);
}

Tensor::Tensor(std::vector<int64_t> shape, DataType dtype, std::shared_ptr<void> owner, void* data)
    : shape_(std::move(shape)), dtype_(dtype), owner_(std::move(owner)), data_(data) {}

int64_t Tensor::size() const { return shape_size(shape_); }

double Tensor::value(int64_t i) const {
  if (is_half(dtype_)) return half_value(dtype_, static_cast<uint16_t*>(data_)[i]);
  return with_type(dtype_, data_, [i](auto* p) { return static_cast<double>(p[i]); });
}

int64_t Tensor::integer(int64_t i) const {
  if (is_half(dtype_)) return static_cast<int64_t>(value(i));
  // Not by way of a double, which has no room for 64 bits.
  return with_type(dtype_, data_, [i](auto* p) { return static_cast<int64_t>(p[i]); });
}

void Tensor::set(int64_t i, double value) {
  if (is_half(dtype_)) {
    auto narrow = static_cast<float>(value);
    static_cast<uint16_t*>(data_)[i] =
        dtype_.code == TypeCode::kBFloat ? float_to_bfloat(narrow) : float_to_half(narrow);
    return;
  }
  with_type(dtype_, data_, [&](auto* p) {
    using T = std::remove_reference_t<decltype(*p)>;
    if (dtype_.is_bool())
      p[i] = static_cast<T>(value != 0);
    else if constexpr (std::is_integral_v<T>)
      p[i] = static_cast<T>(saturating_int(dtype_, value));
    else
      p[i] = static_cast<T>(value);
  });
}

void Tensor::set_integer(int64_t i, int64_t value) {
  if (is_half(dtype_)) return set(i, static_cast<double>(value));
  with_type(dtype_, data_, [&](auto* p) {
    using T = std::remove_reference_t<decltype(*p)>;
    p[i] = dtype_.is_bool() ? static_cast<T>(value != 0) : static_cast<T>(value);
  });
}

Tensor Tensor::clone() const {
  Tensor copy(shape_, dtype_);
  std::memcpy(copy.data(), data_, static_cast<size_t>(bytes()));
  return copy;
}

Tensor Tensor::reshaped(std::vector<int64_t> shape) const {
  CHECK(shape_size(shape) == size(), "{} as {}", shape_text(shape_), shape_text(shape));
  Tensor view = *this;
  view.shape_ = std::move(shape);
  return view;
}

Tensor zeros(std::vector<int64_t> shape, DataType dtype) {
  Tensor result(std::move(shape), dtype);
  std::memset(result.data(), 0, static_cast<size_t>(result.bytes()));
  return result;
}

Tensor full(std::vector<int64_t> shape, DataType dtype, double value) {
  Tensor result(std::move(shape), dtype);
  for (int64_t i = 0; i < result.size(); ++i) result.set(i, value);
  return result;
}

namespace {
/// SplitMix64 (Steele, Lea, Flood 2014): the same sequence on every machine, unlike std distributions.
struct SplitMix {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// In [0, 1), in steps of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};
}  // namespace

// Inputs of all tests and measurements: the same on every machine and in every release, since
// references are kept.
Tensor random_tensor(std::vector<int64_t> shape, DataType dtype, uint64_t seed, double scale) {
  Tensor result(std::move(shape), dtype);
  SplitMix random{seed};
  for (int64_t i = 0; i < result.size(); ++i) {
    if (dtype.is_float()) {
      // Irwin-Hall of 4, scaled to unit variance: near normal, no transcendental whose last bit may differ.
      double sum = random.uniform() + random.uniform() + random.uniform() + random.uniform() - 2.0;
      result.set(i, sum * 1.7320508075688772 * scale);
    } else {
      result.set_integer(i, dtype.is_bool() ? static_cast<int64_t>(random.next() & 1)
                                            // Small: sums and products of many must not overflow, and indices
                                            // stay within small tables.
                                            : static_cast<int64_t>(random.next() % 10));
    }
  }
  return result;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + ")";
}

/// Of the largest difference over the largest value: elements near 0 may be wrong by what the large ones
/// round by.
double max_relative_error(const Tensor& a, const Tensor& reference) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (a.shape() != reference.shape()) return infinity;
  double difference = 0, largest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    double x = a.value(i), y = reference.value(i);
    // Equal infinities and NaN where NaN belongs are no error.
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(y)) largest = std::max(largest, std::fabs(y));
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) return infinity;
    difference = std::max(difference, std::fabs(x - y));
    largest = std::max(largest, std::fabs(y));
  }
  // Also where all of the reference is 0, or NaN: then only equality is no error.
  if (difference == 0) return 0;
  return largest == 0 ? difference : difference / largest;
}

}  // namespace lathe
