// Shapes given on the command line: --shape NAME=1x3x224x224.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace lathe::cli {

using Shapes = std::map<std::string, std::vector<int64_t>>;  // by input

/// Declares --open, which may be given once for each dimension.
void add_open_flag(Flags& flags, std::vector<std::string>& open);

/// Declares --shape, which may be given once for each input.
void add_shape_flag(Flags& flags, std::vector<std::string>& shapes);

/// The shapes by input. Throws Error for what is not NAME=1x3x224x224, a dimension below 1, a tensor beyond
/// 2^40 elements, and an input given twice.
Shapes parse_shapes(const std::vector<std::string>& shapes);

}  // namespace lathe::cli
