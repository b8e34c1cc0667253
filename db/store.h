// The store: everything lathe knows that outlives a process, in one SQLite file. docs/database.md has the
// contract.
//
// A Store belongs to one thread. Writers in several processes exclude each other; the tracker is meant to be
// the only one. Each writing call is atomic and durable when it returns; inside a begin() .. commit() all of
// them become so together, at the cost of one (a commit waits for the disk, so group results: 64 a commit are
// 40 times faster). Every call may throw Error: the disk is full, the file is damaged, another process holds
// it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "core/support/process_spread.h"
#include "db/database.h"
#include "db/reader.h"

namespace lathe::db {

/// $XDG_DATA_HOME/lathe/lathe.db, or ~/.local/share/lathe/lathe.db.
std::string default_database_path();

struct StoreOptions {
  bool read_only = false;
  bool made = false;  // else a database that is not there is made
  std::chrono::milliseconds busy_timeout{10'000};
  std::function<int64_t()> now_ms;  // the wall clock, unless a test brings its own
};

/// One task of a model and the best known for it.
struct Coverage {
  ModelTask task;
  double flops = 0;
  int64_t measured = 0;  // candidates measured for this target
  std::optional<Best> best;
};

/// A candidate that was measured on two devices with the same threads.
struct MeasuredTwice {
  int threads = 1;
  double first_seconds = 0, second_seconds = 0;
};

struct Event {
  int64_t id = 0;
  std::optional<JobId> job;
  std::optional<ServedJobId> served_job;
  std::string kind, body;
  int64_t created_ms = 0;
};

/// Lists of thousands of trials have of each error the beginning, of so many characters.
inline constexpr int kListedError = 1000;

/// What is overridden is described in reader.h.
class Store final : public Reader {
 public:
  /// Opens or creates the database at `path` (with its folder) and migrates an older one. Throws Error when
  /// it is newer than this program, which leaves the file untouched, or damaged, or no database.
  explicit Store(const std::string& path, StoreOptions options = {});
  ~Store() override;
  Store(Store&&) noexcept;

  /// Groups what follows; see the top of this file. Nested calls are part of the outer one.
  Transaction begin();

  /// Database::problems(): empty when all is well.
  std::vector<std::string> problems();

  // ---- Catalogue: each call finds the row or adds it. ----
  TargetId add_target(const Target& target);
  DeviceId add_device(const Device& device);
  /// Replaces what was known of the device and the target; the time is the store's.
  void set_machine(const Machine& machine);
  WorkerId add_worker(const std::string& name, std::optional<DeviceId> device = {});
  WorkloadId add_workload(const Workload& workload);
  ModelId add_model(const std::string& name, const std::string& digest);
  /// Replaces the tasks of (model, target). REQUIRES: no workload twice.
  void set_model_tasks(ModelId model, TargetId target, std::span<const ModelTask> tasks);

  std::optional<TargetId> find_target(const std::string& name) override;
  std::optional<WorkloadId> find_workload(const std::string& digest) override;
  std::optional<ModelId> find_model(const std::string& name);  // the one added last
  Target target(TargetId id);
  std::vector<std::pair<TargetId, Target>> targets();
  Device device(DeviceId id);
  /// The latest, of whichever device.
  std::optional<Machine> find_machine(const std::string& target);
  Workload workload(WorkloadId id) override;
  std::vector<std::pair<DeviceId, Device>> devices();
  std::vector<std::string> model_names();
  std::vector<ModelTask> model_tasks(ModelId model, TargetId target);
  std::string model_digest(ModelId id);
  std::vector<WorkloadId> measured_workloads(TargetId target) override;

  // ---- Jobs ----
  /// Creates a queued job with its tasks; a known idempotency key gives the job made with it.
  JobId create_job(const NewJob& job);
  std::optional<Job> find_job(const std::string& uuid);  // or a unique beginning of one
  Job job(JobId id);
  std::vector<Job> jobs(int limit = 100);  // newest first
  std::vector<JobTask> job_tasks(JobId id) override;
  JobProgress job_progress(JobId id) override;
  /// Whether it runs by its row alone: the process that ran it was killed, and its lock ended with that.
  bool is_left_behind(const Job& job);
  /// False, and nothing changes, when the job's state is final.
  bool set_job_state(JobId id, JobState state, const std::string& message = "");
  /// Keeps what the search needs to go on after a crash.
  void checkpoint_task(JobId id, WorkloadId workload, int round, const std::string& checkpoint);
  void add_job_seconds(JobId id, double seconds);
  std::vector<KnownCandidate> candidates(JobId job, WorkloadId workload, TargetId target) override;
  /// Those after the candidate `after`: the first of them whose texts have `bytes` together, one at least,
  /// and the last one's number.
  std::pair<std::vector<KnownCandidate>, CandidateId> candidates_after(JobId job, WorkloadId workload,
                                                                       TargetId target, CandidateId after,
                                                                       size_t bytes);
  std::map<std::pair<WorkloadId, std::string>, MeasuredAgain> confirmations(JobId job) override;
  std::optional<TrialEnd> trial_end(JobId job, TrialId trial) override;
  std::optional<TrialEnd> trial_end(JobId job, TrialId trial, const std::optional<DeviceKind>& kind);

  // ---- Jobs that a tracker owns (store_served.cpp) ----
  /// Queued; or the one that the owner made with this idempotency key, as it is now.
  ServedJob add_served_job(const NewServedJob& job);
  std::optional<ServedJob> find_served_job(const std::string& uuid);  // or a unique beginning of one
  /// What the owner made with this idempotency key.
  std::optional<ServedJob> served_job_with_key(const std::string& owner, const std::string& key);
  ServedJob served_job(ServedJobId id);
  /// Newest first. Without their reports, each of which may have a megabyte.
  std::vector<ServedJob> served_jobs(const ServedJobQuery& query);
  std::optional<ServedJob> served_job_of(JobId search);
  std::vector<std::pair<JobState, int64_t>> count_served_jobs();  // of each state that there are
  int64_t count_open_served_jobs(const std::string& owner);       // queued, running or stopped
  /// False, and nothing changes, when its state is final. Ends its search's job alike when the state is.
  bool set_served_state(ServedJobId id, JobState state, const std::string& message = "");
  void set_served_device_class(ServedJobId id, const std::string& device_class);
  void set_served_report(ServedJobId id, const std::string& report);
  void set_served_search(ServedJobId id, JobId search);
  /// One more crash of its searcher; returns how many there were.
  int count_served_crash(ServedJobId id);
  int64_t add_served_event(ServedJobId id, const std::string& kind, const std::string& body);
  /// Of one served job, or of all (0), after an event, oldest first: the first of them whose texts have
  /// `bytes` together, one at least.
  std::vector<Event> served_events_after(ServedJobId id, int64_t after, int limit, size_t bytes);
  /// Those of a kind that were told about a served job, oldest first; what they say, served_event() has.
  std::vector<int64_t> served_event_ids(ServedJobId id, const std::string& kind);
  std::optional<Event> served_event(int64_t id);
  /// The last one of a kind that was told about a served job.
  std::optional<Event> last_served_event(ServedJobId id, const std::string& kind);
  int64_t last_event();  // 0: none
  StoredByJob stored_by(ServedJobId id);
  /// What its trials, news and texts take, as its search has counted.
  void set_served_kept(ServedJobId id, int64_t bytes);
  void add_served_kept(ServedJobId id, int64_t bytes);
  /// By all jobs of the owner but that one (0: all).
  int64_t kept_by_owner(const std::string& owner, ServedJobId but = 0);

  // ---- Trials as people look at them (store_views.cpp) ----
  /// Of their errors the first kListedError characters.
  std::vector<TrialRow> trial_rows(const TrialQuery& query);
  std::vector<TrialPoint> trial_points(JobId job, WorkloadId workload);  // 0: of any; in order of id
  std::optional<TrialLife> trial_life(TrialId id);
  std::vector<LeaseSpan> open_leases(const std::string& worker, int limit);  // the oldest first
  /// By those of so many of the worker's newest measurements that say; none where none does.
  std::optional<WorkerClock> worker_clock(const std::string& worker, int newest);
  std::vector<Quarantined> quarantined(TrialId before, int limit);  // newest first; before 0: from the end
  int64_t ended_trials(JobId job);                                  // for searching, whatever their outcome
  /// In the job's order of tasks: the best that is known by what was recorded until then. `kind`: by such
  /// devices; none: by any.
  std::vector<TaskBest> task_bests(JobId job, const std::optional<DeviceKind>& kind = {},
                                   int64_t until_ms = INT64_MAX);

  // ---- Trials: PENDING -> LEASED -> DONE | FAILED | QUARANTINED, or back to PENDING; CANCELLED from either.
  // ---- Policy (who gets what, how many attempts) is the tracker's; that no final state changes and nothing
  // is counted twice is seen to here.
  /// Begins another life of the tracker, and gives its number: of 31 bits, above those of all copies so far.
  int64_t begin_epoch();
  /// Adds one trial for each candidate. One for searching is left out when the job has a trial of the
  /// candidate, or when `device` is given and the candidate was measured on it with the job's threads.
  std::vector<EnqueuedTrial> add_trials(JobId job, std::span<const NewTrial> trials,
                                        std::optional<DeviceId> device = {});
  Trial trial(TrialId id);
  /// Calls `visit` with those of all jobs, in order of id: one at a time, for there may be millions.
  void visit_open_trials(const std::function<void(const OpenTrial&)>& visit);
  std::vector<Lease> leases(TrialId trial);  // in order of id
  /// Leases a pending trial; none when it is not pending. Durable before a worker hears of it. `id` 0: the
  /// store's pick.
  std::optional<Lease> grant(TrialId trial, const std::string& worker, int64_t epoch, LeaseId id = 0);
  /// Ends a lease without a result, and its trial is pending again. False when the lease had ended before.
  bool end_lease(LeaseId lease, LeaseEnd how);
  /// False when the trial's state was final already.
  bool cancel_trial(TrialId trial);
  /// Records results in one transaction. Idempotent: say it twice and the second time is a duplicate. A late
  /// result of a lost lease counts while its trial is open.
  std::vector<Recorded> record(std::span<const TrialResult> results);

  // ---- Workers (store_workers.cpp) ----
  /// Replaces what was known of the worker on the class. The times are the store's: `good` says that a canary
  /// was as it should be just now.
  void set_worker_health(const WorkerHealth& health, bool good);
  std::vector<WorkerHealth> worker_healths();
  std::optional<int64_t> last_good_canary(const std::string& worker, const std::string& device_class);
  void set_drained(const std::string& worker, bool drained);
  std::vector<std::string> drained_workers();
  /// Of the trial's candidate with its threads, by workers that are known; the latest last.
  std::vector<Testimony> testimonies(TrialId trial);

  // ---- Measurements ----
  /// Adds another measurement of a leader, which took a process of its own: `best` may name it from now on,
  /// by the median of those of its confirmations that rank. One that `tells` changes no rank: it is part of
  /// Measurement::told_seconds.
  void confirm(MeasurementId id, std::span<const float> samples, std::optional<WorkerId> worker = {},
               bool tells = false);
  /// Takes what `worker` measured at or after `since_ms` out of `best` until it is measured again, unless
  /// another worker has confirmed it. Returns how many measurements that concerns.
  int64_t set_suspect(WorkerId worker, int64_t since_ms);
  std::vector<Measurement> top_suspect(const BestQuery& query, int limit) override;
  std::optional<Best> best(const BestQuery& query) override;
  std::vector<Measurement> top(const BestQuery& query, int limit) override;
  std::vector<Measurement> history(WorkloadId workload, TargetId target, int limit = kHistory) override;
  /// Here and below, `kind`: only what such devices measured; none: any.
  std::vector<MeasurementId> history_ids(WorkloadId workload, TargetId target, int limit = kHistory,
                                         const std::optional<DeviceKind>& kind = {});
  std::optional<Measurement> measurement(WorkloadId workload, TargetId target, MeasurementId id) override;
  std::vector<Measurement> measured(WorkloadId workload, TargetId target,
                                    const std::string& program) override;
  std::vector<Measurement> measured(WorkloadId workload, TargetId target, const std::string& program,
                                    const std::optional<DeviceKind>& kind);
  /// Of `ids`, which ascend, those of (workload, target) that are not suspect: the first of them whose texts
  /// have `bytes` together, one at least.
  std::vector<Measurement> measurements(WorkloadId workload, TargetId target,
                                        std::span<const MeasurementId> ids, size_t bytes = SIZE_MAX,
                                        const std::optional<DeviceKind>& kind = {});
  /// The last `limit` of them.
  std::vector<Measurement> latest(WorkloadId workload, TargetId target, int limit);
  /// What a measurement's `told_seconds` is the median of: the medians of its processes.
  std::vector<double> told_medians(MeasurementId id);
  /// How far apart processes are that measured the same of its workload on its device: it and its rivals
  /// again.
  ProcessSpread process_spread(const Measurement& of);
  std::vector<Coverage> coverage(ModelId model, BestQuery query);
  std::vector<MeasuredTwice> measured_on_both(WorkloadId workload, TargetId target, DeviceId first,
                                              DeviceId second);

  // ---- What was measured elsewhere (pack.h, foreign.h). Known rows stay as they are. ----
  /// The id, and whether it is new.
  std::pair<DeviceId, bool> adopt_device(const Device& device);
  /// False when the model's tasks for the target are known.
  bool adopt_model(const AdoptedModel& model);
  /// False when the candidate has a measurement on the device with these threads.
  bool adopt(const Adopted& adopted);
  /// False when it is known.
  bool add_foreign(const ForeignRecord& record);
  /// Of a workload's name there, or of all ("").
  std::vector<ForeignRecord> foreign_records(const std::string& workload, int limit);

  // ---- Whole models ----
  /// The time is the store's.
  void add_model_latency(const ModelLatency& latency);
  /// The latest. `threads`: 0: by however many.
  std::optional<ModelLatency> find_model_latency(const std::string& model_digest, TargetId target,
                                                 int threads);

  // ---- Choices over whole models ----
  /// Replaces what was chosen for the key before; the time is the store's. Where the key has no kind of
  /// devices, it is that of all that is chosen; if that is of no one kind, what was chosen for any goes.
  void set_choice(const Choice& choice);
  /// For a key without a kind of devices the newest of any.
  std::optional<Choice> find_choice(const ChoiceKey& key) override;
  std::optional<Measurement> chosen(const Choice& choice, const BestQuery& query) override;

  // ---- Cost models, events ----
  /// Replaces what the job had.
  void add_cost_model(const CostModelRecord& record);
  std::optional<CostModelRecord> latest_cost_model(TargetId target) override;
  /// Of a job that a tracker owns, measured by this class of devices.
  std::optional<CostModelRecord> latest_cost_model(TargetId target, const std::string& device_class);
  std::optional<CostModelRecord> cost_model_of(JobId job) override;
  int64_t add_event(std::optional<JobId> job, const std::string& kind, const std::string& body);
  std::vector<Event> events_after(int64_t id, int limit);

  Database& database() { return *database_; }
  int64_t now_ms() const { return now_ms_(); }

 private:
  std::string candidate_digest(WorkloadId workload, TargetId target, const std::string& program);
  CandidateId add_candidate(TargetId target, const NewTrial& trial);
  Recorded record_one(const TrialResult& result);
  void add_measurement(TrialId trial, const TrialResult& result);
  void end_trial(TrialId trial, TrialState state, const TrialResult& result);
  void insert_measurement(TrialId trial, const TrialResult& result);
  void replace_measurement(MeasurementId id, TrialId trial, const TrialResult& result);
  void add_confirmation(MeasurementId id, const Confirmation& confirmation);
  void rank(MeasurementId id);
  std::vector<std::vector<float>> confirming_samples(MeasurementId id, bool telling);
  std::optional<Measurement> best_on(BestQuery query);

  std::unique_ptr<Database> database_;
  std::function<int64_t()> now_ms_;
};

}  // namespace lathe::db
