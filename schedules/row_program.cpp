#include "schedules/row_program.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/tir/builder.h"
#include "core/tir/dims.h"
#include "core/tir/regions.h"

namespace lathe::schedule {

using namespace tir;

bool is_intermediate(const Func& func, const Block& block) {
  return block.writes.size() == 1 && !is_param(func, block.writes[0].buffer);
}

std::optional<size_t> variable_along(const Block& block, const For& loop) {
  std::optional<size_t> found;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const BlockIter& iter = block.iters[i];
    if (!uses_var(iter.value, loop.var.get())) continue;
    std::vector<Var> vars{loop.var};
    auto form = linear_form(iter.value, vars);
    if (found || !form || form->coefficients[loop.var.get()] != 1) return std::nullopt;
    found = i;
  }
  return found;
}

namespace {
bool uses(const std::vector<Expr>& indices, const Var& v) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return uses_var(index, v.get()); });
}

/// Each index stays in its dimension for all values of the variables.
bool in_bounds(const Load& load, const Analyzer& ranges) {
  for (size_t d = 0; d < load.indices.size(); ++d)
    if (!ranges.can_prove(less_equal(0, load.indices[d])) ||
        !ranges.can_prove(less(load.indices[d], load.buffer->shape[d])))
      return false;
  return true;
}

void for_each_load(const Expr& value, FunctionRef<void(const Load&)> visit) {
  post_order(value, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) visit(*load);
  });
}

int64_t element_count(const Buffer& buffer) {
  int64_t count = 1;
  for (const Expr& dim : buffer->shape) count *= as_int(dim) ? int_value(dim) : 0;
  return count;
}
}  // namespace

bool loads_in_lanes(const Block& block, const Expr& value, const Var& lane) {
  if (loads_contiguously(value, lane)) return true;
  // A select that chooses by the lane guards its loads. Without masks all lanes load, so each index must be
  // in its dimension whatever the select says.
  Analyzer ranges = with_domain({}, domain_of(block.iters));
  bool good = true;
  for_each_load(value, [&](const Load& load) {
    good &= (!uses(load.indices, lane) || is_contiguous(load.indices, lane)) && in_bounds(load, ranges);
  });
  return good;
}

bool joins(const Buffer& buffer, const std::vector<Expr>& indices, const BlockIter& outer,
           const BlockIter& inner) {
  if (!uses(indices, outer.var) && !uses(indices, inner.var)) return true;
  size_t rank = indices.size();
  if (rank < 2 || !indices[rank - 1].same_as(inner.var.get()) ||
      !structural_equal(buffer->shape[rank - 1], inner.extent) ||
      uses_var(indices[rank - 2], inner.var.get()))
    return false;
  return is_contiguous({indices.begin(), indices.end() - 1}, outer.var);
}

namespace {
/// The variable of the block that runs with `loop` through all of its values, or null.
const BlockIter* whole_variable(const Block& block, const For& loop) {
  std::optional<size_t> i = variable_along(block, loop);
  bool whole = i && block.iters[*i].value.same_as(loop.var.get()) &&
               structural_equal(loop.extent, block.iters[*i].extent);
  return whole ? &block.iters[*i] : nullptr;
}

/// Whether the last dimensions of the buffer are indexed by `line` in its order, the inner ones whole.
bool ends_in(const Buffer& buffer, const std::vector<Expr>& indices,
             const std::vector<const BlockIter*>& line) {
  if (indices.size() < line.size()) return false;
  // Dimensions outside the line must stand still while the line runs; the outermost one of the line may be a
  // part of its dimension.
  size_t first = indices.size() - line.size();
  for (size_t d = 0; d < indices.size(); ++d) {
    if (d < first) {
      for (const BlockIter* iter : line)
        if (uses_var(indices[d], iter->var.get())) return false;
    } else if (!indices[d].same_as(line[d - first]->var.get()) ||
               (d > first && !structural_equal(buffer->shape[d], line[d - first]->extent))) {
      return false;
    }
  }
  return true;
}
/// Whether they do so once the dimensions are one: rows of 3 numbers of a tensor that has rows of 27.
bool ends_in_reshaped(const Block& block, const Buffer& buffer, const std::vector<Expr>& indices,
                      const std::vector<const BlockIter*>& line) {
  if (!has_constant_shape(*buffer)) return false;
  Analyzer analyzer;
  for (const BlockIter& iter : block.iters) analyzer.bind_range(iter.var, iter.extent);
  const Var place = var("place");
  // The line's variables are the digits of the place in it.
  VarMap digits;
  Expr below = 1;
  for (size_t i = line.size(); i-- > 0;) {
    const Expr digit = floordiv(place, below);
    digits[line[i]->var.get()] = i == 0 ? digit : floormod(digit, line[i]->extent);
    below = below * line[i]->extent;
  }
  analyzer.bind_range(place, below);
  Expr flat = 0;
  for (size_t d = 0; d < indices.size(); ++d)
    flat = flat * buffer->shape[d] + analyzer.simplify(substitute(indices[d], digits));
  auto form = linear_form(analyzer.simplify(flat), {&place, 1});
  return form && form->coefficients[place.get()] == 1;
}
}  // namespace

bool is_line(const Block& block, const std::vector<Ref<For>>& loops) {
  std::vector<const BlockIter*> line;
  for (const Ref<For>& loop : loops) {
    line.push_back(whole_variable(block, *loop));
    if (!line.back()) return false;
  }
  bool good = true;
  const auto check = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
    bool moves = std::any_of(line.begin(), line.end(),
                             [&](const BlockIter* iter) { return uses(indices, iter->var); });
    good =
        good && (!moves || ends_in(buffer, indices, line) || ends_in_reshaped(block, buffer, indices, line));
  };
  post_order(block.body, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) check(load->buffer, load->indices);
    if (const Store* store = node.as<Store>()) check(store->buffer, store->indices);
  });
  return good;
}

namespace {
/// What a reduction adds up, or takes the largest of.
const Expr* reduced_value(const Block& block) {
  const Store& update = *block.body.as<Store>();
  const Binary* binary = update.value.as<Binary>();
  return binary && combiner_of(binary->op) && accumulates(update) ? &binary->b : nullptr;
}

const Expr& without_casts(const Expr& e) {
  const Expr* inner = &e;
  while (const Cast* cast = inner->as<Cast>()) inner = &cast->value;
  return *inner;
}

/// A product of two tensors that use different variables: a contraction.
bool is_contraction(const Block& block, const Expr& value) {
  const Binary* product = without_casts(value).as<Binary>();
  if (!product || product->op != BinaryOp::kMul) return false;
  // The variables, by position, that loads on one side are indexed with.
  auto used = [&](const Expr& side) {
    std::set<size_t> variables;
    for_each_load(side, [&](const Load& load) {
      for (size_t i = 0; i < block.iters.size(); ++i)
        if (uses(load.indices, block.iters[i].var)) variables.insert(i);
    });
    return variables;
  };
  std::set<size_t> x = used(product->a), y = used(product->b);
  auto reduces = [&](const std::set<size_t>& variables) {
    return std::any_of(variables.begin(), variables.end(),
                       [&](size_t i) { return block.iters[i].kind == IterKind::kReduce; });
  };
  // A square or a product of two rows that use the same variables reads each element once; so does one with a
  // factor that no term depends on.
  return reduces(x) && reduces(y) && x != y;
}

/// Each element of some tensor that it reads is read once.
bool reads_once(const Block& block, const Expr& value) {
  int64_t count = iterations(block), most = 0;
  for_each_load(value, [&](const Load& load) { most = std::max(most, element_count(load.buffer)); });
  return count > 0 && most >= count;
}

bool is_row_block(const Block& block) {
  if (!is_int(block.predicate, 1) || !block.allocs.empty() || iterations(block) == 0) return false;
  if (is_injective(block)) return true;
  const Expr* value = is_reduction(block) ? reduced_value(block) : nullptr;
  return value && !is_contraction(block, *value) && reads_once(block, *value);
}

/// Adds what `index`, into results of rows, says about the last block's variables; false when nothing can be
/// said.
bool add_rows(const Block& last, const Expr& index, std::vector<RowVariable>& rows) {
  if (as_int(index)) return true;
  const Binary* quotient = index.as<Binary>();
  bool divides = quotient && quotient->op == BinaryOp::kFloorDiv && as_int(quotient->b);
  const Expr& variable = divides ? quotient->a : index;
  for (size_t i = 0; i < last.iters.size(); ++i) {
    if (!variable.same_as(last.iters[i].var.get())) continue;
    int64_t divisor = divides ? int_value(quotient->b) : 1;
    auto known =
        std::find_if(rows.begin(), rows.end(), [&](const RowVariable& r) { return r.variable == i; });
    // Two results that cut one variable into rows of different lengths share no loop.
    if (known != rows.end()) return known->divisor == divisor;
    if (int_value(last.iters[i].extent) % divisor != 0) return false;
    rows.push_back({i, divisor});
    return true;
  }
  return false;
}

/// The variables of the last block that the results of reductions, or what is made of them, are indexed with.
std::optional<std::vector<RowVariable>> row_variables(const Func& func, const Block& last) {
  std::vector<RowVariable> rows;
  // Each of its results is a row.
  if (is_reduction(last)) {
    for (size_t i = 0; i < last.iters.size(); ++i)
      if (last.iters[i].kind != IterKind::kReduce) rows.push_back({i, 1});
    return rows;
  }
  bool good = true;
  for_each_load(last.body.as<Store>()->value, [&](const Load& load) {
    for (const Ref<Block>& producer : producers_of(func, Ref<Block>(&last))) {
      if (producer->writes[0].buffer != load.buffer) continue;
      // Something about each element, not about rows.
      if (!is_reduction(*producer) && iterations(*producer) >= iterations(last)) continue;
      for (const Expr& index : load.indices) good &= add_rows(last, index, rows);
    }
  });
  std::sort(rows.begin(), rows.end(),
            [](const RowVariable& a, const RowVariable& b) { return a.variable < b.variable; });
  return good ? std::optional(rows) : std::nullopt;
}

/// Along the last dimension of a buffer that it reads, the reduction runs through a few elements of a row: a
/// window.
bool runs_through_windows(const Block& reduction, const Expr& value) {
  constexpr int64_t kLongest = 8;
  const BlockIter& innermost = reduction.iters.back();
  bool windows = false;
  for_each_load(value, [&](const Load& load) {
    if (load.indices.empty() || !uses_var(load.indices.back(), innermost.var.get())) return;
    for (const BlockIter& iter : reduction.iters)
      windows |= iter.kind == IterKind::kSpatial && uses_var(load.indices.back(), iter.var.get());
  });
  return windows && int_value(innermost.extent) <= kLongest;
}

/// Neighbours along the reduction's innermost variable are neighbours in memory.
bool runs_along_row(const Block& reduction) {
  const BlockIter& innermost = reduction.iters.back();
  const Expr& value = *reduced_value(reduction);
  return innermost.kind == IterKind::kReduce && !runs_through_windows(reduction, value) &&
         loads_in_lanes(reduction, value, innermost.var);
}

/// Neighbours along the last dimension of its result are neighbours in memory.
bool runs_across_rows(const Block& reduction) {
  const Store& store = *reduction.body.as<Store>();
  for (const BlockIter& iter : reduction.iters)
    if (iter.kind == IterKind::kSpatial && is_contiguous(store.indices, iter.var))
      return loads_in_lanes(reduction, *reduced_value(reduction), iter.var);
  return false;
}

int64_t intermediate_bytes(const Func& func) {
  int64_t bytes = 0;
  for (const Ref<Block>& block : all_blocks(func))
    if (is_intermediate(func, *block)) bytes += byte_size(block->writes[0].buffer);
  return bytes;
}

/// The program's last block when it alone writes results and all others write something that is read.
const Block* last_block(const Func& func, const std::vector<Ref<Block>>& blocks) {
  if (blocks.empty() || func->outputs != 1) return nullptr;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (!is_row_block(*blocks[i]) || is_intermediate(func, *blocks[i]) != (i + 1 < blocks.size()))
      return nullptr;
  return blocks.back().get();
}
}  // namespace

/// By the last block, whose results all others serve, and by the largest reduction, which takes most of the
/// time.
std::optional<RowProgram> row_program(const Func& func) {
  std::vector<Ref<Block>> blocks = all_blocks(func);
  const Block* last = last_block(func, blocks);
  Ref<Block> reduction = last ? dominant_reduction(func) : Ref<Block>();
  if (!reduction) return std::nullopt;
  auto rows = row_variables(func, *last);
  if (!rows) return std::nullopt;
  RowProgram program{last->name, *rows, false, 0};
  // Vectors along the row if the largest reduction can have them, else across rows.
  if (!runs_along_row(*reduction)) {
    bool along_last = !rows->empty() && rows->back().divisor == 1 &&
                      is_contiguous(last->body.as<Store>()->indices, last->iters[rows->back().variable].var);
    if (!along_last || !runs_across_rows(*reduction)) return std::nullopt;
    program.across = true;
  }
  int64_t count = 1;
  for (const RowVariable& row : *rows) count *= int_value(last->iters[row.variable].extent) / row.divisor;
  program.row_bytes = intermediate_bytes(func) / count;
  return program;
}

}  // namespace lathe::schedule
