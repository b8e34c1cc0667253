// Recursion as deep as the program it walks, wherever it is called from.
#pragma once

#include "core/support/node.h"

namespace lathe {

/// Runs `f`, on a fresh stack when little is left of this thread's; what `f` throws arrives here. For the
/// points every turn of a recursion comes by. As clang's runWithSufficientStackSpace: a check costs a compare
/// of addresses, so it may stand in each of them.
void with_enough_stack(FunctionRef<void()> f);

}  // namespace lathe
