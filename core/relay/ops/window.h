// Geometry that convolution, transposed convolution and pooling share: sliding windows along the spatial
// axes.
#pragma once

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// "W", "HW" or "DHW".
inline std::string spatial_letters(int rank) {
  return std::string("DHW").substr(3 - static_cast<size_t>(rank));
}
/// Data NC and weight OI, then the spatial letters: said or by default.
bool is_plain(const ConvAttrs& a, int rank = 2);
/// The layout `text`, or the default one: `leading` then the spatial letters.
Layout layout_or(const std::string& text, const std::string& leading, int rank);

/// Strides, dilation and padding with defaults filled in: one number a spatial axis.
struct Window {
  Ints strides, dilation, before, after;
};
Window window_of(RelationContext& c, const Ints& strides, const Ints& dilation, const Ints& padding,
                 int rank);
/// The same once the relation has accepted them.
Window window_of(const Ints& strides, const Ints& dilation, const Ints& padding, int rank);

/// The extent of a kernel along the spatial axis `letter` of `weight` is at least 1, where it is known.
void require_kernel(RelationContext& c, const Expr& extent, char letter, const Shape& weight);

/// How many windows of `kernel` elements fit along spatial axis `s`; `?` when the extent is unknown. None fit
/// where it is less than a stride too short; a shorter extent is none of any result (less than 0), whether it
/// is known when the model is compiled or when it runs.
Expr windows_along(const Window& w, size_t s, const Expr& extent, const Expr& kernel);

/// `x` in `layout` with padding of `fill` around the spatial axes.
Buffer padded_spatial(FuncBuilder& f, const Buffer& x, const Layout& layout, const Ints& before,
                      const Ints& after, const Expr& fill);

}  // namespace lathe::relay::ops
