#include "core/tir/passes/vectorize_loops.h"

#include <algorithm>
#include <set>

#include "core/support/error.h"
#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
constexpr int64_t kMostLanes = 1024;

int lanes_of(const Expr& e) { return e.dtype().lanes; }
/// A scalar as equal lanes; a vector as it is.
Expr widened(const Expr& e, int lanes) { return lanes_of(e) == lanes ? e : broadcast(e, lanes); }

/// Sums of ramps and products with scalars stay ramps, so that code generation sees consecutive addresses.
Expr vector_binary(BinaryOp op, const Expr& a, const Expr& b) {
  if (lanes_of(a) == lanes_of(b)) {
    if (lanes_of(a) == 1) return binary(op, a, b);
    const Ramp *x = a.as<Ramp>(), *y = b.as<Ramp>();
    if (x && y && (op == BinaryOp::kAdd || op == BinaryOp::kSub))
      return ramp(binary(op, x->base, y->base), binary(op, x->stride, y->stride), lanes_of(a));
    return binary(op, a, b);
  }
  const Ramp* r = (lanes_of(a) > 1 ? a : b).as<Ramp>();
  const Expr& scalar = lanes_of(a) > 1 ? b : a;
  int lanes = std::max(lanes_of(a), lanes_of(b));
  if (r && op == BinaryOp::kAdd) return ramp(r->base + scalar, r->stride, lanes);
  if (r && op == BinaryOp::kMul) return ramp(r->base * scalar, r->stride * scalar, lanes);
  if (r && op == BinaryOp::kSub && lanes_of(a) > 1) return ramp(r->base - scalar, r->stride, lanes);
  return binary(op, widened(a, lanes), widened(b, lanes));
}

/// A scalar condition stays one: it chooses between whole vectors.
Expr vector_select(const Expr& condition, const Expr& a, const Expr& b) {
  int lanes = std::max(lanes_of(condition), std::max(lanes_of(a), lanes_of(b)));
  return select(condition, widened(a, lanes), widened(b, lanes));
}

/// `e` for all values of `v` at once; itself where it does not depend on it.
Expr vector_of(const Expr& e, const Var& v, int lanes) {
  NodeRef result = rewrite(e, [&](const NodeRef& node) -> NodeRef {
    if (node == v) return ramp(imm(v->dtype, 0), imm(v->dtype, 1), lanes);
    // Of scalars nothing changes, so the node stays itself: it may be a part of a buffer's shape.
    if (const Binary* b = node.as<Binary>())
      return lanes_of(b->a) == 1 && lanes_of(b->b) == 1 ? node : vector_binary(b->op, b->a, b->b);
    if (const Not* n = node.as<Not>()) return logical_not(n->a);
    if (const Select* s = node.as<Select>()) return vector_select(s->condition, s->if_true, s->if_false);
    if (const Cast* c = node.as<Cast>()) return cast(c->dtype.with_lanes(lanes_of(c->value)), c->value);
    if (const IntrinsicCall* call = node.as<IntrinsicCall>()) return intrinsic(call->intrinsic, call->a);
    if (const Load* l = node.as<Load>()) return load(l->buffer, l->indices);
    return node;
  });
  return result.cast<ExprNode>();
}

/// The body of one vectorized loop; fails (null) where it must stay scalar.
/// Statements become vectors one after another, each for all lanes before the next: the iterations of a
/// vectorized loop are taken for independent, as the primitive `vectorize` demands.
class VectorBody {
 public:
  VectorBody(const Var& v, int lanes) : v_(v), lanes_(lanes) {}

  Stmt convert(const Stmt& stmt) {
    // The same in each iteration.
    if (!uses_var(stmt, v_.get())) return idempotent(stmt) ? stmt : nullptr;
    switch (stmt->kind()) {
      case StmtKind::kStore:
        return convert_store(*stmt.as<Store>());
      case StmtKind::kFor: {
        const For& loop = *stmt.as<For>();
        // Before the loop is seen as one of vector statements: its terms are to be one expression.
        if (Stmt sum = one_sum(loop)) return convert(sum);
        Stmt body = uses_var(loop.extent, v_.get()) ? Stmt() : convert(loop.body);
        return body ? with_body(stmt.cast<For>(), body) : body;
      }
      case StmtKind::kSeq: {
        std::vector<Stmt> stmts;
        for (const Stmt& s : stmt.as<Seq>()->stmts) {
          stmts.push_back(convert(s));
          if (!stmts.back()) return {};
        }
        return seq(std::move(stmts));
      }
      case StmtKind::kIf:
        return convert_if(*stmt.as<If>());
      default:
        return {};
    }
  }

 private:
  /// Once is as good as `lanes` times: it reads nothing of what it stores.
  static bool idempotent(const Stmt& stmt) {
    std::set<const BufferNode*> read, stored;
    post_order(stmt, [&](const NodeRef& node) {
      if (const Load* load = node.as<Load>()) read.insert(load->buffer.get());
      if (const Store* store = node.as<Store>()) stored.insert(store->buffer.get());
    });
    return std::none_of(stored.begin(), stored.end(), [&](const BufferNode* b) { return read.count(b) > 0; });
  }

  /// The iterations of a loop annotated kDotProduct as one statement; null when it is none.
  static Stmt one_sum(const For& loop) {
    const Store* store = loop.body.as<Store>();
    const Binary* update = store ? store->value.as<Binary>() : nullptr;
    const int64_t* extent = as_int(loop.extent);
    if (!loop.annotations.count(kDotProduct) || !extent || !update || update->op != BinaryOp::kAdd) return {};
    const Load* total = update->a.as<Load>();
    if (!total || total->buffer != store->buffer || uses_var(update->a, loop.var.get())) return {};
    for (size_t d = 0; d < total->indices.size(); ++d)
      if (!structural_equal(total->indices[d], store->indices[d])) return {};
    // Without the old value in between: the sum of the terms is added to it at once.
    Expr sum;
    for (int64_t i = 0; i < *extent; ++i) {
      Expr term = substitute(update->b, {{loop.var.get(), Expr(i)}});
      sum = sum ? sum + term : term;
    }
    return tir::store(store->buffer, store->indices, update->a + sum);
  }

  Stmt convert_store(const Store& store) {
    std::vector<Expr> indices;
    bool moves = false;
    for (const Expr& index : store.indices) {
      indices.push_back(vector_of(index, v_, lanes_));
      moves |= lanes_of(indices.back()) > 1;
    }
    // All iterations store to one element: a reduction along v, or nothing but the last one counts.
    if (!moves) return {};
    // The value has the lanes of the store even where it is the same for all.
    return tir::store(store.buffer, std::move(indices), widened(vector_of(store.value, v_, lanes_), lanes_));
  }

  Stmt convert_if(const If& branch) {
    // A mask holds stores back and has no other side.
    if (uses_var(branch.condition, v_.get())) {
      if (branch.else_case) return {};
      return says_where_whole(branch.condition) ? whole_or_masked(branch) : masked(branch);
    }
    Stmt then_case = convert(branch.then_case);
    Stmt else_case = branch.else_case && then_case ? convert(branch.else_case) : Stmt();
    if (!then_case || (branch.else_case && !else_case)) return {};
    return if_then(branch.condition, then_case, else_case);
  }

  /// whole || lanes, of which `whole` is the same for all of them.
  bool says_where_whole(const Expr& condition) const {
    const Binary* either = condition.as<Binary>();
    return either && either->op == BinaryOp::kOr && !uses_var(either->a, v_.get());
  }

  /// Of such a condition no other test is made whether it holds for all lanes.
  Stmt whole_or_masked(const If& branch) {
    const Binary& either = *branch.condition.as<Binary>();
    Stmt vector = convert(branch.then_case);
    if (!vector || !stores_vectors(vector)) return {};
    Expr same = imm(kBool, 1), lanes = imm(kBool, 1);
    for (const Expr& part : conjuncts(either.b)) {
      Expr& where = uses_var(part, v_.get()) ? lanes : same;
      where = logical_and(where, part);
    }
    lanes = vector_of(lanes, v_, lanes_);
    if (lanes_of(lanes) != lanes_) return {};
    return if_then(either.a, vector, if_then(same, fresh_copy(make<If>(lanes, vector))));
  }

  /// The vector statement where the condition holds for all lanes, else for those lanes where it does.
  Stmt masked(const If& branch) {
    Stmt vector = convert(branch.then_case);
    if (!vector || !stores_vectors(vector)) return {};
    Expr condition = vector_of(branch.condition, v_, lanes_);
    // It did not become a vector, though it names v.
    if (lanes_of(condition) != lanes_) return {};
    Stmt some = make<If>(condition, vector);
    std::optional<Expr> whole = holds_for_all_lanes(branch.condition);
    return whole ? if_then(*whole, vector, fresh_copy(some)) : some;
  }

  /// Nothing but stores of all lanes, which a mask can hold back.
  bool stores_vectors(const Stmt& stmt) const {
    bool good = true;
    post_order(stmt, [&](const NodeRef& node) {
      const Store* store = node.as<Store>();
      good &= !store || tir::lanes_of(store->indices) == lanes_;
    });
    return good;
  }

  /// A linear inequality holds on a range when it holds at both ends.
  std::optional<Expr> holds_for_all_lanes(const Expr& condition) {
    Expr all = imm(kBool, 1);
    for (const Expr& part : conjuncts(condition)) {
      if (!uses_var(part, v_.get())) {
        all = logical_and(all, part);
        continue;
      }
      const Binary* compare = part.as<Binary>();
      if (!compare || (compare->op != BinaryOp::kLt && compare->op != BinaryOp::kLe)) return {};
      if (compare->a.dtype() != kInt64 || !linear_form(compare->a - compare->b, std::span(&v_, 1))) return {};
      for (int64_t end : {int64_t{0}, int64_t{lanes_ - 1}})
        all = logical_and(all, simplify(substitute(part, {{v_.get(), Expr(end)}})));
    }
    return all;
  }

  Var v_;
  int lanes_;
};

class VectorizeLoops final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    if (loop->iteration != Iteration::kVectorized) return StmtMutator::visit_for(loop);
    const int64_t* extent = as_int(loop->extent);
    if (!extent) fail("vectorize: the extent of loop {} is not constant", loop->var->name);
    if (*extent > kMostLanes)
      fail("vectorize: loop {} has {} iterations, at most {} fit in vectors; split it", loop->var->name,
           *extent, kMostLanes);
    if (Stmt vector = VectorBody(loop->var, static_cast<int>(*extent)).convert(loop->body)) return vector;
    // What cannot become vectors is slow, not an error.
    return make<For>(loop->var, loop->extent, Iteration::kSerial, visit(loop->body), loop->annotations);
  }
};
}  // namespace

Stmt vectorize_loops(const Stmt& body) { return VectorizeLoops().visit(body); }

}  // namespace lathe::tir
