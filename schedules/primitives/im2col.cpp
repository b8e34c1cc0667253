// Convolutions as matrix products: Chellapilla, Puri, Simard: "High performance convolutional neural networks
// for document processing", 2006. The copy of the data is made in parts where a schedule computes it inside
// the product's loops (implicit GEMM, as cuDNN's).
#include <algorithm>

#include "core/tir/builder.h"
#include "core/tir/regions.h"
#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A sum of products, data[..] * weights, at positions in two dimensions: two neighbouring dimensions of the
/// result whose variables data alone is indexed with.
struct Positions {
  Ref<Block> block;
  Ref<Store> update;
  Expr product;
  Ref<Load> data;
  size_t row = 0;  // the dimension of the result; columns are the next
};

/// The variable of the block that indexes each dimension of the result; null for a constant 0.
std::vector<const BlockIter*> result_variables(const Application& a, const Positions& p) {
  std::vector<const BlockIter*> variables;
  for (const Expr& index : p.update->indices) {
    auto own = std::find_if(p.block->iters.begin(), p.block->iters.end(), [&](const BlockIter& iter) {
      return iter.kind == IterKind::kSpatial && index.same_as(iter.var.get());
    });
    if (own == p.block->iters.end() && !is_int(index, 0))
      a.fail("block `{}` indexes its result by more than variables", p.block->name);
    variables.push_back(own == p.block->iters.end() ? nullptr : &*own);
  }
  return variables;
}

bool uses(const Load& load, const Var& v) {
  return std::any_of(load.indices.begin(), load.indices.end(),
                     [&](const Expr& index) { return uses_var(index, v.get()); });
}

/// Sets p.data and p.row.
void find_data(const Application& a, Positions& p) {
  std::vector<Ref<Load>> loads;
  post_order(p.product, [&](const NodeRef& node) {
    if (node.as<Load>()) loads.push_back(node.cast<Load>());
  });
  std::vector<const BlockIter*> variables = result_variables(a, p);
  // The variable moves this load and no other: weights must be the same at all positions.
  auto only_in = [&](const BlockIter* iter, const Ref<Load>& load) {
    return iter && std::all_of(loads.begin(), loads.end(), [&](const Ref<Load>& each) {
             return uses(*each, iter->var) == (each == load);
           });
  };
  // The innermost such pair: rows and columns of an image, not images and rows.
  for (size_t column = variables.size(); column-- > 1;)
    for (const Ref<Load>& load : loads) {
      if (!only_in(variables[column], load) || !only_in(variables[column - 1], load)) continue;
      p.data = load;
      p.row = column - 1;
      return;
    }
  a.fail("block `{}` has no two neighbouring dimensions along which one operand alone changes",
         p.block->name);
}

Positions positions_of(const Application& a, const Ref<Block>& block) {
  Positions p{.block = block};
  const Store* update = block->body.as<Store>();
  const Store* init = block->init.as<Store>();
  const Binary* sum = update ? update->value.as<Binary>() : nullptr;
  const Load* old = sum && sum->op == BinaryOp::kAdd ? sum->a.as<Load>() : nullptr;
  if (!init || !old || old->buffer != update->buffer ||
      !structural_equal(init->value, constant(update->buffer->dtype, 0)))
    a.fail("block `{}` is no sum", block->name);
  p.update = block->body.cast<Store>();
  p.product = sum->b;
  find_data(a, p);
  post_order(p.product, [&](const NodeRef& node) {
    if (node.as<Select>() && !loads_nothing_else(node.cast<ExprNode>(), constant(kInt32, 0)))
      a.fail("block `{}` loads under a condition", block->name);
  });
  return p;
}

/// Builds the three blocks with a FuncBuilder, as if they were a program of their own, and puts them in the
/// place of the convolution's loops.
class Im2col {
 public:
  Im2col(const Application& a, Positions positions) : a_(a), p_(std::move(positions)) {
    width_ = int_value(shape()[p_.row + 1]);
    row_ = p_.update->indices[p_.row].cast<VarNode>();
    column_ = p_.update->indices[p_.row + 1].cast<VarNode>();
  }

  /// Replaces the block in a.func and gives the names of the new ones.
  std::vector<std::string> apply(Func& func) {
    Buffer product = product_block(columns_block());
    Func made = f_.finish("im2col", {});
    const Block& root = *made->body.as<Block>();
    func = with_algorithm(a_, *p_.block, seq({root.body, result_nest(product)}), root.allocs);
    return names_;
  }

 private:
  std::string name(const char* part) {
    names_.push_back(fresh_block_name(a_.func, p_.block->name + "_" + part));
    return names_.back();
  }
  const std::vector<Expr>& shape() const { return p_.update->buffer->shape; }
  Expr positions() const { return shape()[p_.row] * shape()[p_.row + 1]; }
  bool is_position(const BlockIter& iter) const { return iter.var == row_ || iter.var == column_; }

  /// columns[.., taps.., position, ..]: what the data's last dimension is indexed by stays innermost, so that
  /// neighbouring positions of one tap are neighbours in memory.
  Buffer columns_block() {
    std::vector<const BlockIter*> inner;
    for (const BlockIter& iter : p_.block->iters) {
      // Variables of one value are 0; those that do not move the data have no place in the copy of it.
      if (is_position(iter) || is_int(iter.extent, 1) || !uses(*p_.data, iter.var)) continue;
      (uses_var(p_.data->indices.back(), iter.var.get()) ? inner : outer_).push_back(&iter);
    }
    std::vector<Expr> extents;
    for (const BlockIter* iter : outer_) extents.push_back(iter->extent);
    extents.push_back(positions());
    for (const BlockIter* iter : inner) extents.push_back(iter->extent);
    size_t position = outer_.size();
    inner_ = std::move(inner);
    return f_.compute(name("columns"), extents, [&](Vars v) {
      VarMap at{{row_.get(), floordiv(v[position], width_)}, {column_.get(), floormod(v[position], width_)}};
      for (size_t i = 0; i < outer_.size(); ++i) at[outer_[i]->var.get()] = v[i];
      for (size_t i = 0; i < inner_.size(); ++i) at[inner_[i]->var.get()] = v[position + 1 + i];
      for (const BlockIter& iter : p_.block->iters)
        if (is_int(iter.extent, 1)) at[iter.var.get()] = Expr(0);
      std::vector<Expr> indices;
      for (const Expr& index : p_.data->indices) indices.push_back(simplify(substitute(index, at)));
      return load(p_.data->buffer, indices);
    });
  }

  /// The block itself with columns instead of the data, rows and columns of its result one dimension.
  Buffer product_block(const Buffer& columns) {
    std::vector<Expr> extents = shape(), reduced_extents;
    extents[p_.row] = positions();
    extents.erase(extents.begin() + static_cast<int64_t>(p_.row) + 1);
    std::vector<const BlockIter*> reduced;
    for (const BlockIter& iter : p_.block->iters)
      if (iter.kind == IterKind::kReduce) reduced.push_back(&iter), reduced_extents.push_back(iter.extent);
    return f_.reduce(name("product"), extents, reduced_extents, Combiner::kSum, [&](Vars v, Vars r) {
      VarMap at;
      for (size_t d = 0; d < p_.update->indices.size(); ++d)
        // Dimensions after the row have moved up by one. What rows and columns become does not matter: the
        // data alone depends on them, and is replaced.
        if (const VarNode* own = p_.update->indices[d].as<VarNode>()) at[own] = v[d - (d > p_.row)];
      for (size_t k = 0; k < reduced.size(); ++k) at[reduced[k]->var.get()] = r[k];
      std::vector<Expr> gathered;
      for (const BlockIter* iter : outer_) gathered.push_back(at.at(iter->var.get()));
      gathered.emplace_back(v[p_.row]);
      for (const BlockIter* iter : inner_) gathered.push_back(at.at(iter->var.get()));
      Expr of_columns = rewrite(p_.product, [&](const NodeRef& node) -> NodeRef {
                          return node == p_.data ? NodeRef(load(columns, gathered)) : node;
                        }).cast<ExprNode>();
      return substitute(of_columns, at);
    });
  }

  /// result[.., position // width, position % width, ..] = product[.., position, ..]
  Stmt result_nest(const Buffer& product) {
    Block block;
    block.name = name("result");
    std::vector<std::pair<Var, Expr>> loops;
    std::vector<Expr> from, to;
    for (const Expr& extent : product->shape) {
      Var loop = var(fmt::format("c{}", loops.size())), own = var(fmt::format("v{}", loops.size()));
      loops.emplace_back(loop, extent);
      block.iters.push_back({own, extent, IterKind::kSpatial, loop});
      from.emplace_back(own);
      to.emplace_back(own);
    }
    to.insert(to.begin() + static_cast<int64_t>(p_.row) + 1, floormod(from[p_.row], width_));
    to[p_.row] = floordiv(from[p_.row], width_);
    block.body = store(p_.update->buffer, to, load(product, from));
    declare_accesses(block);
    return nest(loops, seal(std::make_unique<Block>(std::move(block))));
  }

  const Application& a_;
  Positions p_;
  int64_t width_ = 0;
  Var row_, column_;
  std::vector<const BlockIter*> outer_, inner_;  // what `columns` is indexed by, around the position
  FuncBuilder f_;
  std::vector<std::string> names_;
};

void im2col(Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  require_constant_extents(a, path);
  Im2col rewrite(a, positions_of(a, path.back().cast<Block>()));
  Func func;
  for (const std::string& block : rewrite.apply(func)) a.give_block(block);
  a.func = func;
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {.name = "im2col",
     .doc = "y[i, j] += d[i+k, j+l] * g[k, l]  ->  c[k, l, p] = d[p//J + k, p%J + l]; z[p] += c[k, l, p] * "
            "g[k, l]; "
            "y[p//J, p%J] = z[p]",
     .inputs = {{kBlock}},
     .run = im2col,
     .is_algorithm = true},
};
}  // namespace

std::span<const Primitive> im2col_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
