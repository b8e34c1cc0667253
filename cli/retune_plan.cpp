#include "cli/retune_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/support/error.h"
#include "core/tir/prologue.h"
#include "tracker/farm.h"

namespace lathe::cli {
namespace {

constexpr int kLeadersOfADevice = 3;
// The first round of a task has room for eight, the default schedule among them (tuner/session.cpp).
constexpr size_t kLeaders = 6;

double constant_param_bytes(const tir::Func& func) {
  double bytes = 0;
  for (size_t i = 0; i < func->params.size(); ++i)
    if (tir::is_constant_param(func, i)) bytes += static_cast<double>(tir::byte_size(func->params[i]));
  return bytes;
}

class Planner {
 public:
  Planner(db::Store& store, const RetuneScope& scope)
      : store_(store), scope_(scope), ours_(store.find_target(scope.target)) {
    const std::string platform = tracker::platform_of(scope.target);
    for (const auto& [id, target] : store.targets())
      (tracker::platform_of(target.name) == platform ? kin_ : strangers_).push_back(id);
    for (const auto& [id, device] : store.devices())
      if (id != scope.here && (!scope.source || id == *scope.source)) others_.push_back(id);
  }

  RetunePlan plan() {
    read_models();
    const std::set<db::WorkloadId> known = measured(kin_);
    for (const db::WorkloadId id : known) add(id);
    for (const db::WorkloadId id : measured(strangers_)) plan_.other_targets += !known.contains(id);
    // As in a job's report: the first rows are those that matter.
    std::stable_sort(plan_.tasks.begin(), plan_.tasks.end(), [](const RetuneTask& a, const RetuneTask& b) {
      return a.task.weight() * a.task.flops > b.task.weight() * b.task.flops;
    });
    weigh_models();
    adopt_models();
    return std::move(plan_);
  }

 private:
  struct Name {
    std::string text;
    int64_t calls = 0;
  };
  struct Model {
    std::string name, digest;
    std::map<db::TargetId, std::vector<db::ModelTask>> tasks;
  };

  db::BestQuery query(db::WorkloadId workload, db::TargetId target, db::DeviceId device, int threads) const {
    return {.workload = workload,
            .target = target,
            .device = device,
            .threads = threads,
            .strict = true,
            .max_relative_error = scope_.max_relative_error};
  }

  /// With a result for one of the targets: of the source, or of any device.
  std::set<db::WorkloadId> measured(const std::vector<db::TargetId>& targets) {
    std::set<db::WorkloadId> found;
    for (const db::TargetId target : targets)
      for (const db::WorkloadId id : store_.measured_workloads(target))
        if (!scope_.source || !store_.top(query(id, target, *scope_.source, 0), 1).empty()) found.insert(id);
    return found;
  }

  /// A task's name is that in the first model that has it; its calls are those of all models.
  void read_models() {
    for (const std::string& name : store_.model_names()) {
      const auto id = store_.find_model(name);
      if (!id) continue;
      Model model{.name = name, .digest = store_.model_digest(*id)};
      std::map<db::WorkloadId, int64_t> calls;
      for (const db::TargetId target : kin_) {
        std::vector<db::ModelTask> tasks = store_.model_tasks(*id, target);
        for (const db::ModelTask& task : tasks) {
          names_.try_emplace(task.workload, Name{fmt::format("{}/{}", name, task.name)});
          // The same model for several targets is still one model.
          calls[task.workload] = std::max(calls[task.workload], task.calls);
        }
        if (!tasks.empty()) model.tasks.emplace(target, std::move(tasks));
      }
      for (const auto& [workload, count] : calls) names_[workload].calls += count;
      if (!model.tasks.empty()) models_.push_back(std::move(model));
    }
  }

  /// Whether this machine has a result with these threads.
  bool is_here(db::WorkloadId id, bool accept_unconfirmed) {
    if (!ours_ || !scope_.here) return false;
    db::BestQuery mine = query(id, *ours_, *scope_.here, scope_.threads);
    mine.accept_unconfirmed = accept_unconfirmed;
    return store_.best(mine).has_value();
  }

  /// The best of each other device, then the second of each, and so on.
  std::vector<db::Measurement> leaders(db::WorkloadId id) {
    std::vector<std::pair<size_t, db::Measurement>> found;  // with its place on its device
    for (const db::DeviceId device : others_) {
      std::vector<db::Measurement> its;
      // What is fast with other threads is still a better guess than nothing.
      for (const int threads : {scope_.threads, 0}) {
        if (!its.empty()) break;
        for (const db::TargetId target : kin_)
          for (db::Measurement& each : store_.top(query(id, target, device, threads), kLeadersOfADevice))
            its.push_back(std::move(each));
      }
      std::sort(its.begin(), its.end(), [](const auto& a, const auto& b) {
        return std::pair(a.seconds, a.id) < std::pair(b.seconds, b.id);
      });
      for (size_t i = 0; i < std::min<size_t>(its.size(), kLeadersOfADevice); ++i)
        found.emplace_back(i, std::move(its[i]));
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second.seconds) < std::pair(b.first, b.second.seconds);
    });
    std::vector<db::Measurement> leaders;
    std::set<std::string> programs;
    for (auto& [place, each] : found)
      if (leaders.size() < kLeaders && programs.insert(each.program).second)
        leaders.push_back(std::move(each));
    return leaders;
  }

  void add(db::WorkloadId id) {
    if (is_here(id, /*accept_unconfirmed=*/false)) {
      ++plan_.measured_here;
      handled_.insert(id);
      return;
    }
    const auto task = read(id);
    if (!task) {
      ++plan_.unreadable;
      return;
    }
    RetuneTask next{.task = *task};
    for (db::Measurement& leader : leaders(id)) {
      // The time of one that cannot be read is still one to compare with.
      if (auto trace = schedule::readable_trace(leader.trace)) next.leaders.push_back(std::move(*trace));
      const auto same_threads = [&](const db::Measurement& m) { return m.threads == scope_.threads; };
      if (!next.elsewhere || (same_threads(leader) && !same_threads(*next.elsewhere)) ||
          (same_threads(leader) == same_threads(*next.elsewhere) &&
           leader.told_seconds < next.elsewhere->told_seconds))
        next.elsewhere = std::move(leader);
    }
    plan_.begun += is_here(id, /*accept_unconfirmed=*/true);
    handled_.insert(id);
    plan_.tasks.push_back(std::move(next));
  }

  std::optional<tuner::Task> read(db::WorkloadId id) {
    const db::Workload workload = store_.workload(id);
    const auto name = names_.find(id);
    try {
      tuner::Task task = tuner::task_of_text(name == names_.end() ? "" : name->second.text, workload.text);
      if (task.digest != workload.digest) return std::nullopt;
      if (task.name.empty()) task.name = task.family = "task/" + workload.digest.substr(0, 12);
      task.calls = name == names_.end() ? 1 : std::max<int64_t>(1, name->second.calls);
      return task;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  void weigh_models() {
    for (const Model& model : models_) {
      double bytes = 0;
      for (const db::ModelTask& task : model.tasks.begin()->second)
        // Each call has its own.
        if (const auto known = read(task.workload))
          bytes += static_cast<double>(task.calls) * constant_param_bytes(known->workload);
      plan_.weight_bytes = std::max(plan_.weight_bytes, bytes);
    }
  }

  /// So that what is measured here is found by the models' names.
  void adopt_models() {
    for (Model& model : models_) {
      if (ours_ && model.tasks.contains(*ours_)) continue;
      std::vector<db::ModelTask>& tasks = model.tasks.begin()->second;
      if (std::any_of(tasks.begin(), tasks.end(),
                      [&](const db::ModelTask& task) { return handled_.contains(task.workload); }))
        plan_.models.push_back({model.name, model.digest, std::move(tasks)});
    }
  }

  db::Store& store_;
  const RetuneScope& scope_;
  std::optional<db::TargetId> ours_;
  std::vector<db::TargetId> kin_, strangers_;
  std::vector<db::DeviceId> others_;
  std::vector<Model> models_;
  std::map<db::WorkloadId, Name> names_;
  std::set<db::WorkloadId> handled_;
  RetunePlan plan_;
};

}  // namespace

RetunePlan plan_retune(db::Store& store, const RetuneScope& scope) { return Planner(store, scope).plan(); }

}  // namespace lathe::cli
