// Recognising convolutions by their structure: what other algorithms for them need to know.
#pragma once

#include <array>

#include "core/tir/stmt.h"

namespace lathe::schedule {

/// One dimension along which a weight slides: data[.., position * stride + tap, ..] * weight[.., tap, ..]
/// into out[.., position, ..].
struct Window {
  Var position, tap;  // the block's variables
  size_t data_dim = 0, weight_dim = 0, out_dim = 0;
  int64_t positions = 0, taps = 0, stride = 1;
};

/// A block that computes out[..] = sum of data[..] * weight[..] of floats with two windows of dilation 1.
/// Either may be bfloat16, widened to the type of the sum. All other dimensions are indexed by
/// variables of the block alone, or by 0; of the data also by a sum of variables that are summed over.
struct Convolution {
  Ref<tir::Block> block;
  Ref<tir::Load> data, weight;
  Ref<tir::Store> update;
  std::array<Window, 2> windows;  // in the order of the data's dimensions: rows, columns
};

/// Throws Error saying in what `block` is none. REQUIRES: constant extents.
Convolution convolution_of(const Ref<tir::Block>& block);

}  // namespace lathe::schedule
