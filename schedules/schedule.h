// Scheduling: rewriting how a tensor program is computed, never what. A Schedule applies primitives to a
// program and records them as a trace.
//
//   Schedule s(func);
//   BlockHandle matmul = s.get_block("matmul");
//   auto loops = s.get_loops(matmul);
//   auto [outer, inner] = pair_of(s.split(loops[1], {kInferred, 16}));
//   s.vectorize(inner);
//   Func again = replay(s.trace(), func);     // structurally equal to s.func()
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "core/tir/stmt.h"
#include "schedules/random.h"
#include "schedules/trace.h"

namespace lathe::schedule {

struct Binding;

/// A factor of `split` that is to be computed from the others.
inline constexpr int64_t kInferred = 0;

/// A number known now or sampled.
using Factor = std::variant<IntHandle, int64_t>;

/// What a sampling primitive decides; empty: at random.
using Decision = std::vector<int64_t>;

/// What `winograd` makes of a convolution, in the order in which it runs.
struct WinogradBlocks {
  BlockHandle frame;                // zeros to whole tiles
  BlockHandle rows, tiles;          // input transform: along one dimension, then both
  BlockHandle kernel_rows, kernel;  // the weight's
  BlockHandle products;
  BlockHandle columns, result;  // output transform: along one dimension, then both
};

/// What `strassen` makes of a matrix product, in the order in which it runs.
struct StrassenBlocks {
  BlockHandle data, weight;  // sums of quadrants
  BlockHandle products;
  BlockHandle result;  // the products added up
};

/// What `im2col` makes of a convolution, in the order in which it runs.
struct Im2colBlocks {
  BlockHandle columns;  // what each position needs of the data, gathered
  BlockHandle product;  // over all positions at once
  BlockHandle result;   // takes positions apart into rows and columns
};

class Schedule {
 public:
  explicit Schedule(tir::Func func, uint64_t seed = 0);
  Schedule(const Schedule&);
  Schedule(Schedule&&) noexcept;
  ~Schedule();

  const tir::Func& func() const { return func_; }
  const Trace& trace() const { return trace_; }

  /// Runs a primitive and records the step. `decision` settles a sampling primitive. Throws Error when the
  /// application is not legal; the schedule is then unchanged.
  std::vector<Output> run(const Primitive& primitive, std::vector<Input> inputs, Decision decision = {});

  /// What handles stand for now. Throw Error when the block or loop is gone.
  Ref<tir::Block> operator[](BlockHandle block) const;
  Ref<tir::For> operator[](LoopHandle loop) const;
  int64_t operator[](IntHandle number) const;

  // The primitives, one line each; primitives/*.cpp say what they do.
  BlockHandle get_block(const std::string& name);
  std::vector<LoopHandle> get_loops(BlockHandle block);
  IntHandle sample_categorical(const std::vector<int64_t>& candidates, Decision decision = {});
  std::vector<IntHandle> sample_tuple(int64_t width, const std::vector<int64_t>& values,
                                      Decision decision = {});
  LoopHandle sample_compute_location(BlockHandle block, const std::vector<LoopHandle>& loops,
                                     Decision decision = {});
  std::vector<LoopHandle> split(LoopHandle loop, const std::vector<Factor>& factors);
  LoopHandle fuse(const std::vector<LoopHandle>& loops);
  /// The loops, each right inside the one before, as one of tasks: fused, so that cores get equal shares; or
  /// apart, where the schedule is for a program whose extents are open (keep_apart()). Gives the innermost.
  LoopHandle tasks(const std::vector<LoopHandle>& loops);
  /// Runs what tasks() gave on all cores.
  void run_tasks(LoopHandle tasks);
  /// From now on: a number of a task that is divided by open extents would hide in which tile it is.
  void keep_apart() { apart_ = true; }
  void reorder(const std::vector<LoopHandle>& loops);
  void parallel(LoopHandle loop);
  void vectorize(LoopHandle loop);
  void unroll(LoopHandle loop);
  void dot_product(LoopHandle loop);
  void annotate(LoopHandle loop, const std::string& key, const Factor& value);
  BlockHandle cache_read(BlockHandle block, int64_t read, tir::Scope scope);
  BlockHandle cache_write(BlockHandle block, int64_t write, tir::Scope scope);
  void set_scope(BlockHandle block, int64_t write, tir::Scope scope);
  void compute_at(BlockHandle block, LoopHandle loop);
  void compute_rows_at(BlockHandle block, LoopHandle loop);
  void reverse_compute_at(BlockHandle block, LoopHandle loop);
  void compute_inline(BlockHandle block);
  void reverse_compute_inline(BlockHandle block);
  BlockHandle decompose_reduction(BlockHandle block, LoopHandle loop);
  BlockHandle rfactor(BlockHandle block, LoopHandle loop);
  void reduce_in_lanes(BlockHandle block, const Factor& vectors, const Factor& width);
  /// The border, and what is inside.
  std::vector<BlockHandle> decompose_padding(BlockHandle block);
  /// The block that computes what stands inside; `block` stays, and pads that.
  BlockHandle separate_padding(BlockHandle block);
  void skip_padding(BlockHandle block);
  BlockHandle blockize(LoopHandle loop);
  WinogradBlocks winograd(BlockHandle block, const std::vector<IntHandle>& rows_columns_band);
  /// `half`: columns of half a band.
  StrassenBlocks strassen(BlockHandle block, IntHandle half);
  Im2colBlocks im2col(BlockHandle block);
  /// One multiple for each variable of the block. Gives the block that copies what is valid.
  BlockHandle pad_einsum(BlockHandle block, const std::vector<int64_t>& multiples);
  /// The block that copies what `block` reads, by the variables that it is read with, in their order.
  BlockHandle reindex(BlockHandle block, int64_t read);
  /// The block that copies a buffer which `block` loads at several places, to be loaded at one of them:
  /// number `place` of loads_of().
  BlockHandle separate_read(BlockHandle block, int64_t read, int64_t place);
  /// Variable number `variable` of the block as groups of `factor` and the place in a group: a variable of a
  /// reduction, the place last then, or one of an element-wise block, the place next.
  void split_variable(BlockHandle block, int64_t variable, int64_t factor);
  /// `axes`: pairs of a dimension of the buffer and an extent, outermost axis first.
  void transform_layout(BlockHandle block, int64_t write, const std::vector<int64_t>& axes);
  /// Floats of `bits` bits, rounded to nearest even when there are fewer than before. Sums of rounded values
  /// are computed as before.
  void store_as(BlockHandle block, int64_t write, const Factor& bits);

 private:
  std::vector<LoopHandle> run_loops(const char* name, std::vector<Input> inputs);
  std::vector<BlockHandle> run_blocks(const char* name, std::vector<Input> inputs);

  tir::Func func_;
  Trace trace_;
  std::vector<Binding> bindings_;  // by handle id
  Random random_;
  bool apart_ = false;
  std::map<LoopHandle, std::vector<LoopHandle>> tasks_;  // of several loops apart, by the innermost
};

/// The program that the trace makes of `func`. Throws Error, naming the step, when a step does not apply.
tir::Func replay(const Trace& trace, const tir::Func& func);
/// The same, as a schedule to go on with.
Schedule replay_schedule(const Trace& trace, const tir::Func& func);
/// The same with the decision of step `renewed` drawn anew, and those of later steps that do not fit any
/// more. Throws as replay does.
Schedule replay_renewing(const Trace& trace, const tir::Func& func, size_t renewed, uint64_t seed);

}  // namespace lathe::schedule
