// Recognising convolutions by their structure: what other algorithms for them need to know.
#pragma once

#include <array>

#include "core/tir/stmt.h"
#include "schedules/cook_toom.h"

namespace lathe::schedule {

/// One dimension along which a weight slides: data[.., position * stride + tap, ..] * weight[.., tap, ..]
/// into out[.., position, ..].
struct Window {
  Var position, tap;  // the block's variables
  size_t data_dim = 0, weight_dim = 0, out_dim = 0;
  Expr positions = 0;  // how many; an expression where the extent is open
  int64_t taps = 0, stride = 1;
};

/// A block that computes out[..] = sum of data[..] * weight[..] of floats. Either may be bfloat16, widened to
/// the type of the sum. The output's dimensions are indexed by variables of the block alone, or by 0.
struct SumOfProducts {
  Ref<tir::Block> block;
  Ref<tir::Load> data, weight;
  Ref<tir::Store> update;
};

/// Throws Error saying in what `block` is none.
SumOfProducts sum_of_products(const Ref<tir::Block>& block);

/// One with two windows of dilation 1. All other dimensions, and the weight's, are indexed by variables of
/// the block alone, or by 0; the data's also by a sum of variables that are summed over.
struct Convolution : SumOfProducts {
  std::array<Window, 2> windows;  // in the order of the data's dimensions: rows, columns
};

/// Throws Error saying in what `block` is none. REQUIRES: what is summed over has constant extents.
Convolution convolution_of(const Ref<tir::Block>& block);

/// The filtering of tiles of rows x columns outputs, along rows and along columns.
std::array<Filtering, 2> tile_of(const Convolution& c, int64_t rows, int64_t columns);

/// Whether tiles keep enough digits when transformed data or weights are rounded to 16 bits: the output
/// transform of larger ones multiplies the errors by 8 (decision 005).
inline bool bears_rounding(const std::array<Filtering, 2>& tile) {
  return tile[0].products_of_a_phase() <= 4 && tile[1].products_of_a_phase() <= 4;
}

/// What transformed elements of an operand are stored as: its own type, or that of the sum where tiles do not
/// bear rounding to bfloat16.
inline DataType stored_type(DataType operand, DataType sum, const std::array<Filtering, 2>& tile) {
  return operand == kBFloat16 && !bears_rounding(tile) ? sum : operand;
}

}  // namespace lathe::schedule
