// Transposed convolutions as ordinary ones.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A transposed convolution of strides s is, for each of the s1 * s2 * ... offsets of a result from a
/// multiple of the strides (a phase), an ordinary convolution with the taps of the kernel that reach it. All
/// phases become one convolution with that many times the channels, ordered (group, channel, phase), or
/// (phase, channel) where a phase has whole blocks of channels; its results are interleaved:
///   nn.conv2d_transpose(x, w)  ->  depth_to_space(nn.conv2d(x, phases of w)), cut to size
/// Strides of 1 give a convolution with the kernel reversed. An axis with one element has one window,
/// whatever its stride, whose phases are all its results; where all axes have, that is a matrix product:
///   nn.conv2d_transpose((N, C, 1, 1), w)  ->  reshape(nn.dense((N, C), (O * results, C)))
///
/// Transposed convolutions of 1 to 3 dimensions, of channels second and constant shapes; others stay.
/// REQUIRES: types are inferred; the result has its types.
Module conv_transpose_to_conv(const Module& module);

}  // namespace lathe::relay
