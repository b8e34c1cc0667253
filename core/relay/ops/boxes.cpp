// What is kept of the boxes that a detector finds.
#include <limits>

#include "core/relay/ops/attrs_vision.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/row_programs.h"

namespace lathe::relay::ops {
namespace {

/// Edges of a box.
struct Box {
  Expr top, left, bottom, right;
  Expr area() const { return (bottom - top) * (right - left); }
};

Box box_at(const Buffer& boxes, const Expr& batch, const Expr& number, bool centred) {
  Expr at[4];
  for (int k = 0; k < 4; ++k) at[k] = load(boxes, {batch, number, Expr(k)});
  if (!centred) return {min(at[0], at[2]), min(at[1], at[3]), max(at[0], at[2]), max(at[1], at[3])};
  const Expr width = at[2] * real(at[2], 0.5), height = at[3] * real(at[3], 0.5);
  return {at[1] - height, at[0] - width, at[1] + height, at[0] + width};
}

/// Whether the part of two boxes' union that lies in both is more than `share`.
Expr overlaps(const Box& a, const Box& b, const Expr& share) {
  const Expr zero = real(share, 0);
  const Expr height = max(min(a.bottom, b.bottom) - max(a.top, b.top), zero),
             width = max(min(a.right, b.right) - max(a.left, b.left), zero);
  const Expr common = height * width;
  return logical_and(less(zero, common), less(share * (a.area() + b.area() - common), common));
}

Relation best_boxes_type(RelationContext& c, const Attrs& attrs) {
  const TensorType *boxes = c.tensor(0), *scores = c.tensor(1);
  if (!boxes || !scores) return Relation::kWaits;
  require_rank(c, 0, *boxes, 3);
  require_float(c, 0, *boxes);
  require_rank(c, 1, *scores, 3);
  require_float(c, 1, *scores);
  c.equal_dims(boxes->shape[2], 4);
  c.equal_dims(boxes->shape[0], scores->shape[0]);
  c.equal_dims(boxes->shape[1], scores->shape[2]);
  demand(c, 2, {}, scores->dtype);
  demand(c, 3, {}, kInt64);
  demand(c, 4, {}, boxes->dtype);
  Shape shape = scores->shape;
  if (const int64_t most = attrs_as<BestBoxesAttrs>(attrs).most; most >= 1) shape[2] = most;
  c.result(tensor_type(shape, kInt64));
  return Relation::kSolved;
}

/// The steps for one class of one image. Few boxes have scores that count: those are gathered, and all after
/// that is as much work as there are of them.
class BestOfClass {
 public:
  BestOfClass(FuncBuilder& f, bool centred, Inputs in, const Shape& result)
      : f_(f),
        centred_(centred),
        boxes_(in[0]),
        scores_(in[1]),
        least_(in[2]),
        limit_(in[3]),
        share_(in[4]),
        count_(in[1]->shape[2]),
        picks_(result[2]) {}

  Buffer picks() {
    candidates_ = candidates();
    const Expr lowest = real(at_score(Expr(0), Expr(0), Expr(0)), -std::numeric_limits<double>::infinity());
    key_ = gathered("key", scores_->dtype, [&](const std::vector<Var>& row, const Expr& i) {
      const Expr score = at_score(row[0], row[1], i);
      return select(is_nan(score), lowest, score);
    });
    auto edge = [&](const char* name, Expr Box::*which) {
      return gathered(name, boxes_->dtype, [this, which](const std::vector<Var>& row, const Expr& i) {
        return box_at(boxes_, row[0], i, centred_).*which;
      });
    };
    top_ = edge("top", &Box::top), left_ = edge("left", &Box::left);
    bottom_ = edge("bottom", &Box::bottom), right_ = edge("right", &Box::right);
    Shape shape = scores_->shape;
    shape[2] = picks_ + count_;
    return f_.opaque("picks", shape, kInt64,
                     {candidates_, key_, top_, left_, bottom_, right_, limit_, share_},
                     [&](const Buffer& out) { return by_row(out, [&](const Row&) { return pick(out); }); });
  }

 private:
  tir::Stmt by_row(const Buffer& out, const std::function<tir::Stmt(const Row&)>& steps) const {
    const Row row(scores_, out, 2, vars_);
    return row.for_each(steps(row));
  }
  std::vector<Expr> at(const Expr& i) const { return {vars_[0], vars_[1], i}; }
  Expr at_score(const Expr& batch, const Expr& cls, const Expr& i) const {
    return load(scores_, {batch, cls, i});
  }
  Expr candidate(const Expr& j) const { return load(candidates_, at(j)); }
  Expr number_of_candidates() const { return candidate(count_); }

  /// The boxes whose scores count, in their order, and behind all places how many they are.
  Buffer candidates() const {
    Shape shape = scores_->shape;
    shape[2] = count_ + 1;
    return f_.opaque("candidates", shape, kInt64, {scores_, least_}, [&](const Buffer& out) {
      return by_row(out, [&](const Row& row) {
        const Cell number("number", kInt64);
        const Expr least = load(least_, {});
        const tir::Stmt all = loop("i", count_, [&](const Expr& i) {
          return make<tir::If>(
              logical_or(is_nan(least), less(least, row.element(i))),
              tir::seq({tir::store(out, at(number.value()), i), number.set(number.value() + 1)}));
        });
        return make<tir::Alloc>(number.buffer(), tir::seq({number.set(Expr(0)), all,
                                                           tir::store(out, at(count_), number.value())}));
      });
    });
  }

  /// `body`, which stores, for each candidate.
  tir::Stmt for_candidates(const std::function<tir::Stmt(const Expr& j, const Expr& lane)>& body) const {
    return loop("v", floordiv(count_ + (kLanes - 1), kLanes), [&](const Expr& v) {
      return make<tir::If>(less(v * kLanes, number_of_candidates()), in_lanes([&](const Expr& lane) {
                             const Expr j = v * kLanes + lane;
                             return make<tir::If>(less(j, number_of_candidates()), body(j, lane));
                           }));
    });
  }

  Buffer gathered(const char* name, DataType dtype,
                  const std::function<Expr(const std::vector<Var>& row, const Expr& i)>& value) const {
    return f_.opaque(name, scores_->shape, dtype, {candidates_, scores_, boxes_}, [&](const Buffer& out) {
      return by_row(out, [&](const Row&) {
        return for_candidates(
            [&](const Expr& j, const Expr&) { return tir::store(out, at(j), value(vars_, candidate(j))); });
      });
    });
  }

  Box box(const Expr& j) const {
    return {load(top_, at(j)), load(left_, at(j)), load(bottom_, at(j)), load(right_, at(j))};
  }

  /// Again and again the best candidate that is left, which strikes out those that it overlaps. Behind the
  /// picks lies which are left.
  tir::Stmt pick(const Buffer& out) const {
    const Cell number("number", kInt64), best("best", kInt64), best_key("best_key", key_->dtype);
    const Buffer keys = tir::buffer("keys", {Expr(kLanes)}, key_->dtype, tir::Scope::kLocal),
                 places = tir::buffer("places", {Expr(kLanes)}, kInt64, tir::Scope::kLocal);
    auto set_left = [&](const Expr& j, int64_t value) { return tir::store(out, at(picks_ + j), value); };
    auto is_left = [&](const Expr& j) { return less(Expr(0), load(out, at(picks_ + j))); };
    const tir::Stmt begin = tir::seq({
        loop("i", picks_, [&](const Expr& i) { return tir::store(out, at(i), -1); }),
        for_candidates([&](const Expr& j, const Expr&) { return set_left(j, 1); }),
        number.set(Expr(0)),
    });
    // In each lane the best of its candidates, then of the lanes; the first of equal ones.
    auto in_order = [&](const Expr& key, const Expr& place, const Expr& than_key, const Expr& than_place) {
      return logical_or(
          less(than_place, Expr(0)),
          logical_or(less(than_key, key), logical_and(equal(key, than_key), less(place, than_place))));
    };
    const tir::Stmt none = in_lanes([&](const Expr& lane) { return tir::store(places, {lane}, -1); });
    const tir::Stmt of_lanes = for_candidates([&](const Expr& j, const Expr& lane) {
      const Expr key = load(key_, at(j));
      const Expr better = logical_and(is_left(j), in_order(key, j, load(keys, {lane}), load(places, {lane})));
      return make<tir::If>(better, tir::seq({tir::store(keys, {lane}, key), tir::store(places, {lane}, j)}));
    });
    const tir::Stmt of_all = loop("lane", kLanes, [&](const Expr& lane) {
      const Expr key = load(keys, {lane}), place = load(places, {lane});
      return make<tir::If>(
          logical_and(less_equal(Expr(0), place), in_order(key, place, best_key.value(), best.value())),
          tir::seq({best_key.set(key), best.set(place)}));
    });
    const tir::Stmt strike_out = for_candidates([&](const Expr& j, const Expr&) {
      return make<tir::If>(overlaps(box(best.value()), box(j), load(share_, {})), set_left(j, 0));
    });
    const tir::Stmt take =
        make<tir::If>(less_equal(Expr(0), best.value()),
                      tir::seq({tir::store(out, at(number.value()), candidate(best.value())),
                                number.set(number.value() + 1), set_left(best.value(), 0), strike_out}));
    // Where a turn finds none the number stays behind, and so do all turns after it.
    const tir::Stmt turns = loop("turn", picks_, [&](const Expr& turn) {
      return make<tir::If>(logical_and(equal(number.value(), turn), less(turn, load(limit_, {}))),
                           tir::seq({none, best.set(Expr(-1)), best_key.set(real(best_key.value(), 0)),
                                     of_lanes, of_all, take}));
    });
    tir::Stmt all = tir::seq({begin, turns});
    for (const Buffer& buffer : {number.buffer(), best.buffer(), best_key.buffer(), keys, places})
      all = make<tir::Alloc>(buffer, all);
    return all;
  }

  FuncBuilder& f_;
  const bool centred_;
  const Buffer boxes_, scores_, least_, limit_, share_;
  const Expr count_, picks_;
  const std::vector<Var> vars_ = variables_of(scores_);
  Buffer candidates_, key_, top_, left_, bottom_, right_;
};

Buffers best_boxes(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const Shape& shape = tensor_of(result).shape;
  const Buffer picks = BestOfClass(f, attrs_as<BestBoxesAttrs>(attrs).centred, in, shape).picks();
  return {f.compute("best", shape, [&](Vars v) { return at(picks, v); })};
}

constexpr Op kBoxOps[] = {
    {.name = "vision.best_boxes",
     .doc =
         "Of boxes (b, n, 4), by scores (b, classes, n), the numbers of those that overlap no better one of "
         "their class by more than a share of their union: the best first, at most `limit`, those above "
         "`least` alone (all where that is NaN), and -1 behind them. (boxes, scores, least, limit, share)",
     .args = 5,
     .attrs = &BestBoxesAttrs::kType,
     .infer = best_boxes_type,
     .compute = best_boxes,
     .fusion = Fusion::kOpaque},
};
}  // namespace

std::span<const Op> box_ops() { return kBoxOps; }

}  // namespace lathe::relay::ops
