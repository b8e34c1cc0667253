// Element-wise blocks that read a tensor along another dimension than they write: permuted axes, changed
// layouts. A tile of both dimensions is loaded into registers by rows, vectors of neighbours, and read there
// by columns, which code generation makes of the rows by shuffles:
//
//   for blocks of tiles of i and j, for tiles of i, for tiles of j:
//     for ii: rows[ii, 0..16] = x[.., i + ii, .., j..j+16]
//     for jj: y[.., j + jj, .., i..i+16] = f(rows[0..16, jj])
#include <algorithm>
#include <bit>

#include "core/arith/simplify.h"
#include "core/support/error.h"
#include "core/tir/machine.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/spaces/vector_loads.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A block's variable, along which elements are neighbours within aligned runs of `run`: a packed operand's
/// lanes are those of one vector.
struct Neighbours {
  size_t variable;
  int64_t run;
};

/// Along `written` neighbours are written, along `read` neighbours are loaded.
struct Transposition {
  Buffer buffer;
  std::vector<Expr> places;  // that are loaded of it
  Neighbours written, read;
  bool is_plain;  // rows are the buffer's own; else loads that divide, or are chosen, say what a row is
};

/// The longest aligned run of values of `lane` that lie beside each other in a block of channels, where it is
/// another variable as well that says which block: a run may be shorter than a block. 0: there is none.
int64_t run_in_block(const Block& block, const std::vector<Expr>& indices, const Var& lane) {
  const Binary* place = indices.back().as<Binary>();
  const int64_t* size = place && place->op == BinaryOp::kFloorMod ? as_int(place->b) : nullptr;
  if (!size || !uses_var(place->a, lane.get())) return 0;
  const auto is_run = [&](int64_t run) {
    Analyzer analyzer;
    const Var first = var("first"), part = var("part");
    for (const BlockIter& iter : block.iters)
      if (iter.var != lane)
        analyzer.bind_range(iter.var, iter.extent);
      else
        analyzer.bind_range(first, floordiv(iter.extent + (run - 1), run));
    analyzer.bind_range(part, run);
    const auto split = [&](const Expr& index) {
      return analyzer.simplify(substitute(index, {{lane.get(), first * run + part}}));
    };
    for (size_t d = 0; d + 1 < indices.size(); ++d)
      if (uses_var(split(indices[d]), part.get())) return false;
    auto form = linear_form(split(indices.back()), {&part, 1});
    return form && form->coefficients[part.get()] == 1;
  };
  for (int64_t run = *size; run > 1; run /= 2) {
    if (is_run(run)) return run;
    if (run % 2) break;
  }
  return 0;
}

/// Of the block's variables along which elements at `indices` are neighbours the one with the longest runs.
std::optional<Neighbours> contiguous_variable(const Block& block, const std::vector<Expr>& indices) {
  std::optional<Neighbours> best;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const BlockIter& iter = block.iters[i];
    const int64_t* extent = as_int(iter.extent);
    if (!extent || *extent == 1 || !any_uses(indices, iter.var)) continue;
    // A block of channels may have more lanes than there are channels.
    int64_t run = run_of(indices, iter.var, *extent);
    if (run == 0) run = run_in_block(block, indices, iter.var);
    run = std::min(run, *extent);
    if (run > 0 && (!best || run > best->run)) best = {i, run};
  }
  return best;
}

/// Neighbours along `lane` are not equally far apart: some are the same element, others in other channels.
bool divides_by_lane(const Load& load, const Var& lane) {
  return std::any_of(load.indices.begin(), load.indices.end(), [&](const Expr& index) {
    return uses_var(index, lane.get()) && !linear_form(index, {&lane, 1});
  });
}

/// Whether `load` is one of what a select has to choose.
bool is_chosen(const Expr& value, const Load& load) {
  bool chosen = false;
  post_order(value, [&](const NodeRef& node) {
    const Select* select = node.as<Select>();
    const auto holds = [&](const Expr& side) {
      bool found = false;
      post_order(side, [&](const NodeRef& part) { found |= part.get() == &load; });
      return found;
    };
    chosen |= select && (holds(select->if_true) || holds(select->if_false));
  });
  return chosen;
}

/// Where `block` has one load that vectors along its output would gather, and that load has neighbours along
/// another variable.
std::optional<Transposition> transposition_of(const Block& block, const Target& target) {
  const Store& store = *block.body.as<Store>();
  auto written = contiguous_variable(block, store.indices);
  if (!written) return std::nullopt;
  const Var& lane = block.iters[written->variable].var;
  std::vector<Ref<Load>> loads = loads_of(store.value), gathered;
  std::copy_if(loads.begin(), loads.end(), std::back_inserter(gathered), [&](const Ref<Load>& load) {
    return any_uses(load->indices, lane) && !is_contiguous(load->indices, lane);
  });
  if (gathered.size() != 1) return std::nullopt;
  const bool divides = divides_by_lane(*gathered[0], lane);
  const int64_t width = row_width(int_value(block.iters[written->variable].extent), target);
  // A few long runs put together are cheaper.
  if (divides && width > 1 && loads_in_runs(block, store.value, lane, width)) return std::nullopt;
  const Buffer& buffer = gathered[0]->buffer;
  auto read = contiguous_variable(block, gathered[0]->indices);
  auto loads_buffer = [&](const Ref<Load>& load) { return load->buffer == buffer; };
  if (!read || read->variable == written->variable ||
      std::count_if(loads.begin(), loads.end(), loads_buffer) != 1)
    return std::nullopt;
  return Transposition{buffer, gathered[0]->indices, *written, *read,
                       !divides && !is_chosen(store.value, *gathered[0])};
}

/// Elements of a tile along a dimension of that extent: the lanes, or a power of two for a shorter one.
int64_t tile_of(int64_t extent, const Target& target) {
  return std::min<int64_t>(target.lanes(),
                           static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent))));
}

/// The same of what is read, whose elements are no lanes of what is written: a run that is shorter than the
/// lanes is a tile. One of 16 for a run of 12 would end in the block of channels behind, and so would its
/// rows, which would then not be those of one matrix.
int64_t rows_tile(const Neighbours& n, const Target& target) {
  return n.run <= target.lanes() ? n.run : tile_of(n.run, target);
}

std::vector<LoopHandle> loops_inside(Schedule& s, BlockHandle block, LoopHandle around) {
  std::vector<LoopHandle> inner;
  bool below = false;
  for (LoopHandle loop : s.get_loops(block)) {
    if (below) inner.push_back(loop);
    below |= s[loop]->var == s[around]->var;
  }
  return inner;
}

/// Its loops inside `around`: rows are vectors, along the last dimension of what it writes, one after
/// another.
void load_rows(Schedule& s, BlockHandle rows, LoopHandle around) {
  std::vector<LoopHandle> inner = loops_inside(s, rows, around);
  const Ref<Block> copy = s[rows];
  const Expr& last = copy->body.as<Store>()->indices.back();
  const auto runs_along = [&](LoopHandle loop) {
    return std::any_of(copy->iters.begin(), copy->iters.end(), [&](const BlockIter& iter) {
      return uses_var(last, iter.var.get()) && uses_var(iter.value, s[loop]->var.get());
    });
  };
  const std::vector<LoopHandle> given = inner;
  std::stable_partition(inner.begin(), inner.end(), [&](LoopHandle loop) { return !runs_along(loop); });
  if (inner != given) s.reorder(inner);
  s.vectorize(inner.back());
  inner.pop_back();
  for (LoopHandle loop : inner) s.unroll(loop);
}

/// What the sizes of a tile may be: as many elements as a vector has, or half of them.
std::vector<int64_t> tile_sizes(int64_t whole) {
  return whole >= 8 && whole % 2 == 0 ? std::vector<int64_t>{whole / 2, whole} : std::vector<int64_t>{whole};
}

constexpr int64_t kMostTiles = 16;  // of a block that stays in the cache, along a dimension

/// Loops over tiles, over those of a block that stays in the cache, over the elements of one: `size`, or half
/// of them, and one tile a block, or several, as a heuristic.
std::vector<LoopHandle> cut(Schedule& s, LoopHandle loop, int64_t extent, int64_t size, bool prefers_half,
                            bool prefers_several, const Policy& policy) {
  const std::vector<int64_t> sizes = tile_sizes(size), counts = copies_of(extent / size, kMostTiles);
  Factor elements = sample_one_of(s, sizes, prefers_half ? sizes.front() : size, policy);
  return s.split(
      loop, {kInferred, sample_one_of(s, counts, prefers_several ? counts.back() : 1, policy), elements});
}

/// Whether so many rows of a tile, one for each value of `variable`, put each other out of the cache: those
/// of 128 columns, or of planes of 64 x 64, share one set of it.
bool rows_conflict(const Buffer& buffer, const std::vector<Expr>& indices, const Var& variable, int64_t rows,
                   const Target& target) {
  std::vector<int64_t> addresses;
  for (int64_t row = 0; row < rows; ++row) {
    Expr distance = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const Expr moved = substitute(indices[d], {{variable.get(), row}}),
                 first = substitute(indices[d], {{variable.get(), 0}});
      distance = distance * buffer->shape[d] + (moved - first);
    }
    distance = simplify(distance);
    if (!as_int(distance)) return false;
    addresses.push_back(*as_int(distance) * buffer->dtype.bytes());
  }
  return conflicting_lines(target, addresses) > 0;
}

/// The variable that moves `store` from one row to the next where `along` runs along rows; none where another
/// index does, too.
std::optional<size_t> next_row(const Block& block, const Store& store, const Var& along) {
  for (size_t d = 1; d < store.indices.size(); ++d) {
    if (!store.indices[d].same_as(along.get())) continue;
    for (size_t i = 0; i < block.iters.size(); ++i)
      if (store.indices[d - 1].same_as(block.iters[i].var.get())) return i;
  }
  return std::nullopt;
}

/// Of `block`, in one of the loop `around` it; loops of open extents do not count.
double iterations_inside(Schedule& s, BlockHandle block, LoopHandle around) {
  double count = 1;
  for (LoopHandle loop : loops_inside(s, block, around))
    if (const int64_t* extent = as_int(s[loop]->extent)) count *= static_cast<double>(*extent);
  return count;
}

/// A copy of what `block` reads, in rows along `t.read`. Throws Error where the block is no longer as it was
/// built.
BlockHandle rows_of(Schedule& s, BlockHandle block, const Transposition& t) {
  const Ref<Block> body = s[block];
  const std::vector<Region>& reads = body->reads;
  const auto found =
      std::find_if(reads.begin(), reads.end(), [&](const Region& r) { return r.buffer == t.buffer; });
  const int64_t read = found - reads.begin();
  if (t.is_plain) return s.cache_read(block, read, Scope::kLocal);
  BlockHandle rows = s.reindex(block, read);
  const Ref<Block> copy = s[rows];
  const Buffer& packed = copy->writes[0].buffer;
  const std::string& name = body->iters[t.read.variable].var->name;
  std::vector<int64_t> axes, last;
  for (size_t d = 0; d < copy->iters.size(); ++d) {
    std::vector<int64_t>& place = copy->iters[d].var->name == name ? last : axes;
    place.insert(place.end(), {static_cast<int64_t>(d), int_value(packed->shape[d])});
  }
  axes.insert(axes.end(), last.begin(), last.end());
  s.transform_layout(rows, 0, axes);
  s.set_scope(rows, 0, Scope::kLocal);
  return rows;
}

/// How many elements the rows of a tile are copied for each of its own. Throws Error where the block is no
/// longer as it was built.
double tile(Schedule& s, BlockHandle block, const Transposition& t, const Target& target,
            const Policy& policy) {
  const Ref<Block> body = s[block];
  BlockHandle rows = rows_of(s, block, t);
  std::vector<LoopHandle> loops = s.get_loops(block), outer;
  if (loops.size() != body->iters.size()) fail("block `{}` is scheduled already", body->name);
  auto extent_of = [&](size_t i) { return int_value(body->iters[i].extent); };
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != t.written.variable && i != t.read.variable) outer.push_back(loops[i]);
  auto length_of = [&](const Neighbours& n) { return std::min(extent_of(n.variable), n.run); };
  // Runs that tiles do not fill have a loop each: a tile ends with its run.
  auto loop_of = [&](const Neighbours& n, int64_t size) {
    if (n.run >= extent_of(n.variable) || n.run % size == 0) return loops[n.variable];
    auto parts = s.split(loops[n.variable], {kInferred, n.run});
    outer.push_back(parts[0]);
    return parts[1];
  };
  const int64_t width = tile_of(length_of(t.written), target);
  const int64_t size = rows_tile(t.read, target);
  // A line that is written is fetched before its turn comes. Of more lines than have places in the cache some
  // are put out again, and the stores wait: what is written next has to be the same rows' next vectors. Half
  // as many rows have places where the other halves of the lines that are read stay for the next ones.
  constexpr int64_t kStoresInFlight = 64;
  const Store& store = *body->body.as<Store>();
  const Var &across = body->iters[t.read.variable].var, &along = body->iters[t.written.variable].var;
  const auto written_conflict = [&](int64_t rows) {
    return rows_conflict(store.buffer, store.indices, across, rows, target);
  };
  const bool follows_rows = written_conflict(std::min(extent_of(t.read.variable), kStoresInFlight)),
             halves = written_conflict(size) && !written_conflict(size / 2) &&
                      !rows_conflict(t.buffer, t.places, along, width, target);
  auto columns = cut(s, loop_of(t.written, width), length_of(t.written), width, false, follows_rows, policy);
  // A square tile is the cheapest to turn: each of its vectors is full.
  auto lines =
      cut(s, loop_of(t.read, size), length_of(t.read), size, halves || size / 2 >= width, false, policy);
  // Rows of few tiles go on in the next row.
  std::optional<LoopHandle> next_rows;
  const int64_t in_row = std::max<int64_t>(length_of(t.written) / width, 1);
  if (const auto next = next_row(*body, store, along); next && follows_rows && in_row < kMostTiles) {
    const auto place = std::find_if(outer.begin(), outer.end(),
                                    [&](LoopHandle loop) { return s[loop]->var == s[loops[*next]]->var; });
    if (place != outer.end()) {
      const std::vector<int64_t> counts = copies_of(extent_of(*next), kMostTiles / in_row);
      auto rows_of_tiles = s.split(*place, {kInferred, sample_one_of(s, counts, counts.back(), policy)});
      *place = rows_of_tiles[0];
      next_rows = rows_of_tiles[1];
    }
  }
  choose_innermost(s, outer, policy);
  outer.push_back(columns[0]);
  outer.push_back(lines[0]);
  std::vector<LoopHandle> order = outer;
  if (next_rows) order.push_back(*next_rows);
  if (choose_one_of(s, {0, 1}, 0, policy) == 0)
    order.insert(order.end(), {columns[1], lines[1]});
  else
    order.insert(order.end(), {lines[1], columns[1]});
  LoopHandle around = order.back();
  const bool unrolls = choose_one_of(s, {0, 1}, 0, policy) == 1;
  order.insert(order.end(), {lines[2], columns[2]});
  s.reorder(order);
  s.compute_at(rows, around);
  const double copied = iterations_inside(s, rows, around), own = iterations_inside(s, block, around);
  load_rows(s, rows, around);
  s.unroll(lines[2]);
  if (unrolls) s.unroll(around);
  s.vectorize(columns[2]);
  if (pays_in_parallel(iterations(*body), target)) run_parallel(s, outer, target, policy);
  return copied / own;
}
}  // namespace

bool is_transposition(const Block& block, const Target& target) {
  constexpr int64_t kFewest = 3;  // fewer elements a vector cost what single ones do
  const Store* store = block.body.as<Store>();
  std::optional<Transposition> t =
      store && is_injective(block) ? transposition_of(block, target) : std::nullopt;
  if (!t || target.lanes() < 4) return false;
  auto in_tiles = [&](const Neighbours& n, int64_t size) {
    const int64_t extent = int_value(block.iters[n.variable].extent);
    const bool one_tile_each = n.run <= target.lanes() && extent % n.run == 0;
    return (n.run == extent || one_tile_each || n.run % size == 0) && n.run >= kFewest;
  };
  return in_tiles(t->written, tile_of(t->written.run, target)) &&
         in_tiles(t->read, rows_tile(t->read, target));
}

/// Whether floats are converted to integers in the value.
bool becomes_integer(const Expr& value) {
  bool found = false;
  post_order(value, [&](const NodeRef& node) {
    const Cast* cast = node.as<Cast>();
    found |= cast && cast->value.dtype().is_float() && cast->dtype.is_int();
  });
  return found;
}

bool schedule_transposed(Schedule& s, BlockHandle block, const Target& target, const Policy& policy) {
  const Ref<Block> body = s[block];
  if (!is_transposition(*body, target)) return false;
  std::optional<Transposition> t = transposition_of(*body, target);
  // Where a tile goes over the end of a plane, what it reads is not known better than as all planes.
  constexpr double kMostCopied = 4;
  try {
    Schedule trial = s;
    if (tile(trial, block, *t, target, {Decide::kHeuristic}) > kMostCopied) return false;
  } catch (const Error&) {
    return false;  // what it reads cannot move into its loops
  }
  // Code generation interleaves rows of few channels in whole vectors, of which columns would be a part each.
  constexpr int64_t kInterleaved = 4;
  // Not those that become integers on the way: such conversions are made of several instructions, one by one.
  const bool interleaves = int_value(body->iters[t->written.variable].extent) <= kInterleaved &&
                           t->read.run >= target.lanes() && !becomes_integer(body->body.as<Store>()->value);
  if (choose_one_of(s, {0, 1}, interleaves ? 0 : 1, policy) == 0) return false;
  tile(s, block, *t, target, policy);
  return true;
}

}  // namespace lathe::schedule
