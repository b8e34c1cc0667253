// Operators between tensors and numbers (SizedOp): their names, and what they take.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/runtime/program/heap.h"
#include "core/runtime/program/program.h"

namespace lathe::runtime {

/// The operator of Relay's of that name.
std::optional<SizedOp> find_sized_op(std::string_view name);
std::string_view sized_op_name(SizedOp op);
/// Whether so many arguments, of which the first is the tensor where there is one, are right for it.
bool takes_sizes(SizedOp op, size_t args);
/// Whether `number` says where an error is (messages).
bool may_fail(SizedOp op);

/// Appends what the arguments say of a shape. False when one of them is no integer. Throws Error for one
/// below `least`.
bool append_sizes(std::span<const Datum> args, int64_t least, std::vector<int64_t>& sizes);
/// Of a tensor that is to be made. Throws Error when no memory could hold it.
int64_t checked_bytes(const std::vector<int64_t>& shape, DataType dtype);

}  // namespace lathe::runtime
