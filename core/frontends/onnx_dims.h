// Dimensions that stay open, in the shape arithmetic of a model.
//
// ONNX computes shapes by int64 tensors: Shape, Gather, Concat, Mul, Reshape. What is known of them folds
// while it is imported. An open dimension has no number yet; in a constant a handle stands for it, a number
// that no size is, which data movement carries like any other. Arithmetic makes new handles for what it
// gives; whatever else meets one is refused, so that no handle is ever taken for a number.
#pragma once

#include <span>
#include <vector>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_choices.h"
#include "core/frontends/onnx_converter.h"
#include "core/relay/analysis/sizes.h"

namespace lathe::onnx {

/// While it lives, this thread's handles are of this model.
class OpenDimensions {
 public:
  explicit OpenDimensions(Choices& choices);
  ~OpenDimensions();
  OpenDimensions(const OpenDimensions&) = delete;
  OpenDimensions& operator=(const OpenDimensions&) = delete;

  /// The dimension is no smaller in any run.
  void bound(const Var& dim, int64_t least) { bounds_.bind(dim, {least, INT64_MAX}); }
  /// Whether a <= b in all runs can be shown.
  bool is_at_most(const Expr& a, const Expr& b) const;
  /// A number where the dimension has one size alone, as the first row of an axis that is never empty.
  int64_t handle(const Expr& dim);
  /// That number; another dimension as it is, in the form that types have, which know no bounds.
  Expr settled(const Expr& dim) const;
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
  /// Whether all that the dimension is computed from has been seen so.
  bool tells(const Expr& dim) const;
  /// A dimension that a run tells.
  Expr fresh();
  /// Whether it is a number of its own, that inputs tell, and each run comes here: what operators demand of
  /// it is what it is then, in all of the model (core/relay/passes/settle_dims.h).
  bool can_be_settled(const Expr& dim) const;
  /// An operator outside of branches and loops demands that number of one that can be. In the graph it may
  /// stand within a branch all the same, where nothing else takes its result.
  void settle(const Expr& dim, int64_t number) { numbers_.emplace(dim.as<VarNode>(), Expr(number)); }
  const VarMap& numbers() const { return numbers_; }
  /// That of as many as a number of the program says: one dimension for numbers that are computed alike.
  Expr size_of(const Value& number);
  Choices& choices() { return choices_; }
  static OpenDimensions* current();

  /// What is learned in the body of a loop, or in a branch, is forgotten behind it.
  class Scope {
   public:
    Scope() : places_(current()->places_.size()), sizes_(current()->sizes_.size()) { ++current()->scopes_; }
    ~Scope() { leave(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void leave();

   private:
    size_t places_, sizes_;
    bool left_ = false;
  };

 private:
  std::vector<Expr> dims_;
  Analyzer bounds_;
  std::vector<std::pair<Expr, Place>> places_;
  std::vector<std::pair<Value, Expr>> sizes_;
  std::vector<Expr> fresh_;
  VarMap numbers_;      // of dimensions that are settled
  int64_t scopes_ = 0;  // that are open now
  Choices& choices_;
  OpenDimensions* around_;
};

/// Some number of the tensor is a handle.
bool holds_handles(const Tensor& tensor);
bool holds_handles(const Value& value);

/// Whether the value follows from dimensions alone.
bool is_about_dims(const Value& value);

/// The dimensions of a value, numbers or not.
std::vector<Expr> dims_of(const Value& value);
/// The product of some.
Expr elements_of(std::span<const Expr> dims);
bool has_open_dims(const Value& value);
/// An int64 vector of sizes, as Shape gives it.
Value dims_constant(std::span<const Expr> dims);

/// `value` under another shape. Throws Error where it takes more than one new dimension that is open, and is
/// no copy of the input's at the same place.
Value reshape_to(const Value& value, const std::vector<Expr>& dims);

/// A call of constants among which are handles: folded where that is shape arithmetic; null where it cannot
/// be.
Value fold_dims(const char* op, std::span<const Value> args, const relay::Attrs& attrs);
/// Whether the operator moves elements, handles too, and the interpreter may fold it.
bool moves_alone(const char* op, std::span<const Value> args);

/// `value`, whose dimensions of one size alone are numbers: with those it broadcasts as NumPy has it.
Value settled(const Value& value);

/// `value`, whose dimensions must be these: what types cannot tell is checked by the run.
Value with_dims(const Value& value, const std::vector<Expr>& dims);

/// `value`, whose axis is so long. Where only the run can see that, as of a reshape by numbers that it
/// computes, it does so here, and what follows takes the extent for a number.
Value of_extent(const Value& value, int64_t axis, int64_t extent);

/// Constants with handles as tensors that have the numbers when the model runs; other values as they are.
/// Throws Error for a dimension that no tensor tells.
Value as_data(const Value& value);
/// A dimension as a number: rank 0.
Value number_of(const Expr& dim, DataType dtype = kInt64);
/// 0, 1, 2, ... below `length`, int64. Throws Error beyond 2^24 where it is known.
Value counted_to(const Expr& length);
/// The same along `axis` of `rank` dimensions, the others being 1.
Value counted_along(const Expr& length, int64_t axis, int64_t rank);
/// A tensor of this shape whose elements are of no interest.
Value of_shape(const std::vector<Expr>& dims);
/// `value`, whose elements are repeated to this shape by NumPy's rule.
Value repeated_to(const Value& value, const std::vector<Expr>& dims);
/// So many elements of `fill` put before and behind, along an axis.
Value padded_along(const Value& value, int64_t axis, const Expr& before, const Expr& after,
                   const Value& fill);
/// Elements begin, begin + stride, ... along an axis.
Value sliced_by(const Value& value, int64_t axis, const relay::Slice& slice);

}  // namespace lathe::onnx
