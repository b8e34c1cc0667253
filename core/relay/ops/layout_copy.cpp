#include "core/relay/ops/layout.h"
#include "core/support/error.h"

namespace lathe::relay {
namespace {

using Ints = std::vector<int64_t>;

Ints row_major_strides(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// For each axis of `walked`, how far a step moves in `flat`, whose axes are whole.
Ints steps_in(const Layout& walked, const Layout& flat, const Ints& flat_strides) {
  Ints steps;
  // An axis of a block moves less than one of the outer part: by its step in the whole axis.
  for (size_t i = 0; i < walked.rank(); ++i)
    steps.push_back(flat_strides[flat.position(walked.axes()[i].letter)] * walked.step(i));
  return steps;
}

/// Calls copy(i, j) for every element: i counts along `shape`, j is the sum of index times step.
template <typename F>
void walk(const Ints& shape, const Ints& steps, F&& copy) {
  if (shape_size(shape) == 0) return;
  Ints index(shape.size(), 0);
  int64_t last = shape.empty() ? 1 : shape.back(), last_step = shape.empty() ? 0 : steps.back(), at = 0,
          other = 0;
  for (;;) {
    for (int64_t i = 0; i < last; ++i) copy(at++, other + i * last_step);
    size_t d = shape.size();
    // Counts up like an odometer, `other` along with it: no multiplication in the loop. The last axis has its
    // loop above.
    for (d = d ? d - 1 : 0; d-- > 0;) {
      other += steps[d];
      if (++index[d] < shape[d]) break;
      other -= steps[d] * shape[d];
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

template <typename T>
void move_elements(const Tensor& from, Tensor& to, const Ints& walked_shape, const Ints& steps,
                   bool walk_result) {
  const T* source = static_cast<const T*>(from.data());
  T* target = static_cast<T*>(to.data());
  if (walk_result)
    walk(walked_shape, steps, [&](int64_t i, int64_t j) { target[i] = source[j]; });
  else
    walk(walked_shape, steps, [&](int64_t i, int64_t j) { target[j] = source[i]; });
}

bool is_whole(const Layout& layout) { return layout.letters().size() == layout.rank(); }
}  // namespace

Tensor transform_layout(const Tensor& tensor, const Layout& from, const Layout& to) {
  CHECK(tensor.shape().size() == from.rank(), "shape {} in layout {}", shape_text(tensor.shape()),
        from.text());
  // The walk needs one side whose axes are whole; from blocks to other blocks in two steps.
  if (!is_whole(from) && !is_whole(to)) {
    Layout whole = Layout::parse(to.letters());
    return transform_layout(transform_layout(tensor, from, whole), whole, to);
  }
  std::vector<lathe::Expr> dims(tensor.shape().begin(), tensor.shape().end());
  std::map<char, lathe::Expr> extents;
  for (char letter : from.letters()) extents[letter] = from.extent(letter, dims);
  Ints shape;
  for (const lathe::Expr& dim : to.shape(extents)) shape.push_back(int_value(dim));
  Tensor result(shape, tensor.dtype());
  bool walk_result = is_whole(from);
  Ints steps = walk_result ? steps_in(to, from, row_major_strides(tensor.shape()))
                           : steps_in(from, to, row_major_strides(shape));
  const Ints& walked = walk_result ? shape : tensor.shape();
  switch (tensor.dtype().bytes()) {
    case 1:
      move_elements<uint8_t>(tensor, result, walked, steps, walk_result);
      break;
    case 2:
      move_elements<uint16_t>(tensor, result, walked, steps, walk_result);
      break;
    case 4:
      move_elements<uint32_t>(tensor, result, walked, steps, walk_result);
      break;
    case 8:
      move_elements<uint64_t>(tensor, result, walked, steps, walk_result);
      break;
    default:
      CHECK(false, "elements of {} bytes", tensor.dtype().bytes());
  }
  return result;
}

}  // namespace lathe::relay
