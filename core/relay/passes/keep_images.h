// Values between convolutions of rows stay images one row high.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A convolution of rows is one of images between expand_dims and squeeze of their height. What comes after
/// it is done to the image:
///   f(squeeze(x, axis=[2]), y)  ->  squeeze(f(x, expand_dims(y, axis=2)), axis=[2])
/// and expand_dims of such a value is that image. So scales reach the weights of the convolution, and what is
/// between two of them has the layout of images. f: element-wise operators, slopes, concatenations, padding,
/// slices and parts by axes, reductions that keep axes, of tensors (n, c, w).
///
/// Stands behind what knows operators by their form (recognize_norms), before scales are folded. REQUIRES:
/// types are inferred; the result has its types.
Ref<Function> keep_images(const Ref<Function>& function);

}  // namespace lathe::relay
