#include "tracker/store_journal.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/record_limits.h"
#include "core/support/text.h"
#include "core/tir/dims.h"
#include "core/tir/roofline.h"
#include "db/store.h"
#include "tracker/claims.h"
#include "tracker/defaults.h"
#include "tracker/device_class.h"
#include "tracker/evaluation_json.h"
#include "tracker/unset_clock.h"
#include "tracker/weak_cache.h"

namespace lathe::tracker {
namespace {

// --- JSON of the opaque columns

std::string to_settings(const wire::Evaluation& evaluation, uint64_t seed) {
  nlohmann::json json = evaluation_json(evaluation);
  json["seed"] = seed;
  return json.dump();
}

/// Throws Error for what to_settings never writes.
/// A bounded depth, for a database may come from anybody (`tune db import`, a file by mail).
void from_settings(const std::string& text, Recipe& recipe) {
  constexpr int kDepth = 2;
  const auto json = parse_bounded_json(text, kDepth, "a trial's settings");
  if (!json.is_object()) fail("its settings are damaged");
  read_evaluation(json, recipe.evaluation);
  if (const auto seed = json.find("seed"); seed != json.end() && seed->is_number_integer())
    seed->get_to(recipe.seed);
}

/// A device as a worker describes it (workers/device.h) and as the store wants it. What a peer sends may be
/// anything: whatever is missing stays empty.
db::Device parse_device(const std::string& text) {
  // HELLO's reader has bounded its size and depth (wire.cpp).
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  db::Device device{.details = "{}"};  // packs want an object
  if (!json.is_object()) return device;
  const auto number = [&](const char* key, int64_t otherwise) {
    const auto it = json.find(key);
    return it != json.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
  };
  device.host = string_member(json, "host");
  device.model = string_member(json, "model");
  device.architecture = string_member(json, "architecture");
  device.system = string_member(json, "kernel");
  // Bounded, for arithmetic with it lies ahead; no device has as many.
  device.cores = static_cast<int>(std::clamp<int64_t>(number("cores", 1), 1, 1 << 20));
  device.memory_bytes = std::max<int64_t>(0, number("memory_bytes", 0));
  if (const auto it = json.find("features"); it != json.end() && it->is_array()) {
    std::vector<std::string> features;
    for (const auto& feature : *it)
      if (feature.is_string()) features.push_back(feature.get<std::string>());
    // In one order: a device is known by the digest of this text.
    std::sort(features.begin(), features.end());
    device.features = join_text(features, ",");
  }
  // Bytes that are no UTF-8 become U+FFFD: whoever exports it as JSON later must be able to.
  device.details = json_line(json);
  return device;
}

/// What the worker measured of the device's machine, unread; empty when it does not say.
db::Machine parse_machine(db::DeviceId device, const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return {
      .device = device, .target = string_member(json, "target"), .numbers = string_member(json, "machine")};
}

/// Who built what the device measured, and what drives it.
struct Provenance {
  std::string compiler, revision, driver;
};
Provenance provenance(const std::string& device) {
  const auto json = nlohmann::json::parse(device, nullptr, /*allow_exceptions=*/false);
  return {string_member(json, "compiler"), string_member(json, "revision"), driver_of(json)};
}

/// What is only zero where it is not known stays unknown; all of it is a worker's word.
db::Conditions conditions_of(const wire::Result& result, const std::string& driver) {
  const auto known = [](double value) { return value > 0 ? std::optional(value) : std::nullopt; };
  const wire::Disturbance& seen = result.disturbance;
  db::Conditions conditions{.clock_hz = known(seen.clock_hz),
                            .canary = known(seen.canary),
                            .celsius = result.celsius,
                            .timer_seconds = known(result.timer_seconds),
                            .driver = driver};
  if (seen.taken > 0)
    conditions.disturbed = static_cast<double>(std::min(seen.disturbed, seen.taken)) / seen.taken;
  return conditions;
}

/// Of a target that this release does not read (another one's, or damage) nothing is known: who builds for it
/// will say so, and that ends its trials alone.
double fastest_of(double flops, const std::string& target, int threads) {
  try {
    return fastest_believable(flops, parse_target_text(target), threads);
  } catch (const Error&) {
    return 0;
  }
}

class StoreJournal final : public Journal {
 public:
  StoreJournal(const std::string& path, std::optional<JobId> only)
      : store_(path, {.now_ms = unset_clock()}), only_(only), claims_(store_.database()) {}

  JournalState start() override {
    // Before anything is read: with the claim held, nobody else changes what is open.
    if (!only_)
      claims_.claim_all();
    else if (*only_ == 0)
      claims_.claim_new();
    else
      claim(*only_);
    // A lease of an earlier life carries another epoch, and its number is given out no second time.
    epoch_ = store_.begin_epoch();
    JournalState state{.epoch = static_cast<uint64_t>(epoch_)};
    // A row at a time, for there may be two million.
    store_.visit_open_trials([&](const db::OpenTrial& trial) {
      // Another process may be at work on those.
      if (only_ && static_cast<JobId>(trial.job) != *only_) return;
      OpenTrial open{.trial = static_cast<TrialId>(trial.id),
                     .candidate = trial.candidate,
                     .spec = spec_of(trial.job, trial.workload)};
      // Confirmations are to go to other workers: see Farm::suits.
      if (trial.purpose != db::Purpose::kSearch) open.said = said_of(trial.id);
      for (const db::Lease& lease : trial.leases)
        open.grants.push_back({.lease = static_cast<LeaseId>(lease.id),
                               .attempt = static_cast<uint32_t>(lease.attempt),
                               .worker = lease.worker,
                               .lost = lease.state == db::Lease::State::kLost});
      // Where the database says leased and has no lease, nobody could claim it: it is pending then.
      // grants.back() is the one in force then: leases are in the order of their numbers.
      open.leased = trial.leased && !open.grants.empty();
      state.open.push_back(std::move(open));
    });
    state.health = store_.worker_healths();
    state.drained = store_.drained_workers();
    return state;
  }

  std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) override {
    claim(job);
    std::vector<db::NewTrial> trials;
    for (const Candidate& candidate : candidates)
      trials.push_back({.workload = candidate.workload,
                        .trace = candidate.trace,
                        .program = candidate.program,
                        .predicted = candidate.predicted,
                        .purpose = candidate.purpose,
                        .settings = to_settings(candidate.evaluation, kInputSeed)});
    const auto its_job = static_cast<db::JobId>(job);
    // Committed before the farm hears of them: a trial that is leased is always in the database.
    const std::vector<db::EnqueuedTrial> added = store_.add_trials(its_job, trials);
    std::vector<Submission> submissions;
    for (size_t i = 0; i < added.size(); ++i) {
      Submission submission{.status = static_cast<Submission::Status>(added[i].status),
                            .trial = static_cast<TrialId>(added[i].trial),
                            .measurement = added[i].measurement};
      if (submission.status == Submission::Status::kQueued) {
        submission.candidate = added[i].candidate;
        // Shared by all trials of one workload in one job: two million need a handful.
        submission.spec = spec_of(its_job, candidates[i].workload);
        if (!candidates[i].is_first()) submission.said = said_of(added[i].trial);
      }
      submissions.push_back(std::move(submission));
    }
    return submissions;
  }

  std::vector<Recipe> recipes(std::span<const TrialId> trials) override {
    // One for all: of the log's end, which each would look for again.
    // A reading transaction: all reads see one state of the write-ahead log.
    const db::Transaction snapshot = store_.database().snapshot();
    std::vector<Recipe> recipes;
    for (TrialId id : trials) {
      Recipe& recipe = recipes.emplace_back();
      try {
        db::Trial trial = store_.trial(static_cast<db::TrialId>(id));
        recipe.seed = kInputSeed;
        from_settings(trial.settings, recipe);
        // Its measurement is kept as one of so many.
        recipe.evaluation.threads = static_cast<uint32_t>(trial.threads);
        if (const std::string fault = wire::fault_of(recipe.evaluation); !fault.empty())
          fail("its settings cannot be: {}", fault);
        if (trial.trace.size() > limits::kText)
          fail("its trace has {} bytes, more than the limit of {}", trial.trace.size(), limits::kText);
        recipe.trace = std::move(trial.trace);
      } catch (const std::exception& error) {  // its row; where it is the disk, the next commit says so
        recipe.problem = error.what();
      }
    }
    return recipes;
  }

  std::string owner(JobId job) override {
    const auto served = store_.served_job_of(static_cast<db::JobId>(job));
    return served ? served->owner : "";
  }

  void ping() override {
    const db::Transaction snapshot = store_.database().snapshot();
    claims_.require_held();
  }

  std::vector<LeaseId> commit(std::span<const Record> records) override {
    // One for all: a commit waits for the disk, however many rows it has (F8).
    // Throws when it cannot be committed, and then nothing of it is there: the caller sends
    // nothing that rests on it.
    db::Transaction transaction = store_.begin();
    refused_.clear();
    for (const Record& record : records) std::visit([this](const auto& r) { write(r); }, record);
    transaction.commit();
    return std::exchange(refused_, {});
  }

 private:
  // Inputs are the same for all candidates of a workload, in all jobs: their results can be compared.
  static constexpr uint64_t kInputSeed = 1;
  static_assert(static_cast<int>(Submission::Status::kMeasured) ==
                    static_cast<int>(db::Enqueued::kMeasured) &&
                static_cast<int>(Submission::Status::kDuplicate) ==
                    static_cast<int>(db::Enqueued::kDuplicate));

  std::vector<Testimony> said_of(db::TrialId trial) {
    std::vector<Testimony> said;
    for (db::Testimony& one : store_.testimonies(trial))
      said.push_back({std::move(one.worker), class_name(one.model, one.cores), one.seconds, one.suspect});
    return said;
  }

  void claim(JobId job) {
    if (only_ && claimed_.insert(job).second) claims_.claim_job(job);
  }

  void write(const Leased& r) {
    device_id(r.grant.worker, r.device);  // adds the worker with its device
    // Not granted when somebody ended the trial in the database meanwhile; then its result will be stale.
    store_.grant(static_cast<db::TrialId>(r.trial), r.grant.worker, epoch_,
                 static_cast<db::LeaseId>(r.grant.lease));
  }

  void write(const Released& r) {
    store_.end_lease(static_cast<db::LeaseId>(r.lease),
                     r.lost ? db::LeaseEnd::kLost : db::LeaseEnd::kReturned);
  }

  void write(const Finished& r) {
    auto [compiler, revision, driver] = provenance(r.device);
    // Built by another program than the one that measured.
    if (!r.revision.empty()) revision = r.revision;
    db::TrialResult result{.lease = static_cast<db::LeaseId>(r.result.lease),
                           .outcome = r.result.outcome,
                           .samples = r.result.samples,
                           .relative_error = r.result.relative_error,
                           .error = r.result.message,
                           .signal = r.result.signal,
                           .compiler = compiler,
                           .revision = revision,
                           .conditions = conditions_of(r.result, driver)};
    if (!r.device.empty()) result.device = device_id(r.worker, r.device);
    // In the transaction of the whole batch, as a savepoint of it.
    const db::Recorded recorded = store_.record({&result, 1})[0];
    // Told to the worker as what it is; a duplicate was acknowledged once, and is so again.
    if (recorded == db::Recorded::kStale || recorded == db::Recorded::kUnknown)
      refused_.push_back(r.result.lease);
  }

  void write(const Examined& r) {
    const db::WorkerHealth& health = r.health;
    // What it measured since its last good canary on such devices; where none is known, since it joined.
    // Of who lies nobody knows since when.
    const auto since = [&] {
      const auto good = store_.last_good_canary(health.worker, health.device_class);
      return good ? *good : store_.now_ms() - r.unproven.count();
    };
    if (r.distrust) store_.set_suspect(store_.add_worker(health.worker), r.lied ? 0 : since());
    store_.set_worker_health(health, r.good);
  }

  void write(const Drained& r) { store_.set_drained(r.worker, r.drained); }

  void write(const Cancelled& r) { store_.cancel_trial(static_cast<db::TrialId>(r.trial)); }

  db::DeviceId device_id(const std::string& worker, const std::string& device) {
    // Once for each device that a worker comes with, not with every lease and result.
    // Names are the workers' to make up; what is forgotten is only looked up again.
    if (devices_.size() >= defaults::kWorkersLimit && !devices_.contains(worker)) devices_.clear();
    Known& known = devices_[worker];
    if (known.text != device || known.id == 0) {
      known = {device, store_.add_device(parse_device(device))};
      if (db::Machine machine = parse_machine(known.id, device); !machine.numbers.empty())
        store_.set_machine(machine);
      store_.add_worker(worker, known.id);
    }
    return known.id;
  }

  std::shared_ptr<const TrialSpec> spec_of(db::JobId id, db::WorkloadId workload_id) {
    return specs_.get({id, workload_id}, [&] {
      const db::Job job = store_.job(id);
      const db::Workload workload = store_.workload(workload_id);
      TrialSpec spec{.job = static_cast<JobId>(id),
                     // It may have megabytes, and is the same for all jobs.
                     .workload = workloads_.get(workload_id, [&] { return workload.text; }),
                     .workload_id = workload_id,
                     .target = store_.target(job.target).name};
      spec.is_open = tir::names_dims(workload.text);
      // Once a workload and job, not with every result.
      spec.fastest_seconds = fastest_of(workload.flops, spec.target, job.threads);
      // All of it is settled before the first trial of a job that a tracker owns.
      if (const auto served = store_.served_job_of(id)) {
        spec.device_class = served->device_class;
        spec.needs = needs_of_request(served->request);
        spec.owner = served->owner;
        spec.weight = served->weight;
      }
      spec.needs = with_cores_for(job.threads, std::move(spec.needs));
      return spec;
    });
  }

  db::Store store_;
  std::optional<JobId> only_;
  Claims claims_;
  std::set<JobId> claimed_;
  int64_t epoch_ = 0;
  std::vector<LeaseId> refused_;  // of the commit under way
  struct Known {
    std::string text;
    db::DeviceId id = 0;
  };
  std::map<std::string, Known> devices_;  // of workers, what each was last
  WeakCache<std::pair<db::JobId, db::WorkloadId>, TrialSpec> specs_;
  WeakCache<db::WorkloadId, std::string> workloads_;
};

}  // namespace

std::unique_ptr<Journal> open_store_journal(const std::string& path, std::optional<JobId> only) {
  return std::make_unique<StoreJournal>(path, only);
}

}  // namespace lathe::tracker
