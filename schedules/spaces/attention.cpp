// Two matrix products with rows between them, as of a softmax, in one kernel: so many rows of the first one's
// results at a time stay in the second-level cache until the last one has used them up.
//
//   parallel for some rows of the results:
//     tiles of the first product, with what follows element by element (a scale, a mask)
//     for rows: what stands between the products
//     tiles of the last product, with what follows it
#include <algorithm>
#include <limits>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/machine.h"
#include "schedules/spaces/rows.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A sum of products of two tensors.
bool is_product(const Block& block) {
  if (!is_reduction(block) || !accumulates(*block.body.as<Store>())) return false;
  const auto* sum = block.body.as<Store>()->value.as<Binary>();
  const auto* terms = sum ? sum->b.as<Binary>() : nullptr;
  return terms && terms->op == BinaryOp::kMul && !loads_of(terms->a).empty() && !loads_of(terms->b).empty();
}

/// Whether the block gives an element for each of `scores` or, as a reduction does, for each of their rows.
bool is_of_rows(const Block& block, const Buffer& scores) {
  if (block.writes.size() != 1) return false;
  const std::vector<Expr>& shape = block.writes[0].buffer->shape;
  const bool is_row = shape.size() + 1 == scores->shape.size();
  if (!is_row && shape.size() != scores->shape.size()) return false;
  return (is_row || is_injective(block)) &&
         std::equal(scores->shape.begin(), scores->shape.end() - 1, shape.begin(),
                    [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
}

struct Attention {
  Ref<Block> first, last;           // the products
  std::vector<Ref<Block>> between;  // what the last reads of the first, in program order
};

/// Nothing where the program is none.
std::optional<Attention> attention_of(const Func& func) {
  const std::vector<Ref<Block>> blocks = all_blocks(func);
  Attention attention;
  for (const Ref<Block>& block : blocks) {
    if (!is_product(*block)) continue;
    if (attention.last) return std::nullopt;  // three products
    (attention.first ? attention.last : attention.first) = block;
  }
  if (!attention.last) return std::nullopt;
  const Readers readers(func);
  std::set<const Block*> after{attention.first.get()};
  for (const Ref<Block>& block : blocks) {
    if (!after.contains(block.get())) continue;
    for (const Ref<Block>& consumer : readers.consumers_of(block)) after.insert(consumer.get());
    if (block == attention.last) break;
    if (block == attention.first) continue;
    if (!is_of_rows(*block, attention.first->writes[0].buffer)) return std::nullopt;
    attention.between.push_back(block);
  }
  const bool has_rows = std::any_of(attention.between.begin(), attention.between.end(),
                                    [](const Ref<Block>& block) { return is_reduction(*block); });
  return has_rows && after.contains(attention.last.get()) ? std::optional(attention) : std::nullopt;
}

/// The variable of the rows of a product's results: the one before that of its vectors.
size_t row_variable(const VectorReduction& product) {
  if (product.vector == 0) fail("the results of `{}` have no rows", product.block);
  return product.vector - 1;
}

/// Both products, in vectors.
struct Products {
  VectorReduction scores, values;

  /// Cycles of a core for all rows, so many of them at a time.
  double cost(int64_t rows, int64_t at_once, const Target& target) const {
    constexpr double kEdge = 1.05;
    double cycles = 0;
    for (VectorReduction part : {scores, values}) {
      const size_t row = row_variable(part);
      part.extents[row] = at_once;
      if (at_once < rows) part.fits[row] = Fit::kExact;
      const double vectors =
          static_cast<double>(part.extents[part.vector]) / static_cast<double>(vector_width(part, target));
      cycles += register_tiles(part, target)[0].cost * part.steps() * vectors;
    }
    return rows % at_once == 0 ? cycles : kEdge * cycles;
  }
};

/// How many rows at a time, of so many. As a heuristic few, which leaves much of the caches to the second
/// operands of both products, but enough for some register tiles to use each line of those.
Factor sample_rows(Schedule& s, const Products& products, int64_t rows, int64_t row_bytes,
                   const Target& target, const Policy& policy) {
  constexpr int64_t kFewest = 8, kMost = 192, kLeast = 24, kPreferred = 48;
  const int64_t most = std::min({rows, kMost, kStackBytes / row_bytes});
  if (most < std::min(rows, kFewest)) fail("a row takes {} bytes", row_bytes);
  // Tiles of 4, 6, 8 or 12 rows fit into these; of equal parts the last one has no edge, or a small one.
  const int64_t parts = (rows + kPreferred - 1) / kPreferred, equal = (rows + parts - 1) / parts,
                rounded = std::min((equal + kFewest - 1) / kFewest * kFewest, most);
  std::vector<int64_t> counts;
  for (int64_t count = std::min(kFewest, most); count <= most; ++count)
    if (count == rounded || count % 24 == 0 || (rows % count == 0 && count % 4 == 0) || count == rows)
      counts.push_back(count);
  int64_t preferred = counts.back();
  double least = std::numeric_limits<double>::infinity();
  for (int64_t count : counts) {
    if (count < std::min(kLeast, counts.back()) || count > kPreferred) continue;
    const double cost = products.cost(rows, count, target);
    if (cost <= least) least = cost, preferred = count;
  }
  return sample_one_of(s, counts, preferred, policy);
}

/// The loop over some rows of the results; the product's own loops stand inside.
LoopHandle loop_over_rows(Schedule& s, const Products& products, int64_t row_bytes, const Target& target,
                          const Policy& policy) {
  const size_t row = row_variable(products.values);
  std::vector<LoopHandle> loops = s.get_loops(s.get_block(products.values.block)), outer, inner;
  const Factor rows = sample_rows(s, products, products.values.extents[row], row_bytes, target, policy);
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i > row) {
      inner.push_back(loops[i]);
      continue;
    }
    const auto parts = s.split(loops[i], {kInferred, i == row ? rows : Factor(int64_t{1})});
    outer.push_back(parts[0]);
    inner.push_back(parts[1]);
  }
  std::vector<LoopHandle> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  const LoopHandle tasks = s.tasks(outer);
  if (target.cores > 1) s.run_tasks(tasks);
  return tasks;
}
/// What follows the first product in its tiles computes as many columns as that does: where these were padded
/// to whole vectors, tiles would be cut else.
void keep_whole_vectors(Schedule& s, const Block& product, const std::string& follows) {
  const Block& block = *s[s.get_block(follows)];
  const int64_t whole = int_value(product.writes[0].buffer->shape.back()),
                columns = int_value(block.iters.back().extent);
  if (columns == whole) return;
  std::vector<int64_t> multiples(block.iters.size(), 1);
  multiples.back() = whole;
  s.pad_einsum(s.get_block(follows), multiples);
  // Who reads them takes the columns that there are.
  for (const Ref<Block>& taken : consumers_of(s.func(), s[s.get_block(follows)]))
    s.compute_inline(s.get_block(taken->name));
  inline_elementwise(s);
}

/// The blocks by name, ready to be scheduled.
struct Stages {
  std::string first, follows;     // the first product, and what its tiles end with
  std::vector<std::string> rows;  // then, in program order
  std::string last;
  int64_t row_bytes = 0;  // of scores and of what the last product reads
};

/// Operands of both products as vectors need them; a copy where nothing follows the first one.
Stages prepare(Schedule& s, const Attention& attention, const Target& target, const Policy& policy) {
  Stages stages{.first = attention.first->name, .last = attention.last->name};
  const BlockHandle first = s.get_block(stages.first);
  for (const BlockHandle product : {s.get_block(stages.last), first})
    if (!prepare_operands(s, s[product], target, policy))
      fail("product `{}` does not run along the rows of its results", s[product]->name);
  const std::optional<std::string> epilogue = epilogue_of(s, *s[first]);
  stages.follows = epilogue ? *epilogue : s[s.cache_write(first, 0, Scope::kLocal)]->name;
  keep_whole_vectors(s, *s[first], stages.follows);
  const std::optional<Attention> prepared = attention_of(s.func());
  if (!prepared) fail("packing its operands has made it another program");
  for (const Ref<Block>& block : prepared->between) {
    const Buffer& buffer = block->writes[0].buffer;
    const bool is_last = block == prepared->between.back();
    if (block->name != stages.follows) stages.rows.push_back(block->name);
    if (block->name == stages.follows || is_last)
      stages.row_bytes += int_value(buffer->shape.back()) * buffer->dtype.bytes();
  }
  return stages;
}

/// What a task computes of them.
Products products_of(const Schedule& s, const Stages& stages) {
  auto part_of = [&](const std::string& name) {
    std::optional<VectorReduction> product =
        vector_reduction(path_to_block(s.func(), name)->back().cast<Block>());
    if (!product) fail("the results of `{}` do not lie in vectors", name);
    product->is_part = true;
    return *product;
  };
  return {part_of(stages.first), part_of(stages.last)};
}

/// Moves all before the last product into `task`, and what stands between the two to where a row is: that
/// place.
LoopHandle compute_in_task(Schedule& s, const Stages& stages, LoopHandle task, const Policy& policy) {
  // From the last to the first: a block moves to where its readers already are.
  const BlockHandle weights = s.get_block(stages.rows.back());
  s.compute_at(weights, task);
  std::vector<LoopHandle> rows = loops_inside(s, weights, task);
  const LoopHandle columns = rows.back();
  rows.pop_back();
  rows_together(s, rows, int_value(s[columns]->extent), policy);
  const LoopHandle row = rows.back();
  for (size_t i = stages.rows.size() - 1; i-- > 0;) s.compute_at(s.get_block(stages.rows[i]), row);
  s.compute_rows_at(s.get_block(stages.follows), task);
  s.compute_rows_at(s.get_block(stages.first), task);
  s.set_scope(s.get_block(stages.follows), 0, Scope::kLocal);
  for (const std::string& name : stages.rows) s.set_scope(s.get_block(name), 0, Scope::kLocal);
  return row;
}
}  // namespace

bool has_attention(const Func& func, const Target&) { return attention_of(func).has_value(); }

void generate_attention(Schedule& s, const Target& target, const Policy& policy) {
  inline_elementwise(s);
  const std::optional<Attention> attention = attention_of(s.func());
  CHECK(attention, "a space for attention was asked to schedule another program");
  const Stages stages = prepare(s, *attention, target, policy);
  const Products products = products_of(s, stages);
  const LoopHandle task = loop_over_rows(s, products, stages.row_bytes, target, policy);
  std::set<std::string> done = schedule_product_inside(s, products.values, target, policy, {task});
  const LoopHandle row = compute_in_task(s, stages, task, policy);
  for (const std::string& name : stages.rows) schedule_in_row(s, s.get_block(name), row, target, policy);
  done.insert(stages.rows.begin(), stages.rows.end());
  done.merge(schedule_tiled_reduction(s, products.scores, target, policy, {task}).done);
  schedule_rest(s, target, done);
}

}  // namespace lathe::schedule
