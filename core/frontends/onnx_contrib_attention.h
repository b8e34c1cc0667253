// Attention behind products of real numbers or of integers, as com.microsoft has both.
#pragma once

#include "core/frontends/onnx_attention.h"

namespace lathe::onnx {

/// Queries, keys and values, (batch, length, heads * size), before their heads are apart.
struct Projections {
  Value queries, keys, values;
  Value past = {};  // (2, batch, heads, length, size), keys first; null for none
  std::optional<size_t> mask = {}, summand = {};  // which inputs of the node these are
};

/// The columns of a product of queries, keys and values side by side. Rejects the node where they are not.
Projections split_projections(const Node& node, const Value& product);

/// The result, and keys and values of past and present, which are none where the node has no such output.
Values attention_of_projections(const Node& node, const Projections& of);

}  // namespace lathe::onnx
