// Unrolled loops -> their bodies, repeated.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Repeats the bodies of kUnrolled loops with fresh inner variables and buffers. A loop whose repetition
/// would make the function larger than some ten thousand statements stays a serial one. Throws Error when an
/// unrolled loop's extent is not constant.
Stmt unroll_loops(const Stmt& body);

}  // namespace lathe::tir
