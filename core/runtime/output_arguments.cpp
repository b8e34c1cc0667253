#include "core/runtime/output_arguments.h"

namespace lathe::runtime {
namespace {

/// A part of the arena.
struct Range {
  int64_t at = 0, bytes = 0;

  bool operator==(const Range&) const = default;
  bool overlaps(const Range& other) const {
    return bytes > 0 && other.bytes > 0 && at < other.at + other.bytes && other.at < at + bytes;
  }
};

Range range_of(const Value& value) {
  return value.place == Place::kArena ? Range{value.at, value.bytes()} : Range{};
}

}  // namespace

void output_arguments(const Plan& plan, const Value& output, std::vector<size_t>& found) {
  found.clear();
  const Range wanted = range_of(output);
  // In the caller's memory it would take along the part that is another output.
  for (const Port& port : plan.outputs) {
    const Range other = range_of(plan.values[static_cast<size_t>(port.value)]);
    if (other != wanted && wanted.overlaps(other)) return;
  }
  size_t end = 0;
  // Arguments of all steps are numbered in one row, in the order of the steps.
  for (const Step& step : plan.steps) end += step.args.size();
  // From the last step back: those that read the output, then the one that writes it.
  for (size_t s = plan.steps.size(); s-- > 0;) {
    const Step& step = plan.steps[s];
    const size_t begin = end - step.args.size(), first_result = end - static_cast<size_t>(step.results);
    if (step.when == 0) {
      end = begin;
      continue;
    }
    // A step that works in the output's memory would do so in the caller's.
    if (wanted.overlaps({step.workspace_at, step.workspace_bytes})) return found.clear();
    bool written = false;
    for (size_t i = end; i-- > begin;) {
      // The step writes its result over an operand that dies: before that it was another tensor's.
      if (written && i < first_result) break;  // an operand that the output takes the place of
      const Range range = range_of(plan.values[step.args[i - begin]]);
      if (!wanted.overlaps(range)) continue;
      // A part of it is another tensor.
      if (range != wanted) return found.clear();
      found.push_back(i);
      written = written || i >= first_result;
    }
    // What steps before it have there is gone when the output is written.
    if (written) return;
    end = begin;
  }
  found.clear();
}

}  // namespace lathe::runtime
