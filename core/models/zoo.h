// The model zoo: well-known architectures written as builders of Relay, layer for layer those of torchvision
// 0.14 where it has them, with seeded random weights.
#pragma once

#include <span>
#include <string>

#include "core/relay/expr.h"

namespace lathe::models {

struct Model {
  const char* name;
  const char* doc;
  std::vector<int64_t> input_shape;  // NCHW, float32; the one input is called "data"
  relay::Module (*build)(const Model& model, uint64_t seed);
};

/// All models, by name.
std::span<const Model> zoo();
/// Throws Error "unknown model ...; did you mean ...".
const Model& find_model(std::string_view name);
/// The module: main takes the input; weights are constants, the same for a seed on every machine, scaled so
/// that activations keep their size through the network. Expressions have their types.
relay::Module build_model(std::string_view name, uint64_t seed = 0);

}  // namespace lathe::models
