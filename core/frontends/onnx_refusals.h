// What is wrong with a model whatever its inputs are: looked for before any of it is converted.
#pragma once

#include "core/frontends/onnx_functions.h"

namespace lathe::onnx {

/// Names all operators that are missing at once, those of branches, loop bodies and functions too.
void refuse_unsupported(const ::onnx::GraphProto& graph, const Functions& functions,
                        FunctionRef<bool(const ::onnx::NodeProto&)> is_supported);

/// Quantization to a type of constants alone would be to the range of the wider type that holds them.
void refuse_small_results(const ::onnx::GraphProto& graph, const Functions& functions);

/// Of two values of one name nobody could say which is meant. (Of two constants the later one is, as
/// elsewhere: there are such files.)
void refuse_doubled_names(const ::onnx::GraphProto& graph, const Functions& functions);

}  // namespace lathe::onnx
