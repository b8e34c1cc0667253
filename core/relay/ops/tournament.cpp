#include "core/relay/ops/tournament.h"

#include <bit>

namespace lathe::relay::ops {
namespace {

constexpr int64_t kMostRounds = 31 - 4;  // places are numbers of 32 bits

int64_t rounds_of(const Expr& most) {
  if (!as_int(most)) return kMostRounds;
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(int_value(vectors_of(most)), 1) - 1));
}

/// `match(from, to, half)` for the rounds of the lanes of one vector: `half` matches of those from `from` on,
/// whose winners stand from `to` on.
tir::Stmt in_one_vector(
    const std::function<tir::Stmt(const Expr& from, const Expr& to, const Expr& half)>& match) {
  std::vector<tir::Stmt> rounds;
  int64_t from = 0;
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    rounds.push_back(match(from, from + 2 * half, half));
    from += 2 * half;
  }
  return tir::seq(std::move(rounds));
}

}  // namespace

Tournament::Tournament(Parts parts)
    : parts_(std::move(parts)),
      begin_("begin", kInt64),
      vectors_("vectors", kInt64),
      at_("at", kInt64),
      best_("best", kInt32),
      key_("best_key", parts_.key(parts_.none).dtype()),
      rival_("rival", kInt32),
      rival_key_("rival_key", key_.buffer()->dtype),
      rival_wins_("rival_wins", kBool) {}

Expr Tournament::nodes(const Expr& most) { return (vectors_of(most) + kMostRounds + 1) * (2 * kLanes); }

tir::Stmt Tournament::with_cells(tir::Stmt all) const {
  for (const Cell* cell : {&begin_, &vectors_, &at_, &best_, &key_, &rival_, &rival_key_, &rival_wins_})
    all = make<tir::Alloc>(cell->buffer(), all);
  return all;
}

/// `round` of all there are before the lanes play: its matches are `half` vectors with those behind them, and
/// what it finds stands from `winners` on.
tir::Stmt Tournament::each_round(
    const std::function<tir::Stmt(const Expr& half, const Expr& winners)>& round) const {
  const Expr half = floordiv(vectors_.value() + 1, 2), winners = begin_.value() + vectors_.value() * kLanes;
  return tir::seq({begin_.set(Expr(0)), vectors_.set(max(vectors_of(parts_.count), Expr(1))),
                   loop("round", rounds_of(parts_.most), [&](const Expr&) {
                     return make<tir::If>(
                         less(Expr(1), vectors_.value()),
                         tir::seq({round(half, winners), begin_.set(winners), vectors_.set(half)}));
                   })});
}

Expr Tournament::wins(const Expr& place, const Expr& key, const Expr& other, const Expr& other_key) const {
  return logical_or(less(other_key, key), logical_and(equal(key, other_key), less(place, other)));
}

Expr Tournament::winner_of(const Expr& node, const Expr& other) const {
  const Expr a = parts_.node(node), b = parts_.node(other);
  return select(wins(b, parts_.key(b), a, parts_.key(a)), b, a);
}

tir::Stmt Tournament::play() const {
  const tir::Stmt rounds = each_round([&](const Expr& half, const Expr& winners) {
    return loop("v", half, [&](const Expr& v) {
      return in_lanes([&](const Expr& lane) {
        // The last of an odd number has none to play.
        const Expr other = select(less(v + half, vectors_.value()), v + half, v);
        return parts_.set_node(
            winners + v * kLanes + lane,
            winner_of(begin_.value() + v * kLanes + lane, begin_.value() + other * kLanes + lane));
      });
    });
  });
  const tir::Stmt lanes = in_one_vector([&](const Expr& from, const Expr& to, const Expr& half) {
    return loop(
        "lane", half,
        [&](const Expr& lane) {
          const Expr node = begin_.value() + from + lane;
          return parts_.set_node(begin_.value() + to + lane, winner_of(node, node + half));
        },
        int_value(half) > 1 ? tir::Iteration::kVectorized : tir::Iteration::kSerial);
  });
  return tir::seq({rounds, lanes, best_.set(parts_.node(begin_.value() + (2 * kLanes - 2)))});
}

/// The better of `best_` and a node is `best_`. Without a branch: who wins cannot be foreseen.
tir::Stmt Tournament::meet(const Expr& other) const {
  return tir::seq({rival_.set(parts_.node(other)), rival_key_.set(parts_.key(rival_.value())),
                   rival_wins_.set(wins(rival_.value(), rival_key_.value(), best_.value(), key_.value())),
                   best_.set(select(rival_wins_.value(), rival_.value(), best_.value())),
                   key_.set(select(rival_wins_.value(), rival_key_.value(), key_.value()))});
}

tir::Stmt Tournament::strike_best() const {
  const Expr vector = floordiv(at_.value(), kLanes), lane = floormod(at_.value(), kLanes);
  const tir::Stmt rounds = each_round([&](const Expr& half, const Expr& winners) {
    const Expr ahead = less(vector, half), match = select(ahead, vector, vector - half),
               behind = select(less(vector + half, vectors_.value()), vector + half, vector);
    return tir::seq({meet(begin_.value() + select(ahead, behind, match) * kLanes + lane),
                     at_.set(match * kLanes + lane), parts_.set_node(winners + at_.value(), best_.value())});
  });
  const tir::Stmt lanes = in_one_vector([&](const Expr& from, const Expr& to, const Expr& half) {
    const Expr ahead = less(at_.value(), half);
    return tir::seq({meet(begin_.value() + from + select(ahead, at_.value() + half, at_.value() - half)),
                     at_.set(select(ahead, at_.value(), at_.value() - half)),
                     parts_.set_node(begin_.value() + to + at_.value(), best_.value())});
  });
  return tir::seq({at_.set(cast(kInt64, best_.value())), parts_.set_node(at_.value(), parts_.none),
                   best_.set(parts_.none), key_.set(parts_.key(parts_.none)), rounds, lanes});
}

}  // namespace lathe::relay::ops
