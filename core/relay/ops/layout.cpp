#include "core/relay/ops/layout.h"

#include "core/support/error.h"

namespace lathe::relay {

Layout Layout::parse(std::string_view text) {
  Layout result;
  int64_t factor = 0;
  for (char c : text) {
    if (c >= '0' && c <= '9') {
      factor = factor * 10 + (c - '0');
      if (factor > 65536) fail("layout `{}`: a block of {} is too large", text, factor);
      continue;
    }
    bool outer = c >= 'A' && c <= 'Z', inner = c >= 'a' && c <= 'z';
    char letter = inner ? static_cast<char>(c - 'a' + 'A') : c;
    if (!outer && !inner)
      fail("layout `{}`: `{}` is no axis; axes are letters, blocks a number and a small letter", text, c);
    if (outer && factor) fail("layout `{}`: `{}` has a number, only small letters are blocks", text, c);
    if (inner && !factor) fail("layout `{}`: block `{}` needs a size before it, as in 16{}", text, c, c);
    if (outer && result.position(letter) >= 0) fail("layout `{}`: `{}` occurs twice", text, c);
    result.axes_.push_back({letter, factor});
    factor = 0;
  }
  if (factor || text.empty()) fail("layout `{}`: {}", text, factor ? "ends in a number" : "is empty");
  for (const Axis& axis : result.axes_)
    if (result.position(axis.letter) < 0)
      fail("layout `{}`: block of `{}`, but no axis `{}`", text, axis.letter, axis.letter);
  return result;
}

std::string Layout::text() const {
  std::string result;
  for (const Axis& axis : axes_)
    result += axis.block ? fmt::format("{}{}", axis.block, static_cast<char>(axis.letter - 'A' + 'a'))
                         : std::string(1, axis.letter);
  return result;
}

int Layout::position(char letter) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i] == Axis{letter, 0}) return static_cast<int>(i);
  return -1;
}

int64_t Layout::block(char letter) const {
  int64_t product = 1;
  for (const Axis& axis : axes_)
    if (axis.letter == letter && axis.block) product *= axis.block;
  return product;
}

/// How far one step along axis i moves in the whole axis of its letter: an outer axis by all blocks of it, a
/// block by those inside it. An axis may be cut several times (OIHW4i16o4i).
int64_t Layout::step(size_t i) const {
  if (!axes_[i].block) return block(axes_[i].letter);
  int64_t inner = 1;
  for (size_t j = i + 1; j < axes_.size(); ++j)
    if (axes_[j].letter == axes_[i].letter && axes_[j].block) inner *= axes_[j].block;
  return inner;
}

std::string Layout::letters() const {
  std::string result;
  for (const Axis& axis : axes_)
    if (!axis.block) result += axis.letter;
  return result;
}

lathe::Expr Layout::extent(char letter, const std::vector<lathe::Expr>& shape) const {
  // The outer axis times all blocks of the letter.
  lathe::Expr result = shape[position(letter)];
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].letter == letter && axes_[i].block) result = result * shape[i];
  return result;
}

lathe::Expr Layout::whole_index(char letter, const std::vector<lathe::Expr>& indices) const {
  lathe::Expr result = indices[position(letter)] * block(letter);
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].letter == letter && axes_[i].block) result = result + indices[i] * step(i);
  return result;
}

std::vector<lathe::Expr> Layout::shape(const std::map<char, lathe::Expr>& extents) const {
  std::vector<lathe::Expr> result;
  for (const Axis& axis : axes_) {
    const lathe::Expr& extent = extents.at(axis.letter);
    int64_t factor = block(axis.letter);
    if (const int64_t* value = as_int(extent); value && *value % factor != 0)
      fail("layout {}: {} has {} elements, not a multiple of {}", text(), axis.letter, *value, factor);
    result.push_back(axis.block    ? lathe::Expr(axis.block)
                     : factor == 1 ? extent
                                   : floordiv(extent, lathe::Expr(factor)));
  }
  return result;
}

std::vector<lathe::Expr> Layout::indices(const std::map<char, lathe::Expr>& whole) const {
  std::vector<lathe::Expr> result;
  for (size_t i = 0; i < axes_.size(); ++i) {
    // The inverse of whole_index(), digit by digit.
    lathe::Expr index = floordiv(whole.at(axes_[i].letter), lathe::Expr(step(i)));
    result.push_back(axes_[i].block ? floormod(index, lathe::Expr(axes_[i].block)) : index);
  }
  return result;
}

}  // namespace lathe::relay
