// The parts that design spaces are put together from. Each schedules some blocks and leaves the others.
#pragma once

#include <functional>

#include "schedules/anatomy.h"
#include "schedules/convolution.h"
#include "schedules/space.h"

namespace lathe::schedule {

/// One of `values`, sampled; `preferred` as a heuristic. No step where there is no choice.
Factor sample_one_of(Schedule& schedule, const std::vector<int64_t>& values, int64_t preferred,
                     const Policy& policy);
int64_t value_of(const Schedule& schedule, const Factor& factor);
/// The same for choices between structures, which are made once: the steps that follow differ, so mutation
/// cannot make them anew.
int64_t choose_one_of(Schedule& schedule, const std::vector<int64_t>& values, int64_t preferred,
                      const Policy& policy);
/// 1, 2, 4 and so on; 1 at least.
std::vector<int64_t> powers_of_two(int64_t most);
/// How many copies of its body a loop of `iterations` may be unrolled to, up to `most`; 1 among them.
std::vector<int64_t> copies_of(int64_t iterations, int64_t most = 8);

/// Another of the loops may run inside the others: what one iteration of it reads, the next may find in the
/// cache.
void choose_innermost(Schedule& schedule, std::vector<LoopHandle>& loops, const Policy& policy);

/// Samples how far ahead the loop's vectors are asked for, where what they run through (so many bytes) comes
/// from beyond the second-level cache; as a heuristic not at all.
void sample_prefetch(Schedule& schedule, LoopHandle loop, int64_t bytes, const Target& target,
                     const Policy& policy);

/// Inlines each element-wise block whose users are all element-wise. Blocks that reductions read stay, and
/// those that users would compute many times: tables, sums of several elements; so do those whose uses would
/// make expressions of thousands of nodes, and those that `stays` says of: by what the block and its users
/// are, for it is asked again only when one of them has changed.
using Stays = std::function<bool(const Schedule&, const Ref<tir::Block>&)>;
void inline_elementwise(Schedule& schedule, const Stays& stays = {});

/// The same, but for the block named `kept` and those whose users would no longer load in vectors.
void inline_in_vectors(Schedule& schedule, const std::string& kept, const Target& target);

/// Element-wise, and computed where it is used no element is computed more often than now by each user, nor
/// found by a long chain of divisions.
bool is_used_once(const tir::Func& func, const Ref<tir::Block>& block,
                  const std::vector<Ref<tir::Block>>& consumers);

/// Inlines what alone makes the terms of the dominant reduction, each used once: (x[i, k] - y[j, k])^2, which
/// as a tensor has no neighbours along j, and of which x and y may be packed like factors. Whether there was
/// such a block. REQUIRES: element-wise blocks are inlined.
bool inline_terms(Schedule& schedule);

/// There are some, and all are element-wise.
bool all_elementwise(const std::vector<Ref<tir::Block>>& blocks);

/// Cheap enough to be computed again for each use: no call, no division, one load of an element of its own.
bool is_cheap(const tir::Block& block);

/// An element-wise block that costs something, to be kept for its users; "" for none. As a heuristic what
/// joins tensors before they are turned.
std::string choose_kept(Schedule& schedule, const Target& target, const Policy& policy);

/// Element-wise blocks that `block` alone reads, padding above all; not those that belong to the loops of a
/// reduction that they read.
std::vector<BlockHandle> movable_producers(Schedule& schedule, BlockHandle block);

/// Inlines what `block` alone reads of element-wise blocks: padding.
void inline_producers(Schedule& schedule, BlockHandle block);

/// The element-wise block that alone reads `result`, in the same order of dimensions, with `result` inlined;
/// `result` itself where there is none.
BlockHandle join_consumer(Schedule& schedule, BlockHandle result);

/// Makes a program's dominant reduction one that vectorizes along the last dimension of its output: pads that
/// to whole vectors and packs operands that need it (operands.cpp). False when it cannot be.
/// REQUIRES: element-wise blocks are inlined.
bool prepare_operands(Schedule& schedule, const Target& target, const Policy& policy);
/// The same for this reduction, whether it dominates or not.
bool prepare_operands(Schedule& schedule, const Ref<tir::Block>& reduction, const Target& target,
                      const Policy& policy);

/// How many of the innermost of `loops` run along one line in memory, whatever the block reads or writes.
int64_t loops_of_line(const Schedule& schedule, const tir::Block& block,
                      const std::vector<LoopHandle>& loops);

/// Element-wise blocks: outer loops fused and parallel, innermost contiguous one vectorized.
void schedule_injective(Schedule& schedule, BlockHandle block, const Target& target,
                        const Policy& policy = {Decide::kHeuristic});

/// Whether tiles of what the block reads may be turned in registers: it writes neighbours along another
/// dimension than it reads them.
bool is_transposition(const tir::Block& block, const Target& target);

/// The same for a block that reads along another dimension than it writes, in tiles that are transposed in
/// registers; false, and no loop changed, for others, or when the policy chooses plain loops.
bool schedule_transposed(Schedule& schedule, BlockHandle block, const Target& target, const Policy& policy);

/// Fuses some of the outer loops and makes them parallel; as a heuristic as many as give every core some
/// iterations, for taking a fused index apart costs divisions.
void run_parallel(Schedule& schedule, const std::vector<LoopHandle>& loops, const Target& target,
                  const Policy& policy = {Decide::kHeuristic});

/// Reductions without a vectorizable output: spatial loops outside, parallel. Where neighbours along the
/// innermost reduction variable are neighbours in memory, partial results in several vectors,
/// combined at the end. Names of the blocks it dealt with.
std::set<std::string> schedule_scalar_reduction(Schedule& schedule, BlockHandle block, const Target& target,
                                                const Policy& policy);

/// Its loops are what they are to be: it was scheduled before, or came with another block (rows that a tile
/// is transposed from).
bool is_finished(Schedule& schedule, BlockHandle block);

/// Vectorizes the innermost loop of an element-wise block when neighbours are neighbours in memory; gives
/// whether it did. The other loops below `outer` are unrolled when they are few.
void finish_inner_loops(Schedule& schedule, BlockHandle block, std::optional<LoopHandle> outer,
                        const Target& target);

/// Whether a loop with that many block iterations in it is worth running on several cores.
bool pays_in_parallel(int64_t iterations, const Target& target);

/// The block after a reduction whose loops are not scheduled yet that can be computed tile by tile as its
/// tiles are done: bias, residual, activation.
std::optional<std::string> epilogue_of(const Schedule& schedule, const tir::Block& reduction);

/// The results of `block` go to a buffer of their own, which becomes registers; its reader is `epilogue`, or
/// a new block that copies them.
BlockHandle stage_accumulators(Schedule& schedule, BlockHandle block,
                               const std::optional<std::string>& epilogue);

/// A reduction cut in blocks of terms.
struct ReductionBlocks {
  VectorReduction partial;  // the terms of one block added up
  size_t variable;          // of `partial`: the number of the block
  BlockHandle sum;          // adds up the blocks
};
/// Cuts the first variable of its terms into `count` parts of equal size. REQUIRES: no `dot`.
ReductionBlocks cut_reduction(Schedule& schedule, const VectorReduction& reduction, IntHandle count);
/// Samples into how many blocks to cut it; nothing for 1, the only choice where a tile's weights fit into the
/// first-level cache or only one tile uses them, and the heuristic one.
std::optional<ReductionBlocks> sample_reduction_blocks(Schedule& schedule, const VectorReduction& reduction,
                                                       const Target& target, const Policy& policy);
/// Sums begin with 0 before `block_loop`; what follows them is computed in `task`, after it. Names of the
/// blocks dealt with.
std::set<std::string> finish_reduction_blocks(Schedule& schedule, BlockHandle sum, LoopHandle block_loop,
                                              LoopHandle task, const Target& target);
/// Exchanges the innermost loops of `sum`, which are those over vectors and over the block it adds.
void block_outside_vectors(Schedule& schedule, BlockHandle sum);

struct Nest {
  std::set<std::string> done;      // names of the blocks dealt with
  std::vector<LoopHandle> places;  // loops that what the reduction reads may be computed in, outermost first
  std::optional<size_t> cut;       // the variable whose parts are different cores' work
};
/// Multi-level tiling of a vectorized reduction with accumulators in registers. The program's other blocks
/// next to it (padding before, element-wise after) move into its loops where that pays. `around`: the loops
/// of another block that it stands in, outermost first; none of its own is parallel then.
Nest schedule_tiled_reduction(Schedule& schedule, const VectorReduction& reduction, const Target& target,
                              const Policy& policy, const std::vector<LoopHandle>& around = {});

/// Reductions of which each reads the one before: what an inverted residual block is fused to. The first is
/// the last of the program.
using Chain = std::vector<VectorReduction>;
/// The chain that ends the program, of vectors throughout, one of each two neighbours without a broadcast
/// operand (a depthwise convolution); a single reduction when there is none. REQUIRES: element-wise blocks
/// are inlined.
Chain reduction_chain(const tir::Func& func, const Target& target);
/// The last reduction in register tiles; each of the others too, before the one that reads it or part by
/// part inside its loops. Names of the blocks dealt with.
std::set<std::string> schedule_chain(Schedule& schedule, Chain chain, const Target& target,
                                     const Policy& policy);

/// The same for a reduction whose producers and consumers are scheduled by the caller. `banded`: so many of
/// its variables, the outermost ones, have one loop, `band`, which stays outside the others, parallel.
struct ProductNest {
  std::set<std::string> done;
  std::optional<LoopHandle> band;
};
ProductNest schedule_product(Schedule& schedule, const VectorReduction& reduction, const Target& target,
                             const Policy& policy, size_t banded);

/// The same inside `around`, with what follows the product in its tiles. Names of the blocks dealt with.
std::set<std::string> schedule_product_inside(Schedule& schedule, const VectorReduction& reduction,
                                              const Target& target, const Policy& policy,
                                              const std::vector<LoopHandle>& around);

/// The convolution that dominates the program once element-wise blocks are merged, where its weight is known
/// when a model is built and lanes run along channels: what `winograd` may transform.
std::optional<Convolution> transformable_convolution(const tir::Func& func);

/// The space of schedules that begin with `winograd`; of the program's dominant reduction.
bool has_winograd(const tir::Func& func, const Target& target);
void generate_winograd(Schedule& schedule, const Target& target, const Policy& policy);

/// The space of schedules that begin with `im2col`; of the program's dominant reduction.
/// Whether a convolution may be one product over all positions, and stands before its register tiles of rows:
/// where these are estimated to be clearly slower.
enum class ImplicitGemm : uint8_t { kNone, kOther, kFirst };
ImplicitGemm implicit_gemm(const tir::Func& func, const Target& target);
void generate_implicit_gemm(Schedule& schedule, const Target& target, const Policy& policy);

/// The space of schedules that begin with `strassen`; of the program's dominant reduction.
bool has_strassen(const tir::Func& func, const Target& target);
void generate_strassen(Schedule& schedule, const Target& target, const Policy& policy);

/// A constant of the model, or computed from constants alone: when the model is built.
bool is_constant(const tir::Func& func, const tir::Buffer& buffer);
/// The space of schedules that go over rows (row_program.h).
bool has_rows(const tir::Func& func, const Target& target);
void generate_rows(Schedule& schedule, const Target& target, const Policy& policy);

/// The space of schedules whose lanes are rows of a few elements.
bool has_short_rows(const tir::Func& func, const Target& target);
void generate_short_rows(Schedule& schedule, const Target& target, const Policy& policy);

/// The space of schedules that give each core a part of a row, where there are fewer rows than cores.
bool has_row_parts(const tir::Func& func, const Target& target);
void generate_row_parts(Schedule& schedule, const Target& target, const Policy& policy);

/// The space of schedules of two matrix products with rows between them.
bool has_attention(const tir::Func& func, const Target& target);
void generate_attention(Schedule& schedule, const Target& target, const Policy& policy);

/// The space of schedules of running sums.
bool has_scan(const tir::Func& func, const Target& target);
void generate_scan(Schedule& schedule, const Target& target, const Policy& policy);

/// The blocks, in their order, that make these weights of float32 of constants of float16: kept as such,
/// nothing is rounded. None where they are made otherwise.
std::vector<BlockHandle> widening_of_constant(Schedule& schedule, const tir::Buffer& weights);
/// The block that lays a constant out anew as `weights`, element by element, where one does.
std::optional<BlockHandle> copying_of_constant(Schedule& schedule, const tir::Buffer& weights);
/// Samples whether what these blocks write is kept in half precision; `preferred`: the heuristic choice.
/// REQUIRES: they write float32.
void sample_half_storage(Schedule& schedule, const std::vector<BlockHandle>& blocks, bool preferred,
                         Decide decide);
/// Whether a constant is large, and the target widens what is kept in half precision as it loads.
bool pays_as_half(DataType dtype, int64_t bytes, const Target& target);
/// The same, and the policy allows to round it.
bool may_be_half(DataType dtype, int64_t bytes, const Target& target, const Policy& policy);

/// One block by the parts above, unless it is in `done` or finished; adds the names of those dealt with.
void schedule_block(Schedule& schedule, const Ref<tir::Block>& block, const Target& target,
                    std::set<std::string>& done, const Policy& policy);
/// Every block that is not in `done`.
void schedule_rest(Schedule& schedule, const Target& target, std::set<std::string> done,
                   const Policy& policy = {Decide::kHeuristic});

}  // namespace lathe::schedule
