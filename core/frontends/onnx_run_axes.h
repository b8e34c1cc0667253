// Operators whose axes are no more known than when the model runs. Each axis there is may be one of them:
// where the rank of the result does not depend on which, all are looked at.
#pragma once

#include "core/frontends/onnx_program.h"

namespace lathe::onnx {

/// Whether the operator has an input i that only a run knows.
bool is_told_by_run(const Node& node, size_t i);

/// The axes that an input names, of a tensor of a rank.
class RunAxes {
 public:
  /// Axes of input i, which count from the end where they are negative. The run fails where one is outside.
  RunAxes(const Node& node, size_t i, int64_t rank);

  int64_t rank() const { return static_cast<int64_t>(named_.size()); }
  /// How many are named, where that is known.
  std::optional<int64_t> count() const;
  /// Whether the axis is named: a boolean of rank 0.
  const Value& names(int64_t axis) const { return named_[static_cast<size_t>(axis)]; }
  /// All of them, where none is named.
  void be_all_if_none();
  /// Of integers, one for each axis that is named, in their order, that of `axis`; `otherwise` where it is
  /// not named.
  Value of_axis(int64_t axis, const Value& numbers, const Value& otherwise) const;

 private:
  Value axes_;                 // a vector
  std::vector<Value> places_;  // of each axis, where it is named, as booleans
  std::vector<Value> named_;
};

/// What f makes of `value` and an axis, along each of the axes: that axis is 1 then.
Value reduced_at_run_time(const Value& value, const RunAxes& axes,
                          FunctionRef<Value(const Value& value, int64_t axis)> f);
/// `value` without the axes, which are 1. Rejects the node where their number is not known.
Value without_axes(const Node& node, const Value& value, const RunAxes& axes);
/// f of the one axis that input i of the node says.
Value along_run_axis(const Node& node, size_t i, FunctionRef<Value(int64_t axis)> f);

/// Unsqueeze, of axes that input 1 says.
std::vector<Value> unsqueeze_at_run_time(const Node& node);

}  // namespace lathe::onnx
