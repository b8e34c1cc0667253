// Activations that are attributes: of recurrences, and of products that they are fused with.
#pragma once

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

/// By the names of the standard, with two parameters of which some take none, or the first.
struct Activation {
  const char* name;
  Value (*apply)(const Value& x, double alpha, double beta);
  int parameters = 0;
  double alpha = 0, beta = 0;  // where the node says nothing

  Value operator()(const Value& x) const { return apply(x, alpha, beta); }
};

/// Rejects the node for a name that there is none of.
Activation activation(const Node& node, const std::string& name);

}  // namespace lathe::onnx
