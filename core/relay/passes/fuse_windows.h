// Depthwise convolutions and poolings in one kernel with the convolutions around them.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Joins primitive functions. One that slides a window over each channel, a depthwise convolution or a
/// pooling, takes in the convolution that computes its data (1x1, or of few input channels), and goes into
/// the 1x1 convolution that reads its result, when nothing else reads the tensor between them: expansion,
/// depthwise and projection of an inverted residual (Sandler et al., "MobileNetV2", 2018, section 3.3) become
/// one function, the first convolution of a resnet and its pooling another, and the large tensors between
/// them their own. Whether they are computed part by part is up to its schedule, which may also compute one
/// after the other. A function gets at most one window. Runs after fuse_ops and layout alteration. REQUIRES:
/// types are inferred.
Ref<Function> fuse_windows(const Ref<Function>& function);

}  // namespace lathe::relay
