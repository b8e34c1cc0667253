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
/// types. Convolutions of at least 4 results get blocks whatever their channels: those that don't divide are
/// filled up, with weight zero, and stay so through the operators between; groups of few channels are joined,
/// with zeros between them. What lies beyond the channels is cut off where a value leaves blocked form.
Module alter_layout(const Module& module, const Target& target);

}  // namespace lathe::relay
