// Optionals of which only a run tells whether they have a value: what a loop carries on is a list of the
// value, or of none; to whom reads it, either of the two (onnx_branches.h).
#pragma once

#include "core/frontends/onnx_program.h"

namespace lathe::onnx {

/// The type of all tensors that an optional may have as its value, and of `type` where that is given; null
/// where there is none, they have no type in common, or a value is no tensor.
relay::Type value_type(const Value& optional, const relay::Type& type);

/// An optional as a list of its value, or of none.
Value optional_as_list(const Value& optional, const relay::Type& type);
/// What such a list was made of.
Value optional_of(const Value& list);

}  // namespace lathe::onnx
