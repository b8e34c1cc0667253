// The text form of Relay, in the syntax of Apache TVM's Relay 0.0.5. parse(print(x)) equals x, sharing
// included, and prints the same. What TVM does not have is written: Tensor[(n, (4 * n)), float32] (symbolic
// dimensions; a name stands for one dimension within a global function), [[1f, 2f]] (small constants),
// grad(f), match_cast(x, type), call_tir(meta[tir.Func][0], (x), type), call_dps_library("symbol", (x),
// type), f[type](x) (type arguments). Read, and printed in the form of TVM: !r and r := e for ref_read(r) and
// ref_write(r, e), /* comments /* inside */ comments */, import "list" (core/relay/prelude).
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

struct PrintOptions {
  bool types = false;  // /* ty=... */ after expressions whose type is known
  bool metadata =
      true;  // the values of large constants, at the end of a module; without it the text can't be parsed
};
std::string print(const Module& module, const PrintOptions& options = {});
/// An expression on its own; free variables by their names.
std::string print(const Expr& expr, const PrintOptions& options = {});
std::string print(const Type& type);
std::string print(const lathe::Expr& dim);

/// Throw Error with file:line:column, the line and a caret.
Module parse_module(std::string_view text, const std::string& source = "<text>");
Type parse_type(std::string_view text, const std::string& source = "<text>");

}  // namespace lathe::relay
