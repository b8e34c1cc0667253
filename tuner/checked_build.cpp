#include "tuner/checked_build.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <unordered_set>

#include "core/runtime/cores.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"

namespace lathe::tuner {
namespace {

/// Whether some intermediate is rounded to half precision. A constant of float16 that is kept so is not.
bool rounds_to_half(const tir::Func& func) {
  std::unordered_set<const Node*> made, rounded;
  post_order(func->body, [&](const NodeRef& node) {
    if (const auto* block = node.as<tir::Block>())
      for (const tir::Buffer& buffer : block->allocs) made.insert(buffer.get());
    const auto* store = node.as<tir::Store>();
    const Cast* stored = store ? store->value.as<Cast>() : nullptr;
    if (stored && stored->dtype == kFloat16) rounded.insert(store->buffer.get());
  });
  return std::any_of(rounded.begin(), rounded.end(), [&](const Node* buffer) { return made.count(buffer); });
}

}  // namespace

double output_difference(std::shared_ptr<const runtime::Module> a, std::shared_ptr<const runtime::Module> b) {
  runtime::ThreadPool pool(runtime::available_cores());
  runtime::Executor first(std::move(a), pool.parallel()), second(std::move(b), pool.parallel());
  // Equal seeds give equal inputs.
  runtime::set_random_inputs(first, /*seed=*/0);
  runtime::set_random_inputs(second, /*seed=*/0);
  first.run();
  second.run();
  double largest = 0;
  for (size_t i = 0; i < second.plan().outputs.size(); ++i)
    largest = std::max(largest, max_relative_error(first.output(i), second.output(i)));
  return largest;
}

CheckedBuild checked_build(const relay::Module& fused, const Target& target, const BuildSchedules& best,
                           const BuildSchedules& exact, double max_relative_error) {
  std::atomic<bool> rounds = false;
  const auto watched = [&](const tir::Func& workload) {
    tir::Func scheduled = best.schedule(workload);
    // Called from several threads; only ever set.
    if (rounds_to_half(scheduled) && !rounds_to_half(workload)) rounds = true;
    return scheduled;
  };
  CheckedBuild build{final_build(fused, target, {watched, best.family})};
  // Nothing rounds: no reference has to be built.
  if (!rounds) return build;
  try {
    auto reference = runtime::Module::from_image(final_build(fused, target, default_schedules(target)));
    build.difference = output_difference(runtime::Module::from_image(build.image), reference);
  } catch (const Error&) {  // a build for another machine
    // What cannot be checked is not trusted.
    build.difference = std::numeric_limits<double>::infinity();
  }
  build.refused = build.difference > max_relative_error;
  if (build.refused) build.image = final_build(fused, target, exact);
  return build;
}

}  // namespace lathe::tuner
