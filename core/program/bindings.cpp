#include "core/program/bindings.h"

#include "core/support/stack.h"

namespace lathe::program {

using namespace relay;
using relay::Expr, relay::Var, relay::VarNode;  // of two languages

Type type_of(const Expr& e) {
  const VarNode* variable = e.as<VarNode>();
  return e->checked_type || !variable ? e->checked_type : variable->annotation;
}

Expr flatten(Expr e, std::vector<Binding>& bindings) {
  for (; e.as<Let>(); e = e.as<Let>()->body) {
    Expr value = e.as<Let>()->value;
    if (value.as<Let>()) with_enough_stack([&] { value = flatten(value, bindings); });
    bindings.push_back({e.as<Let>()->var, value});
  }
  return e;
}

Expr chain_of(std::vector<Binding>& bindings, Expr end) {
  for (; !bindings.empty(); bindings.pop_back())
    end = with_checked_type(make<Let>(bindings.back().var, bindings.back().value, end), type_of(end));
  return end;
}

Var bound(const char* name, const Expr& value, std::vector<Binding>& into) {
  into.push_back({with_checked_type(make_var(name), type_of(value)).cast<VarNode>(), value});
  return into.back().var;
}

}  // namespace lathe::program
