// What a fused program is made of, read off the structure of its blocks: which reduction dominates it, how
// the operands of that reduction use its variables, what comes before and after.
#pragma once

#include <optional>

#include "schedules/program.h"

namespace lathe::schedule {

/// One element an iteration computed from other elements: the body is one store, all variables are spatial.
bool is_injective(const tir::Block& block);
/// Has reduction variables and an initial value, and stores one element.
bool is_reduction(const tir::Block& block);
/// Iterations of the block, all variables; 0 when an extent is not constant.
int64_t iterations(const tir::Block& block);

/// The elements at `indices` for neighbouring values of `lane` are neighbours in memory.
bool is_contiguous(const std::vector<Expr>& indices, const Var& lane);
/// The same for neighbours that lie equally far apart, up to kMostLaneStride elements.
bool is_in_strides(const std::vector<Expr>& indices, const Var& lane);
bool any_uses(const std::vector<Expr>& indices, const Var& v);
/// The longest aligned run of values of `lane` along which the elements at `indices` are neighbours (`whole`:
/// all are); 0 when they would have to be gathered.
int64_t run_of(const std::vector<Expr>& indices, const Var& lane, int64_t whole);
/// Each load of `value` is contiguous along `lane` or the same for all; where a select chooses by `lane`, the
/// loads of its sides are masked.
bool loads_contiguously(const Expr& value, const Var& lane);
/// The same for elements up to `most` apart; past_others: axes that do not move with the lane may lie behind
/// its own, as of a bias (24, 1, 1) for an image of channels, or of one coordinate of points (40, 2).
bool loads_in_strides(const Expr& value, const Var& lane, int64_t most, bool past_others = false);

/// The loads below `root` in the order of the text, equal ones once; of `buffer` alone, if it is given.
std::vector<Ref<tir::Load>> loads_of(const NodeRef& root, const tir::Buffer& buffer = {});

/// A sum of widened products that vector units compute several products at a time:
///   c[...] = c[...] + cast(x[..., k]) * cast(y[..., k])
/// with neighbours along k neighbours in memory: four 8-bit integers into an int32, or two bfloat16 into a
/// float32.
struct DotProduct {
  Var variable;  // k, the block's innermost, of extent 4 or 2
  tir::Buffer x, y;
};
std::optional<DotProduct> dot_product(const tir::Block& block);
/// How many products a lane of the block's sum can take at a time, wherever their operands lie: 4 of 8-bit
/// integers, 2 of bfloat16; 1 for all else.
int64_t products_at_once(const tir::Block& block);
/// What a reduction multiplies, as it lies in memory; the type of its sums where it reads nothing else.
DataType operand_type(const tir::Block& block);

/// Every so many elements dense loads and shuffles give a vector.
inline constexpr int64_t kMostLaneStride = 4;

/// A load in the body of a reduction, by the variables it is indexed with.
struct Operand {
  tir::Buffer buffer;
  std::vector<bool> uses;  // by block variable
  /// Elements between neighbours in memory, by block variable; 0 where they are not equally far apart.
  std::vector<int64_t> strides;
  /// Neighbours along the vector variable are neighbours in memory, or up to kMostLaneStride elements apart;
  /// else it is the same element for all.
  bool contiguous = false;
  /// Of it that a step reads, where its terms are written out.
  int64_t places = 1;
};

/// How register tiles may lie along a variable.
enum class Fit : uint8_t {
  kAny,     // the last one may stick out
  kExact,   // they end where the variable does: it runs through a part of its values
  kSingle,  // one value each: for some there is nothing to compute
};

/// A reduction that vectorizes along its output: neighbours in the output's last dimension need neighbours of
/// the operands, or the same element of them.
struct VectorReduction {
  std::string block;
  std::vector<int64_t> extents;  // by block variable
  std::vector<bool> reduces;     // by block variable
  std::vector<Fit> fits;         // by block variable
  size_t vector = 0;             // the variable of the output's last dimension
  std::optional<size_t> dot;     // the variable whose products are summed within a lane (see DotProduct)
  int bits = 32;                 // of a sum, 32 at least
  int64_t run = 0;  // lanes are neighbours within aligned runs of this many: its extent, or less when packed
  std::vector<Operand> operands;
  /// The variable whose loop stands outside all others, where one must: the number of the block of terms
  /// that is added up.
  std::optional<size_t> outermost;
  /// The variable along which the work that reads the results is cut between cores, where that is known.
  std::optional<size_t> read_along;
  /// A task computes some of its rows, the last task fewer, and reads no more of its operands than these
  /// need.
  bool is_part = false;
  /// Another reduction, which it reads, may be computed in its loops, a part at a time.
  bool takes_in = false;
  /// What follows a tile of it computes functions (see computes()).
  bool into_functions = false;

  /// Some operand is the same for all lanes: a matrix product or a convolution, not a depthwise one or a
  /// pooling.
  bool broadcasts() const;
  /// The operand is used for a vector of results each, and not again before all others were.
  bool is_weight(size_t operand) const { return broadcasts() && operands[operand].contiguous; }
  /// The variable of the reduction to run inside the register tile, unrolled, rather than around it:
  /// neighbouring results of windows that overlap along it read mostly the same vectors.
  std::optional<size_t> window() const;
  /// Results that share their weights.
  double positions() const;
  /// Terms of a step that are written out.
  int64_t terms() const;
  /// Instructions that add to a vector of results: the iterations of its reduction, those of `dot` at once.
  double steps() const;
};
/// Variable `i` runs along `loop` of its block, maybe through a part of its values.
void fit_to_loop(VectorReduction& reduction, size_t i, const tir::Block& block, const tir::For& loop);
std::optional<VectorReduction> vector_reduction(const Ref<tir::Block>& block);

/// How far apart the elements are that a sum over windows sees along each direction, the least; 1 where it
/// sees neighbours.
int64_t least_dilation(const tir::Block& block);
/// From this on, images of a few rows more than those that have kernels of their own (family.h) still let
/// some of the window's elements see nothing but padding.
inline constexpr int64_t kFarApart = 4;

/// The reduction with the most iterations, or null.
Ref<tir::Block> dominant_reduction(const tir::Func& func);

}  // namespace lathe::schedule
