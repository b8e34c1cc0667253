#include "core/relay/ops/window.h"

#include "core/arith/simplify.h"

namespace lathe::relay::ops {

bool is_plain(const ConvAttrs& a, int rank) {
  const std::string letters = spatial_letters(rank);
  const auto is = [&](const std::string& layout, const char* channels) {
    return layout.empty() || layout == channels + letters;
  };
  return is(a.data_layout, "NC") && is(a.kernel_layout, "OI") && is(a.out_layout, "NC");
}

Layout layout_or(const std::string& text, const std::string& leading, int rank) {
  return Layout::parse(text.empty() ? leading + spatial_letters(rank) : text);
}

namespace {
Ints filled(const Ints& values, size_t count, int64_t fallback) {
  return values.empty() ? Ints(count, fallback) : values.size() == 1 ? Ints(count, values[0]) : values;
}
}  // namespace

Window window_of(const Ints& strides, const Ints& dilation, const Ints& padding, int rank) {
  size_t n = static_cast<size_t>(rank);
  Window w{filled(strides, n, 1), filled(dilation, n, 1), {}, {}};
  bool both_ends = padding.size() == 2 * n;
  w.before = both_ends ? Ints(padding.begin(), padding.begin() + rank) : filled(padding, n, 0);
  w.after = both_ends ? Ints(padding.begin() + rank, padding.end()) : w.before;
  return w;
}

Window window_of(RelationContext& c, const Ints& strides, const Ints& dilation, const Ints& padding,
                 int rank) {
  size_t n = static_cast<size_t>(rank);
  per_axis(c, "strides", strides, n, 1);
  per_axis(c, "dilation", dilation, n, 1);
  pad_pairs(c, padding, n);
  return window_of(strides, dilation, padding, rank);
}

void require_kernel(RelationContext& c, const Expr& extent, char letter, const Shape& weight) {
  if (as_int(extent) && int_value(extent) < 1)
    mismatch(c, "weight of shape {} has a kernel of {} along {}, must be at least 1", describe(weight),
             int_value(extent), letter);
}

Expr windows_along(const Window& w, size_t s, const Expr& extent, const Expr& kernel) {
  if (extent.as<Any>() || kernel.as<Any>()) return any_dim();
  // Simple, for the extents of deep layers are made of those before.
  return simplify(
      floordiv(extent + w.before[s] + w.after[s] - (kernel - 1) * w.dilation[s] - 1, Expr(w.strides[s])) + 1);
}

Buffer padded_spatial(FuncBuilder& f, const Buffer& x, const Layout& layout, const Ints& before,
                      const Ints& after, const Expr& fill) {
  Ints low(layout.rank(), 0), high(layout.rank(), 0);
  std::string letters = spatial_letters(static_cast<int>(before.size()));
  for (size_t s = 0; s < letters.size(); ++s) {
    low[layout.position(letters[s])] = before[s];
    high[layout.position(letters[s])] = after[s];
  }
  return padded(f, x, low, high, fill);
}

}  // namespace lathe::relay::ops
