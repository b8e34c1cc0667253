// A function as the interpreter runs it: its scopes, and where the values of its activation stand.
#pragma once

#include <memory>
#include <unordered_map>

#include "core/relay/analysis/graph_scopes.h"

namespace lathe::relay {

/// A scope's members are evaluated in order, each once: what is shared is shared.
struct Code {
  Ref<Function> function;
  std::shared_ptr<const GraphScopes> scopes;  // of the global function around it
  int body = 0;
  std::unordered_map<const Node*, size_t> slots;  // of variables, members and what is captured
  std::vector<const Node*> captured;              // from the functions around: the first slots, in this order
  std::vector<bool> is_self;  // of those: the variable of the let that names this function
};

/// The code of a global function and of all functions inside it, by function.
void add_code(const Ref<Function>& global, std::unordered_map<const Node*, Code>& codes);

}  // namespace lathe::relay
