#include "core/tir/own_dims.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>

#include "core/arith/simplify.h"
#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/regions.h"

namespace lathe::tir {
namespace {

using Names = std::set<const Node*>;

Names names_of(const std::vector<Var>& dims) {
  Names names;
  for (const Var& dim : dims) names.insert(dim.get());
  return names;
}

/// An index that is computed from dimensions alone.
bool is_of_dims(const Expr& e, const Names& dims) {
  if (e.dtype() != kInt64 || !e.as<Binary>()) return false;
  bool has = false, others = false;
  post_order(e, [&](const NodeRef& node) {
    if (node.as<VarNode>())
      (dims.count(node.get()) ? has : others) = true;
    else
      others |= !node.as<Binary>() && !node.as<IntImm>();
  });
  return has && !others;
}

/// What is computed from dimensions alone in its simplest form: equal expressions look alike.
Func with_simple_dims(const Func& func) {
  const Names dims = names_of(dims_of(*func));
  return rewrite(func,
                 [&](const NodeRef& node) -> NodeRef {
                   if (!node.as<Binary>() || !is_of_dims(node.cast<ExprNode>(), dims)) return node;
                   return simplify(node.cast<ExprNode>());
                 })
      .cast<FuncNode>();
}

/// `func` with `name` in place of `e`.
Func with_name(const Func& func, const Expr& e, const Var& name) {
  return rewrite(func,
                 [&](const NodeRef& node) -> NodeRef {
                   return node.as<Binary>() && structural_equal(node, e) ? NodeRef(name) : node;
                 })
      .cast<FuncNode>();
}

/// Variables of one name would be ordered by where they lie in memory, and so would sums of them.
Var fresh_dim(const Func& func) {
  const std::vector<Var> dims = dims_of(*func);
  for (int64_t i = 0;; ++i) {
    const std::string name = fmt::format("d{}", i);
    if (std::none_of(dims.begin(), dims.end(), [&](const Var& dim) { return dim->name == name; }))
      return var(name);
  }
}

bool has_any(const Func& func, const Names& names) {
  bool has = false;
  post_order(func, [&](const NodeRef& node) { has |= names.count(node.get()) != 0; });
  return has;
}

bool is_linear_step(const Binary& b) {
  return b.op == BinaryOp::kAdd || b.op == BinaryOp::kSub ||
         (b.op == BinaryOp::kMul && (as_int(b.a) || as_int(b.b)));
}

/// Quotients, products and the like of dimensions in the shapes of parameters, the smallest first.
std::vector<Expr> products_in_shapes(const Func& func) {
  const Names dims = names_of(dims_of(*func));
  std::vector<Expr> found;
  for (const Buffer& param : func->params)
    for (const Expr& extent : param->shape)
      post_order(extent, [&](const NodeRef& node) {
        const auto* b = node.as<Binary>();
        if (b && !is_linear_step(*b) && is_of_dims(node.cast<ExprNode>(), dims))
          found.push_back(node.cast<ExprNode>());
      });
  return found;
}

bool is_never_negative(const Expr& e, const std::vector<Var>& dims) {
  Analyzer known;
  for (const Var& dim : dims) known.bind(dim, Bound{.min = 0});
  return known.can_prove(less_equal(Expr(0), e));
}

/// Multiples of a dimension, n * 7, as extents of parameters.
std::vector<Expr> multiples_in_shapes(const Func& func) {
  std::vector<Expr> found;
  for (const Buffer& param : func->params)
    for (const Expr& extent : param->shape) {
      const auto* b = extent.as<Binary>();
      if (b && b->op == BinaryOp::kMul && b->a.as<VarNode>() && as_int(b->b)) found.push_back(extent);
    }
  return found;
}

/// One of the expressions with a name, where its dimensions have no other use.
std::optional<Func> with_one_named(const Func& func, const std::vector<Expr>& expressions) {
  for (const Expr& e : expressions) {
    const std::vector<Var> dims = dims_of(*func);
    Names used;
    post_order(e, [&](const NodeRef& node) {
      if (node.as<VarNode>()) used.insert(node.get());
    });
    if (!is_never_negative(e, dims)) continue;
    const Func named = with_name(func, e, fresh_dim(func));
    if (!has_any(named, used)) return with_simple_dims(named);
  }
  return std::nullopt;
}

bool stands_alone(std::span<const Buffer> params, const Var& dim) {
  return std::any_of(params.begin(), params.end(), [&](const Buffer& param) {
    return std::any_of(param->shape.begin(), param->shape.end(),
                       [&](const Expr& extent) { return extent.same_as(dim.get()); });
  });
}

/// A dimension that the parameters from `first` on have as n + 3 and never alone: what stands there is the
/// dimension.
std::optional<Func> with_sum_named(const Func& func, size_t first) {
  const std::span<const Buffer> params = std::span(func->params).subspan(first);
  for (const Var& dim : dims_of(*func)) {
    if (stands_alone(params, dim)) continue;
    for (const Buffer& param : params)
      for (const Expr& extent : param->shape) {
        const Expr more = simplify(extent - dim);
        if (!as_int(more) || as_int(extent)) continue;
        const Expr value = fresh_dim(func) - more;
        const NodeRef named = rewrite(
            func, [&](const NodeRef& node) { return node.get() == dim.get() ? NodeRef(value) : node; });
        return with_simple_dims(with_simple_shapes(named.cast<FuncNode>()));
      }
  }
  return std::nullopt;
}

/// The open extents around one, all of them between two numbers, and how many numbers stand before these.
struct Run {
  size_t begin, end, numbers;
};
Run run_around(const std::vector<Expr>& shape, size_t axis) {
  Run run{axis, axis + 1, 0};
  while (run.begin > 0 && !as_int(shape[run.begin - 1])) --run.begin;
  while (run.end < shape.size() && !as_int(shape[run.end])) ++run.end;
  for (size_t d = 0; d < run.begin; ++d) run.numbers += as_int(shape[d]) != nullptr;
  return run;
}

/// What stands in `actual` where `shape` has its extent at `axis`; nothing where that cannot be told.
std::optional<Expr> told_at(const std::vector<Expr>& shape, size_t axis, const std::vector<Expr>& actual) {
  if (shape.size() == actual.size()) return actual[axis];
  const Run run = run_around(shape, axis);
  // Numbers stand for themselves: as many before, and at all.
  size_t numbers = 0, all = 0, count = 0;
  Expr product = 1;
  for (const Expr& extent : actual) {
    if (as_int(extent))
      ++numbers;
    else if (numbers == run.numbers)
      ++count, product = product * extent;
  }
  for (const Expr& extent : shape) all += as_int(extent) != nullptr;
  if (numbers != all || count == 0 || run.end - run.begin != 1) return std::nullopt;
  return simplify(product);
}

/// Each dimension stands alone in a parameter's shape.
bool are_told(const FuncNode& func) {
  std::vector<std::vector<Expr>> shapes;
  for (const Buffer& param : func.params) shapes.push_back(param->shape);
  return told_dims(func, shapes).has_value();
}

/// The variables of a sum's leading axes, of which each is open in the result; nothing where there are not
/// two or it stores otherwise.
std::vector<Var> open_batch(const Block& block) {
  const auto* store = block.init ? block.body.as<Store>() : nullptr;
  if (!store || store->indices.size() < 4) return {};
  std::vector<Var> batch;
  for (size_t d = 0; d + 2 < store->indices.size(); ++d)
    for (const BlockIter& iter : block.iters)
      if (iter.kind == IterKind::kSpatial && store->indices[d].same_as(iter.var.get()) &&
          !as_int(store->buffer->shape[d]))
        batch.push_back(iter.var);
  return batch.size() + 2 == store->indices.size() ? batch : std::vector<Var>();
}

/// Each leading axis goes with the product's, or has one element.
bool follows(const Load& load, const std::vector<Var>& batch) {
  if (load.indices.size() != batch.size() + 2) return false;
  for (size_t d = 0; d < batch.size(); ++d) {
    const int64_t* only = as_int(load.buffer->shape[d]);
    if (only ? *only != 1 : !load.indices[d].same_as(batch[d].get())) return false;
  }
  return true;
}

using BatchOf = std::unordered_map<const Node*, std::vector<Var>>;  // by buffer

/// The leading axes of a product's operands that get dimensions of their own, as variables of the block.
/// Those at the end of which what has no rows has one element keep theirs: the other operand goes through
/// them and through its rows as one. Nothing where both have all of the batch.
std::vector<Var> axes_to_name(const Block& block, const std::vector<Ref<Load>>& operands) {
  std::vector<Var> batch = open_batch(block);
  const std::vector<Expr>& place = block.body.as<Store>()->indices;
  const Expr row = place[batch.size()];
  bool repeats = false;
  size_t named = batch.size();
  for (const Ref<Load>& operand : operands) {
    const std::vector<Expr>& shape = operand->buffer->shape;
    const bool has_rows = std::any_of(operand->indices.end() - 2, operand->indices.end(),
                                      [&](const Expr& index) { return index.same_as(row.get()); });
    size_t axes = batch.size();
    while (!has_rows && axes > 0 && is_int(shape[axes - 1], 1)) --axes;
    named = std::min(named, axes);
    repeats |= std::any_of(shape.begin(), shape.begin() + static_cast<int64_t>(batch.size()),
                           [](const Expr& extent) { return is_int(extent, 1); });
  }
  batch.resize(repeats ? named : 0);
  return batch;
}

/// The parameters that the block's sum reads, and nothing else, and which follow its batch.
std::vector<Ref<Load>> operands_of(const Block& block, const FuncNode& func,
                                   const std::unordered_map<const Node*, int>& loads) {
  const std::vector<Var> batch = open_batch(block);
  std::vector<Ref<Load>> operands;
  if (batch.empty()) return operands;
  post_order(block.body, [&](const NodeRef& node) {
    const auto* load = node.as<Load>();
    const bool is_input = load && std::any_of(func.params.begin(), func.params.end() - func.outputs,
                                              [&](const Buffer& param) { return param == load->buffer; });
    if (is_input && loads.at(load->buffer.get()) == 1 && follows(*load, batch)) operands.push_back(Ref(load));
  });
  return operands;
}

BatchOf axes_to_name(const Func& func) {
  std::unordered_map<const Node*, int> loads;
  post_order(func, [&](const NodeRef& node) {
    if (const auto* load = node.as<Load>()) ++loads[load->buffer.get()];
  });
  BatchOf found;
  post_order(func, [&](const NodeRef& node) {
    const auto* block = node.as<Block>();
    if (!block) return;
    const std::vector<Ref<Load>> operands = operands_of(*block, *func, loads);
    if (operands.size() < 2) return;
    for (const Ref<Load>& operand : operands) found[operand->buffer.get()] = axes_to_name(*block, operands);
  });
  return found;
}

}  // namespace

Func with_dims_of_operands(const Func& func) {
  const BatchOf operands = axes_to_name(func);
  if (std::all_of(operands.begin(), operands.end(), [](const auto& each) { return each.second.empty(); }))
    return func;
  int64_t next = 0;
  BatchOf renamed;
  const NodeRef result = rewrite(func, [&](const NodeRef& node) -> NodeRef {
    if (const auto* buffer = node.as<BufferNode>()) {
      const auto found = operands.find(buffer);
      if (found == operands.end()) return node;
      auto copy = mutate(*buffer);
      for (size_t d = 0; d < found->second.size(); ++d) copy->shape[d] = var(fmt::format("q{}", next++));
      const Buffer sealed = seal(std::move(copy));
      renamed[sealed.get()] = found->second;
      return sealed;
    }
    if (const auto* read = node.as<Load>()) {
      const auto found = renamed.find(read->buffer.get());
      if (found == renamed.end()) return node;
      std::vector<Expr> indices = read->indices;
      for (size_t d = 0; d < found->second.size(); ++d)
        indices[d] = min(found->second[d], read->buffer->shape[d] - 1);
      return load(read->buffer, indices);
    }
    const auto* block = node.as<Block>();
    if (!block || block->iters.empty()) return node;
    auto copy = mutate(*block);
    Accesses accesses = block_accesses(copy->iters, copy->init, copy->body);
    copy->reads = std::move(accesses.reads);
    copy->writes = std::move(accesses.writes);
    return seal(std::move(copy));
  });
  return result.cast<FuncNode>();
}

Func with_own_dims(const Func& func) {
  if (products_in_shapes(func).empty() && are_told(*func)) return func;
  const Func simple = with_simple_dims(with_simple_shapes(func));
  Func own = simple;
  while (auto named = with_one_named(own, products_in_shapes(own))) own = *named;
  while (auto named = with_sum_named(own, 0)) own = *named;
  // That a dimension is a multiple is worth less than that another one has a name.
  while (own != simple && !are_told(*own)) {
    auto named = with_one_named(own, multiples_in_shapes(own));
    if (!named) return func;
    own = *named;
  }
  return own != simple ? own : func;
}

Func with_dims_of_results(const Func& func) {
  const size_t first = func->params.size() - static_cast<size_t>(func->outputs);
  Func own = func;
  while (auto named = with_sum_named(own, first)) own = *named;
  return are_told(*own) ? own : func;
}

std::optional<std::vector<Expr>> told_dims(const FuncNode& func, std::span<const std::vector<Expr>> shapes) {
  std::vector<Expr> values;
  for (const Var& dim : dims_of(func)) {
    std::optional<Expr> value;
    for (size_t p = 0; p < func.params.size() && !value; ++p) {
      const std::vector<Expr>& shape = func.params[p]->shape;
      for (size_t axis = 0; axis < shape.size() && !value; ++axis)
        if (shape[axis].same_as(dim.get())) value = told_at(shape, axis, shapes[p]);
    }
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

}  // namespace lathe::tir
