// The graph passes between a model and its kernels.
#pragma once

#include "core/relay/expr.h"
#include "core/relay/passes/fold_constant.h"
#include "core/tir/target.h"

namespace lathe::tuner {

/// Runs relay::inference_pipeline() and gives a fused module whose calls are primitive
/// functions: what extract_tasks and final_build take. A program is left to optimize_program(). REQUIRES:
/// constant shapes. Throws Error on what does not type-check.
relay::Module optimize(const relay::Module& module, const Target& target);

/// Of a program (core/program/stretches.h): its functions, outlined, each stretch optimized as a model is.
/// Any module can be taken as one.
relay::Module optimize_program(const relay::Module& module, const Target& target);

/// Evaluates constants: small ones by the interpreter, the rest compiled for this machine with default
/// schedules.
relay::Evaluate constant_evaluator();

}  // namespace lathe::tuner
