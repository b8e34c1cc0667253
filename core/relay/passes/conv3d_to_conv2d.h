// Convolutions of volumes as convolutions of images.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// nn.conv3d becomes nn.conv2d, for which there are layouts: each depth of the result is an image of the
/// batch, and the depths that the kernel sees there are so many times the channels. Values stay images, (D *
/// N, C, H, W), through element-wise operators and concatenations of channels. Where each channel is by
/// itself, the result is the sum of a convolution for each depth of the kernel; where the kernel sees depth
/// alone, each image is a row.
///
/// Channels second. The number of volumes, depth, height and width may be open, but not where several
/// channels are a group, nor where a depth with a stride may be less than the kernel's. Others stay.
/// REQUIRES: types are inferred; the result has its types.
Module conv3d_to_conv2d(const Module& module);

}  // namespace lathe::relay
