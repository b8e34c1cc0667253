// The text form of tensor programs, both levels. parse(print(f)) equals f, and prints the same.
//
//   func dense[n](a: float32[n, 64], b: float32[16, 64]) -> (c: float32[n, 16]) {
//     block root {
//       for i in 0..n parallel {
//         for j in 0..16 { for k in 0..64 {
//           block dense(spatial y in 0..n = i, spatial x in 0..16 = j, reduce r in 0..64 = k) {
//             reads a[y, r], b[x, r]            # min:extent, where the extent is not 1
//             writes c[y, x]
//             init { c[y, x] = 0.0 }
//             c[y, x] = c[y, x] + a[y, r] * b[x, r]
//   } } } } } }
//
// [n] lists the symbolic dimensions. Blocks may also have `where CONDITION` after the iterators, `alloc NAME:
// TYPE` lines and annotations `@name=1`; loops an iteration and annotations. Buffers not in global memory say
// their scope after the type. Lowered: `alloc t: float32[16] local { ... }`, ramp(base, stride, lanes),
// broadcast(value, lanes). Numbers are int64, or float32 when they have a point or exponent; others carry a
// type: 3i32, 0.5f16, 1u8. Also: select(c, a, b), cast(int8, x), min(a, b), max, pow, exp(x), ..., inf, nan,
// inf(float16), true, false, `?`. Braces around several statements are one statement. `#` begins a comment.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// A person reads this; names are made unique where needed. Deterministic: the workload key is the sha256 of
/// it after `canonical` renaming.
std::string print(const Func& func);
std::string print(const Stmt& stmt);
std::string print(const Expr& expr);

/// Builds exactly what is written: no folding. Throws Error with file:line:column and a caret. Any bytes are
/// safe to parse: nesting and size are limited.
Func parse_func(std::string_view text, const std::string& source = "<text>");
/// The same for a text of one or more functions.
std::vector<Func> parse_funcs(std::string_view text, const std::string& source = "<text>");

/// The same function with names that depend on structure alone: parameters p0.., allocations t0.., loops
/// i0.., block iterators v0.., dimensions n0.., blocks b0.. (the root keeps its name), function main. Equal
/// programs print equally.
Func canonical(const Func& func);
/// sha256 of print(canonical(func)).
std::string workload_digest(const Func& func);

}  // namespace lathe::tir
