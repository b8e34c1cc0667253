// Models in double precision: the truth that faster builds are compared with.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Every float16, bfloat16 and float32 tensor becomes float64: constants, casts, the types that operators are
/// asked for, annotations. Parameters of `main` that are tensors keep their types and are cast first thing,
/// so that the module takes the inputs the model takes; its results are float64. Throws Error for qnn
/// operators and for calls of tensor programs and of library functions, which compute as they are written.
/// Types have to be inferred anew.
Module to_float64(const Module& module);

}  // namespace lathe::relay
