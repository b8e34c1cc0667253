// Design spaces: the schedules worth trying for a program. A space is a row; several may apply to one program
// and the tuner chooses among them by measuring.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/tir/target.h"
#include "schedules/schedule.h"

namespace lathe::schedule {

/// How a space settles its sampling steps.
enum class Decide : uint8_t {
  kRandom,     // by the schedule's random numbers
  kHeuristic,  // by the space's model of registers and caches
};

/// What schedules may do to results besides adding in another order.
enum class Rounding : uint8_t {
  kNone,
  kHalfWeights,  // constants too large for the caches may be kept in half precision, off by up to 2^-11 each
};

/// What is allowed where results may be off by that much of the largest one.
constexpr Rounding rounding_within(double max_relative_error) {
  return max_relative_error >= 0x1p-11 ? Rounding::kHalfWeights : Rounding::kNone;
}

/// How a space is to generate a schedule.
struct Policy {
  Decide decide = Decide::kRandom;
  Rounding rounding = Rounding::kNone;
};

struct DesignSpace {
  const char* name;
  const char* doc;
  /// By the structure of the program, never by names.
  bool (*applies)(const tir::Func& func, const Target& target);
  /// Schedules the whole program. REQUIRES: applies. Throws Error when its decisions turn out illegal.
  void (*generate)(Schedule& schedule, const Target& target, const Policy& policy);
};

/// All spaces, the most specific first; the last one applies to every program.
std::span<const DesignSpace* const> design_spaces();
/// Of a program with open dimensions, those for its typical values (family.h).
std::vector<const DesignSpace*> spaces_for(const tir::Func& func, const Target& target);

/// A random schedule of the space; the same seed gives the same trace. Where dimensions are open the space
/// decides for typical values, and the schedule is right for all. Throws Error when no legal one was found.
Schedule sample(const DesignSpace& space, const tir::Func& func, const Target& target, uint64_t seed,
                Rounding rounding = Rounding::kNone);

/// The schedule of `trace` with one sampling step decided anew, when the rest still applies; else nothing.
std::optional<Schedule> mutate(const Trace& trace, const tir::Func& func, Random& random);

/// A good schedule with no measurements. Never fails on a valid program. Where dimensions are open it is
/// right for all of their values, and good for those of some tens and more (docs/shapes.md).
Trace default_trace(const tir::Func& func, const Target& target, Rounding rounding = Rounding::kNone);

}  // namespace lathe::schedule
