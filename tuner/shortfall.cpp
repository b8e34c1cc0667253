#include "tuner/shortfall.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/tir/prologue.h"
#include "tuner/store_pattern.h"

namespace lathe::tuner {
namespace {

/// What the stores of a program do, in executions times operations; each counts as one operation too.
struct Work {
  double all = 0, single = 0, gathered = 0;
  double functions = 0;  // exp, erf, sqrt and their kin
};

/// The vectorized loop with more than one lane, if there is one.
std::optional<size_t> lanes_of(const StorePattern& store) {
  for (size_t l = 0; l < store.loops.size(); ++l)
    if (store.loops[l].iteration == tir::Iteration::kVectorized && store.loops[l].extent > 1) return l;
  return std::nullopt;
}

Work work_of(const tir::Func& scheduled) {
  Work work;
  for (const StorePattern& store : store_patterns(tir::split_prologue(scheduled).main)) {
    double operations = store.iterations() * (1 + store.operations.floats());
    std::optional<size_t> lanes = lanes_of(store);
    // Rows that are transposed in registers are read by columns there.
    bool gathers =
        lanes && std::any_of(store.accesses.begin(), store.accesses.end(), [&](const PatternAccess& access) {
          int64_t stride = access.stride[*lanes];
          return stride != 0 && stride != 1 && !access.intermediate;
        });
    work.all += operations;
    if (!lanes) work.single += operations;
    if (gathers) work.gathered += operations;
    work.functions += store.iterations() * store.operations.intrinsics;
  }
  return work;
}

/// How much of its space the search has seen; "" when that says nothing about the time.
std::string search_text(const SearchFacts& search) {
  constexpr int64_t kFew = 16, kRecent = 4;
  if (search.trials == 0) return "nothing new tried";
  if (search.exhausted) return fmt::format("all {} candidates tried", search.trials);
  if (search.trials < kFew) return fmt::format("{} candidates tried", search.trials);
  if (!search.since_best) return "";
  if (*search.since_best * kRecent < search.trials) return "was still getting faster";
  return fmt::format("the last {} of {} candidates brought nothing", *search.since_best, search.trials);
}

}  // namespace

std::string shortfall_text(const tir::Func& scheduled, double seconds, const SearchFacts& search) {
  // A function takes some twenty instructions: from a twentieth on they are half of all.
  constexpr double kSmall = 2e-6, kMuch = 0.25, kManyFunctions = 0.05;
  std::vector<std::string> phrases;
  const Work work = work_of(scheduled);
  if (seconds < kSmall) phrases.emplace_back("so short that starting it counts");
  if (work.single > kMuch * work.all)
    phrases.push_back(fmt::format("{:.0f}% of its work on single elements", 100 * work.single / work.all));
  if (work.gathered > kMuch * work.all)
    phrases.push_back(fmt::format("{:.0f}% of its work gathers", 100 * work.gathered / work.all));
  if (work.functions > kManyFunctions * work.all)
    phrases.emplace_back("elementary functions, which the limit counts as one operation each");
  if (std::string text = search_text(search); !text.empty()) phrases.push_back(std::move(text));
  return fmt::format("{}", fmt::join(phrases, "; "));
}

}  // namespace lathe::tuner
