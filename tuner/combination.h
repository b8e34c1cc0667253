// One implementation for each task of a model, chosen by timing the whole model: what one kernel leaves in
// the caches is part of what the next one takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/support/race.h"

namespace lathe::tuner {

/// For each task the number of one of its alternatives.
using Combination = std::vector<size_t>;

/// Runs a model as two combinations, the incumbent and a challenger: real ones (model_race.h), or a fake in
/// tests.
class ModelTimer : public TurnTimer {
 public:
  /// Makes the challenger ready, in place of the last one. Throws Error when it cannot be built.
  virtual void challenge(const Combination& challenger) = 0;
  /// The challenger is the incumbent from now on. REQUIRES: challenge().
  virtual void accept() = 0;

  /// Seconds that each task takes in one run.
  struct Profile {
    std::vector<double> incumbent, challenger;
  };
  virtual Profile profile() = 0;
};

/// So far.
struct ChoiceStatus {
  int challengers = 0;               // raced or profiled
  double before = 0, incumbent = 0;  // seconds of one run, as timed last; 0: not yet
};

struct ChoiceLimits {
  double seconds = 0;  // what begins later than this is not begun; the last comparison comes on top
  std::function<bool()> stop = [] { return false; };
  std::function<void(const ChoiceStatus&)> on_change = [](const ChoiceStatus&) {};
};

struct Chosen {
  Combination combination;
  double before = 0, after = 0;  // seconds of one run: the start, what was chosen; 0 without challengers
  int challengers = 0;
};

/// A combination that is faster than `start`, or `start`. Task i has alternatives 0 .. counts[i]-1, those
/// with the fewest bytes of constants first. Steps:
/// 1. `proposals` are raced.
/// 2. Every alternative is profiled inside the model, all tasks at once: the first round runs the leanest of
///    every task, the last one the fattest, so that caches are seen at their emptiest and fullest.
/// 3. The fastest of each task by these profiles are raced together.
/// 4. Single exchanges are raced, the most promising first; after a win, again from the top.
///
/// A challenger is accepted when it is clearly faster: a sequential test on who wins turns, which takes an
/// equal for faster in 1 of 100 races; most races of equals end after some 25 turns. What was accepted is
/// raced once more, on turns that no decision rests on, with `start`, which stays unless it is clearly slower
/// (1 of 20). The timer begins with `start` as incumbent.
Chosen choose_combination(std::span<const size_t> counts, const Combination& start,
                          std::span<const Combination> proposals, ModelTimer& timer,
                          const ChoiceLimits& limits);

}  // namespace lathe::tuner
