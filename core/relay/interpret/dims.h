// Symbolic dimensions, and variables that stand for shapes and base types, at run time.
#pragma once

#include <span>
#include <string>

#include "core/relay/interpret/value.h"

namespace lathe::relay {

/// The dimensions and type variables that have values, in one activation.
struct Dims {
  std::vector<DimValue> dims;
  std::vector<TypeValue> types;
};

/// `dim` with the values put in, simplified.
lathe::Expr evaluate(const lathe::Expr& dim, const Dims& dims);

/// `type` with the shapes and base types put in that its variables stand for.
Type evaluate(const Type& type, const Dims& dims);

/// What does not fit, of which of the values; "" where all do.
struct DimsFault {
  size_t value = 0;
  std::string text;
};

/// Gives values to the variables that are new in the types, from the extents of the values, each of which may
/// tell dimensions of the others, and compares all other dimensions with them. Functions, references and data
/// are not looked into.
DimsFault bind_dims(std::span<const Value> values, std::span<const Type> types, Dims& dims);
/// The same of one value.
std::string bind_dims(const Value& value, const Type& type, Dims& dims);

}  // namespace lathe::relay
