// Operators whose result is as large as the values of a run say.
#pragma once

#include "core/frontends/onnx_program.h"

namespace lathe::onnx {

/// Whether the numbers of the value are known at import, open dimensions among them.
bool is_known(const Value& value);

/// An element of a tensor.
struct KnownElement {
  const Tensor& tensor;
  int64_t place;
};
/// Element `i` of a vector where it is known, alone or in one of those that were concatenated: a number, or
/// an open dimension.
std::optional<KnownElement> known_element(const Value& vector, int64_t i);
/// 0, 1, 2, ... below a number of rank 0.
Value counted_at_run_time(const Value& count);

/// Numbers of rank 0, int64: the elements of an integer vector, of which there are `told` where its own
/// length does not say it.
Values numbers_in(const Node& node, size_t i, std::optional<int64_t> told = std::nullopt);
/// The positions of the true elements of a vector, in order: as many as there are.
Value positions_of(const Value& flags);

/// Along an axis, the elements at `places`, which lie before the front or behind the end where it is padded:
/// as Pad's mode says, or `fill`.
Value padded_at(const Node& node, const Value& value, const Value& places, int64_t axis,
                const std::string& mode, const Value& fill);

/// `value`, whose extent along the axis the sizes must add up to: what is open the run checks.
Value as_long_as_parts(const Value& value, int64_t axis, const std::vector<Expr>& sizes);

/// Of inputs that are known or not: one rule says which boxes overlap.
Values non_max_suppression(const Node& node);

// The operator where input 1 (of a range any input) is no more known than when the model runs.
Values non_zero_at_run_time(const Node& node);
Values unique_at_run_time(const Node& node);
/// The numbers of input i, an int64 vector, as sizes: those that a run tells, as dimensions that it binds. Of
/// concatenated vectors the known ones are numbers.
std::vector<Expr> sizes_at_run_time(const Node& node, size_t i);
/// The same of an input that is known, or not.
std::vector<Expr> sizes_of(const Node& node, size_t i);
/// That of an input of one number, known or not.
Expr size_in(const Node& node, size_t i);

Values compress_at_run_time(const Node& node);
Values top_at_run_time(const Node& node);
Values range_at_run_time(const Node& node);
Values slice_at_run_time(const Node& node);
Values reshape_at_run_time(const Node& node);
Values expand_at_run_time(const Node& node);
Values constant_of_shape_at_run_time(const Node& node);
Values tile_at_run_time(const Node& node);
Values pad_at_run_time(const Node& node);

}  // namespace lathe::onnx
