// Another algorithm for matrix products: of matrices cut into quadrants, seven products of sums of them
// instead of eight (Strassen, "Gaussian Elimination is not Optimal", 1969). The bound on the error grows with
// log2(12) instead of log2(8) a level (Higham, "Accuracy and Stability of Numerical Algorithms", 23.2.2); one
// level loses about a bit.
#include <algorithm>

#include "core/tir/builder.h"
#include "schedules/matrix_product.h"
#include "schedules/primitives/algorithm.h"
#include "schedules/primitives/transform.h"

namespace lathe::schedule {

using namespace tir;

namespace {
constexpr int64_t kProducts = 7;

/// What is multiplied, of the quadrants 11, 12, 21, 22, and what the products add up to.
struct Strassen {
  Matrix data = {{1, 0, 0, 1}, {0, 0, 1, 1},  {1, 0, 0, 0}, {0, 0, 0, 1},
                 {1, 1, 0, 0}, {-1, 0, 1, 0}, {0, 1, 0, -1}};
  Matrix weight = {{1, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, -1}, {-1, 0, 1, 0},
                   {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1}};
  Matrix output = {
      {1, 0, 0, 1, -1, 0, 1}, {0, 0, 1, 0, 1, 0, 0}, {0, 1, 0, 1, 0, 0, 0}, {1, -1, 1, 0, 0, 1, 0}};
};

/// The blocks, in the order of `names`. Columns are cut in bands and each of these in halves, so that a
/// band's products give a band of results.
class Rewrite {
 public:
  Rewrite(const Application& a, MatrixProduct product, int64_t half)
      : a_(a), p_(std::move(product)), half_(half), rows_((p_.rows + 1) / 2), depths_((p_.depths + 1) / 2) {
    if (half < 1 || half > p_.columns)
      a.fail("half a band has {} columns, must be 1 to all {}", half, p_.columns);
    bands_ = (p_.columns + 2 * half - 1) / (2 * half);
  }

  /// Replaces the product in a.func and gives the names of the new blocks.
  std::vector<std::string> apply(Func& func) {
    Buffer data = data_block(), weight = weight_block();
    Buffer result = result_block(product_block(data, weight));
    Func made = f_.finish("strassen", {});
    const Block& root = *made->body.as<Block>();
    // The last buffer is the product's own.
    Stmt stmts = substitute(root.body, {}, {{result.get(), p_.update->buffer}});
    std::vector<Buffer> buffers = root.allocs;
    std::erase(buffers, result);
    func = with_algorithm(a_, *p_.block, stmts, buffers);
    return names_;
  }

 private:
  std::string name(const char* part) {
    names_.push_back(fresh_block_name(a_.func, p_.block->name + "_" + part));
    return names_.back();
  }

  /// The operand's element for these values of the block's variables, as sums compute with it.
  Expr read(const Ref<Load>& operand, VarMap at) const {
    for (const BlockIter& iter : p_.block->iters)
      if (is_int(iter.extent, 1)) at[iter.var.get()] = Expr(0);
    std::vector<Expr> indices;
    for (const Expr& index : operand->indices) indices.push_back(simplify(substitute(index, at)));
    return cast(p_.update->buffer->dtype, load(operand->buffer, indices));
  }

  /// `value`, or 0 where `index` lies beyond `extent`, which it may when `sticks_out`.
  static Expr guarded(const Expr& value, bool sticks_out, const Expr& index, int64_t extent) {
    return sticks_out ? select(less(index, extent), value, constant(value.dtype(), 0)) : value;
  }

  /// data[i, others.., row, depth] = (sum number i) of the quadrants of rows and depths.
  Buffer data_block() {
    std::vector<Expr> shape{kProducts};
    for (const BlockIter* iter : p_.others) shape.push_back(iter->extent);
    shape.insert(shape.end(), {rows_, depths_});
    return f_.compute(name("data"), shape, [&](Vars v) {
      std::vector<Expr> quadrants;
      for (int64_t q = 0; q < 4; ++q) {
        VarMap at;
        for (size_t i = 0; i < p_.others.size(); ++i) at[p_.others[i]->var.get()] = v[1 + i];
        // Quadrant q is row q / 2, column q % 2; of odd sizes the second ones end in a row or column of
        // zeros.
        const Expr row = v[v.size() - 2] + q / 2 * rows_, depth = v.back() + q % 2 * depths_;
        at[p_.row.get()] = row;
        at[p_.depth.get()] = depth;
        Expr value = guarded(read(p_.data, at), p_.rows % 2 != 0 && q / 2 == 1, row, p_.rows);
        quadrants.push_back(guarded(value, p_.depths % 2 != 0 && q % 2 == 1, depth, p_.depths));
      }
      return element(transformed(matrices_.data, quadrants), v[0]);
    });
  }

  /// weight[band, i, depth, column of half a band].
  Buffer weight_block() {
    return f_.compute(name("weight"), {bands_, kProducts, depths_, half_}, [&](Vars v) {
      std::vector<Expr> quadrants;
      for (int64_t q = 0; q < 4; ++q) {
        const Expr depth = v[2] + q / 2 * depths_, column = v[0] * (2 * half_) + v[3] + q % 2 * half_;
        Expr value = read(p_.weight, {{p_.depth.get(), depth}, {p_.column.get(), column}});
        value = guarded(value, p_.depths % 2 != 0 && q / 2 == 1, depth, p_.depths);
        quadrants.push_back(guarded(value, p_.columns % (2 * half_) != 0, column, p_.columns));
      }
      return element(transformed(matrices_.weight, quadrants), v[1]);
    });
  }

  /// product[band, i, ..] = sum over depths of data * weight.
  Buffer product_block(const Buffer& data, const Buffer& weight) {
    std::vector<Expr> shape{bands_, kProducts};
    shape.insert(shape.end(), p_.update->buffer->shape.begin(), p_.update->buffer->shape.end());
    shape[2 + p_.out_row] = rows_;
    shape.back() = half_;
    return f_.reduce(name("products"), shape, {depths_}, Combiner::kSum, [&](Vars v, Vars r) {
      VarMap at;
      for (size_t d = 0; d < p_.update->indices.size(); ++d)
        if (const VarNode* own = p_.update->indices[d].as<VarNode>()) at[own] = v[2 + d];
      std::vector<Expr> indices{v[1]};
      for (const BlockIter* iter : p_.others) indices.push_back(at.at(iter->var.get()));
      indices.insert(indices.end(), {at.at(p_.row.get()), r[0]});
      return load(data, indices) * load(weight, {v[0], v[1], r[0], v.back()});
    });
  }

  /// result[.., row, .., column] of the quadrant that they lie in: rows in halves, columns in bands and their
  /// halves.
  Buffer result_block(const Buffer& products) {
    return f_.compute(name("result"), p_.update->buffer->shape, [&](Vars v) {
      const Expr row = v[p_.out_row], column = v.back();
      std::vector<Expr> x;
      for (int64_t i = 0; i < kProducts; ++i) {
        std::vector<Expr> at{floordiv(column, 2 * half_), Expr(i)};
        for (const Var& each : v) at.emplace_back(each);
        at[2 + p_.out_row] = floormod(row, rows_);
        at.back() = floormod(column, half_);
        x.push_back(load(products, at));
      }
      Expr quadrant = floordiv(row, rows_) * 2 + floormod(floordiv(column, half_), 2);
      return element(transformed(matrices_.output, x), quadrant);
    });
  }

  const Application& a_;
  MatrixProduct p_;
  Strassen matrices_;
  int64_t half_, rows_, depths_, bands_;  // columns of half a band; rows and depths of a quadrant
  FuncBuilder f_;
  std::vector<std::string> names_;
};

void strassen(Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  require_constant_extents(a, path);
  std::optional<MatrixProduct> product;
  try {
    product = matrix_product_of(path.back().cast<Block>());
  } catch (const Error& e) {
    a.fail("{}", e.what());
  }
  Rewrite rewrite(a, *product, a.number(1));
  Func func;
  for (const std::string& block : rewrite.apply(func)) a.give_block(block);
  a.func = func;
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {.name = "strassen",
     .doc =
         "y[m, n] += x[m, k] * w[k, n]  ->  seven products of sums of quadrants of x and of each band of w, "
         "added "
         "up to the quadrants of y",
     .inputs = {{kBlock, kInt}},
     .run = strassen,
     .is_algorithm = true},
};
}  // namespace

std::span<const Primitive> strassen_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
