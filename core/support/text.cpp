#include "core/support/text.h"

namespace lathe {

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  if (text.empty()) return pieces;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1)
    pieces.emplace_back(text.substr(begin, end - begin));
  pieces.emplace_back(text.substr(begin));
  return pieces;
}

std::string join_text(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) text += separator;
    text += items[i];
  }
  return text;
}

}  // namespace lathe
