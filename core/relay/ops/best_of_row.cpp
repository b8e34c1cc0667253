#include "core/relay/ops/best_of_row.h"

#include <algorithm>
#include <cmath>

#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/row_programs.h"

namespace lathe::relay::ops {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
Expr round_up(const Expr& n, int64_t to) { return floordiv(n + (to - 1), Expr(to)) * to; }

/// Vectors of candidates whose places are counted together: they share what they are compared with, but more
/// of it is compared by twice the work, to tell which of equal ones is first.
int64_t vectors_at_once(int64_t candidates) { return candidates <= 96 ? 1 : candidates <= 256 ? 2 : 4; }

/// A number, and the largest that there is memory for.
struct Bounded {
  Expr now;
  int64_t most = 0;
};

/// How the best few of a row are found, and what memory that takes.
struct BestPlan {
  /// Element i is in group i % groups. The k-th best of the best of all groups bounds what is among the best
  /// k; 0: each element is a candidate.
  Bounded groups = {};
  /// So many candidates are more than are looked for: they are ordered, and bound what may still come.
  Bounded enough = {};
  int64_t most_best = 1;
  int64_t typical_candidates = 1;
};

/// More groups are never worth it.
constexpr int64_t kMostGroups = 2048;

/// Elements are looked at in their order, so of equal ones the first is kept, and nothing but what is kept at
/// all depends on the data.
class BestOfRow {
 public:
  BestOfRow(const BestOf& row, const BestPlan& plan)
      : row_(row),
        n_(row.n),
        k_(row.k),
        plan_(plan),
        key_(row.dtype.is_float() && row.dtype.bits < 32 ? kFloat32
             : row.dtype.is_bool()                       ? kUInt8
                                                         : row.dtype),
        at_once_(vectors_at_once(plan_.typical_candidates)),
        count_("count", kInt64),
        bound_("bound", key_),
        top_("top", key_),
        is_settled_("is_settled", kBool) {
    const int64_t most = round_up(plan_.enough.most + plan_.groups.most + 1, kLanes) + kLanes * at_once_;
    values_ = local("values", most, key_);
    positions_ = local("positions", most, kInt64);
    places_ = local("places", most, kInt32);
    best_values_ = local("best_values", round_up(plan_.most_best + 1, kLanes), key_);
    best_positions_ = local("best_positions", round_up(plan_.most_best + 1, kLanes), kInt64);
    for (const Cell* cell : {&count_, &bound_, &top_, &is_settled_}) allocs_.push_back(cell->buffer());
  }

  tir::Stmt program() {
    std::vector<tir::Stmt> steps = is_int(k_, 1) ? first() : plan_.groups.most ? filtered() : all();
    tir::Stmt result = tir::seq(std::move(steps));
    for (const Buffer& each : allocs_) result = make<tir::Alloc>(each, result);
    return result;
  }

 private:
  Buffer local(const char* name, int64_t extent, DataType dtype) {
    allocs_.push_back(tir::buffer(name, {Expr(extent)}, dtype, tir::Scope::kLocal));
    return allocs_.back();
  }
  /// `e`, worked out once where it is no constant.
  Expr at_hand(const char* name, const Expr& e, std::vector<tir::Stmt>& steps) {
    if (as_int(e)) return e;
    const Cell cell(name, kInt64);
    allocs_.push_back(cell.buffer());
    steps.push_back(cell.set(e));
    return cell.value();
  }
  /// Groups whose best are in registers together; numbers of groups that a run chooses are its multiples.
  int64_t groups_at_once() const {
    const int64_t* known = as_int(plan_.groups.now);
    const int64_t vectors = known ? *known / kLanes : 2;
    return kLanes * (vectors % 8 == 0 ? 8 : std::min<int64_t>(vectors, 4));
  }
  Expr key(const Expr& i) const { return cast(key_, row_.element(i)); }
  /// False where one is NaN.
  Expr before(const Expr& a, const Expr& b) const { return row_.ascending ? less(a, b) : less(b, a); }
  Expr no_later(const Expr& a, const Expr& b) const {
    return row_.ascending ? less_equal(a, b) : less_equal(b, a);
  }
  Expr first_of(const Expr& a, const Expr& b) const { return select(before(a, b), a, b); }
  Expr last_of(const Expr& a, const Expr& b) const { return select(before(b, a), a, b); }
  Expr extreme(bool last) const {
    return tir::identity_of(last == row_.ascending ? tir::Combiner::kMin : tir::Combiner::kMax, key_);
  }

  /// Without a branch: what is not to be kept is overwritten by the next.
  tir::Stmt keep(const Expr& i, const Expr& is_kept) const {
    return tir::seq({tir::store(values_, {count_.value()}, key(i)),
                     tir::store(positions_, {count_.value()}, i),
                     count_.set(count_.value() + cast(kInt64, is_kept))});
  }

  /// `finish(i, value, place)`: of values[i], i < count, how many of the values come before it; with `ties`
  /// those that equal it and have smaller indices do. Of a NaN it is 0.
  tir::Stmt places(
      const Buffer& values, const Expr& count, int64_t at_once, bool ties,
      const std::function<tir::Stmt(const Expr& i, const Expr& value, const Expr& place)>& finish) {
    const Buffer mine = local("mine", at_once * kLanes, key_),
                 place = local("place", at_once * kLanes, kInt32);
    const int64_t block = at_once * kLanes;
    using IsBefore = std::function<Expr(const Expr& value, const Expr& other, const Expr& i)>;
    // values[begin + other], for other < extent, are compared with all of the block.
    auto compared = [&](const Expr& begin, const Expr& extent, const IsBefore& is_before) {
      return loop("other", extent, [&](const Expr& other) {
        return in_registers(at_once, [&](const Expr& i) {
          const Expr now = load(place, {i}), value = load(values, {begin + other});
          return tir::store(place, {i}, select(is_before(value, other, i), now + imm(kInt32, 1), now));
        });
      });
    };
    const IsBefore is_less = [&](const Expr& value, const Expr&, const Expr& i) {
      return before(value, load(mine, {i}));
    };
    const IsBefore is_no_more = [&](const Expr& value, const Expr&, const Expr& i) {
      return no_later(value, load(mine, {i}));
    };
    const IsBefore is_either = [&](const Expr& value, const Expr& other, const Expr& i) {
      return logical_or(is_less(value, other, i),
                        logical_and(less(cast(kInt32, other), cast(kInt32, i)), is_no_more(value, other, i)));
    };
    return loop("block", ceildiv(count, Expr(block)), [&](const Expr& b) {
      const Expr begin = b * block, end = begin + block;
      std::vector<tir::Stmt> steps = {in_registers(at_once, [&](const Expr& i) {
        return tir::seq(
            {tir::store(mine, {i}, load(values, {begin + i})), tir::store(place, {i}, imm(kInt32, 0))});
      })};
      if (ties) {
        steps.push_back(compared(Expr(0), begin, is_no_more));
        steps.push_back(compared(begin, min(Expr(block), count - begin), is_either));
        steps.push_back(compared(end, max(Expr(0), count - end), is_less));
      } else {
        steps.push_back(compared(Expr(0), count, is_less));
      }
      steps.push_back(in_registers(
          at_once, [&](const Expr& i) { return finish(begin + i, load(mine, {i}), load(place, {i})); }));
      return tir::seq(std::move(steps));
    });
  }

  /// The places among the best of those whose place is no further than that.
  tir::Stmt places_of_best(const Expr& count, bool has_nans) {
    const Expr none = cast(kInt32, k_);
    return places(values_, count, at_once_, true, [&](const Expr& i, const Expr& value, const Expr& place) {
      return tir::store(places_, {i},
                        has_nans ? select(is_nan(value), none, min(place, none)) : min(place, none));
    });
  }

  /// Where there are fewer than k numbers, all that is copied has a value.
  tir::Stmt no_best() const {
    return loop("v", ceildiv(k_, Expr(kLanes)), [&](const Expr& v) {
      return in_lanes([&](const Expr& lane) {
        return tir::seq({tir::store(best_values_, {v * kLanes + lane}, extreme(true)),
                         tir::store(best_positions_, {v * kLanes + lane}, Expr(0))});
      });
    });
  }

  /// Each lane has the first of its elements that nothing comes before, and where that is.
  std::vector<tir::Stmt> first() {
    // Half as long, they take half as many registers.
    const DataType index = as_int(n_) && int_value(n_) < INT32_MAX ? kInt32 : kInt64;
    const Buffer values = local("lane_values", kLanes, key_), at = local("lane_positions", kLanes, index);
    auto moved = [&](const Buffer& buffer, const Expr& is_first, const Expr& lane, const Expr& value) {
      return tir::store(buffer, {lane}, select(is_first, value, load(buffer, {lane})));
    };
    auto look = [&](const Expr& lane, const Expr& i) {
      const Expr is_first = before(key(i), load(values, {lane}));
      return tir::seq({moved(at, is_first, lane, cast(index, i)), moved(values, is_first, lane, key(i))});
    };
    const Expr whole = floordiv(n_, Expr(kLanes)), rest = floormod(n_, Expr(kLanes));
    std::vector<tir::Stmt> steps = {
        in_lanes([&](const Expr& lane) {
          return tir::seq(
              {tir::store(values, {lane}, extreme(true)), tir::store(at, {lane}, cast(index, n_))});
        }),
        loop("v", whole, [&](const Expr& v) {
          return in_lanes([&](const Expr& lane) { return look(lane, v * kLanes + lane); });
        })};
    if (!is_zero(rest))
      steps.push_back(in_lanes([&](const Expr& lane) {
        return make<tir::If>(less(lane, rest), look(lane, whole * kLanes + lane));
      }));
    // Of equal ones the first; count_ is its position. What is read lane by lane is in memory.
    const Buffer found = local("found", kLanes, index);
    steps.push_back(in_lanes([&](const Expr& lane) { return tir::store(found, {lane}, load(at, {lane})); }));
    steps.push_back(tir::seq({bound_.set(extreme(true)), count_.set(n_)}));
    steps.push_back(loop(
        "lane", kLanes,
        [&](const Expr& lane) {
          const Expr value = load(values, {lane}), position = cast(kInt64, load(found, {lane}));
          const Expr is_tie = logical_and(equal(value, bound_.value()), less(position, count_.value()));
          const Expr is_first = logical_or(before(value, bound_.value()), is_tie);
          return tir::seq({count_.set(select(is_first, position, count_.value())),
                           bound_.set(first_of(value, bound_.value()))});
        },
        tir::Iteration::kUnrolled));
    // Nothing comes before the last there can be: then it is the first number of all, or the first NaN.
    const tir::Stmt back = loop("i", n_, [&](const Expr& step) {
      const Expr i = n_ - 1 - step;
      return make<tir::If>(no_later(key(i), key(i)), count_.set(i));
    });
    steps.push_back(make<tir::If>(equal(count_.value(), n_), tir::seq({count_.set(0), back})));
    steps.push_back(row_.put(Expr(0), count_.value()));
    return steps;
  }

  std::vector<tir::Stmt> all() {
    const int64_t block = at_once_ * kLanes;
    const Expr whole = round_up(n_, block);
    const bool has_nans = row_.dtype.is_float();
    std::vector<tir::Stmt> steps = {
        no_best(),
        in_registers(at_once_,
                     [&](const Expr& i) { return tir::store(values_, {whole - block + i}, extreme(true)); }),
        in_vectors(n_, [&](const Expr& i) { return tir::store(values_, {i}, key(i)); }),
        places_of_best(n_, has_nans), loop("i", n_, [&](const Expr& i) {
          return tir::store(best_positions_, {cast(kInt64, load(places_, {i}))}, i);
        })};
    steps.push_back(in_vectors(k_, [&](const Expr& i) { return row_.put(i, load(best_positions_, {i})); }));
    if (!has_nans) return steps;
    const Buffer lanes = local("numbers", kLanes, kInt32), counted = local("counted", kLanes, kInt32);
    steps.push_back(in_lanes([&](const Expr& lane) { return tir::store(lanes, {lane}, imm(kInt32, 0)); }));
    steps.push_back(loop("v", floordiv(whole, Expr(kLanes)), [&](const Expr& v) {
      return in_lanes([&](const Expr& lane) {
        const Expr is_number = logical_not(is_nan(load(values_, {v * kLanes + lane}))),
                   now = load(lanes, {lane});
        return tir::store(lanes, {lane}, select(is_number, now + imm(kInt32, 1), now));
      });
    }));
    steps.push_back(
        in_lanes([&](const Expr& lane) { return tir::store(counted, {lane}, load(lanes, {lane})); }));
    steps.push_back(count_.set(n_ - whole));
    steps.push_back(loop(
        "lane", kLanes,
        [&](const Expr& lane) { return count_.set(count_.value() + cast(kInt64, load(counted, {lane}))); },
        tir::Iteration::kUnrolled));
    steps.push_back(nans());
    return steps;
  }

  /// The candidates become the best of them, in order.
  tir::Stmt settled() {
    const Expr count = count_.value();
    // The last block of candidates is compared as a whole.
    const tir::Stmt filled = in_registers(
        at_once_, [&](const Expr& i) { return tir::store(values_, {count + i}, extreme(true)); });
    const tir::Stmt placed = loop("i", count, [&](const Expr& i) {
      const Expr place = cast(kInt64, load(places_, {i}));
      return tir::seq({tir::store(best_values_, {place}, load(values_, {i})),
                       tir::store(best_positions_, {place}, load(positions_, {i}))});
    });
    const tir::Stmt back = in_vectors(k_, [&](const Expr& i) {
      return tir::seq({tir::store(values_, {i}, load(best_values_, {i})),
                       tir::store(positions_, {i}, load(best_positions_, {i}))});
    });
    const tir::Stmt bounded = make<tir::If>(
        less_equal(k_, count),
        tir::seq({count_.set(k_), bound_.set(load(values_, {k_ - 1})), is_settled_.set(imm(kBool, 1))}));
    return tir::seq({filled, places_of_best(count, false), placed, back, bounded});
  }

  /// best[g] = the first of group g, which is no NaN.
  tir::Stmt best_of_groups(const Buffer& best) {
    // Rows of groups are vectors; few enough at once to be in registers.
    const int64_t at_once = groups_at_once() / kLanes;
    const Buffer first = local("first", at_once * kLanes, key_);
    const tir::Stmt rows = loop("block", floordiv(groups_, Expr(at_once * kLanes)), [&](const Expr& b) {
      const Expr begin = b * (at_once * kLanes);
      return tir::seq({
          in_registers(at_once, [&](const Expr& i) { return tir::store(first, {i}, extreme(true)); }),
          loop("r", whole_,
               [&](const Expr& r) {
                 return in_registers(at_once, [&](const Expr& i) {
                   return tir::store(first, {i}, first_of(key(r * groups_ + begin + i), load(first, {i})));
                 });
               }),
          in_registers(at_once,
                       [&](const Expr& i) { return tir::store(best, {begin + i}, load(first, {i})); }),
      });
    });
    return tir::seq({rows, in_vectors(rest_, [&](const Expr& i) {
                       return tir::store(best, {i}, first_of(key(whole_ * groups_ + i), load(best, {i})));
                     })});
  }

  /// The last of the best k of the groups' best, than which k elements are no worse, and the first of all.
  tir::Stmt bound_by_groups(const Buffer& best) {
    const Buffer lanes = local("lanes", kLanes, key_), tops = local("tops", kLanes, key_);
    const tir::Stmt begin = in_lanes([&](const Expr& lane) {
      return tir::seq({tir::store(lanes, {lane}, extreme(false)), tir::store(tops, {lane}, extreme(true))});
    });
    const tir::Stmt bounds = places(
        best, groups_, std::min<int64_t>(groups_at_once() / kLanes, 4), false,
        [&](const Expr& i, const Expr& value, const Expr& place) {
          const Expr lane = floormod(i, Expr(kLanes)), now = load(lanes, {lane});
          return tir::seq(
              {tir::store(lanes, {lane}, select(less(place, cast(kInt32, k_)), last_of(value, now), now)),
               tir::store(tops, {lane}, first_of(value, load(tops, {lane})))});
        });
    const tir::Stmt end = loop("lane", kLanes, [&](const Expr& lane) {
      return tir::seq({bound_.set(last_of(load(lanes, {lane}), bound_.value())),
                       top_.set(first_of(load(tops, {lane}), top_.value()))});
    });
    return tir::seq({begin, bounds, bound_.set(extreme(false)), top_.set(extreme(true)), end});
  }

  std::vector<tir::Stmt> filtered() {
    std::vector<tir::Stmt> steps;
    groups_ = at_hand("groups", plan_.groups.now, steps);
    whole_ = at_hand("whole", floordiv(n_, groups_), steps);
    rest_ = at_hand("rest", floormod(n_, groups_), steps);
    const bool has_rest = !is_zero(rest_);
    const int64_t most = plan_.groups.most;
    const Buffer best = local("best", most, key_), chosen = local("chosen", most + 1, kInt64);
    const Cell number("number", kInt64), number_in_rest("number_in_rest", kInt64);
    for (const Cell* cell : {&number, &number_in_rest}) allocs_.push_back(cell->buffer());
    // The groups that hold a candidate, those that have one element more than the others first.
    auto choose = [&](const std::function<Expr(const Expr& best)>& holds_candidate) {
      auto among = [&](const Expr& begin, const Expr& end) {
        return loop("g", end - begin, [&](const Expr& g) {
          return tir::seq(
              {tir::store(chosen, {number.value()}, g + begin),
               number.set(number.value() + cast(kInt64, holds_candidate(load(best, {g + begin}))))});
        });
      };
      std::vector<tir::Stmt> both = {number.set(0)};
      if (has_rest) both.push_back(among(0, rest_));
      both.push_back(number_in_rest.set(number.value()));
      both.push_back(among(rest_, groups_));
      return tir::seq(std::move(both));
    };
    for (const tir::Stmt& step :
         {no_best(), best_of_groups(best), bound_by_groups(best), count_.set(0),
          is_settled_.set(imm(kBool, 0)), choose([&](const Expr& e) { return no_later(e, bound_.value()); })})
      steps.push_back(step);
    const Expr rows = has_rest ? at_hand("rows", ceildiv(n_, groups_), steps) : whole_;
    steps.push_back(loop("r", rows, [&](const Expr& r) {
      const Expr extent =
          has_rest ? select(less(r, whole_), number.value(), number_in_rest.value()) : number.value();
      auto look = [&](bool ties) {
        return loop("c", extent, [&](const Expr& c) {
          const Expr i = r * groups_ + load(chosen, {c}), bound = bound_.value();
          return keep(i, ties ? no_later(key(i), bound) : before(key(i), bound));
        });
      };
      // Once so many are known of which it is the last, what equals the bound comes too late.
      const tir::Stmt looked = make<tir::If>(is_settled_.value(), look(false), look(true));
      // Where nothing comes before the bound, the first k that equal it are all.
      const Expr may_be_more = logical_or(is_settled_.value(), before(top_.value(), bound_.value())),
                 enough = select(may_be_more, plan_.enough.now, k_ - 1);
      const Expr is_last = equal(r, rows - 1), are_enough = less(enough, count_.value());
      // Where many elements are equal, as integers often are, few groups have one that is better.
      const tir::Stmt chosen_again =
          make<tir::If>(logical_and(is_settled_.value(), logical_not(is_last)),
                        choose([&](const Expr& e) { return before(e, bound_.value()); }));
      return tir::seq(
          {looked, make<tir::If>(logical_or(are_enough, is_last), tir::seq({settled(), chosen_again}))});
    }));
    steps.push_back(in_vectors(k_, [&](const Expr& i) { return row_.put(i, load(positions_, {i})); }));
    if (row_.dtype.is_float()) steps.push_back(nans());
    return steps;
  }

  /// Where there are not enough numbers.
  tir::Stmt nans() const {
    const Expr is_missing = less(count_.value(), k_);
    const tir::Stmt look = loop("i", n_, [&](const Expr& i) {
      const tir::Stmt next = tir::seq({row_.put(count_.value(), i), count_.set(count_.value() + 1)});
      return make<tir::If>(logical_and(is_missing, is_nan(key(i))), next);
    });
    return make<tir::If>(is_missing, look);
  }

  const BestOf& row_;
  const Expr n_;
  const Expr k_;
  const BestPlan& plan_;
  const DataType key_;  // the type of what is compared
  const int64_t at_once_;
  const Cell count_, bound_, top_, is_settled_;
  std::vector<Buffer> allocs_;
  Expr groups_, whole_, rest_;  // how many there are, rows of one element of each, and elements behind these
  Buffer values_, positions_, places_;  // of the candidates
  Buffer best_values_, best_positions_;
};

/// What one turn costs, in the unit of costs. A scalar step looks at an element and keeps it or not; to place
/// one takes some more.
constexpr int64_t kOfLooking = 25, kOfPlacing = 75, kOfBeginning = 2000;

/// So many groups bound the best `k` of `n` elements at the least cost, but for `k`, and are multiples of
/// what is in registers. More are more to compare with each other, and fewer elements in those that hold one
/// of the best.
Expr groups_for(const Expr& n, const Expr& k) {
  const Expr fewest = k + floordiv(k, Expr(2));
  if (as_int(n) && as_int(k)) {
    const double best =
        std::cbrt(12.0 * static_cast<double>(int_value(k)) * static_cast<double>(int_value(n)));
    const int64_t groups = std::max(static_cast<int64_t>(best), int_value(fewest));
    return round_up(groups, groups < 4 * kLanes ? kLanes : 4 * kLanes);
  }
  // The power of two that is nearest.
  Expr groups = kMostGroups;
  for (int64_t fewer = kMostGroups / 2; fewer >= 2 * kLanes; fewer /= 2)
    groups = select(less(4 * k * n, Expr(fewer * fewer * fewer)), Expr(fewer), groups);
  return max(groups, round_up(fewest, 2 * kLanes));
}

}  // namespace

Expr cost_of_placing(const Expr& n) {
  const Expr few = min(n, Expr(kMostBest));
  return few * (few + (kOfLooking + kOfPlacing)) + kOfBeginning;
}

Expr cost_of_filtering(const Expr& n, const Expr& k) {
  const Expr groups = groups_for(n, k), candidates = k + floordiv(k, Expr(5)) + kLanes;
  return groups * groups + n + (groups + floordiv(n * k, groups)) * kOfLooking +
         candidates * (candidates + kOfPlacing) + 2 * kOfBeginning;
}

/// Of rows of an open length that are placed.
constexpr int64_t kTypicallyPlaced = 256;

tir::Stmt best_by_placing(const BestOf& row, int64_t most) {
  return BestOfRow(row, {.groups = {Expr(0), 0},
                         .enough = {row.n, most},
                         .most_best = as_int(row.k) ? int_value(row.k) : most,
                         .typical_candidates = as_int(row.n) ? most : std::min(most, kTypicallyPlaced)})
      .program();
}

tir::Stmt best_by_filtering(const BestOf& row, int64_t most) {
  if (is_int(row.k, 1)) return BestOfRow(row, {}).program();
  const Expr groups = groups_for(row.n, row.k);
  auto enough = [](const Expr& k) { return k + floordiv(k, Expr(2)) + kLanes / 2; };
  return BestOfRow(row, {.groups = {groups, as_int(groups) ? int_value(groups) : kMostGroups},
                         .enough = {enough(row.k), int_value(enough(Expr(most)))},
                         .most_best = most,
                         .typical_candidates = most + most / 4})
      .program();
}

}  // namespace lathe::relay::ops
