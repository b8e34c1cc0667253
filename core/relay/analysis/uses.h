// How often each expression of a function is an operand.
#pragma once

#include "core/relay/functor.h"

namespace lathe::relay {

class Uses final : public ExprVisitor {
 public:
  explicit Uses(const Expr& root) { visit(root); }
  /// 0 for what is no operand in it.
  size_t of(const Expr& e) const {
    const size_t* found = counts_.find(e.get());
    return found ? *found : 0;
  }

 private:
  void visit_default(const Expr& e) override {
    for_each_operand(e, [&](const Expr& operand, bool) { ++counts_[operand.get()]; });
    ExprVisitor::visit_default(e);
  }

  NodeMap<size_t> counts_;
};

}  // namespace lathe::relay
