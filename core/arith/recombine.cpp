// Sums in which quotients and remainders of one number make up the number again, as loops split and fused
// leave them: c * (x//c) + x%c = x, and its relatives.
#include "core/arith/simplifier.h"

namespace lathe {
/// A partner that would complete a term is not searched for. It is subtracted, and the number it would make
/// is added: where the partner was there it cancels, and the sum has fewer parts than before. Divisions are
/// built by `quotient` and `remainder`, since only then they are the ones that stand in a simplified sum.
/// Each change leaves fewer parts, so the loop ends.
Poly Simplifier::recombine(Poly p) const {
  for (bool changed = count_divisions(p) > 0; changed;) {
    changed = false;
    auto replace = [&](const Poly& candidate) {
      if (!has_fewer_parts(candidate, p)) return false;
      p = candidate;
      return changed = true;
    };
    const std::vector<Term> terms = p.terms;
    for (const Term& term : terms) {
      if (contains_any(term.factors[0])) continue;
      int64_t k = term.coefficient;
      Poly without = add(p, {{term}, 0}, -1);
      if (const Binary* mod = as_division(term, BinaryOp::kFloorMod)) {
        Poly x = decompose(mod->a), c = decompose(mod->b);
        // k*c*(x//c) + k*(x%c) = k*x
        if (replace(add(add(without, multiply(quotient(x, c), c), -k), x, k))) break;
        // k*a*((x//a)%b) + k*(x%a) = k*(x%(a*b))
        const Expr* atom = x.constant == 0 ? x.single_atom() : nullptr;
        const Binary* div = atom ? atom->as<Binary>() : nullptr;
        const int64_t *a = div && div->op == BinaryOp::kFloorDiv ? as_int(div->b) : nullptr,
                      *b = as_int(mod->b);
        int64_t product;
        if (!a || !b || *a <= 0 || k % *a != 0 || __builtin_mul_overflow(*a, *b, &product)) continue;
        Poly y = decompose(div->a), low = remainder(y, *a), both = remainder(y, product);
        if (replace(add(add(without, low, -(k / *a)), both, k / *a))) break;
      } else if (const Binary* div = as_division(term, BinaryOp::kFloorDiv)) {
        // k*x - k*c*(x//c) = k*(x%c)
        const int64_t* c = as_int(div->b);
        if (!c || *c <= 0 || k % *c != 0) continue;
        Poly x = decompose(div->a);
        if (replace(add(add(without, x, k / *c), remainder(x, *c), -(k / *c)))) break;
      }
    }
  }
  return p;
}

}  // namespace lathe
