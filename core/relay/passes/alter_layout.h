// Blocked layouts for vector machines: activations NCHW become NCHW{x}c, x channels innermost, and weights
// are packed to match, so that convolutions read and write whole vectors (Liu et al. 2019, "Optimizing CNN
// Model Inference on CPUs"). Layouts spread through pooling, element-wise operators and concatenation, so
// that transformations remain only where the graph enters or leaves blocked form; dense weights become (N/x,
// K, x).
#pragma once

#include "core/relay/expr.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// REQUIRES: types are inferred, batch norms simplified away. Packs constant weights; new expressions have no
/// types. Convolutions whose results have no block of at least 4 channels get more, of constant weight zero,
/// which are cut off again; other channels without a block keep NCHW.
Module alter_layout(const Module& module, const Target& target);

}  // namespace lathe::relay
