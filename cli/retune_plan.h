// What `tune retune` has to do: the tasks that a database knows for a kind of target and that this machine
// has not measured, each with the schedules that were best on other devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/store.h"
#include "schedules/trace.h"
#include "tuner/tasks.h"

namespace lathe::cli {

/// What is looked for. Targets of one platform (tracker::platform_of) are of one kind: their programs are
/// the same, and a schedule of one that does not apply to the other is found out by measuring it.
struct RetuneScope {
  std::string target;                  // complete text: what is measured here is for this one
  int threads = 1;                     // that a kernel is measured with
  double max_relative_error = 0;       // of the schedules taken
  std::optional<db::DeviceId> here;    // none: the database does not know this machine yet
  std::optional<db::DeviceId> source;  // whose tasks and schedules; none: those of all other devices
};

struct RetuneTask {
  tuner::Task task;
  std::vector<schedule::Trace> leaders;  // of other devices, the fastest first; each makes another program
  /// The best elsewhere, with as many threads if there is one; none where only this machine has begun it.
  std::optional<db::Measurement> elsewhere;
};

/// A model that a target of the kind has and the scope's does not.
struct ModelToAdopt {
  std::string name, digest;
  std::vector<db::ModelTask> tasks;
};

struct RetunePlan {
  std::vector<RetuneTask> tasks;  // heaviest first
  std::vector<ModelToAdopt> models;
  int64_t measured_here = 0;  // tasks that are left out, for this machine has a confirmed result
  int64_t begun = 0;          // of `tasks`: this machine has results, none of them confirmed
  int64_t other_targets = 0;  // tasks that are known for targets of other kinds alone
  int64_t unreadable = 0;     // tasks left out, for their programs are of another version
  double weight_bytes = 0;    // of the model with the largest weights
};

/// Reads texts of all workloads of the kind, and a few rows of each. Throws Error as the store does.
RetunePlan plan_retune(db::Store& store, const RetuneScope& scope);

}  // namespace lathe::cli
