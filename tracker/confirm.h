// The fastest schedules of each task measured again, before one of them is called the best: who leads after
// one measurement each is in part who was lucky. And who then is the best once more, for what it is said to
// take: who leads was in part lucky in whatever made it lead.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "db/reader.h"
#include "tracker/disturbance.h"
#include "tracker/farm_client.h"
#include "tuner/whole_model.h"

namespace lathe::tracker {

/// When a job waits no longer: the farm has been silent for long, and says that nobody is to be waited for
/// any more, or the job has a limit of time, that is over, and there is no worker.
class Patience {
 public:
  struct Limits {
    bool limited = false;  // else only the farm gives up
    double seconds = 0;    // from now on
    double silence = 0;    // seconds since the last answer
  };
  using Clock = std::chrono::steady_clock;
  explicit Patience(Limits limits, Clock::time_point last_answer = Clock::now())
      : limits_(limits), last_answer_(last_answer) {}
  /// With what follows, which has `seconds` from now on: a farm that is silent already is not waited for
  /// anew.
  Patience next(double seconds) const {
    return Patience({limits_.limited, seconds, limits_.silence}, last_answer_);
  }

  void answered() { last_answer_ = Clock::now(); }
  bool is_over(FarmClient& farm) const;

 private:
  Limits limits_;
  Clock::time_point start_ = Clock::now(), last_answer_;
};

constexpr int kMostSuspect = 4096;  // of a workload, that are looked at

/// A schedule to be measured again.
struct Leader {
  db::WorkloadId workload = 0;
  std::string trace, program;
  db::MeasuredAgain again;  // so often, in earlier lives of the job too
  JobDisturbance disturbance;
};

/// The five fastest of each workload and its default schedule, as the store ranks them now, and what would
/// be among the five were its worker not suspect; the fastest of all workloads first, then the second ones,
/// so that measurements of one task are apart in time. `default_programs`: by workload, fingerprints. One of
/// which no time is believed has no record, and is measured again for that.
std::vector<Leader> find_leaders(db::Reader& store, std::span<const db::WorkloadId> workloads,
                                 const std::function<db::BestQuery(db::WorkloadId)>& query_of,
                                 std::span<const std::string> default_programs,
                                 const tuner::DefaultRecords& defaults);

/// What reports tell the times of: the best of each workload, as the store ranks them now, and its default
/// schedule, which that is compared with.
std::vector<Leader> find_told(db::Reader& store, std::span<const db::WorkloadId> workloads,
                              const std::function<db::BestQuery(db::WorkloadId)>& query_of,
                              const tuner::DefaultRecords& defaults);

/// Measures the leaders, and nothing else, twice more each, in rounds of all of them, each in a process of
/// its own; one that was not measured in a round, for its worker was lost, say, has one more chance. With
/// kConfirm the store ranks each by these measurements from then on; with kTell it says by them what each
/// takes. When patience ends, the job's open trials are cancelled, and it returns false; so does it when
/// `stop` says so, and leaves them.
bool measure_again(std::span<Leader> leaders, db::Purpose purpose, JobId job,
                   const wire::Evaluation& evaluation, FarmClient& farm, Patience& patience,
                   const std::function<bool()>& stop);

}  // namespace lathe::tracker
