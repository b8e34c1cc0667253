// Layouts as text: a letter an axis, outermost first. A capital is an axis ("NCHW"); a number and the small
// letter are its inner block ("NCHW16c": C is cut into blocks of 16, which lie innermost). An axis may be cut
// several times, outer blocks first ("OIHW4i16o4i": groups of 4 input channels innermost, 4 groups a block).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/arith/expr.h"
#include "core/support/tensor.h"

namespace lathe::relay {

class Layout {
 public:
  struct Axis {
    char letter = 0;    // always the capital
    int64_t block = 0;  // 0: the axis itself (or its outer part); else this is its block of that size
    bool operator==(const Axis&) const = default;
  };
  /// Throws Error "layout `NC?`: ..." on text that is no layout.
  static Layout parse(std::string_view text);

  const std::vector<Axis>& axes() const { return axes_; }
  size_t rank() const { return axes_.size(); }
  std::string text() const;
  /// The elements of `letter` that its outer part counts as one, all its blocks together: 1 when it is whole.
  int64_t block(char letter) const;
  /// How far a step of axis `i` moves along its whole axis.
  int64_t step(size_t i) const;
  /// Position of the axis (or its outer part); -1 when the layout has none.
  int position(char letter) const;
  /// The capitals in order.
  std::string letters() const;
  bool operator==(const Layout&) const = default;

  /// The extent of the whole axis, given a shape in this layout.
  lathe::Expr extent(char letter, const std::vector<lathe::Expr>& shape) const;
  /// The index of the whole axis, given indices in this layout.
  lathe::Expr whole_index(char letter, const std::vector<lathe::Expr>& indices) const;
  /// A shape in this layout, given whole extents. Throws Error when a block does not divide its axis.
  std::vector<lathe::Expr> shape(const std::map<char, lathe::Expr>& extents) const;
  /// Indices in this layout, given indices of whole axes.
  std::vector<lathe::Expr> indices(const std::map<char, lathe::Expr>& whole) const;

 private:
  std::vector<Axis> axes_;
};

/// The tensor's elements in another layout of the same axes (what the operator layout_transform means), by a
/// direct copy. REQUIRES: blocks divide the axes.
Tensor transform_layout(const Tensor& tensor, const Layout& from, const Layout& to);

}  // namespace lathe::relay
