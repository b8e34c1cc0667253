// The text form of tensor programs, both levels. parse(print(f)) equals f, and prints the same.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// A person reads this; names are made unique where needed. Deterministic: the workload key is the sha256 of it
/// after `canonical` renaming.
std::string print(const Func& func);
std::string print(const Stmt& stmt);
std::string print(const Expr& expr);

/// Throws Error with file:line:column and a caret.
Func parse_func(std::string_view text, const std::string& source = "<text>");

/// The same function with names that depend on structure alone (p0, t1, i2, ...): equal programs print equally.
Func canonical(const Func& func);
/// sha256 of print(canonical(func)).
std::string workload_digest(const Func& func);

}  // namespace lathe::tir
