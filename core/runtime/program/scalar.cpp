#include "core/runtime/program/scalar.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/support/error.h"
#include "core/support/saturating_int.h"

namespace lathe::runtime {
namespace {

enum class On : uint8_t { kNumbers, kIntegers, kBooleans, kAll };

struct Row {
  std::string_view name;
  int args;
  On on;
  bool gives_bool;
};

/// In the order of ScalarOp.
constexpr Row kRows[] = {
    {"add", 2, On::kNumbers, false},
    {"subtract", 2, On::kNumbers, false},
    {"multiply", 2, On::kNumbers, false},
    {"divide", 2, On::kNumbers, false},
    {"mod", 2, On::kIntegers, false},
    {"floor_divide", 2, On::kIntegers, false},
    {"floor_mod", 2, On::kIntegers, false},
    {"minimum", 2, On::kNumbers, false},
    {"maximum", 2, On::kNumbers, false},
    {"negative", 1, On::kNumbers, false},
    {"equal", 2, On::kAll, true},
    {"not_equal", 2, On::kAll, true},
    {"less", 2, On::kNumbers, true},
    {"less_equal", 2, On::kNumbers, true},
    {"greater", 2, On::kNumbers, true},
    {"greater_equal", 2, On::kNumbers, true},
    {"logical_and", 2, On::kBooleans, true},
    {"logical_or", 2, On::kBooleans, true},
    {"logical_xor", 2, On::kBooleans, true},
    {"logical_not", 1, On::kBooleans, true},
    {"where", 3, On::kAll, false},
    {"cast", 1, On::kAll, false},
};
static_assert(std::size(kRows) == static_cast<size_t>(kLastScalarOp) + 1);

const Row& row(ScalarOp op) { return kRows[static_cast<size_t>(op)]; }

constexpr DataType kTypes[] = {kBool,   kInt8,   kInt16,   kInt32,   kInt64,   kUInt8,   kUInt16,
                               kUInt32, kUInt64, kFloat32, kFloat64, kFloat16, kBFloat16};

/// The integer that its type makes of it.
int64_t wrapped(DataType dtype, int64_t x) {
  if (dtype.is_bool()) return x != 0;
  if (dtype.bits == 64) return x;
  const int shift = 64 - dtype.bits;
  const auto up = static_cast<uint64_t>(x) << shift;
  return dtype.code == TypeCode::kInt ? static_cast<int64_t>(up) >> shift : static_cast<int64_t>(up >> shift);
}

double rounded(DataType dtype, double x) {
  if (dtype == kFloat32) return static_cast<double>(static_cast<float>(x));
  if (dtype == kFloat16) return half_to_float(float_to_half(static_cast<float>(x)));
  if (dtype == kBFloat16) return bfloat_to_float(float_to_bfloat(static_cast<float>(x)));
  return x;
}

/// By 0 and by -1 apart: those and INT64_MIN / -1 are traps of the processor.
int64_t divided(ScalarOp op, int64_t a, int64_t b, bool is_unsigned) {
  const bool quotient = op == ScalarOp::kDivide || op == ScalarOp::kFloorDivide;
  if (b == 0) return 0;
  if (is_unsigned) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(quotient ? x / y : x % y);
  }
  if (b == -1) return quotient ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : 0;
  const int64_t q = a / b, r = a % b;
  const bool adjust =
      (op == ScalarOp::kFloorDivide || op == ScalarOp::kFloorMod) && r != 0 && (r < 0) != (b < 0);
  return quotient ? q - adjust : r + (adjust ? b : 0);
}

int64_t integer_result(ScalarOp op, DataType dtype, int64_t a, int64_t b) {
  const bool is_unsigned = dtype == kUInt64;
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const bool less = is_unsigned ? x < y : a < b;
  switch (op) {
    case ScalarOp::kAdd:
      return wrapped(dtype, static_cast<int64_t>(x + y));
    case ScalarOp::kSubtract:
      return wrapped(dtype, static_cast<int64_t>(x - y));
    case ScalarOp::kMultiply:
      return wrapped(dtype, static_cast<int64_t>(x * y));
    case ScalarOp::kNegative:
      return wrapped(dtype, static_cast<int64_t>(0 - x));
    case ScalarOp::kDivide:
    case ScalarOp::kMod:
    case ScalarOp::kFloorDivide:
    case ScalarOp::kFloorMod:
      return wrapped(dtype, divided(op, a, b, is_unsigned));
    case ScalarOp::kMinimum:
      return less ? a : b;
    case ScalarOp::kMaximum:
      return less ? b : a;
    case ScalarOp::kEqual:
      return a == b;
    case ScalarOp::kNotEqual:
    case ScalarOp::kXor:
      return a != b;
    case ScalarOp::kLess:
      return less;
    case ScalarOp::kLessEqual:
      return less || a == b;
    case ScalarOp::kGreater:
      return !less && a != b;
    case ScalarOp::kGreaterEqual:
      return !less;
    case ScalarOp::kAnd:
      return a & b;
    case ScalarOp::kOr:
      return a | b;
    case ScalarOp::kNot:
      return a == 0;
    default:
      return 0;
  }
}

/// A sum, product or quotient of floats in double, rounded once more, is that of float32: 53 bits are more
/// than twice 24 and 2.
Number real_result(ScalarOp op, DataType dtype, double a, double b) {
  switch (op) {
    case ScalarOp::kAdd:
      return {.real = rounded(dtype, a + b)};
    case ScalarOp::kSubtract:
      return {.real = rounded(dtype, a - b)};
    case ScalarOp::kMultiply:
      return {.real = rounded(dtype, a * b)};
    case ScalarOp::kDivide:
      return {.real = rounded(dtype, a / b)};
    case ScalarOp::kNegative:
      return {.real = -a};
    case ScalarOp::kMinimum:
      return {.real = b < a || std::isnan(b) ? b : a};  // NaN where one is
    case ScalarOp::kMaximum:
      return {.real = b > a || std::isnan(b) ? b : a};
    case ScalarOp::kEqual:
      return {.integer = a == b};
    case ScalarOp::kNotEqual:
      return {.integer = a != b};
    case ScalarOp::kLess:
      return {.integer = a < b};
    case ScalarOp::kLessEqual:
      return {.integer = a <= b};
    case ScalarOp::kGreater:
      return {.integer = a > b};
    case ScalarOp::kGreaterEqual:
      return {.integer = a >= b};
    default:
      return {.integer = 0};
  }
}

template <typename T>
T loaded(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void stored(T value, void* to) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace

std::optional<ScalarOp> find_scalar_op(std::string_view name, DataType dtype) {
  const bool known = std::find(std::begin(kTypes), std::end(kTypes), dtype) != std::end(kTypes);
  if (!known || dtype == kFloat16 || dtype == kBFloat16) return std::nullopt;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].name != name) continue;
    const bool fits = kRows[i].on == On::kAll || (kRows[i].on == On::kBooleans && dtype.is_bool()) ||
                      (kRows[i].on == On::kIntegers && dtype.is_int()) ||
                      (kRows[i].on == On::kNumbers && !dtype.is_bool());
    return fits ? std::optional(static_cast<ScalarOp>(i)) : std::nullopt;
  }
  return std::nullopt;
}

std::string_view scalar_op_name(ScalarOp op) { return row(op).name; }
int scalar_op_args(ScalarOp op) { return row(op).args; }
DataType scalar_result_type(ScalarOp op, DataType dtype) { return row(op).gives_bool ? kBool : dtype; }

Number compute_scalar(ScalarOp op, DataType dtype, Number a, Number b) {
  return dtype.is_float() ? real_result(op, dtype, a.real, b.real)
                          : Number{.integer = integer_result(op, dtype, a.integer, b.integer)};
}

Number cast_number(DataType from, DataType to, Number a) {
  if (from.is_float()) {
    if (to.is_float()) return {.real = rounded(to, a.real)};
    return {.integer = to.is_bool() ? a.real != 0 : saturating_int(to, a.real)};
  }
  if (!to.is_float()) return {.integer = wrapped(to, a.integer)};
  // From the integer at once: by way of double, float32 would be rounded twice.
  if (to == kFloat64)
    return {.real = from == kUInt64 ? static_cast<double>(static_cast<uint64_t>(a.integer))
                                    : static_cast<double>(a.integer)};
  const float once =
      from == kUInt64 ? static_cast<float>(static_cast<uint64_t>(a.integer)) : static_cast<float>(a.integer);
  return {.real = rounded(to, static_cast<double>(once))};
}

Number load_number(DataType dtype, const void* from) {
  if (dtype == kFloat32) return {.real = static_cast<double>(loaded<float>(from))};
  if (dtype == kFloat64) return {.real = loaded<double>(from)};
  if (dtype == kFloat16) return {.real = half_to_float(loaded<uint16_t>(from))};
  if (dtype == kBFloat16) return {.real = bfloat_to_float(loaded<uint16_t>(from))};
  const bool is_signed = dtype.code == TypeCode::kInt;
  switch (dtype.bytes()) {
    case 1:
      return {.integer = is_signed ? int64_t{loaded<int8_t>(from)} : int64_t{loaded<uint8_t>(from)}};
    case 2:
      return {.integer = is_signed ? int64_t{loaded<int16_t>(from)} : int64_t{loaded<uint16_t>(from)}};
    case 4:
      return {.integer = is_signed ? int64_t{loaded<int32_t>(from)} : int64_t{loaded<uint32_t>(from)}};
    default:
      return {.integer = loaded<int64_t>(from)};
  }
}

void store_number(DataType dtype, Number number, void* to) {
  if (dtype == kFloat32) return stored(static_cast<float>(number.real), to);
  if (dtype == kFloat64) return stored(number.real, to);
  if (dtype == kFloat16) return stored(float_to_half(static_cast<float>(number.real)), to);
  if (dtype == kBFloat16) return stored(float_to_bfloat(static_cast<float>(number.real)), to);
  // Little-endian: the low bytes come first.
  std::memcpy(to, &number.integer, static_cast<size_t>(dtype.bytes()));
}

int64_t dtype_number(DataType dtype) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (kTypes[i] == dtype) return static_cast<int64_t>(i);
  CHECK(false, "a number of {}", to_string(dtype));
}

bool is_number_type(DataType dtype) {
  return std::find(std::begin(kTypes), std::end(kTypes), dtype) != std::end(kTypes);
}

std::optional<DataType> dtype_of_number(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(std::size(kTypes))) return std::nullopt;
  return kTypes[number];
}

}  // namespace lathe::runtime
