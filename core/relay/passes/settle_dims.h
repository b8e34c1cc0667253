// Open dimensions that can be only one number.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Dimensions of main's parameters that its operators demand to be a number, as the channels of a
/// convolution whose weights are constants: they become that number, so that nothing is compiled for others
/// and a call with another is refused by its input's shape. So do those that meet a number in a broadcast and
/// cannot be 1. What only a branch or a function inside demands stays open. Throws TypeError.
Module settle_dims(const Module& module);

/// `module` with these numbers for its dimensions.
Module with_numbers(const Module& module, const VarMap& numbers);

}  // namespace lathe::relay
