// The rules every module obeys between passes.
#pragma once

#include <string>

#include "core/relay/expr.h"

namespace lathe::relay {

/// What is wrong with the module first, or "": a variable is bound once, and used only where it is in scope;
/// operators are in the table and have attributes of their own type; global functions and data types exist.
std::string find_ill_formed(const Module& module);

}  // namespace lathe::relay
