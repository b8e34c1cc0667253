// Dynamic dimensions become numbers before a model is compiled, but for those that are to stay open.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "tuner/open_dims.h"

namespace lathe::tuner {

/// Shapes of inputs by name; inputs of a constant shape may be left out.
using InputShapes = std::map<std::string, std::vector<int64_t>>;

/// The module with the dimensions that the shapes settle: a symbolic dimension everywhere it occurs, an
/// unknown one (`?`) at its input. Those that `open` keeps stay symbols, unknown ones under the name that it
/// has for them. Types have to be inferred anew. Throws Error when a shape does not fit its input, two inputs
/// disagree about a dimension, other dimensions stay open (relay::open_shapes_message), or there is no input
/// of that name, or no @main.
relay::Module bind_shapes(const relay::Module& module, const InputShapes& shapes, const OpenDims& open = {});

}  // namespace lathe::tuner
