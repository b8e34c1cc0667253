#include "tracker/device_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/support/printable.h"
#include "core/support/text.h"

namespace lathe::tracker {

std::optional<DeviceClass> choose_device_class(const FarmStatus& farm, const std::string& target,
                                               const std::string& wanted, const Properties& needs,
                                               const LackingFeatures& lacking, std::string& why) {
  const std::string backend = target.substr(0, target.find(':'));
  // A target that is its backend alone, "cpu": each class compiles for what its workers say.
  const bool any_processor = target == backend;
  // The class with most slots: the search that has most to measure with ends first. What drained workers
  // have counts only between classes of such: they may be back before the job begins to measure.
  struct Class {
    DeviceClass device;
    uint32_t answering = 0, slots = 0;  // of those that answer, and of all
  };
  std::map<std::string, Class> classes;  // by name
  std::set<std::string> names, outdated, unnamed, wanting;
  std::map<std::string, std::string> unable;  // by class, the features that it lacks
  for (const WorkerStatus& worker : farm.workers) {
    const DeviceClass& device = worker.device->its_class;
    // It says nothing of itself that could be compared (device_class.cpp).
    if (device.name.empty()) continue;
    // One that only builds measures nothing.
    if (std::find(worker.backends.begin(), worker.backends.end(), backend) == worker.backends.end()) continue;
    // A worker without a compiler leaves it to the job.
    if (any_processor && device.target.empty()) (worker.runner_only ? unnamed : outdated).insert(worker.name);
    if (any_processor ? device.target.empty()
                      : platform_of(target) != platform_name(backend, device.architecture))
      // Too old to say what it compiles for, or another architecture than the target's.
      continue;
    names.insert(device.name);
    if (device.name.find(wanted) == std::string::npos) continue;
    if (!any_processor && !device.target.empty() && lacking) {
      // Once a class: its workers are the same processor.
      const auto [known, is_new] = unable.try_emplace(device.name);
      if (is_new) known->second = join_text(lacking(target, device.target), ", ");
      if (!known->second.empty()) continue;
    }
    if (!needs.empty() && !has_at_least(worker.device->properties, needs)) {
      wanting.insert(device.name);
      continue;
    }
    Class& its = classes.try_emplace(device.name, Class{device}).first->second;
    its.slots += worker.slots;
    if (worker.state() == "ready" && !worker.mute) its.answering += worker.slots;
  }
  if (classes.empty()) {
    const std::string platform = any_processor ? backend : platform_of(target);
    if (names.empty() && !outdated.empty())
      why = fmt::format(
          "of an older release, which does not say what it compiles for, are the workers {}: update them",
          join_text({outdated.begin(), outdated.end()}, ", "));
    else if (names.empty() && !unnamed.empty())
      why = fmt::format(
          "the workers {} only run code, and do not say which CPU they are: name it, as in "
          "--target cpu:mcpu=NAME",
          join_text({unnamed.begin(), unnamed.end()}, ", "));
    else if (names.empty())
      why = fmt::format("no worker is {}: start one with `tune worker --tracker ...` on such a machine",
                        platform);
    else if (!wanting.empty())
      why = fmt::format("no device has {}; without are: {}", describe_needs(needs),
                        join_text({wanting.begin(), wanting.end()}, "; "));
    else if (const auto found = std::find_if(unable.begin(), unable.end(),
                                             [](const auto& one) { return !one.second.empty(); });
             found != unable.end())
      why = fmt::format("no device runs code for this target; {} lacks {}", found->first, found->second);
    else
      why = fmt::format("no device is called `{}`; there are: {}", wanted,
                        join_text({names.begin(), names.end()}, "; "));
    // It stands in every list of jobs, and is made of names that users and workers chose.
    why = shortened(why, kBrief);
    return std::nullopt;
  }
  return std::max_element(classes.begin(), classes.end(),
                          [](const auto& a, const auto& b) {
                            return std::tie(a.second.answering, a.second.slots) <
                                   std::tie(b.second.answering, b.second.slots);
                          })
      ->second.device;
}

}  // namespace lathe::tracker
