// What a search reads of a store: of one that it has opened itself, or of one that another process keeps
// (tracker/remote_reader.h).
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/records.h"

namespace lathe::db {

/// Which results `best` may return. Wrong and suspect ones never are.
struct BestQuery {
  WorkloadId workload = 0;
  TargetId target = 0;
  std::optional<DeviceId> device;   // none: begin at Rung::kTarget
  int threads = 0;                  // 0: any; otherwise preferred within each rung
  bool strict = false;              // only the first rung, and only these threads
  bool accept_unconfirmed = false;  // when no confirmed one exists on any rung
  double max_relative_error = std::numeric_limits<double>::infinity();  // of the outputs, as measured
  std::optional<DeviceKind> kind = {};  // only of such devices, on every rung; none: of any
};

/// How near a result is to what was asked for. Each rung runs on the asker: none needs a feature it lacks.
enum class Rung : uint8_t {
  kDevice,      // measured on that very device
  kTarget,      // the same target, on another device
  kCompatible,  // a target of the same architecture whose features the asked one has
};
std::string_view to_string(Rung rung);

struct Best {
  Measurement measurement;
  Rung rung = Rung::kDevice;
};

struct CostModelRecord {
  std::optional<JobId> job;
  TargetId target = 0;
  int round = 0;
  int64_t samples = 0;
  double spearman = 0, recall = 0;
  std::string model;  // the model's own bytes
};

/// How a trial ended.
struct TrialEnd {
  TrialState state = TrialState::kDone;
  std::optional<Outcome> outcome;  // none: it was cancelled
  std::string error;
  std::vector<float> samples;  // of its candidate's measurement with its threads, when it was measured
};

/// A candidate of a workload: its program and the trace that makes it.
struct KnownCandidate {
  std::string program, trace;
  bool tried = false;  // by the job's search: there is no second trial of it
};

/// So much of a workload's history a search learns from: what many jobs have measured grows without end.
constexpr int kHistory = 20'000;
/// And of so many measurements it knows the candidates, whose texts its checkpoints leave out.
constexpr int kKnownMeasurements = 100'000;

/// Every call may throw Error.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual std::optional<TargetId> find_target(const std::string& name) = 0;
  virtual std::optional<WorkloadId> find_workload(const std::string& digest) = 0;
  virtual Workload workload(WorkloadId id) = 0;
  /// Those with a result for the target that is not suspect.
  virtual std::vector<WorkloadId> measured_workloads(TargetId target) = 0;

  virtual std::optional<Best> best(const BestQuery& query) = 0;
  /// The fastest `limit` on (workload, target, device if given, threads, error), confirmed or not, never
  /// suspect ones.
  virtual std::vector<Measurement> top(const BestQuery& query, int limit) = 0;
  /// As top(), of the suspect ones.
  virtual std::vector<Measurement> top_suspect(const BestQuery& query, int limit) = 0;
  /// What was measured for (workload, target), oldest first: training data and warm starts. Of more than
  /// `limit` the newest half of so many, and the fastest of the others. Another process's are without
  /// samples.
  virtual std::vector<Measurement> history(WorkloadId workload, TargetId target, int limit = kHistory) = 0;
  /// That of this number, where it is of (workload, target) and not suspect.
  virtual std::optional<Measurement> measurement(WorkloadId workload, TargetId target, MeasurementId id) = 0;
  /// All of one program, as history().
  virtual std::vector<Measurement> measured(WorkloadId workload, TargetId target,
                                            const std::string& program) = 0;
  virtual std::optional<Choice> find_choice(const ChoiceKey& key) = 0;
  /// What `choice` has for the query's workload; nothing when that is best(query) itself, or when a better
  /// result came after the choice was made, or what was chosen has become suspect or is too far off.
  virtual std::optional<Measurement> chosen(const Choice& choice, const BestQuery& query) = 0;
  /// The latest of a job that searches no more.
  virtual std::optional<CostModelRecord> latest_cost_model(TargetId target) = 0;

  // ---- Of one job
  virtual std::vector<JobTask> job_tasks(JobId id) = 0;
  virtual JobProgress job_progress(JobId id) = 0;
  virtual std::optional<CostModelRecord> cost_model_of(JobId job) = 0;
  /// Of a workload, all that the job has trials of, and those of the kKnownMeasurements newest measurements
  /// for the target.
  virtual std::vector<KnownCandidate> candidates(JobId job, WorkloadId workload, TargetId target) = 0;
  /// How often each candidate (workload, program) was measured again for the job.
  virtual std::map<std::pair<WorkloadId, std::string>, MeasuredAgain> confirmations(JobId job) = 0;
  /// None while the trial is open. Throws Error when it is another job's.
  virtual std::optional<TrialEnd> trial_end(JobId job, TrialId trial) = 0;
};

}  // namespace lathe::db
