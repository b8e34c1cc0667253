// Schedules of matrix products after `strassen`:
//
//   parallel for rows: sums of quadrants of the data     unrolled over sums, vectors of depths
//   parallel for bands of columns:                       what a band needs stays in the second-level cache
//     for the seven products: a matrix product           register tiles, as of any contraction
//     for rows: results and what follows them            unrolled over quadrants, vectors of columns
//
// The weights' sums depend on nothing else, so they are made when a model is built (tir/prologue.h): seven
// quadrants' worth of memory instead of four.
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "schedules/matrix_product.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// One product in eight is saved. A sum of the data serves all columns of a quadrant, one of the products
/// stands for a quadrant's depth, one of the weights (which are read once a run) for its rows: with fewer of
/// each than these, what is added takes what is saved.
constexpr int64_t kFewestRows = 64, kFewestDepths = 256, kFewestColumns = 128;
constexpr int64_t kMostVectorsOfHalf = 16;

/// The matrix product of constant weights that dominates the program once element-wise blocks are merged.
std::optional<MatrixProduct> main_product(const Func& func) {
  if (!dominant_reduction(func)) return std::nullopt;
  Schedule merged(func);
  inline_elementwise(merged);
  Ref<Block> block = dominant_reduction(merged.func());
  try {
    MatrixProduct p = matrix_product_of(block);
    bool wide =
        p.data->dtype == kFloat32 && p.weight->dtype == kFloat32 && p.update->buffer->dtype == kFloat32;
    if (!wide || !is_constant_param(func, p.weight->buffer) || p.rows < kFewestRows ||
        p.depths < kFewestDepths || p.columns < kFewestColumns)
      return std::nullopt;
    return p;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Half a band in columns: whole vectors, of which the products of a band fit on the stack.
std::vector<int64_t> halves_of(const MatrixProduct& p, const Target& target) {
  int64_t results = 1;  // of a column
  for (const Expr& extent : p.update->buffer->shape) results *= int_value(extent);
  results /= p.columns;
  std::vector<int64_t> halves;
  for (int64_t vectors = 1; vectors <= kMostVectorsOfHalf; ++vectors) {
    int64_t half = vectors * target.lanes();
    if (half > p.columns / 2 || 7 * half * (results + 1) / 2 * p.update->buffer->dtype.bytes() > kStackBytes)
      break;
    halves.push_back(half);
  }
  return halves;
}

class StrassenSchedule {
 public:
  StrassenSchedule(Schedule& schedule, const MatrixProduct& product, const Target& target,
                   const Policy& policy)
      : s_(schedule), p_(product), target_(target), policy_(policy) {}

  /// Gives the names of the blocks that are scheduled.
  std::set<std::string> apply() {
    std::vector<int64_t> halves = halves_of(p_, target_);
    if (halves.empty()) fail("strassen: the products of a band of columns do not fit on the stack");
    const bool heuristic = policy_.decide == Decide::kHeuristic;
    half_ = s_.sample_categorical(halves,
                                  heuristic ? Decision{static_cast<int64_t>(halves.size() / 2)} : Decision{});
    b_ = s_.strassen(s_.get_block(p_.block->name), half_);
    pack_weight();
    b_.result = join_consumer(s_, b_.result);
    auto reduction = vector_reduction(s_[b_.products]);
    if (!reduction || vector_width(*reduction, target_) == 1)
      fail("strassen: the products do not vectorize along their last dimension");
    ProductNest products = schedule_product(s_, *reduction, target_, policy_, /*banded=*/1);
    done_.merge(products.done);
    if (!products.band) fail("strassen: the products have no loop over bands");
    s_.reverse_compute_at(b_.result, *products.band);
    finish_result();
    finish_data();
    return std::move(done_);
  }

 private:
  /// Vectors of columns one after another, in the order in which products take them.
  void pack_weight() {
    const std::vector<Expr>& shape = s_[b_.weight]->writes[0].buffer->shape;
    const int64_t lanes = target_.lanes();
    s_.transform_layout(b_.weight, 0,
                        {0, int_value(shape[0]), 1, int_value(shape[1]), 3, int_value(shape[3]) / lanes, 2,
                         int_value(shape[2]), 3, lanes});
  }

  /// A vector of each quadrant at a time, from the same vectors of products.
  void finish_result() {
    const size_t rank = s_[b_.result]->iters.size();
    std::vector<LoopHandle> loops = s_.get_loops(b_.result);
    loops.erase(loops.begin(), loops.end() - static_cast<int64_t>(rank));
    std::vector<LoopHandle> rows = s_.split(loops[p_.out_row], {2, kInferred});
    std::vector<LoopHandle> columns = s_.split(loops.back(), {2, kInferred, target_.lanes()});
    std::vector<LoopHandle> order;
    for (size_t d = 0; d + 1 < rank; ++d) order.push_back(d == p_.out_row ? rows[1] : loops[d]);
    order.insert(order.end(), {columns[1], rows[0], columns[0], columns[2]});
    s_.reorder(order);
    s_.unroll(rows[0]);
    s_.unroll(columns[0]);
    s_.vectorize(columns[2]);
    done_.insert(s_[b_.result]->name);
  }

  /// A vector of each sum at a time, from the same vectors of quadrants.
  void finish_data() {
    std::vector<LoopHandle> loops = s_.get_loops(b_.data);
    const LoopHandle sums = loops[0];
    std::vector<LoopHandle> order(loops.begin() + 1, loops.end() - 1);
    const int64_t extent = int_value(s_[loops.back()]->extent), width = row_width(extent, target_);
    std::vector<LoopHandle> parts = s_.split(loops.back(), {kInferred, width});
    order.insert(order.end(), {parts[0], sums, parts[1]});
    s_.reorder(order);
    s_.unroll(sums);
    if (width > 1) s_.vectorize(parts[1]);
    run_parallel(s_, {order.begin(), order.end() - 3}, target_);
    done_.insert(s_[b_.data]->name);
  }

  Schedule& s_;
  const MatrixProduct& p_;
  const Target& target_;
  const Policy& policy_;
  StrassenBlocks b_;
  IntHandle half_;
  std::set<std::string> done_;
};
}  // namespace

bool has_strassen(const Func& func, const Target& target) {
  if (target.lanes() == 1) return false;
  auto product = main_product(func);
  return product && !halves_of(*product, target).empty();
}

void generate_strassen(Schedule& schedule, const Target& target, const Policy& policy) {
  auto product = main_product(schedule.func());
  CHECK(product, "the space of strassen was asked to schedule another program");
  inline_elementwise(schedule);
  StrassenSchedule strassen(schedule, *product, target, policy);
  schedule_rest(schedule, target, strassen.apply());
}

}  // namespace lathe::schedule
