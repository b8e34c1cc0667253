// Operators between tensors and numbers (SizedOp): their names, and what they take.
#pragma once

#include <optional>
#include <string_view>

#include "core/runtime/program/program.h"

namespace lathe::runtime {

/// The operator of Relay's of that name.
std::optional<SizedOp> find_sized_op(std::string_view name);
std::string_view sized_op_name(SizedOp op);
/// Whether so many arguments, of which the first is the tensor where there is one, are right for it.
bool takes_sizes(SizedOp op, size_t args);
/// Whether `number` says where an error is (messages).
bool may_fail(SizedOp op);

}  // namespace lathe::runtime
