// Random programs of the whole language, well typed by construction, that end.
#pragma once

#include <random>

#include "core/relay/expr.h"

namespace lathe::relay {

/// A module over the prelude with @main of no parameters. Functions and references in its value are inside of
/// data. The same for the same seed, of one compiler.
Module random_program(uint64_t seed);

}  // namespace lathe::relay
