// Element types of tensors and scalars.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

enum class TypeCode : uint8_t { kInt, kUInt, kFloat, kBFloat, kBool, kHandle };

/// A scalar type, or a short vector of one (`lanes` > 1 occurs only in lowered tensor programs).
/// Text form, as in Relay: int32, uint8, float16, bfloat16, bool, handle, float32x16.
struct DataType {
  TypeCode code = TypeCode::kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;

  auto operator<=>(const DataType&) const = default;
  bool is_float() const { return code == TypeCode::kFloat || code == TypeCode::kBFloat; }
  bool is_int() const { return code == TypeCode::kInt || code == TypeCode::kUInt; }
  bool is_bool() const { return code == TypeCode::kBool; }
  /// Bytes of one element in memory (bool is one byte), all lanes counted.
  int64_t bytes() const { return (bits + 7) / 8 * lanes; }
  DataType with_lanes(int n) const { return {code, bits, static_cast<uint16_t>(n)}; }
  DataType element() const { return with_lanes(1); }
};

inline constexpr DataType kFloat32{TypeCode::kFloat, 32}, kFloat64{TypeCode::kFloat, 64},
    kFloat16{TypeCode::kFloat, 16}, kBFloat16{TypeCode::kBFloat, 16}, kInt8{TypeCode::kInt, 8},
    kInt16{TypeCode::kInt, 16}, kInt32{TypeCode::kInt, 32}, kInt64{TypeCode::kInt, 64},
    kUInt8{TypeCode::kUInt, 8}, kUInt16{TypeCode::kUInt, 16}, kUInt32{TypeCode::kUInt, 32},
    kUInt64{TypeCode::kUInt, 64}, kBool{TypeCode::kBool, 8}, kHandle{TypeCode::kHandle, 64};

std::string to_string(DataType type);
/// The type `text` names, or nothing.
std::optional<DataType> parse_dtype(std::string_view text);

}  // namespace lathe
