#include "core/support/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "core/support/tensor.h"

namespace lathe {
namespace {

TEST(DataTypeText, RoundTrip) {
  for (const char* text : {"float32", "bfloat16", "bool", "uint8", "int64", "handle", "float32x16"})
    EXPECT_EQ(to_string(parse_dtype(text).value()), text);
  for (const char* text : {"", "float", "float33", "int32x1", "float32 ", "boolx"})
    EXPECT_FALSE(parse_dtype(text)) << text;
}

TEST(TensorElements, RealNumbersThatAnIntegerDoesNotHoldBecomeTheNearest) {
  const auto stored = [](DataType dtype, double value) {
    Tensor tensor({1}, dtype);
    tensor.set(0, value);
    return tensor.integer(0);
  };
  EXPECT_EQ(stored(kInt8, 1e300), 127);
  EXPECT_EQ(stored(kInt8, -129), -128);
  EXPECT_EQ(stored(kUInt8, -1), 0);
  EXPECT_EQ(stored(kInt64, 1e300), INT64_MAX);
  EXPECT_EQ(stored(kInt64, NAN), 0);
  EXPECT_EQ(stored(kInt32, -2.9), -2);
}

TEST(Half, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), bits) << value;
  }
  EXPECT_EQ(float_to_half(65520.f), 0x7c00);
  EXPECT_EQ(float_to_half(65519.f), 0x7bff);
}

}  // namespace
}  // namespace lathe
