// Determinants of square matrices.
#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/row_programs.h"

namespace lathe::relay::ops {
namespace {

Relation det_type(RelationContext& c, const Attrs&) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  if (x->shape.size() < 2) mismatch(c, "a tensor of rank {} holds no matrices", x->shape.size());
  require_float(c, 0, *x);
  Shape shape = x->shape;
  c.equal_dims(shape[shape.size() - 1], shape[shape.size() - 2]);
  shape.resize(shape.size() - 2);
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

/// Gaussian elimination with partial pivoting (Golub and Van Loan, Matrix Computations, algorithm 3.4.1) on a
/// copy of each matrix, whose first element is its determinant afterwards.
class Elimination {
 public:
  Elimination(const Buffer& x, const Buffer& out)
      : x_(x),
        out_(out),
        size_(x->shape.back()),
        vars_(variables_of(x)),
        det_("det", x->dtype),
        largest_("largest", x->dtype),
        factor_("factor", x->dtype),
        pivot_("pivot", kInt64),
        swapped_(tir::buffer("swapped", {Expr(kLanes)}, x->dtype, tir::Scope::kLocal)) {}

  tir::Stmt steps() const {
    tir::Stmt all = tir::seq(
        {det_.set(number(1)),
         loop("i", size_,
              [&](const Expr& i) {
                return for_vectors(size_, [&](const Expr& j) { return set(i, j, load(x_, at(i, j))); });
              }),
         loop("k", size_, [&](const Expr& k) { return eliminate(k); }), set(0, 0, det_.value())});
    for (const Buffer& buffer :
         {det_.buffer(), largest_.buffer(), factor_.buffer(), pivot_.buffer(), swapped_})
      all = make<tir::Alloc>(buffer, all);
    return for_all(
        x_->shape, vars_, [&](size_t d) { return d + 2 >= vars_.size(); }, all);
  }

 private:
  std::vector<Expr> at(const Expr& i, const Expr& j) const {
    std::vector<Expr> indices(vars_.begin(), vars_.end() - 2);
    indices.push_back(i);
    indices.push_back(j);
    return indices;
  }
  Expr value(const Expr& i, const Expr& j) const { return load(out_, at(i, j)); }
  tir::Stmt set(const Expr& i, const Expr& j, const Expr& value) const {
    return tir::store(out_, at(i, j), value);
  }
  Expr number(double value) const { return constant(x_->dtype, value); }

  using InLane = std::function<tir::Stmt(const Expr& lane, const Expr& j)>;
  /// Stores, one after the other for each vector of a row in which columns from k on are: what lies before k
  /// in them is of no interest.
  tir::Stmt in_row(const Expr& k, const std::vector<InLane>& stores) const {
    const Expr first = floordiv(k, Expr(kLanes));
    return loop("v", vectors_of(size_) - first, [&](const Expr& v) {
      std::vector<tir::Stmt> parts;
      for (const InLane& store : stores)
        parts.push_back(in_lanes([&](const Expr& lane) {
          const Expr j = (first + v) * kLanes + lane;
          return make<tir::If>(less(j, size_), store(lane, j));
        }));
      return tir::seq(std::move(parts));
    });
  }

  tir::Stmt eliminate(const Expr& k) const {
    const Expr pivot = value(k, k);
    return tir::seq(
        {find_pivot(k), make<tir::If>(not_equal(pivot_.value(), k), swap(k)), det_.set(det_.value() * pivot),
         loop("below", size_ - 1 - k, [&](const Expr& below) {
           const Expr i = k + 1 + below;
           // A column of zeros has made the determinant 0 by now.
           const Expr factor = select(equal(pivot, number(0)), number(0), div(value(i, k), pivot));
           return tir::seq(
               {factor_.set(factor), in_row(k, {[&](const Expr&, const Expr& j) {
                                              return set(i, j, value(i, j) - factor_.value() * value(k, j));
                                            }})});
         })});
  }

  tir::Stmt find_pivot(const Expr& k) const {
    return tir::seq(
        {pivot_.set(k), largest_.set(intrinsic(Intrinsic::kAbs, value(k, k))),
         loop("below", size_ - 1 - k, [&](const Expr& below) {
           const Expr i = k + 1 + below, size = intrinsic(Intrinsic::kAbs, value(i, k));
           return make<tir::If>(less(largest_.value(), size), tir::seq({pivot_.set(i), largest_.set(size)}));
         })});
  }

  tir::Stmt swap(const Expr& k) const {
    return tir::seq(
        {det_.set(number(0) - det_.value()),
         in_row(k, {[&](const Expr& lane, const Expr& j) {
                      return tir::store(swapped_, {lane}, value(pivot_.value(), j));
                    },
                    [&](const Expr&, const Expr& j) { return set(pivot_.value(), j, value(k, j)); },
                    [&](const Expr& lane, const Expr& j) { return set(k, j, load(swapped_, {lane})); }})});
  }

  const Buffer x_, out_;
  const Expr size_;
  const std::vector<Var> vars_;
  const Cell det_, largest_, factor_, pivot_;
  const Buffer swapped_;
};

Buffers det(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  // A matrix without elements has a determinant, too: 1.
  Shape shape = in[0]->shape;
  for (size_t d : {shape.size() - 2, shape.size() - 1}) shape[d] = simplify(max(shape[d], Expr(1)));
  const Buffer left = f.opaque("left", shape, in[0]->dtype, {in[0]},
                               [&](const Buffer& out) { return Elimination(in[0], out).steps(); });
  return {f.compute("det", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices.insert(indices.end(), 2, Expr(0));
    return load(left, indices);
  })};
}

constexpr Op kDeterminantOps[] = {
    {.name = "linalg.det",
     .doc = "Determinants of square matrices: (.., n, n) to (..).",
     .args = 1,
     .infer = det_type,
     .compute = det,
     .fusion = Fusion::kOpaque},
};
}  // namespace

std::span<const Op> determinant_ops() { return kDeterminantOps; }

}  // namespace lathe::relay::ops
