// Which expressions may be dropped, doubled or moved.
#pragma once

#include "core/relay/expr.h"
#include "core/support/node_map.h"

namespace lathe::relay {

class Purity {
 public:
  /// Looks at everything under `root`.
  explicit Purity(const Expr& root);
  /// True when evaluating `e` (of `root`) ends, and has no effect but its value. Conservative: calls of
  /// unknown functions, random operators, references and checks that may fail are not pure; making a closure
  /// is.
  bool is_pure(const Expr& e) const { return !impure_.count(e.get()); }

 private:
  NodeSet impure_;
};

}  // namespace lathe::relay
