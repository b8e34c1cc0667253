// What is wrong with a shape, in the words of all that compare shapes while a program runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lathe {

/// "" where the shape is the wanted one, of which a dimension below 0 may be any, as one of the shape that
/// nobody knows; else "the shape is (3, 4, 6), (3, ?, 5) is expected".
std::string shape_fault(std::span<const int64_t> shape, std::span<const int64_t> wanted);

}  // namespace lathe
