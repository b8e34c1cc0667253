// Values between dense layers stay matrices.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A dense layer of a batch of sequences is one of a matrix between two reshapes. What comes after it element
/// by element is done to the matrix:
///   f(reshape(x, (b, s, n)), y)  ->  reshape(f(x, y'), (b, s, n))    where x is (b * s, n)
/// and a reshape of such a value is one of that matrix, or nothing. So biases, activations and residuals fuse
/// with the layer, which a reshape between them keeps apart, scales reach its weights, and two layers behind
/// one another have no reshape between them. y' is y where that broadcasts along the last axis alone, else y
/// as a matrix.
///
/// Stands behind what knows operators by their form (recognize_norms), before scales are folded. Shapes that
/// are not constant stay. REQUIRES: types are inferred; the result has its types.
Ref<Function> keep_matrices(const Ref<Function>& function);

}  // namespace lathe::relay
