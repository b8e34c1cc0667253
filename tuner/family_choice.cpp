#include "tuner/family_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/support/error.h"

namespace lathe::tuner {
namespace {

using schedule::DimValues;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Of each dimension the numbers of its values, both included.
struct Box {
  std::vector<size_t> first, last;
  auto operator<=>(const Box&) const = default;
};

/// The best way to serve a box: one schedule, or two halves.
struct Plan {
  double cost = kNever;
  size_t schedule = 0;
  size_t dim = 0, cut = 0;  // the first half ends with value `cut` of `dim`
  bool halves = false;
};

class Chooser {
 public:
  explicit Chooser(const SizedTimes& times) : times_(times) {
    double sum = 0;
    for (size_t s = 0; s < times.sizes.size(); ++s) {
      double best = kNever;
      for (const std::vector<double>& of_schedule : times.seconds)
        if (of_schedule.at(s) > 0) best = std::min(best, of_schedule[s]);
      if (best == kNever) continue;
      measured_.push_back(s);
      best_.push_back(best);
      sum += times.sizes[s].weight;
    }
    total_ = sum > 0 ? sum : 1;
    if (measured_.empty()) return;
    values_.resize(times.sizes[measured_[0]].values.size());
    for (size_t d = 0; d < values_.size(); ++d) {
      std::set<int64_t> distinct;
      for (size_t s : measured_) distinct.insert(times.sizes[s].values.at(d));
      values_[d].assign(distinct.begin(), distinct.end());
    }
  }

  std::vector<ChosenMember> choose() {
    std::vector<ChosenMember> members;
    if (measured_.empty()) return members;
    Box all;
    for (const std::vector<int64_t>& of_dim : values_) {
      all.first.push_back(0);
      all.last.push_back(of_dim.size() - 1);
    }
    collect(all, members);
    // Whatever the last one is for, all values are its that no other member has.
    for (DimValues& dim : members.back().dims) dim = {.typical = dim.typical};
    return members;
  }

 private:
  std::vector<size_t> sizes_in(const Box& box) const {
    std::vector<size_t> inside;  // numbers of measured_
    for (size_t m = 0; m < measured_.size(); ++m) {
      const std::vector<int64_t>& at = times_.sizes[measured_[m]].values;
      bool in = true;
      for (size_t d = 0; d < at.size(); ++d)
        in &= at[d] >= values_[d][box.first[d]] && at[d] <= values_[d][box.last[d]];
      if (in) inside.push_back(m);
    }
    return inside;
  }

  double loss(size_t schedule, std::span<const size_t> sizes) const {
    double loss = 0;
    for (size_t m : sizes) {
      const double seconds = times_.seconds[schedule][measured_[m]];
      if (seconds <= 0) return kNever;
      loss += times_.sizes[measured_[m]].weight / total_ * (seconds / best_[m] - 1);
    }
    return loss;
  }

  const Plan& plan(const Box& box) {
    if (auto known = plans_.find(box); known != plans_.end()) return known->second;
    Plan best;
    const std::vector<size_t> sizes = sizes_in(box);
    // Where nothing was measured anything will do, and half of a cut costs nothing.
    if (sizes.empty()) best.cost = 0;
    for (size_t s = 0; s < times_.seconds.size() && !sizes.empty(); ++s)
      if (const double cost = kMemberGain + loss(s, sizes); cost < best.cost)
        best = {.cost = cost, .schedule = s};
    for (size_t d = 0; d < box.first.size() && sizes.size() > 1; ++d)
      for (size_t cut = box.first[d]; cut < box.last[d]; ++cut) {
        const auto [low, high] = halves(box, d, cut);
        const double cost = plan(low).cost + plan(high).cost;
        if (cost < best.cost) best = {.cost = cost, .dim = d, .cut = cut, .halves = true};
      }
    return plans_[box] = best;
  }

  static std::pair<Box, Box> halves(const Box& box, size_t dim, size_t cut) {
    std::pair<Box, Box> both(box, box);
    both.first.last[dim] = cut;
    both.second.first[dim] = cut + 1;
    return both;
  }

  void collect(const Box& box, std::vector<ChosenMember>& members) {
    const Plan chosen = plan(box);
    if (chosen.halves) {
      const auto [low, high] = halves(box, chosen.dim, chosen.cut);
      collect(low, members);
      collect(high, members);
      return;
    }
    const std::vector<size_t> inside = sizes_in(box);
    if (inside.empty()) return;  // the last member has it
    ChosenMember member{.schedule = chosen.schedule};
    size_t most = inside[0];
    for (size_t m : inside) {
      member.sizes.push_back(measured_[m]);
      // Of equals the largest, where most time is spent.
      if (times_.sizes[measured_[m]].weight >= times_.sizes[measured_[most]].weight) most = m;
    }
    for (size_t d = 0; d < values_.size(); ++d) {
      DimValues& dim = member.dims.emplace_back();
      if (box.first[d] > 0) dim.min = between(d, box.first[d] - 1) + 1;
      if (box.last[d] + 1 < values_[d].size()) dim.max = between(d, box.last[d]);
      dim.typical = times_.sizes[measured_[most]].values[d];
    }
    members.push_back(std::move(member));
  }

  /// The last value before the cut after value `i` of a dimension.
  int64_t between(size_t dim, size_t i) const {
    const double low = static_cast<double>(values_[dim][i]), high = static_cast<double>(values_[dim][i + 1]);
    return std::clamp(static_cast<int64_t>(std::sqrt(low * high)), values_[dim][i], values_[dim][i + 1] - 1);
  }

  const SizedTimes& times_;
  std::vector<size_t> measured_;              // sizes that have a time
  std::vector<double> best_;                  // by number of measured_
  std::vector<std::vector<int64_t>> values_;  // of each dimension, in order
  double total_ = 1;
  std::map<Box, Plan> plans_;
};

}  // namespace

std::vector<ChosenMember> choose_members(const SizedTimes& times) { return Chooser(times).choose(); }

}  // namespace lathe::tuner
