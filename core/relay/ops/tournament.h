// The statements that find the best element of a row, and then the best of those that are left.
#pragma once

#include <functional>

#include "core/relay/ops/row_programs.h"

namespace lathe::relay::ops {

/// Elements are played off against each other by twos, and so are the winners, until one is left. When that
/// one is struck out its own matches alone are played again.
///
/// The first nodes are the places that are left, one for each element and up to a whole vector, `none` where
/// there is none; the winners of a round stand behind those they were found among. A round pairs whole
/// vectors until there is one, whose lanes then play each other.
class Tournament {
 public:
  /// What is played with; nodes and places are int32. Of equal keys the first place wins: `none` is above all
  /// places, and `key(none)` no better than any.
  struct Parts {
    std::function<Expr(const Expr& i)> node;
    std::function<tir::Stmt(const Expr& i, const Expr& place)> set_node;
    std::function<Expr(const Expr& place)> key;
    Expr none;
    Expr count, most;  // elements there are, and as many as there can be
  };
  explicit Tournament(Parts parts);

  /// Nodes that `most` elements need.
  static Expr nodes(const Expr& most);

  /// The best, after the first nodes were set.
  tir::Stmt play() const;
  /// The best without the best before, which must not be none.
  tir::Stmt strike_best() const;
  Expr best() const { return best_.value(); }
  /// `all`, with what these statements keep numbers in.
  tir::Stmt with_cells(tir::Stmt all) const;

 private:
  tir::Stmt each_round(const std::function<tir::Stmt(const Expr& half, const Expr& winners)>& round) const;
  Expr wins(const Expr& place, const Expr& key, const Expr& other, const Expr& other_key) const;
  Expr winner_of(const Expr& node, const Expr& other) const;
  tir::Stmt meet(const Expr& other) const;

  const Parts parts_;
  const Cell begin_, vectors_, at_, best_, key_, rival_, rival_key_, rival_wins_;
};

}  // namespace lathe::relay::ops
