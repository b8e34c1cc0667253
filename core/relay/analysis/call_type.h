// Types of single calls whose arguments' types are known: for builders and passes that make calls one by one.
#pragma once

#include "core/relay/op.h"

namespace lathe::relay {

/// The type of op(args). REQUIRES: args have their checked_type, without holes. Throws Error as the relation
/// does.
Type call_type(const Op& op, const std::vector<Expr>& args, const Attrs& attrs);

/// A call with its checked_type set; null attributes become the operator's defaults.
Expr typed_call(std::string_view op, std::vector<Expr> args, Attrs attrs = nullptr);
Expr typed_constant(Tensor value);
Expr typed_tuple(std::vector<Expr> items);
Expr typed_projection(const Expr& tuple, int64_t index);

}  // namespace lathe::relay
