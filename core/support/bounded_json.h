// JSON from strangers: parsed with a bound on its depth, which what walks the value relies on (nlohmann::json
// writes and compares recursively).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lathe {

/// The value that `text` holds; a discarded one when it is no JSON. Throws Error, with `what` in the message,
/// when arrays and objects stand in each other more than `depth` deep, or when it has more than `most`
/// values, of which one takes some 40 bytes of memory, and as little as two or three of text.
inline constexpr size_t kMostJsonValues = size_t{2} << 20;
nlohmann::json parse_bounded_json(std::string_view text, int depth, std::string_view what,
                                  size_t most = kMostJsonValues);

/// The string under `key`; "" where `json` is no object, has none, or something else there.
std::string string_member(const nlohmann::json& json, const char* key);

/// On one line. Bytes that are no UTF-8, in names and messages of strangers or of the file system, become
/// U+FFFD; the default of dump() throws at them, which would make one odd name hide all else.
std::string json_line(const nlohmann::json& json);

}  // namespace lathe
