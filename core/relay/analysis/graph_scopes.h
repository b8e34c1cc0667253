// Where shared expressions belong: the innermost scope that holds all their uses.
#pragma once

#include "core/relay/expr.h"
#include "core/support/node_map.h"

namespace lathe::relay {

/// A scope is the body of a function, a branch, a clause or a let; scope 0 holds the root.
struct GraphScopes {
  struct Place {
    int scope = 0;
    int uses = 0;             // operand slots that hold this expression
    std::vector<int> bodies;  // the scopes it opens, in the order of for_each_operand
  };
  NodeMap<Place> places;
  std::vector<std::vector<Expr>> members;  // of each scope, operands first
  std::vector<int> parents;
};

/// Leaves (variables, constants, operators, ...) have no place. Iterative along chains.
GraphScopes graph_scopes(const Expr& root);

/// True for what has no operands: it is written where it is used.
bool is_leaf(const Expr& e);

}  // namespace lathe::relay
