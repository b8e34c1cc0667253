// Convolutions without the taps that meet padding alone.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A tap of a kernel that lies outside the image for each result adds nothing: of a 3x3 kernel with dilation
/// 12 on an image of 8x8 (DeepLab's atrous pyramid at a small input), only the one in the middle does more.
/// The first and last taps of each axis of which that is so are cut off, and the padding with them.
///
/// nn.conv1d to nn.conv3d of constant shapes, channels second, padded with zeros; others stay. REQUIRES:
/// types are inferred; the result has its types.
Ref<Function> crop_kernels(const Ref<Function>& function);

/// The same for taps that meet padding alone for some of the results: the first twelve rows of a 3x3 kernel
/// with dilation 12 see two of its rows. Results that see the same taps are one convolution with these, of
/// the part of the image that they reach (negative padding); along rows, columns or both, where that saves
/// more than joining the parts costs.
///
/// nn.conv2d with dilation; otherwise as above. What follows a convolution follows their concatenation, so
/// scales are folded before.
Ref<Function> split_convolutions(const Ref<Function>& function);

}  // namespace lathe::relay
