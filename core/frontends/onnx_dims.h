// Dimensions that stay open, in the shape arithmetic of a model.
//
// ONNX computes shapes by int64 tensors: Shape, Gather, Concat, Mul, Reshape. What is known of them folds
// while it is imported. An open dimension has no number yet; in a constant a handle stands for it, a number
// that no size is, which data movement carries like any other. Arithmetic makes new handles for what it
// gives; whatever else meets one is refused, so that no handle is ever taken for a number.
#pragma once

#include <span>
#include <vector>

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

/// While it lives, this thread's handles are of this model.
class OpenDimensions {
 public:
  OpenDimensions();
  ~OpenDimensions();
  OpenDimensions(const OpenDimensions&) = delete;
  OpenDimensions& operator=(const OpenDimensions&) = delete;

  int64_t handle(const Expr& dim);
  /// The dimension of a handle; another number as itself.
  Expr dim(int64_t number) const;
  /// `value` has dimensions that are open: where one is needed as a number or a length, it tells them.
  void learn_from(const Value& value);
  /// Where a dimension stands by itself; nothing where it has not been seen so.
  struct Place {
    Value value;
    int64_t axis;
  };
  const Place* find(const Expr& dim) const;
  static OpenDimensions* current();

 private:
  std::vector<Expr> dims_;
  std::vector<std::pair<Expr, Place>> places_;
  OpenDimensions* around_;
};

/// Some number of the tensor is a handle.
bool holds_handles(const Tensor& tensor);
bool holds_handles(const Value& value);

/// The dimensions of a value, numbers or not.
std::vector<Expr> dims_of(const Value& value);
bool has_open_dims(const Value& value);
/// An int64 vector of sizes, as Shape gives it.
Value dims_constant(std::span<const Expr> dims);

/// `value` under another shape. Throws Error where it takes more than one new dimension that is open, and is
/// no copy of the input's at the same place.
Value reshape_to(const Value& value, const std::vector<Expr>& dims);

/// A call of constants among which are handles: folded where that is shape arithmetic; null where it cannot
/// be.
Value fold_dims(const char* op, std::span<const Value> args);
/// Whether the operator moves elements, handles too, and the interpreter may fold it.
bool moves_alone(const char* op, std::span<const Value> args);

/// Constants with handles as tensors that have the numbers when the model runs; other values as they are.
/// Throws Error for a dimension that no tensor tells.
Value as_data(const Value& value);
/// 0, 1, 2, ... below `length`, int64.
Value counted_to(const Expr& length);
/// A tensor of this shape whose elements are of no interest.
Value of_shape(const std::vector<Expr>& dims);

}  // namespace lathe::onnx
