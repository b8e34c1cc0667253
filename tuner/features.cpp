#include "tuner/features.h"

#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "schedules/family.h"
#include "tuner/store_pattern.h"

namespace lathe::tuner {

using namespace tir;

namespace {

/// Each row has room for so many. Programs that read fewer have zeros there; of more, the smallest are left
/// out.
constexpr int kBuffers = 5;  // the written one and the four that are read most widely
constexpr int kCaches = 3;

/// Quantities range over ten decimal powers. The 1 keeps an absent quantity at 0; callers pass one less where
/// 1 means none.
double log2_of(double x) { return std::log2(1 + std::max(x, 0.0)); }

/// Takes the columns of a row one by one. Subclasses keep the values or the names.
class Columns {
 public:
  virtual ~Columns() = default;
  /// A column of `group` number `index` (0: the group is one of a kind).
  virtual void add(const char* group, int index, const char* name, double value) = 0;
  void add(const char* name, double value) { add("", 0, name, value); }
};

class Values final : public Columns {
 public:
  std::vector<float> values;
  void add(const char*, int, const char*, double value) override {
    values.push_back(static_cast<float>(value));
  }
  using Columns::add;
};

class Names final : public Columns {
 public:
  std::vector<std::string> names;
  void add(const char* group, int index, const char* name, double) override {
    std::string prefix =
        *group ? (index ? fmt::format("{} {}: ", group, index) : fmt::format("{}: ", group)) : "";
    names.push_back(prefix + name);
  }
  using Columns::add;
};

/// What is known about one store and the program around it.
struct Context {
  const StorePattern& store;
  const Target& target;
  double program_flops;  // of all stores
  size_t stores;         // in the program
  size_t vector_loop;    // number of the vectorized loop, or loops.size()
  size_t tile_from;      // the loops from here on are unrolled or vectorized

  double flops() const { return store.iterations() * store.operations.floats(); }
  int64_t vector_stride(const PatternAccess& access) const {
    return vector_loop < store.loops.size() ? access.stride[vector_loop] : 0;
  }
};

/// The tile is the longest innermost run of loops that leave no loop in the code: unrolled, vectorized, or of
/// one iteration.
/// Loops over one iteration leave no trace in the code, so they do not end the tile.
Context context_of(const StorePattern& store, const Target& target, double program_flops, size_t stores) {
  size_t loops = store.loops.size(), vector_loop = loops, tile_from = loops;
  for (size_t l = 0; l < loops; ++l)
    if (store.loops[l].iteration == Iteration::kVectorized) vector_loop = l;
  while (tile_from > 0) {
    const PatternLoop& loop = store.loops[tile_from - 1];
    if (loop.extent > 1 && loop.iteration != Iteration::kVectorized && loop.iteration != Iteration::kUnrolled)
      break;
    --tile_from;
  }
  return {store, target, program_flops, stores, vector_loop, tile_from};
}

/// What is computed, however the loops are arranged.
void add_work(const Context& c, Columns& columns) {
  const OperationCounts& counts = c.store.operations;
  columns.add("executions", log2_of(c.store.iterations()));
  columns.add("flops", log2_of(c.flops()));
  columns.add("share of the program's flops", c.program_flops > 0 ? c.flops() / c.program_flops : 0);
  columns.add("flops of the program", log2_of(c.program_flops));
  columns.add("stores in the program", static_cast<double>(c.stores));
  columns.add("additions", counts.adds);
  columns.add("multiplications", counts.multiplies);
  columns.add("divisions", counts.divides);
  columns.add("comparisons", counts.compares);
  columns.add("intrinsics", counts.intrinsics);
  columns.add("casts", counts.casts);
  columns.add("integer operations", counts.integers);
  columns.add("loads", counts.loads);
  columns.add("predicated", c.store.predicated);
  const PatternAccess& written = c.store.accesses[0];
  // Executions divided by the reduction's steps and by the elements written: how often each result is
  // computed anew.
  double steps = 1;
  for (const PatternLoop& loop : c.store.loops)
    if (loop.reduces) steps *= static_cast<double>(loop.extent);
  // log2_of takes 1 + x, so that no steps give 0.
  columns.add("reduction steps", log2_of(steps - 1));
  columns.add("executions a result",
              log2_of(c.store.iterations() / steps / std::max<int64_t>(1, written.elements(0))));
}

/// Only the outermost parallel loop runs on several cores; the loops around it launch it again and again.
void add_parallel(const Context& c, Columns& columns) {
  double launches = 1, extent = 1, inside = c.store.iterations();
  for (size_t l = 0; l < c.store.loops.size(); ++l) {
    const PatternLoop& loop = c.store.loops[l];
    if (loop.iteration == Iteration::kParallel) {
      extent = static_cast<double>(loop.extent);
      inside = c.store.iterations(l + 1);
      break;
    }
    launches *= static_cast<double>(loop.extent);
  }
  bool parallel = extent > 1;
  double cores = c.target.cores;
  columns.add("parallel iterations", log2_of(extent - 1));
  // 17 iterations on 16 cores take two rounds, and keep 17 of 32 busy.
  columns.add("cores kept busy", parallel ? extent / (std::ceil(extent / cores) * cores) : 1 / cores);
  columns.add("parallel launches", parallel ? log2_of(launches) : 0);
  columns.add("executions an iteration", log2_of(inside));
}

/// Vectors that hold the distinct elements touched by one register tile.
double tile_vectors(const Context& c, const PatternAccess& access) {
  double elements = static_cast<double>(access.elements(c.tile_from));
  return c.vector_stride(access) == 1 ? std::ceil(elements / c.target.lanes()) : elements;
}

/// How full the vectors are, and what it takes to load and store them.
void add_vector(const Context& c, Columns& columns) {
  bool vectorized = c.vector_loop < c.store.loops.size();
  double extent = vectorized ? static_cast<double>(c.store.loops[c.vector_loop].extent) : 1;
  double lanes = c.target.lanes();
  columns.add("vector length", log2_of(extent - 1));
  columns.add("lanes used", extent / (std::ceil(extent / lanes) * lanes));
  // Beyond 16 floats, a cache line, each lane takes a line of its own: larger strides are alike.
  columns.add("stride of the written vector",
              static_cast<double>(std::clamp<int64_t>(c.vector_stride(c.store.accesses[0]), -1, 17)));
  int contiguous = 0, broadcast = 0, strided = 0;
  for (const PatternAccess& access : c.store.accesses) {
    if (!access.reads) continue;
    int64_t stride = c.vector_stride(access);
    ++(stride == 1 ? contiguous : stride == 0 ? broadcast : strided);
  }
  columns.add("contiguous loads", vectorized ? contiguous : 0);
  columns.add("broadcast loads", vectorized ? broadcast : 0);
  columns.add("strided loads", vectorized ? strided : 0);
}

/// The register tile: its size in vectors, what it needs in registers, and the loop that runs it.
void add_tile(const Context& c, Columns& columns) {
  double body = c.store.iterations(c.tile_from);
  double vectors = body / (c.vector_loop < c.store.loops.size() ? c.target.lanes() : 1);
  double results = tile_vectors(c, c.store.accesses[0]), operands = 0;
  for (size_t a = 1; a < c.store.accesses.size(); ++a) operands += tile_vectors(c, c.store.accesses[a]);
  columns.add("unrolled body", log2_of(body));
  columns.add("instructions of the body", log2_of(vectors * (c.store.operations.floats() + 1)));
  columns.add("result vectors of a tile", log2_of(results));
  columns.add("registers taken", (results + operands) / c.target.vector_registers);
  columns.add("results in registers", results / c.target.vector_registers);
  columns.add("executions an operand", log2_of(operands > 0 ? vectors / operands : 0));
  const PatternLoop* inner = nullptr;
  if (c.tile_from > 0) inner = &c.store.loops[c.tile_from - 1];
  columns.add("loop around the tile", inner ? log2_of(static_cast<double>(inner->extent)) : 0);
  columns.add("which reduces", inner && inner->reduces);
  columns.add("loops",
              static_cast<double>(std::count_if(c.store.loops.begin(), c.store.loops.end(),
                                                [](const PatternLoop& loop) { return loop.extent > 1; })));
}

/// Bytes of the cache lines that `access` touches while the loops from `depth` on run.
double line_bytes(const PatternAccess& access, size_t depth) {
  return static_cast<double>(access.lines(depth)) * kLineBytes;
}

/// The same of all accesses. Lines that two of them share count twice.
double footprint(const StorePattern& store, size_t depth) {
  double bytes = 0;
  for (const PatternAccess& access : store.accesses) bytes += line_bytes(access, depth);
  return bytes;
}

/// The outermost depth at which what the store touches fits in `bytes`.
size_t fitting_depth(const StorePattern& store, double bytes) {
  size_t depth = store.loops.size();
  // A footprint only grows outwards, so the first that does not fit ends the search.
  while (depth > 0 && footprint(store, depth - 1) <= bytes) --depth;
  return depth;
}

/// Bytes of `access` that enter a cache that holds the loops from `depth` on: its lines there, once for each
/// iteration of the loops around, but for those directly around that do not move it.
double traffic(const StorePattern& store, const PatternAccess& access, size_t depth) {
  double bytes = line_bytes(access, depth);
  // Going outwards, a loop whose iterations touch no other lines finds them in the cache still.
  // Those directly around only: an outer loop that does not move it finds the lines evicted by
  // what ran in between.
  size_t l = depth;
  while (l > 0 && line_bytes(access, l - 1) <= bytes) --l;
  for (size_t outer = 0; outer < l; ++outer) bytes *= static_cast<double>(store.loops[outer].extent);
  return bytes;
}

void add_caches(const Context& c, const size_t (&depths)[kCaches], Columns& columns) {
  // Of each cache: the outermost loops whose data it holds, the work done on that data once it is there, and
  // what enters.
  constexpr const char* kNames[kCaches] = {"L1", "L2", "L3"};
  for (int level = 0; level < kCaches; ++level) {
    double bytes = 0;
    for (const PatternAccess& access : c.store.accesses) bytes += traffic(c.store, access, depths[level]);
    columns.add(kNames[level], 0, "bytes that fit", log2_of(footprint(c.store, depths[level])));
    columns.add(kNames[level], 0, "executions on them", log2_of(c.store.iterations(depths[level])));
    columns.add(kNames[level], 0, "traffic", log2_of(bytes));
    // Executions for each cache line that enters; at least one does.
    columns.add(kNames[level], 0, "executions a byte", log2_of(64 * c.store.iterations() / bytes));
  }
  // How much memory a given amount of work touches.
  // As Ansor's curve of arithmetic intensity (Zheng et al., OSDI 2020, appendix B), at five amounts of work.
  for (int exponent : {6, 10, 14, 18, 22}) {
    size_t depth = c.store.loops.size();
    while (depth > 0 && c.store.iterations(depth) < std::exp2(exponent)) --depth;
    columns.add("bytes of 2^n executions", exponent, "", log2_of(footprint(c.store, depth)));
  }
}

/// One access of the row, or zeros when the store has none of that number: all rows are of one width.
void add_buffer(const Context& c, const PatternAccess* access, int number, const size_t (&depths)[kCaches],
                Columns& columns) {
  auto add = [&](const char* name, double value) {
    columns.add(number ? "read" : "written", number, name, access ? value : 0);
  };
  static const PatternAccess kNone{};
  const PatternAccess& a = access ? *access : kNone;
  double size = access ? static_cast<double>(a.buffer->dtype.bytes()) : 0,
         all = access ? static_cast<double>(a.elements(0)) : 1;
  // The stride of the innermost loop that moves it at all.
  int64_t innermost = 0;
  for (size_t l = a.stride.size(); l-- > 0 && innermost == 0;)
    if (c.store.loops[l].extent > 1) innermost = a.stride[l];
  size_t still = c.store.loops.size();  // loops inside this one do not move it
  while (still > 0 && access && a.elements(still - 1) == 1) --still;
  add("bytes", log2_of(all * size));
  add("uses an element", log2_of(c.store.iterations() / all));
  add("uses in a row", log2_of(c.store.iterations(still)));
  add("innermost stride", log2_of(static_cast<double>(std::abs(innermost))));
  add("stride in the vector",
      access ? static_cast<double>(std::clamp<int64_t>(c.vector_stride(a), -1, 17)) : 0);
  add("in registers", access && a.buffer->scope == Scope::kLocal);
  add("intermediate", a.intermediate);
  for (int level = 0; level < 2; ++level)
    add(level ? "traffic of L2" : "traffic of L1", access ? log2_of(traffic(c.store, a, depths[level])) : 0);
}

void add_row(const Context& c, Columns& columns) {
  add_work(c, columns);
  add_parallel(c, columns);
  add_vector(c, columns);
  add_tile(c, columns);
  const double bytes[kCaches] = {static_cast<double>(c.target.l1_bytes),
                                 static_cast<double>(c.target.l2_bytes),
                                 static_cast<double>(c.target.l3_bytes)};
  size_t depths[kCaches];
  for (int level = 0; level < kCaches; ++level) depths[level] = fitting_depth(c.store, bytes[level]);
  add_caches(c, depths, columns);
  std::vector<const PatternAccess*> reads;
  for (size_t i = 1; i < c.store.accesses.size(); ++i) reads.push_back(&c.store.accesses[i]);
  // By size, so that a column means the same in all programs: the first read is the widest, whatever its
  // buffer.
  std::stable_sort(reads.begin(), reads.end(), [](const PatternAccess* a, const PatternAccess* b) {
    return a->elements(0) > b->elements(0);
  });
  reads.insert(reads.begin(), &c.store.accesses[0]);
  // Null where there are fewer.
  reads.resize(kBuffers);
  for (int i = 0; i < kBuffers; ++i) add_buffer(c, reads[i], i, depths, columns);
}

}  // namespace

Features extract_features(const Func& scheduled, const Target& target) {
  // As it runs in the model: what depends on constants alone is done when the module is built.
  std::vector<StorePattern> stores =
      store_patterns(split_prologue(schedule::at_typical_dims(scheduled)).main);
  CHECK(!stores.empty(), "program {} stores nothing", scheduled->name);
  double flops = 0;
  for (const StorePattern& store : stores) flops += store.iterations() * store.operations.floats();
  Values values;
  for (const StorePattern& store : stores) add_row(context_of(store, target, flops, stores.size()), values);
  return {.width = values.values.size() / stores.size(), .values = std::move(values.values)};
}

std::vector<std::string> feature_names() {
  // The columns do not depend on the store: the simplest one tells their names.
  StorePattern store{.accesses = {{.buffer = buffer("x", {1}, kFloat32), .writes = true}}};
  Target target;
  Names names;
  add_row(context_of(store, target, 0, 1), names);
  return names.names;
}

}  // namespace lathe::tuner
