#include "tuner/open_families.h"

#include <algorithm>
#include <set>

#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/text.h"
#include "tuner/family_choice.h"

namespace lathe::tuner {
namespace {

using schedule::DimValues;

/// Combinations of ones are told apart up to so many dimensions.
constexpr size_t kMostOnes = 3;

std::vector<int64_t> whole_sizes(const std::vector<bool>& ones, const std::vector<int64_t>& values) {
  std::vector<int64_t> sizes;
  size_t next = 0;
  for (bool one : ones) sizes.push_back(one ? 1 : values.at(next++));
  return sizes;
}

/// How much a size counts; nothing where it does not.
std::optional<double> weight_of(const std::vector<int64_t>& sizes, const OpenProgram& wanted) {
  if (auto known = wanted.weights.find(sizes); known != wanted.weights.end()) return known->second;
  if (wanted.given) return std::nullopt;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!wanted.least.empty() && sizes[i] < wanted.least[i]) return std::nullopt;
    if (!wanted.most.empty() && sizes[i] > wanted.most[i]) return std::nullopt;
  }
  // As much as one that was asked for.
  return 1.0 / static_cast<double>(std::max<size_t>(wanted.weights.size(), 1));
}

/// What a size was measured at is served by measurements.
bool is_measured(const schedule::Member& member, const std::vector<TunedMember>& family) {
  auto within = [&](const TunedMember::At& at) {
    for (size_t i = 0; i < member.dims.size(); ++i)
      if (at.sizes[i] < member.dims[i].min || at.sizes[i] > member.dims[i].max) return false;
    return true;
  };
  return std::any_of(family.begin(), family.end(), [&](const TunedMember& tuned) {
    return std::any_of(tuned.at.begin(), tuned.at.end(), within);
  });
}

/// Small images, of which none was measured, are as in an untuned build: a kernel that was tuned for large
/// ones takes several times as long as one that has a few rows and columns as numbers.
void add_small(std::vector<schedule::Member> members, std::vector<TunedMember>& family) {
  std::erase_if(members, [&](const schedule::Member& member) {
    return !member.is_small || is_measured(member, family);
  });
  std::vector<TunedMember> small;
  for (schedule::Member& member : members) small.push_back({.member = std::move(member)});
  family.insert(family.begin(), std::make_move_iterator(small.begin()), std::make_move_iterator(small.end()));
}

/// Ones alone tell nothing of other values, which are served as in an untuned build.
void add_untuned(std::vector<schedule::Member> members, const std::set<std::vector<bool>>& tuned,
                 std::vector<TunedMember>& family) {
  for (schedule::Member& member : members) {
    std::vector<bool> ones;
    for (const DimValues& dim : member.dims) ones.push_back(dim.is_number());
    if (!tuned.contains(ones)) family.push_back({.member = std::move(member)});
  }
}

}  // namespace

OpenFamilies::OpenFamilies(db::Reader& records, db::TargetId target, int threads, double max_relative_error)
    : records_(records), target_(target), threads_(threads), max_relative_error_(max_relative_error) {}

/// One pass over the texts of all workloads, as nearest_shape() does: a size is a part of the text.
const std::vector<OpenFamilies::Size>& OpenFamilies::sizes_of(const std::string& program) {
  if (!measured_) {
    measured_.emplace();
    for (db::WorkloadId id : records_.measured_workloads(target_)) {
      const std::string text = records_.workload(id).text;
      if (!tir::names_dims(text)) continue;
      const tir::Func func = tir::parse_func(text);
      (*measured_)[tir::workload_digest(schedule::without_typical_dims(func))].push_back(
          {schedule::typical_dims(func), id});
    }
  }
  return (*measured_)[program];
}

void OpenFamilies::add_members(const tir::Func& program, const std::vector<bool>& ones,
                               const OpenProgram& wanted, std::vector<TunedMember>& family) {
  std::vector<DimValues> dims;
  for (bool one : ones) dims.push_back(one ? DimValues{1, 1, 1} : DimValues{.typical = kTypicalDim});
  const tir::Func part = schedule::member_of(program, dims).program;
  const std::string digest = tir::workload_digest(part);
  std::vector<Size> sizes = sizes_of(digest);
  if (tir::dims_of(*part).empty())
    if (auto workload = records_.find_workload(digest)) sizes = {{{}, *workload}};
  SizedTimes times;
  std::vector<db::WorkloadId> workloads;
  for (Size& size : sizes)
    if (auto weight = weight_of(whole_sizes(ones, size.values), wanted)) {
      times.sizes.push_back({std::move(size.values), *weight});
      workloads.push_back(size.workload);
    }
  std::map<std::string, size_t> number;  // of schedules, by fingerprint
  std::vector<db::Measurement> schedules;
  for (size_t s = 0; s < workloads.size(); ++s) {
    double confirmed = 0;  // the fastest that was measured again: one that was not is not known to be faster
    std::vector<db::Measurement> history = records_.history(workloads[s], target_);
    std::erase_if(history, [&](const db::Measurement& known) {
      return known.suspect || known.threads != threads_ || known.relative_error > max_relative_error_;
    });
    for (const db::Measurement& known : history)
      if (known.confirmed && (confirmed == 0 || known.seconds < confirmed)) confirmed = known.seconds;
    for (const db::Measurement& known : history) {
      auto [schedule, fresh] = number.try_emplace(known.program, schedules.size());
      if (fresh) {
        schedules.push_back(known);
        times.seconds.emplace_back(workloads.size());
      }
      double& seconds = times.seconds[schedule->second][s];
      const double now = known.confirmed ? known.seconds : std::max(known.seconds, confirmed);
      if (seconds == 0 || now < seconds) seconds = now;
    }
  }
  for (const ChosenMember& chosen : choose_members(times)) {
    size_t next = 0;
    for (size_t i = 0; i < ones.size(); ++i)
      if (!ones[i]) dims[i] = chosen.dims[next++];
    TunedMember member{.member = schedule::member_of(program, dims),
                       .trace = schedules[chosen.schedule].trace,
                       .print = schedules[chosen.schedule].program};
    for (size_t s : chosen.sizes) {
      double alone = times.seconds[chosen.schedule][s];
      for (const std::vector<double>& of_schedule : times.seconds)
        if (of_schedule[s] > 0) alone = std::min(alone, of_schedule[s]);
      member.at.push_back(
          {whole_sizes(ones, times.sizes[s].values), workloads[s], times.seconds[chosen.schedule][s], alone});
    }
    std::sort(member.at.begin(), member.at.end(),
              [](const TunedMember::At& a, const TunedMember::At& b) { return a.sizes < b.sizes; });
    family.push_back(std::move(member));
  }
}

std::vector<TunedMember> OpenFamilies::family(const tir::Func& program, const OpenProgram& wanted) {
  const size_t count = tir::dims_of(*program).size();
  std::vector<TunedMember> family;
  std::set<std::vector<bool>> tuned;  // combinations of ones
  // From all ones to none: narrower values before wider ones, and the last member has all.
  const size_t combinations = count <= kMostOnes ? size_t{1} << count : 1;
  for (size_t mask = combinations; mask-- > 0;) {
    std::vector<bool> ones(count);
    for (size_t i = 0; i < count; ++i) ones[i] = (mask >> i & 1) != 0;
    const size_t before = family.size();
    add_members(program, ones, wanted, family);
    if (family.size() > before) tuned.insert(std::move(ones));
  }
  if (tuned.empty()) return family;
  std::vector<schedule::Member> untuned = schedule::family_within(program, known_dims(wanted));
  if (tuned.contains(std::vector<bool>(count)))
    add_small(std::move(untuned), family);
  else
    add_untuned(std::move(untuned), tuned, family);
  return family;
}

}  // namespace lathe::tuner
