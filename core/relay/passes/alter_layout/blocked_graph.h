// What the handlers of alter_layout share: values in blocks of channels, and the graph under way.
#pragma once

#include <map>

#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"
#include "core/relay/passes/alter_layout/blocks.h"

namespace lathe::relay {

/// An expression whose channels (axis 1 of 4) are blocked: of shape (N, ceil(channels/block), H, W, block).
/// The channels beyond, up to whole blocks, hold `fill`, a finite number: a convolution multiplies them by
/// zero.
struct Blocked {
  Expr expr;
  int64_t block = 0;  // 0: in its own layout
  int64_t channels = 0;
  double fill = 0;
  int64_t padded() const { return round_up(channels, block); }
  bool is_whole() const { return channels % block == 0; }
  /// Whether sums, means, windows and copies of the channels beyond are what they hold.
  bool is_uniform() const { return is_whole() || fill == 0; }
};

/// visit() gives each expression in its own layout; found() remembers those that were computed in blocked
/// form. A transformation that nobody asks for in the end is not part of the result.
class BlockedGraph : public ExprMutator {
 public:
  explicit BlockedGraph(const Target& target) : blocks(target) {}

  const Blocks blocks;

  /// `original` as it was computed in blocks; of block 0 when it was not.
  Blocked found(const Expr& original) const;
  /// `original` with its channels blocked by `block`.
  Blocked as_blocked(const Expr& original, int64_t block);

 protected:
  /// The value in its own layout again.
  static Expr plain(const Blocked& value);
  void remember(const Expr& original, const Blocked& value) { found_[original.get()] = value; }

 private:
  std::map<const Node*, Blocked> found_;
  std::map<std::pair<const Node*, int64_t>, Blocked> converted_;
};

/// The call in blocked form; null when it must stay as it is; of block 0 when it was rewritten and is in its
/// own layout.
using LayoutHandler = Blocked (*)(BlockedGraph&, const Ref<Call>&);
Blocked block_convolution(BlockedGraph& graph, const Ref<Call>& e);
Blocked pack_dense(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_elementwise(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_bias(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_slope(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_by_attribute(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_reduction(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_padding(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_slice(BlockedGraph& graph, const Ref<Call>& e);
Blocked block_concatenation(BlockedGraph& graph, const Ref<Call>& e);
/// The same of a projection of `split`.
Blocked block_part(BlockedGraph& graph, const Call& split, int64_t part);

std::string data_layout(int64_t block);
/// Null while the type is unknown or no tensor's.
const TensorType* tensor_type_of(const Expr& e);
/// The channels of a 4-dimensional value, or 0 when it is none or they are not constant.
int64_t channels_of(const Expr& e);
bool is_shape(const Expr& e, const Ints& shape);
const std::string& op_name(const Call& call);
/// Products that one instruction sums within a lane (dot_length), else 1. The operands' innermost axis must
/// hold that many.
int64_t products_at_once(const Call& product);

// Constants are changed at once, the rest by calls.
Expr transform(const Expr& e, const std::string& from, const std::string& to);
Expr reshaped(const Expr& e, const Ints& shape);
/// Zeros behind `axis` up to `extent`.
Expr extended(const Expr& e, int64_t axis, int64_t extent);
/// The first `extent` elements of `axis`.
Expr first_of(const Expr& e, int64_t axis, int64_t extent);
/// A vector over the channels, (C) or (C, 1, 1), as it broadcasts against data: (C/x, 1, 1, x).
Expr blocked_vector(const Expr& e, const Blocked& data);

}  // namespace lathe::relay
