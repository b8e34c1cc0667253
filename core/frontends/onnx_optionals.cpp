#include "core/frontends/onnx_optionals.h"

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_branches.h"
#include "core/frontends/onnx_lists.h"
#include "core/relay/analysis/call_type.h"

namespace lathe::onnx {

relay::Type value_type(const Value& optional, const relay::Type& type) {
  if (optional == no_value()) return type;
  if (is_either(optional)) {
    const auto& either = *optional.as<relay::If>();
    const relay::Type one = value_type(either.then_case, type);
    // A side without a value says nothing.
    if (!one) return either.then_case == no_value() ? value_type(either.else_case, type) : nullptr;
    return value_type(either.else_case, one);
  }
  const relay::Type& own = optional->checked_type;
  if (!own.as<relay::TensorType>()) return nullptr;
  return type ? common_type(type, own) : own;
}

Value optional_as_list(const Value& optional, const relay::Type& type) {
  if (!is_either(optional))
    return as_list(optional == no_value() ? tuple_of({}) : tuple_of({optional}), type);
  const auto& either = *optional.as<relay::If>();
  return branch_of(
      either.condition, [&] { return Values{optional_as_list(either.then_case, type)}; },
      [&] { return Values{optional_as_list(either.else_case, type)}; })[0];
}

Value optional_of(const Value& list) {
  return branch_of(
      has_items(list), [&] { return Values{item_at(list, scalar(kInt64, -1))}; },
      [] { return Values{no_value()}; })[0];
}

}  // namespace lathe::onnx
