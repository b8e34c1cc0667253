#include "core/support/dtype.h"

#include <fmt/core.h>

#include <charconv>

namespace lathe {
namespace {
struct Spelling {
  std::string_view text;
  TypeCode code;
};
constexpr Spelling kSpellings[] = {{"int", TypeCode::kInt},     {"uint", TypeCode::kUInt},
                                   {"float", TypeCode::kFloat}, {"bfloat", TypeCode::kBFloat},
                                   {"bool", TypeCode::kBool},   {"handle", TypeCode::kHandle}};

bool bits_allowed(TypeCode code, int bits) {
  switch (code) {
    case TypeCode::kInt:
    case TypeCode::kUInt:
      return bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case TypeCode::kFloat:
      return bits == 16 || bits == 32 || bits == 64;
    case TypeCode::kBFloat:
      return bits == 16;
    default:
      return false;
  }
}
}  // namespace

std::string to_string(DataType type) {
  std::string text;
  for (const Spelling& s : kSpellings)
    if (s.code == type.code) text = s.text;
  if (type.code != TypeCode::kBool && type.code != TypeCode::kHandle) text += std::to_string(type.bits);
  if (type.lanes > 1) text += fmt::format("x{}", type.lanes);
  return text;
}

std::optional<DataType> parse_dtype(std::string_view text) {
  for (const Spelling& s : kSpellings) {
    // "uint8" begins with no other spelling, but "int" and "bool" are words of programs too:
    // what follows decides.
    if (!text.starts_with(s.text)) continue;
    std::string_view rest = text.substr(s.text.size());
    // A bool is a byte in memory; a handle is a pointer.
    DataType type{s.code, static_cast<uint8_t>(s.code == TypeCode::kHandle ? 64 : 8), 1};
    if (s.code != TypeCode::kBool && s.code != TypeCode::kHandle) {
      int bits = 0;
      auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bits);
      if (error != std::errc() || !bits_allowed(s.code, bits)) continue;
      type.bits = static_cast<uint8_t>(bits);
      rest.remove_prefix(end - rest.data());
    }
    if (rest.starts_with("x")) {
      int lanes = 0;
      auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), lanes);
      // What DataType::lanes holds.
      if (error != std::errc() || lanes < 2 || lanes > 65535) continue;
      type.lanes = static_cast<uint16_t>(lanes);
      rest.remove_prefix(end - rest.data());
    }
    if (rest.empty()) return type;
  }
  return std::nullopt;
}

}  // namespace lathe
