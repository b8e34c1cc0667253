// Symbolic dimensions, and variables that stand for shapes and base types, at run time.
#pragma once

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

/// Gives values to the variables that are new in `type`, from the extents of `value`, and compares all other
/// dimensions with them. Returns what does not fit, or "". Functions, references and data are not looked
/// into.
std::string bind_dims(const Value& value, const Type& type, Dims& dims);

}  // namespace lathe::relay
