// Small text helpers that the standard library lacks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Pieces of `text` between `separator`s; "" gives no pieces.
std::vector<std::string> split_text(std::string_view text, char separator);

/// The items joined with `separator`.
std::string join_text(const std::vector<std::string>& items, std::string_view separator);

}  // namespace lathe
