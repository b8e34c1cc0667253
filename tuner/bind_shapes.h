// Dynamic dimensions become numbers before a model is compiled.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/relay/expr.h"

namespace lathe::tuner {

/// Shapes of inputs by name; inputs of a constant shape may be left out.
using InputShapes = std::map<std::string, std::vector<int64_t>>;

/// The module with the dimensions that the shapes settle: a symbolic dimension everywhere it occurs, an
/// unknown one (`?`) at its input. Types have to be inferred anew. Throws Error when a shape does not fit its
/// input, two inputs disagree about a dimension, dimensions stay open (relay::open_shapes_message), or there
/// is no input of that name, or no @main.
relay::Module bind_shapes(const relay::Module& module, const InputShapes& shapes);

}  // namespace lathe::tuner
