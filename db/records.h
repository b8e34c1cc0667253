// What the store keeps, as plain structs. Times are milliseconds since 1970 UTC, latencies seconds.
// Targets, workloads, traces, features and options are opaque text here: their meaning lives in other rooms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/outcome.h"
#include "core/support/statistics.h"

namespace lathe::db {

using TargetId = int64_t;
using DeviceId = int64_t;
using WorkerId = int64_t;
using ModelId = int64_t;
using WorkloadId = int64_t;
using JobId = int64_t;
using CandidateId = int64_t;
using TrialId = int64_t;
using LeaseId = int64_t;
using MeasurementId = int64_t;

/// What code is generated for. `name` is the target's canonical text; `features` are sorted and
/// comma-separated.
struct Target {
  std::string name, architecture, features;
};

/// Where code is measured. What makes a device the same device is (host, model, architecture, features,
/// cores); memory, system (kernel release) and details (JSON) are as last seen.
struct Device {
  std::string host, model, architecture, features;
  int cores = 1;
  int64_t memory_bytes = 0;
  std::string system;
  std::string details = "{}";
};

/// The digest of what makes a device the same device.
std::string fingerprint(const Device& device);

/// What was measured of a device, as code for `target` (canonical text) uses it: opaque text here.
struct Machine {
  DeviceId device = 0;
  std::string target, numbers;
  int64_t measured_ms = 0;  // when the device told it
};

/// How fast a worker's device usually runs a canary kernel, and how far it was from that when last asked.
struct CanaryLevel {
  double seconds = 0;    // the baseline; 0: there is none yet
  double tolerance = 0;  // how much more or less is chance, as a share of it
  double drift = 0;      // of the last canary: its share above the baseline, or below (negative)

  bool operator==(const CanaryLevel&) const = default;
};

/// What canaries have said of a worker on devices of a class.
struct WorkerHealth {
  std::string worker, device_class;
  uint32_t kernels = 0;  // which kernels the levels are of
  CanaryLevel compute, memory;
  std::string suspect;   // why it is; "": it is not
  int64_t good_ms = 0;   // when a canary was last as it should be; 0: never
  int64_t taken_ms = 0;  // when there was one last

  bool operator==(const WorkerHealth&) const = default;
};

/// A tensor program to be tuned: its canonical text, sha256 of that text, and its work in one run.
struct Workload {
  std::string digest, text;
  double flops = 0, bytes = 0;
};

/// A workload's part in a model: how often one run of the model calls it.
struct ModelTask {
  WorkloadId workload = 0;
  std::string name;
  int64_t calls = 1;
};

enum class JobState : uint8_t {
  kQueued,
  kRunning,
  kStopped,  // drained at the user's wish or by a dying tracker; goes on with `tune resume`
  kDone,
  kFailed,
  kCancelled,
};
inline constexpr int kJobStates = 6;

/// The last three never change again.
inline bool is_final(JobState state) { return state >= JobState::kDone; }
std::string_view to_string(JobState state);
/// Throws Error for a name that is none of them.
JobState job_state_named(std::string_view name);

/// A random (version 4) UUID.
std::string new_uuid();
/// Whether it is written as that writes them.
bool is_uuid(std::string_view text);

enum class TrialState : uint8_t {
  kPending,
  kLeased,
  kDone,         // measured
  kFailed,       // its outcome says how
  kQuarantined,  // took its workers away (Outcome::kWorkerLost)
  kCancelled,    // nobody waits for it any more
};
inline constexpr int kTrialStates = 6;

/// The last four never change again.
inline bool is_final(TrialState state) { return state >= TrialState::kDone; }
std::string_view to_string(TrialState state);

/// A job to create. Budgets of 0 mean "no limit of that kind".
struct NewJob {
  std::string uuid;  // "": a new one
  std::string kind = "tune";
  std::optional<ModelId> model;
  TargetId target = 0;
  int threads = 1;
  int64_t trial_budget = 0;
  double second_budget = 0;
  int64_t seed = 0;
  std::string options = "{}";
  std::optional<std::string> idempotency_key;  // the same key gives the same job
  struct Task {
    WorkloadId workload = 0;
    double weight = 1;
  };
  std::vector<Task> tasks;
};

struct Job {
  JobId id = 0;
  std::string uuid, kind;
  JobState state = JobState::kQueued;
  std::optional<ModelId> model;
  std::string model_name;  // "" without a model
  TargetId target = 0;
  std::string target_name;
  int threads = 1;
  int64_t trial_budget = 0;
  double second_budget = 0, seconds_used = 0;
  int64_t seed = 0;
  std::string options, message;
  int64_t created_ms = 0, updated_ms = 0;
};

struct JobTask {
  WorkloadId workload = 0;
  double weight = 1;
  int64_t trials = 0;  // that ended, whatever their outcome
  int round = 0;
  std::optional<double> best_seconds;  // over this job's own measurements, confirmed or not
  std::string checkpoint;              // the search's own bytes
};

using ServedJobId = int64_t;

/// A job that a tracker owns: what somebody asked for, before anything is known of its model. The job of its
/// search (Job) begins once a searcher has read the model.
struct NewServedJob {
  std::string owner;                           // the principal that submitted it
  std::string model_name;                      // as people call it
  std::string request = "{}";                  // JSON: opaque here
  int priority = 0;                            // of its owner's jobs the highest is started first
  double weight = 1;                           // of its owner, when devices are shared
  std::optional<std::string> idempotency_key;  // the same key of the same owner gives the same job
};

struct ServedJob {
  ServedJobId id = 0;
  std::string uuid, owner, model_name, request;
  int priority = 0;
  double weight = 1;
  JobState state = JobState::kQueued;
  std::string message;       // why it waits, or how it failed
  std::string device_class;  // of the devices that may measure for it; "" until its search begins
  std::string report;        // JSON, once it is done
  std::optional<JobId> job;  // of its search
  int crashes = 0;           // of its searcher
  int64_t created_ms = 0, started_ms = 0, ended_ms = 0;  // 0: not yet
};

/// What a served job has written down: rows, and the bytes of the texts of trials and events.
struct StoredByJob {
  int64_t tasks = 0, trials = 0, events = 0, bytes = 0;
};

struct ServedJobQuery {
  std::optional<JobState> state;
  std::string owner;       // "": anybody's
  std::string model;       // "": any
  ServedJobId before = 0;  // 0: from the newest
  int limit = 100;
};

/// How many of a job's trials for searching are in each state, and how those that ended ended.
struct JobProgress {
  int64_t states[kTrialStates] = {};
  int64_t outcomes[kOutcomeNames.size()] = {};

  int64_t ended() const;
};

enum class Purpose : uint8_t {
  kSearch,   // the candidate's first measurement
  kConfirm,  // another one of a leader, to rank it by: see Store::confirm
  kTell,     // another one of a winner, to tell its time by: it has no part in ranking it
};

/// A trial as people look at it.
struct TrialRow {
  TrialId id = 0;
  WorkloadId workload = 0;
  Purpose purpose = Purpose::kSearch;
  TrialState state = TrialState::kPending;
  std::optional<Outcome> outcome;
  double predicted = 0;
  std::optional<double> seconds, relative_error;  // of the measurement, if there is one
  int attempts = 0;
  std::string worker;  // of the last lease
  std::string error;
  int64_t created_ms = 0, ended_ms = 0;
};

/// Which of a job's trials, in order of id.
struct TrialQuery {
  JobId job = 0;
  TrialId after = 0, before = 0;   // 0: from the end
  WorkloadId workload = 0;         // 0: any
  std::optional<Outcome> outcome;  // none: any, and those that have none yet
  bool newest_first = false;
  int limit = 1000;
};

/// A trial that was measured, as one point of a chart.
struct TrialPoint {
  TrialId id = 0;
  WorkloadId workload = 0;
  int64_t recorded_ms = 0;
  double predicted = 0, seconds = 0;
};

/// A task of a job and the fastest that is known for the job's target and threads, whoever measured it.
struct TaskBest {
  WorkloadId workload = 0;
  double weight = 1;
  std::optional<double> seconds;  // none: nothing is known
  double mad = 0;                 // of its samples
  int64_t samples = 0;
};

/// A worker's hold on a trial, from when to when: `ended_ms` 0 and `ending` "" while it lasts.
struct LeaseSpan {
  LeaseId id = 0;
  TrialId trial = 0;
  int attempt = 0;
  std::string worker;
  int64_t epoch = 0, granted_ms = 0, ended_ms = 0;
  std::string ending;
};

/// What a worker's newest measurements say of its cores' clock, in hertz.
struct WorkerClock {
  int64_t measurements = 0;
  double latest = 0, lowest = 0, highest = 0;
  bool is_throttled = false;  // the latest is below 95% of the highest
  double throttled = 0;       // the share of measurements for which that holds
  double disturbed = 0;       // the mean share of samples during which something else ran
};

/// A trial that took too many workers away.
struct Quarantined {
  TrialId id = 0;
  JobId job = 0;
  std::string task;  // its name in the job's model
  int signal = 0;
  std::string error;
  int64_t ended_ms = 0;
  std::vector<LeaseSpan> leases;
};

/// What something was measured under, as far as whoever measured said (db/conditions.h has the columns).
struct Conditions {
  std::optional<double> clock_hz;   // of a core, right after the last sample
  std::optional<double> disturbed;  // the share of samples during which something else ran
  std::optional<double> canary;     // the slowest of the canaries between the samples, times the best known
  std::optional<double> celsius;    // of the processor, when the samples had ended
  std::optional<double> timer_seconds;  // what reading the clock added to each sample
  std::string driver;                   // of the device; a processor's is the kernel

  bool operator==(const Conditions&) const = default;
};

/// All that is known of one trial.
struct TrialLife {
  TrialRow row;
  JobId job = 0;
  std::string trace;
  int signal = 0;
  std::vector<LeaseSpan> leases;
  std::vector<float> samples;      // empty when it was not measured
  std::string compiler, revision;  // of the measurement
  bool confirmed = false, suspect = false;
  Conditions conditions;
};

/// A candidate to measure. `program` is the structural hash of the scheduled program: two traces that give
/// the same program are one candidate. Left empty, the trace stands for itself.
struct NewTrial {
  TrialId id = 0;  // 0: the store picks one
  WorkloadId workload = 0;
  std::string trace;
  std::string program;
  double predicted = 0;
  Purpose purpose = Purpose::kSearch;
  std::string settings = "{}";  // how to measure it: opaque here
};

enum class Enqueued : uint8_t {
  kQueued,
  kDuplicate,  // this job has a trial of the candidate
  kMeasured,   // the candidate has a measurement on the device with these threads; no trial was made
};

/// What became of a NewTrial. `trial` is 0 for kMeasured, `measurement` is 0 for the others.
struct EnqueuedTrial {
  Enqueued status = Enqueued::kQueued;
  TrialId trial = 0;
  MeasurementId measurement = 0;
  CandidateId candidate = 0;
};

/// A worker's right to one attempt at a trial.
struct Lease {
  LeaseId id = 0;
  TrialId trial = 0;
  int attempt = 0;
  std::string worker;
  int64_t epoch = 0;  // the tracker's life in which it was given
  enum class State : uint8_t { kOpen, kResult, kLost, kReturned } state = State::kOpen;
};

/// A pending or leased trial, without what is to be measured.
struct OpenTrial {
  TrialId id = 0;
  JobId job = 0;
  CandidateId candidate = 0;
  WorkloadId workload = 0;
  Purpose purpose = Purpose::kSearch;
  bool leased = false;
  std::vector<Lease> leases;  // all it ever had, in order of id
};

/// A trial as a worker needs it, and what became of it.
struct Trial {
  TrialId id = 0;
  JobId job = 0;
  CandidateId candidate = 0;
  WorkloadId workload = 0;
  TargetId target = 0;
  int threads = 1;
  Purpose purpose = Purpose::kSearch;
  TrialState state = TrialState::kPending;
  double predicted = 0;
  std::string trace, settings;
  std::optional<Outcome> outcome;
  std::string error;
  int signal = 0;
};

/// How a lease ends without a result: with its worker, or handed back by a draining one.
enum class LeaseEnd : uint8_t { kLost, kReturned };

/// What is reported about a lease. For kOk `samples` holds seconds, at least one, all above zero. kWorkerLost
/// quarantines the trial: how many lost workers are too many is the tracker's to say.
struct TrialResult {
  LeaseId lease = 0;
  std::optional<DeviceId> device;  // it ran on; needed for kOk
  Outcome outcome = Outcome::kOk;
  std::vector<float> samples;
  double relative_error = 0;  // largest difference from the unscheduled program's outputs
  std::string error;          // text of the failure, with the tail of stderr
  int signal = 0;
  std::string compiler, revision;  // of the builder: LLVM version and git revision
  Conditions conditions;
};

/// How often a candidate was measured again.
struct MeasuredAgain {
  int ranked = 0, told = 0;
};

enum class Recorded : uint8_t {
  kRecorded,
  kDuplicate,  // this lease's result is in the store already
  kStale,      // the trial ended through another lease
  kUnknown,    // no such lease
};

/// One measured candidate.
struct Measurement {
  MeasurementId id = 0;
  WorkloadId workload = 0;
  TargetId target = 0;
  DeviceId device = 0;
  int threads = 1;
  double seconds = 0;  // what it is ranked by: its confirmations, or else the samples
  double told_seconds =
      0;            // what it is said to take: by confirmations that did not rank it, or else `seconds`
  Summary summary;  // of the samples
  std::vector<float> samples;
  std::string trace;
  std::string program;
  double relative_error = 0;
  std::string compiler, revision;
  int64_t recorded_ms = 0;
  std::optional<int64_t> imported_ms;  // of one that was made elsewhere: when it became known here
  bool confirmed = false, suspect = false;
  bool confirmed_elsewhere = false;  // by another worker than the one that measured it

  int64_t known_ms() const { return imported_ms.value_or(recorded_ms); }
};

/// Another measurement, by a process of its own, beside those of others.
struct Confirmation {
  std::vector<float> samples;
  int64_t recorded_ms = 0;
  bool tells = false;              // it does not rank: Purpose::kTell
  std::optional<WorkerId> worker;  // none: not known
  Conditions conditions;
};

/// Workers of one class whose times of a candidate differ by no more than this agree.
inline constexpr double kWorkersAgree = 1.25;

/// What a worker said that a candidate takes, by the median of a process; and of what device.
struct Testimony {
  std::string worker, model;
  int64_t cores = 0;
  double seconds = 0;
  bool suspect = false;  // it is not believed

  bool operator==(const Testimony&) const = default;
};

/// A measurement of another database: its ids are this one's, the summary is computed.
struct Adopted {
  Measurement measurement;
  Conditions conditions;
  std::vector<Confirmation> confirmations;
};

struct AdoptedModel {
  std::string name, digest;
  int64_t added_ms = 0;
  TargetId target = 0;
  std::vector<ModelTask> tasks;
};

/// What another tuner says it measured, in its own words: never compared with what was measured here.
struct ForeignRecord {
  std::string digest;        // of all it says
  std::string format;        // "autotvm" or "metaschedule"
  std::string workload;      // its name there
  std::string workload_key;  // what tells it from others of that name there, besides its arguments
  std::string arguments, target, schedule;  // as there; JSON, or the target's text
  std::optional<double> seconds;            // the mean of n samples; nothing: the candidate failed
  int64_t n = 0;
  std::optional<int64_t> measured_ms;
};

/// One run of a whole model, as it was shipped, with the interval of 95%.
struct ModelLatency {
  std::string model_digest;  // of the model's tasks
  TargetId target = 0;
  int threads = 1;
  double seconds = 0, low = 0, high = 0;
  int64_t n = 0;
  int64_t recorded_ms = 0;
};

/// Devices whose times can be compared: of one processor, and as large.
struct DeviceKind {
  std::string model;
  int cores = 1;
  bool operator==(const DeviceKind&) const = default;
};

/// What a choice over a whole model holds for.
struct ChoiceKey {
  std::string model_digest;  // of the model's tasks
  TargetId target = 0;
  int threads = 1;
  double max_relative_error = 0;        // of the schedules it was made among
  std::optional<DeviceKind> kind = {};  // of the devices that raced; none: see Store
};

/// Schedules that are faster together, inside the model, than the best of each task.
struct Choice {
  ChoiceKey key;
  double seconds_before = 0,
         seconds_after = 0;  // one run of the model: with the best of each task, with these
  int64_t chosen_ms = 0;
  struct Task {
    WorkloadId workload = 0;
    MeasurementId measurement = 0;
  };
  std::vector<Task> tasks;  // those for which it is not the best, each once
};

}  // namespace lathe::db
