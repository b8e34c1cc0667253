// Which schedules of a program with open dimensions are worth a kernel, and for which values each.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/family.h"

namespace lathe::tuner {

/// What schedules of one program were measured to take at some sizes.
struct SizedTimes {
  struct Size {
    std::vector<int64_t> values;  // of the program's dimensions
    double weight = 1;            // how much it counts beside the others
  };
  std::vector<Size> sizes;
  std::vector<std::vector<double>> seconds;  // by schedule, then by size; 0: not measured there
};

/// A schedule, and the values it serves.
struct ChosenMember {
  std::vector<schedule::DimValues> dims;  // `typical`: the sizes' that weighs most of those that it serves
  size_t schedule = 0;
  std::vector<size_t> sizes;  // of SizedTimes, that it serves
};

/// A further member is worth what its schedule gains, when that is so much of the time at a size that has all
/// of the weight; what each gains over the fastest schedule at a size is a share of that one's time.
inline constexpr double kMemberGain = 0.02;

/// The members that lose least, each counting as kMemberGain: boxes of values that together are all there
/// are, made by cutting in two again and again. A cut between two measured values is at their geometric mean.
/// Each member was measured at all sizes that it serves. Schedules that are equal come in their order. Empty
/// where no size was measured; sizes without any measurement belong to whoever is around. REQUIRES: sizes are
/// distinct.
std::vector<ChosenMember> choose_members(const SizedTimes& times);

}  // namespace lathe::tuner
