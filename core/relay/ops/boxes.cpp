// What is kept of the boxes that a detector finds.
#include <limits>

#include "core/relay/ops/attrs_vision.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/row_programs.h"
#include "core/relay/ops/tournament.h"

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

/// What is left of the candidates of one class of one image, the best first: the steps.
///
/// The best candidate that is left, again and again, is kept unless it overlaps one that was. So a box is
/// looked at once, against those kept, and few are where few are wanted. Where many turn out to overlap, all
/// that overlap what is kept are struck out at once.
class Suppression {
 public:
  /// Of the candidates; `kept` is where those kept go, and behind them is room for the tournament.
  struct Candidates {
    std::function<Expr(const Expr& j)> number;  // of the box
    std::function<Expr(const Expr& j)> key;     // of a place, or behind all that there can be
    Expr count, most;                           // those there are, and as many as there can be
    std::function<Box(const Expr& number)> box;
    DataType edge;
  };
  Suppression(Candidates candidates, std::function<std::vector<Expr>(const Expr& i)> place, const Buffer& out,
              const Expr& limit, const Expr& most, const Expr& share)
      : candidates_(std::move(candidates)),
        place_(std::move(place)),
        out_(out),
        limit_(limit),
        most_(most),
        share_(share),
        all_at_hand_(as_int(most) && int_value(most) <= kMostAtHand),
        tournament_({.node = [this](const Expr& i) { return load(out_, place_(most_ + i)); },
                     .set_node = [this](const Expr& i,
                                        const Expr& j) { return tir::store(out_, place_(most_ + i), j); },
                     .key = [this](const Expr& j) { return candidates_.key(cast(kInt64, j)); },
                     .none = cast(kInt32, candidates_.most),
                     .count = candidates_.count,
                     .most = candidates_.most}),
        number_("number", kInt64),
        chosen_("chosen", kInt32),
        hit_("hit", kInt32),
        wasted_("wasted", kInt64),
        struck_("struck", kInt64),
        hits_(tir::buffer("hits", {Expr(kLanes)}, kInt32, tir::Scope::kLocal)),
        found_(tir::buffer("found", {Expr(4)}, candidates_.edge, tir::Scope::kLocal)),
        some_(tir::buffer("some", {Expr(4), Expr(kLanes)}, candidates_.edge, tir::Scope::kLocal)),
        kept_(tir::buffer("kept", {Expr(4), all_at_hand_ ? vectors_of(most) * kLanes : Expr(kMostAtHand)},
                          candidates_.edge)) {}

  tir::Stmt steps() const {
    const Expr goes_on =
        logical_and(not_equal(tournament_.best(), none()), less(number_.value(), min(limit_, most_)));
    tir::Stmt all = tournament_.with_cells(
        tir::seq({start(), tournament_.play(), repeat(candidates_.count, goes_on, turn())}));
    for (const Buffer& buffer : {number_.buffer(), chosen_.buffer(), hit_.buffer(), wasted_.buffer(),
                                 struck_.buffer(), hits_, found_, some_, kept_})
      all = make<tir::Alloc>(buffer, all);
    return all;
  }

 private:
  // In comparisons of a vector of boxes with one: what it costs to look at a candidate, and to load a vector
  // of them.
  static constexpr int64_t kTurnCost = 8, kLoadCost = 8;
  // Of so many boxes that are kept a thread has the edges at hand; those of more are found by the numbers of
  // the boxes.
  static constexpr int64_t kMostAtHand = 4096;

  using Place = std::function<std::vector<Expr>(const Expr& edge)>;
  static Place place_in(const Expr& k) {
    return [k](const Expr& edge) { return std::vector<Expr>{edge, k}; };
  }
  static std::vector<Expr> place_of_found(const Expr& edge) { return {edge}; }
  static Box edges(const Buffer& x, const Place& place) {
    return {load(x, place(0)), load(x, place(1)), load(x, place(2)), load(x, place(3))};
  }
  static tir::Stmt set_edges(const Buffer& x, const Place& place, const Box& box) {
    return tir::seq({tir::store(x, place(0), box.top), tir::store(x, place(1), box.left),
                     tir::store(x, place(2), box.bottom), tir::store(x, place(3), box.right)});
  }
  static Expr flag(int64_t value) { return imm(kInt32, value); }
  Expr none() const { return cast(kInt32, candidates_.most); }
  Box found() const { return edges(found_, place_of_found); }
  Box kept_at_hand(const Expr& k) const { return edges(kept_, place_in(k)); }
  Box kept_by_number(const Expr& k) const { return candidates_.box(cast(kInt64, load(out_, place_(k)))); }

  tir::Stmt start() const {
    const Expr leaves = max(vectors_of(candidates_.count), Expr(1)) * kLanes;
    return tir::seq({for_vectors(most_, [&](const Expr& i) { return tir::store(out_, place_(i), flag(-1)); }),
                     for_vectors(leaves,
                                 [&](const Expr& j) {
                                   return tir::store(
                                       out_, place_(most_ + j),
                                       select(less(j, candidates_.count), cast(kInt32, j), none()));
                                 }),
                     number_.set(Expr(0)), wasted_.set(Expr(0)), struck_.set(Expr(0))});
  }

  /// One candidate: the best there is.
  tir::Stmt turn() const {
    const Expr number = cast(kInt32, candidates_.number(cast(kInt64, tournament_.best())));
    return tir::seq({chosen_.set(number),
                     set_edges(found_, place_of_found, candidates_.box(cast(kInt64, chosen_.value()))),
                     compare(), tournament_.strike_best(),
                     make<tir::If>(equal(hit_.value(), flag(0)), keep(), waste())});
  }

  /// `hit_`: whether what was found overlaps a box that was kept.
  tir::Stmt compare() const {
    auto set = [&](const Box& better, const Expr& lane) {
      return tir::store(hits_, {lane},
                        select(overlaps(better, found(), share_), flag(1), load(hits_, {lane})));
    };
    const Expr vectors = vectors_of(number_.value()), most = Expr(kMostAtHand / kLanes),
               at_hand = all_at_hand_ ? vectors : min(vectors, most);
    tir::Stmt all = loop("v", at_hand, [&](const Expr& v) {
      return in_lanes([&](const Expr& lane) { return set(kept_at_hand(v * kLanes + lane), lane); });
    });
    if (!all_at_hand_)
      all = tir::seq({all, loop("w", max(vectors - most, Expr(0)), [&](const Expr& w) {
                        return in_lanes([&](const Expr& lane) {
                          const Expr k = (most + w) * kLanes + lane;
                          return make<tir::If>(less(k, number_.value()), set(kept_by_number(k), lane));
                        });
                      })});
    return tir::seq({in_lanes([&](const Expr& lane) { return tir::store(hits_, {lane}, flag(0)); }), all,
                     fold_lanes([&](const Expr& lane, const Expr& other) {
                       return tir::store(hits_, {lane}, max(load(hits_, {lane}), load(hits_, {other})));
                     }),
                     hit_.set(load(hits_, {Expr(0)}))});
  }

  tir::Stmt keep() const {
    const tir::Stmt set = tir::store(out_, place_(number_.value()), chosen_.value()),
                    next = number_.set(number_.value() + 1);
    // Behind what is kept are boxes that overlap none, up to a whole vector.
    const Expr zero = real(found().top, 0);
    const tir::Stmt clear = in_lanes([&](const Expr& lane) {
      return set_edges(kept_, place_in(number_.value() + lane), {zero, zero, zero, zero});
    });
    tir::Stmt at_hand = tir::seq({make<tir::If>(equal(floormod(number_.value(), kLanes), Expr(0)), clear),
                                  set_edges(kept_, place_in(number_.value()), found())});
    if (!all_at_hand_) at_hand = make<tir::If>(less(number_.value(), Expr(kMostAtHand)), at_hand);
    return tir::seq({set, at_hand, next});
  }

  /// Counts what was looked at in vain, and strikes out all that overlap what is kept once that has cost as
  /// much as striking out does.
  tir::Stmt waste() const {
    const Expr pays =
        less_equal(vectors_of(candidates_.count) * (unstruck() + kLoadCost), wasted_.value() * kTurnCost);
    return tir::seq({wasted_.set(wasted_.value() + 1),
                     make<tir::If>(pays, tir::seq({strike_out(), struck_.set(number_.value()),
                                                   wasted_.set(Expr(0)), tournament_.play()}))});
  }

  /// How many were kept since those that overlap them were struck out.
  Expr unstruck() const { return number_.value() - struck_.value(); }

  tir::Stmt strike_out() const {
    return loop("v", vectors_of(candidates_.count), [&](const Expr& v) {
      auto for_lanes = [&](const std::function<tir::Stmt(const Expr& j, const Expr& lane)>& body) {
        return in_lanes([&](const Expr& lane) {
          const Expr j = v * kLanes + lane;
          return make<tir::If>(less(j, candidates_.count), body(j, lane));
        });
      };
      return tir::seq({for_lanes([&](const Expr& j, const Expr& lane) {
                         return set_edges(some_, place_in(lane), candidates_.box(candidates_.number(j)));
                       }),
                       loop("k", unstruck(), [&](const Expr& k) {
                         const Expr which = struck_.value() + k;
                         const Box better = all_at_hand_ ? kept_at_hand(which) : kept_by_number(which);
                         return for_lanes([&](const Expr& j, const Expr& lane) {
                           return make<tir::If>(overlaps(better, edges(some_, place_in(lane)), share_),
                                                tir::store(out_, place_(most_ + j), none()));
                         });
                       })});
    });
  }

  const Candidates candidates_;
  const std::function<std::vector<Expr>(const Expr& i)> place_;
  const Buffer out_;
  const Expr limit_, most_, share_;
  const bool all_at_hand_;
  const Tournament tournament_;
  const Cell number_, chosen_, hit_, wasted_, struck_;
  const Buffer hits_, found_, some_, kept_;
};

/// What is kept of each class of each image.
class BestOfClasses {
 public:
  BestOfClasses(FuncBuilder& f, bool centred, Inputs in, const Shape& result)
      : f_(f),
        centred_(centred),
        boxes_(in[0]),
        scores_(in[1]),
        least_(in[2]),
        limit_(in[3]),
        share_(in[4]),
        count_(in[1]->shape[2]),
        picks_(result[2]) {}

  /// Numbers of boxes, -1 behind them, and then what they were found with.
  Buffer picks() const {
    const Buffer candidates = this->candidates(), keys = this->keys(candidates);
    Shape shape = scores_->shape;
    shape[2] = picks_ + Tournament::nodes(count_);
    return f_.opaque(
        "picks", shape, kInt32, {candidates, keys, boxes_, limit_, share_}, [&](const Buffer& out) {
          const Suppression suppression(
              {.number = [&](const Expr& j) { return load(candidates, at(j)); },
               .key = [&](const Expr& j) { return load(keys, at(j)); },
               .count = load(candidates, at(count_)),
               .most = count_,
               .box = [&](const Expr& i) { return box_at(boxes_, vars_[0], i, centred_); },
               .edge = boxes_->dtype},
              [&](const Expr& i) { return at(i); }, out, load(limit_, {}), picks_, load(share_, {}));
          return Row(scores_, out, 2, vars_).for_each(suppression.steps());
        });
  }

 private:
  std::vector<Expr> at(const Expr& i) const { return {vars_[0], vars_[1], i}; }

  /// The boxes whose scores count, in their order, and behind all places how many they are.
  Buffer candidates() const {
    Shape shape = scores_->shape;
    shape[2] = count_ + 1;
    return f_.opaque("candidates", shape, kInt64, {scores_, least_}, [&](const Buffer& out) {
      const Row row(scores_, out, 2, vars_);
      const Cell number("number", kInt64);
      const Expr least = load(least_, {});
      // Without a branch: what does not count is overwritten by the next.
      const tir::Stmt all = loop("i", count_, [&](const Expr& i) {
        const Expr counts = logical_or(is_nan(least), less(least, row.element(i)));
        return tir::seq({tir::store(out, at(number.value()), i),
                         number.set(number.value() + select(counts, Expr(1), Expr(0)))});
      });
      return row.for_each(make<tir::Alloc>(
          number.buffer(),
          tir::seq({number.set(Expr(0)), all, tir::store(out, at(count_), number.value())})));
    });
  }

  /// The candidates' scores; that of NaN comes last. Behind all places is a score of none.
  Buffer keys(const Buffer& candidates) const {
    Shape shape = scores_->shape;
    shape[2] = count_ + 1;
    return f_.opaque("keys", shape, scores_->dtype, {candidates, scores_}, [&](const Buffer& out) {
      const Expr lowest = constant(scores_->dtype, -std::numeric_limits<double>::infinity());
      const tir::Stmt all = for_vectors(load(candidates, at(count_)), [&](const Expr& j) {
        const Expr score = load(scores_, at(load(candidates, at(j))));
        return tir::store(out, at(j), select(is_nan(score), lowest, score));
      });
      return Row(scores_, out, 2, vars_).for_each(tir::seq({all, tir::store(out, at(count_), lowest)}));
    });
  }

  FuncBuilder& f_;
  const bool centred_;
  const Buffer boxes_, scores_, least_, limit_, share_;
  const Expr count_, picks_;
  const std::vector<Var> vars_ = variables_of(scores_);
};

Buffers best_boxes(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const Shape& shape = tensor_of(result).shape;
  const Buffer picks = BestOfClasses(f, attrs_as<BestBoxesAttrs>(attrs).centred, in, shape).picks();
  return {f.compute("best", shape, [&](Vars v) { return cast(kInt64, at(picks, v)); })};
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
