// What the sizes of a program with open dimensions have from each other in a job.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "db/reader.h"
#include "tracker/job_writer.h"
#include "tuner/session.h"

namespace lathe::tracker {

/// The schedules of the build that the tuned one will be raced against, which are chosen for few sizes: they
/// are measured at all.
class UntunedSchedules {
 public:
  explicit UntunedSchedules(Target target) : target_(std::move(target)) {}

  /// Nothing for a task that is not open. `number` is the task's in the session.
  void suggest(const tuner::Task& task, tuner::Session& session, size_t number);

 private:
  const Target target_;
  std::map<std::string, std::vector<schedule::Trace>> known_;  // by Task::program
};

/// Has the fastest schedules of each size of an open program measured at its other sizes: which of them
/// become kernels, and for which values, rests on what each takes everywhere. What an earlier life of the job
/// has measured is not measured again. REQUIRES: the search is over; `measurer` is of these rows and tasks.
void exchange_leaders(const JobRows& rows, std::span<const tuner::Task> tasks,
                      const std::function<db::BestQuery(db::WorkloadId)>& query_of, db::Reader& store,
                      tuner::Measurer& measurer, const std::function<bool()>& stop);

}  // namespace lathe::tracker
