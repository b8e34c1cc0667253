#include "core/program/shorten.h"

#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"

namespace lathe::program {
namespace {

using namespace relay;
using relay::Expr;  // not that of scalars

class Shorten : public ExprMutator {
 private:
  void enter_let(const Ref<Let>& let) override {
    Expr value = visit(let->value);
    if (is_leaf(value)) set(let->var, value);
    if (value.as<Tuple>()) tuples_[let->var.get()] = value;
  }
  Expr visit_let(const Ref<Let>& e) override {
    return is_leaf(visit(e->value)) ? visit(e->body) : ExprMutator::visit_default(e);
  }
  Expr visit_projection(const Ref<Projection>& e) override {
    Expr tuple = visit(e->tuple);
    auto found = tuples_.find(tuple.get());
    if (found != tuples_.end()) tuple = found->second;
    const Tuple* items = tuple.as<Tuple>();
    if (items && is_leaf(items->items.at(static_cast<size_t>(e->index))))
      return items->items[static_cast<size_t>(e->index)];
    return ExprMutator::visit_default(e);
  }

  std::unordered_map<const Node*, Expr> tuples_;  // by variable
};

}  // namespace

Ref<Function> shorten(const Ref<Function>& function) { return Shorten().visit_as(function); }

}  // namespace lathe::program
