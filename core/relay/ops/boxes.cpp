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

/// The steps for one class of one image: the best candidate that is left, again and again, is kept unless it
/// overlaps one that was. So a box is looked at once, against those kept, and few are where few are wanted.
/// The best is found among those of groups of candidates, of which only the one it came from has another
/// afterwards. Where many turn out to overlap, all that overlap what is kept are struck out at once.
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
    key_ = keys();
    Shape shape = scores_->shape;
    shape[2] = picks_ + count_;
    return f_.opaque("picks", shape, kInt64, {candidates_, key_, boxes_, limit_, share_},
                     [&](const Buffer& out) { return by_row(out, [&](const Row&) { return pick(out); }); });
  }

 private:
  static constexpr int64_t kGroups = 4 * kLanes, kFewestOfGroup = 4 * kLanes;
  // In comparisons of a vector of boxes with one: what it costs to look at a candidate, and to load a vector
  // of them.
  static constexpr int64_t kTurnCost = 8, kLoadCost = 8;
  // Of so many boxes that may be kept a thread has the edges at hand; of more they are found by the numbers
  // of the boxes.
  static constexpr int64_t kMostAtHand = 4096;

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
  static Expr vectors_of(const Expr& elements) { return floordiv(elements + (kLanes - 1), kLanes); }

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

  /// The candidates' scores; that of NaN comes last.
  Buffer keys() const {
    const Expr lowest = real(at_score(Expr(0), Expr(0), Expr(0)), -std::numeric_limits<double>::infinity());
    return f_.opaque("key", scores_->shape, scores_->dtype, {candidates_, scores_}, [&](const Buffer& out) {
      return by_row(out, [&](const Row&) {
        return for_vectors(count_, number_of_candidates(), [&](const Expr& j, const Expr&) {
          const Expr score = at_score(vars_[0], vars_[1], candidate(j));
          return tir::store(out, at(j), select(is_nan(score), lowest, score));
        });
      });
    });
  }

  /// `step(i)` for i from 0 below `times` while `goes_on`, which stays false once it is: asked for many at
  /// once before each.
  static tir::Stmt repeat(const Expr& times, const std::function<Expr(const Expr& i)>& goes_on,
                          const std::function<tir::Stmt(const Expr& i)>& step) {
    constexpr int64_t kAtOnce = 64;
    const auto within = [&](const Expr& i) { return logical_and(less(i, times), goes_on(i)); };
    return loop("many", ceildiv(times, Expr(kAtOnce)), [&](const Expr& many) {
      return make<tir::If>(within(many * kAtOnce), loop("one", kAtOnce, [&](const Expr& one) {
                             const Expr i = many * kAtOnce + one;
                             return make<tir::If>(within(i), step(i));
                           }));
    });
  }

  /// `body`, which stores, for each number below `end`, at most `most`.
  static tir::Stmt for_vectors(const Expr& most, const Expr& end,
                               const std::function<tir::Stmt(const Expr& i, const Expr& lane)>& body) {
    return repeat(
        vectors_of(most), [&](const Expr& v) { return less(v * kLanes, end); },
        [&](const Expr& v) {
          return in_lanes([&](const Expr& lane) {
            const Expr i = v * kLanes + lane;
            return make<tir::If>(less(i, end), body(i, lane));
          });
        });
  }

  /// The best of keys and their places (-1: there is none): of equal keys the first place.
  struct Best {
    Buffer keys, places;

    Best(const char* key, const char* place, int64_t number, DataType dtype)
        : keys(tir::buffer(key, {Expr(number)}, dtype, tir::Scope::kLocal)),
          places(tir::buffer(place, {Expr(number)}, kInt32, tir::Scope::kLocal)) {}
    Expr key(const Expr& i) const { return load(keys, {i}); }
    Expr place(const Expr& i) const { return load(places, {i}); }
    static Expr number(const Expr& place) { return cast(kInt32, place); }
    tir::Stmt clear(const Expr& i) const {
      return tir::seq({tir::store(keys, {i}, real(key(i), 0)), tir::store(places, {i}, number(-1))});
    }
    /// Takes a key and its place to number i if they are better, by whole stores: what a masked one wrote has
    /// to reach the cache before it can be loaded. `better`: as many numbers, of no meaning afterwards.
    tir::Stmt take(const Buffer& better, const Expr& i, const Expr& key_given,
                   const Expr& place_given) const {
      const Expr comes_first =
          logical_or(less(place(i), number(0)),
                     logical_or(less(key(i), key_given),
                                logical_and(equal(key(i), key_given), less(place_given, place(i)))));
      const Expr taken = less(number(0), load(better, {i}));
      return tir::seq({tir::store(better, {i},
                                  select(logical_and(less_equal(number(0), place_given), comes_first),
                                         number(1), number(0))),
                       tir::store(keys, {i}, select(taken, key_given, key(i))),
                       tir::store(places, {i}, select(taken, place_given, place(i)))});
    }
  };

  /// `halve` for lanes and as many behind them, until one is left.
  static tir::Stmt fold_lanes(const std::function<tir::Stmt(const Expr& lane, const Expr& other)>& halve) {
    std::vector<tir::Stmt> steps;
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      const Var lane = lathe::var("lane");
      steps.push_back(tir::for_loop(lane, half, halve(lane, Expr(lane) + half),
                                    half > 1 ? tir::Iteration::kVectorized : tir::Iteration::kSerial));
    }
    return tir::seq(std::move(steps));
  }

  static Box edges(const Buffer& x, const std::function<std::vector<Expr>(const Expr& edge)>& place) {
    return {load(x, place(0)), load(x, place(1)), load(x, place(2)), load(x, place(3))};
  }
  static tir::Stmt set_edges(const Buffer& x, const Box& box,
                             const std::function<std::vector<Expr>(const Expr& edge)>& place) {
    return tir::seq({tir::store(x, place(0), box.top), tir::store(x, place(1), box.left),
                     tir::store(x, place(2), box.bottom), tir::store(x, place(3), box.right)});
  }

  /// Behind the picks lies which candidates are left.
  tir::Stmt pick(const Buffer& out) const {
    const Cell number("number", kInt64), length("length", kInt64), hit("hit", kInt32),
        wasted("wasted", kInt64), struck("struck", kInt64);
    const Best lanes("lane_keys", "lane_places", kLanes, key_->dtype),
        groups("group_keys", "group_places", kGroups, key_->dtype), best("best_key", "best", 1, key_->dtype);
    const DataType real_type = boxes_->dtype;
    const Buffer better = tir::buffer("better", {Expr(kLanes)}, kInt32, tir::Scope::kLocal),
                 hits = tir::buffer("hits", {Expr(kLanes)}, kInt32, tir::Scope::kLocal),
                 found = tir::buffer("found", {Expr(4)}, real_type, tir::Scope::kLocal),
                 some = tir::buffer("some", {Expr(4), Expr(kLanes)}, real_type, tir::Scope::kLocal),
                 kept = tir::buffer("kept", {Expr(4), picks_}, real_type);
    const bool at_hand = as_int(picks_) && int_value(picks_) <= kMostAtHand;
    const Expr candidates = number_of_candidates(), chosen = cast(kInt64, best.place(Expr(0))),
               share = load(share_, {});
    auto left = [&](const Expr& j) { return at(picks_ + j); };
    auto kept_edge = [](const Expr& k) {
      return [k](const Expr& edge) { return std::vector<Expr>{edge, k}; };
    };
    auto kept_box = [&](const Expr& k) {
      return at_hand ? edges(kept, kept_edge(k)) : box_at(boxes_, vars_[0], load(out, at(k)), centred_);
    };

    const tir::Stmt clear_lanes = in_lanes([&](const Expr& lane) { return lanes.clear(lane); });
    auto of_lanes = [&](const Best& into, const Expr& i) {
      return tir::seq({fold_lanes([&](const Expr& lane, const Expr& other) {
                         return lanes.take(better, lane, lanes.key(other), lanes.place(other));
                       }),
                       tir::store(into.keys, {i}, lanes.key(Expr(0))),
                       tir::store(into.places, {i}, lanes.place(Expr(0)))});
    };
    // The group's candidates lie side by side.
    auto best_of_group = [&](const Expr& g) {
      const Expr first = g * length.value(), end = min(first + length.value(), candidates);
      const tir::Stmt all =
          loop("v", max(ceildiv(vectors_of(count_), Expr(kGroups)), Expr(kFewestOfGroup / kLanes)),
               [&](const Expr& v) {
                 return make<tir::If>(
                     less(first + v * kLanes, end), in_lanes([&](const Expr& lane) {
                       const Expr j = first + v * kLanes + lane;
                       const Expr is_left = select(less(j, end), load(out, left(j)), 0);
                       return lanes.take(better, lane,
                                         select(less(j, end), load(key_, at(j)), real(load(key_, at(0)), 0)),
                                         Best::number(select(less(Expr(0), is_left), j, -1)));
                     }));
               });
      return tir::seq({clear_lanes, all, of_lanes(groups, g)});
    };
    const tir::Stmt best_of_groups = loop("g", kGroups, [&](const Expr& g) {
      return make<tir::If>(less(g * length.value(), candidates), best_of_group(g));
    });
    const tir::Stmt best_of_all =
        tir::seq({clear_lanes,
                  loop("v", kGroups / kLanes,
                       [&](const Expr& v) {
                         return make<tir::If>(
                             less(v * kLanes * length.value(), candidates), in_lanes([&](const Expr& lane) {
                               const Expr g = v * kLanes + lane;
                               return lanes.take(better, lane, groups.key(g), groups.place(g));
                             }));
                       }),
                  of_lanes(best, Expr(0))});

    auto one = [](const Expr& edge) { return std::vector<Expr>{edge}; };
    const tir::Stmt compare = for_vectors(picks_, number.value(), [&](const Expr& k, const Expr& lane) {
      return make<tir::If>(overlaps(kept_box(k), edges(found, one), share),
                           tir::store(hits, {lane}, Best::number(1)));
    });
    const tir::Stmt any =
        tir::seq({fold_lanes([&](const Expr& lane, const Expr& other) {
                    return tir::store(hits, {lane}, max(load(hits, {lane}), load(hits, {other})));
                  }),
                  hit.set(load(hits, {Expr(0)}))});
    std::vector<tir::Stmt> keep = {tir::store(out, at(number.value()), candidate(chosen))};
    if (at_hand) keep.push_back(set_edges(kept, edges(found, one), kept_edge(number.value())));
    keep.push_back(number.set(number.value() + 1));

    const Expr unstruck = number.value() - struck.value();
    const tir::Stmt strike_out = repeat(
        vectors_of(count_), [&](const Expr& v) { return less(v * kLanes, candidates); },
        [&](const Expr& v) {
          auto lane_of = [&](const std::function<tir::Stmt(const Expr& j, const Expr& lane)>& body) {
            return in_lanes([&](const Expr& lane) {
              const Expr j = v * kLanes + lane;
              return make<tir::If>(less(j, candidates), body(j, lane));
            });
          };
          auto in_some = [](const Expr& lane) {
            return [lane](const Expr& edge) { return std::vector<Expr>{edge, lane}; };
          };
          return tir::seq({lane_of([&](const Expr& j, const Expr& lane) {
                             return set_edges(some, box_at(boxes_, vars_[0], candidate(j), centred_),
                                              in_some(lane));
                           }),
                           repeat(
                               picks_, [&](const Expr& k) { return less(k, unstruck); },
                               [&](const Expr& k) {
                                 const Box better = kept_box(struck.value() + k);
                                 return lane_of([&](const Expr& j, const Expr& lane) {
                                   return make<tir::If>(overlaps(better, edges(some, in_some(lane)), share),
                                                        tir::store(out, left(j), 0));
                                 });
                               })});
        });
    const Expr pays = less_equal(vectors_of(candidates) * (unstruck + kLoadCost), wasted.value() * kTurnCost);
    const tir::Stmt waste = tir::seq({wasted.set(wasted.value() + 1),
                                      make<tir::If>(pays, tir::seq({strike_out, struck.set(number.value()),
                                                                    wasted.set(Expr(0)), best_of_groups}))});
    const tir::Stmt turn =
        tir::seq({tir::store(out, left(chosen), 0),
                  set_edges(found, box_at(boxes_, vars_[0], candidate(chosen), centred_), one),
                  in_lanes([&](const Expr& lane) { return tir::store(hits, {lane}, Best::number(0)); }),
                  compare, any, best_of_group(floordiv(chosen, length.value())),
                  make<tir::If>(equal(hit.value(), Best::number(0)), tir::seq(keep), waste), best_of_all});

    const Expr most = min(load(limit_, {}), picks_),
               goes_on = logical_and(less_equal(Expr(0), chosen), less(number.value(), most));
    tir::Stmt all = tir::seq(
        {loop("i", picks_, [&](const Expr& i) { return tir::store(out, at(i), -1); }),
         for_vectors(count_, candidates,
                     [&](const Expr& j, const Expr&) { return tir::store(out, left(j), 1); }),
         number.set(Expr(0)), wasted.set(Expr(0)), struck.set(Expr(0)),
         length.set(max(ceildiv(vectors_of(candidates), Expr(kGroups)) * kLanes, Expr(kFewestOfGroup))),
         loop("g", kGroups, [&](const Expr& g) { return groups.clear(g); }), best_of_groups, best_of_all,
         repeat(
             count_, [&](const Expr&) { return goes_on; }, [&](const Expr&) { return turn; })});
    if (at_hand) all = make<tir::Alloc>(kept, all);
    for (const Buffer& buffer :
         {number.buffer(), length.buffer(), hit.buffer(), wasted.buffer(), struck.buffer(), lanes.keys,
          lanes.places, groups.keys, groups.places, best.keys, best.places, better, hits, found, some})
      all = make<tir::Alloc>(buffer, all);
    return all;
  }

  FuncBuilder& f_;
  const bool centred_;
  const Buffer boxes_, scores_, least_, limit_, share_;
  const Expr count_, picks_;
  const std::vector<Var> vars_ = variables_of(scores_);
  Buffer candidates_, key_;
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
