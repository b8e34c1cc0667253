// Images put together from blocks.
#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// One axis of Col2Im.
struct FoldedAxis {
  Expr image;
  int64_t kernel, stride, dilation, before, after;  // before and after: padding
  Expr padded() const { return relay::simplify_size(image + (before + after)); }
  Expr blocks() const {
    return relay::simplify_size(floordiv(padded() - (dilation * (kernel - 1) + 1), Expr(stride)) + 1);
  }
};

/// Of (m, kernel, others, blocks, behind) the sums in (m, image, others, behind). What lies less than a
/// stride apart in a block goes side by side in the image; the rest of the block meets what is before it in
/// the next.
Value folded(Value data, const FoldedAxis& axis) {
  const std::vector<Expr> shape = dims_of(data);
  const Expr &m = shape[0], &others = shape[2], &blocks = shape[3], &behind = shape[4];
  const Value zero = scalar(type_of(data).dtype, 0);
  if (axis.dilation > 1) {
    data = reshape_to(data, {m, axis.kernel, 1, others, simplify(blocks * behind)});
    data = padded_along(data, 2, 0, axis.dilation - 1, zero);
  }
  const int64_t reach = axis.kernel * axis.dilation, steps = (reach + axis.stride - 1) / axis.stride;
  data = padded_along(reshape_to(data, {m, reach, others, blocks, behind}), 1, 0, steps * axis.stride - reach,
                      zero);
  data = reshape_to(data, {m, steps, simplify(others * axis.stride), blocks, behind});
  const Expr extent = relay::simplify_size(
      max(floordiv(axis.padded() + (axis.stride - 1), Expr(axis.stride)), blocks + (steps - 1)));
  Value sum;
  for (int64_t step = 0; step < steps; ++step) {
    const Value part = reshape_to(sliced(data, 1, step, step + 1), {m, axis.stride, others, blocks, behind});
    const Value placed = padded_along(part, 3, step, relay::simplify_size(extent - step - blocks), zero);
    sum = sum ? plus(sum, placed) : placed;
  }
  sum = reshape_to(transposed(sum, {0, 3, 1, 2, 4}), {m, simplify(extent * axis.stride), others, behind});
  // What fell on the padding is dropped.
  return sliced_by(sum, 1, {axis.before, axis.image});
}

/// Adds up overlapping blocks (n, channels * block, blocks) in an image.
Values col2im(const Node& node) {
  const std::vector<Expr> image = sizes_of(node, 1);
  const Ints kernel = node.ints_in(2);
  const size_t axes = image.size();
  const Ints strides = node.ints("strides", Ints(axes, 1)), dilations = node.ints("dilations", Ints(axes, 1)),
             pads = node.ints("pads", Ints(2 * axes, 0));
  if (kernel.size() != axes || strides.size() != axes || dilations.size() != axes || pads.size() != 2 * axes)
    node.reject("image, block, strides, dilations or pads differ in length");
  if (node.rank(0) != 3) node.reject("columns of rank {}, must be 3", node.rank(0));
  std::vector<FoldedAxis> folds;
  std::vector<Expr> blocks;
  for (size_t d = 0; d < axes; ++d) {
    if (kernel[d] < 1 || strides[d] < 1 || dilations[d] < 1)
      node.reject("block, strides and dilations must be positive");
    folds.push_back({image[d], kernel[d], strides[d], dilations[d], pads[d], pads[axes + d]});
    const Expr padded = folds[d].padded();
    if (folds[d].before < 0 || folds[d].after < 0 ||
        (as_int(padded) && int_value(padded) <= dilations[d] * (kernel[d] - 1)))
      node.reject("a block of {}, {} apart, in an image of {} padded by {} and {}", kernel[d], dilations[d],
                  relay::print(image[d]), pads[d], pads[axes + d]);
    blocks.push_back(folds[d].blocks());
  }
  const std::vector<Expr> columns = node.dims(0);
  int64_t offsets = shape_size(node.constant_shape(kernel));
  const Expr channels = relay::simplify_size(floordiv(columns[1], Expr(offsets)));
  // Whether the columns are as many the run finds out where they are open.
  Value data = with_dims(node.in(0), {columns[0], simplify(channels * offsets), elements_of(blocks)});
  Expr m = simplify(columns[0] * channels);
  for (size_t d = 0; d < axes; ++d) {
    offsets /= kernel[d];
    const Expr behind = elements_of(std::span(blocks).subspan(d + 1));
    data = folded(reshape_to(data, {m, kernel[d], offsets, blocks[d], behind}), folds[d]);
    m = simplify(m * image[d]);
  }
  std::vector<Expr> result{columns[0], channels};
  result.insert(result.end(), image.begin(), image.end());
  return {reshape_to(data, result)};
}

constexpr Converter kConverters[] = {{"Col2Im", col2im, Arithmetic::kWide}};
}  // namespace

std::span<const Converter> col2im_converters() { return kConverters; }

}  // namespace lathe::onnx
