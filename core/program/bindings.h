// Chains of lets, as the passes of programs read them.
#pragma once

#include <vector>

#include "core/relay/expr.h"

namespace lathe::program {

struct Binding {
  relay::Var var;
  relay::Expr value;
};

/// A variable knows its type by inference, or by its annotation.
relay::Type type_of(const relay::Expr& e);

/// Appends the bindings of a chain; those of lets inside values stand before what they are inside of. Gives
/// what stands at the end.
relay::Expr flatten(relay::Expr e, std::vector<Binding>& bindings);
/// The chain again. Takes the bindings.
relay::Expr chain_of(std::vector<Binding>& bindings, relay::Expr end);

/// A variable of its own for the value.
relay::Var bound(const char* name, const relay::Expr& value, std::vector<Binding>& into);

}  // namespace lathe::program
