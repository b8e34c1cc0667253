// Names of names, and parts of tuples that are at hand.
#pragma once

#include "core/relay/expr.h"

namespace lathe::program {

/// Replaces variables bound to leaves (variables, constants, ...) by these, and projections of variables
/// bound to tuples by the items, where these are leaves.
Ref<relay::Function> shorten(const Ref<relay::Function>& function);

}  // namespace lathe::program
