#include "core/arith/only_unknown.h"

#include "core/arith/simplify.h"
#include "core/support/floor_div.h"

namespace lathe {

int64_t OnlyUnknown::told_by(int64_t value, int64_t rest_value) const {
  return linear_root(coefficient, rest_value, value);
}

std::optional<OnlyUnknown> only_unknown(const Expr& e, FunctionRef<bool(const VarNode*)> is_known) {
  Var unknown;
  bool several = false;
  post_order(e, [&](const NodeRef& node) {
    const VarNode* variable = node.as<VarNode>();
    if (!variable || is_known(variable)) return;
    several = several || (unknown && unknown.get() != variable);
    unknown = node.cast<VarNode>();
  });
  if (!unknown || several) return std::nullopt;
  const std::optional<LinearForm> form = linear_form(e, {&unknown, 1});
  if (!form || form->coefficients.empty()) return std::nullopt;
  return OnlyUnknown{unknown.get(), form->coefficients.begin()->second, form->rest};
}

}  // namespace lathe
