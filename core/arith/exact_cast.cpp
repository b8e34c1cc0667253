#include "core/arith/exact_cast.h"

#include "core/support/tensor.h"

namespace lathe {

Expr exact_cast(DataType dtype, const Expr& value) {
  if (const Cast* widened = value.as<Cast>())
    return widened->value.dtype() == dtype ? widened->value : nullptr;
  if (const FloatImm* number = value.as<FloatImm>()) {
    return full({}, dtype, number->value).value(0) == number->value ? fimm(dtype, number->value) : nullptr;
  }
  if (const Select* choice = value.as<Select>()) {
    const Expr a = exact_cast(dtype, choice->if_true), b = exact_cast(dtype, choice->if_false);
    return a && b ? select(choice->condition, a, b) : nullptr;
  }
  return nullptr;
}

}  // namespace lathe
