#include "tracker/store_journal.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "core/tir/roofline.h"
#include "db/store.h"
#include "tracker/claims.h"
#include "tracker/evaluation_json.h"

namespace lathe::tracker {
namespace {

// --- JSON of the opaque columns

std::string to_settings(const wire::Evaluation& evaluation, uint64_t seed) {
  nlohmann::json json = evaluation_json(evaluation);
  json["seed"] = seed;
  return json.dump();
}

void from_settings(const std::string& text, TrialSpec& spec) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  read_evaluation(json, spec.evaluation);
  if (json.is_object() && json.contains("seed") && json["seed"].is_number()) json["seed"].get_to(spec.seed);
}

/// A device as a worker describes it (workers/device.h) and as the store wants it. What a peer sends may be
/// anything: whatever is missing stays empty.
db::Device parse_device(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  db::Device device;
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
  device.memory_bytes = number("memory_bytes", 0);
  if (const auto it = json.find("features"); it != json.end() && it->is_array()) {
    std::vector<std::string> features;
    for (const auto& feature : *it)
      if (feature.is_string()) features.push_back(feature.get<std::string>());
    // In one order: a device is known by the digest of this text.
    std::sort(features.begin(), features.end());
    device.features = join_text(features, ",");
  }
  device.details = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return device;
}

/// What the worker measured of the device's machine, unread; empty when it does not say.
db::Machine parse_machine(db::DeviceId device, const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return {
      .device = device, .target = string_member(json, "target"), .numbers = string_member(json, "machine")};
}

/// Who built what the device measured: compiler and revision.
std::pair<std::string, std::string> provenance(const std::string& device) {
  const auto json = nlohmann::json::parse(device, nullptr, /*allow_exceptions=*/false);
  return {string_member(json, "compiler"), string_member(json, "revision")};
}

class StoreJournal final : public Journal {
 public:
  StoreJournal(const std::string& path, std::optional<JobId> only)
      : store_(path), only_(only), claims_(path) {}

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
    for (const db::Trial& trial : store_.open_trials()) {
      // Another process may be at work on those.
      if (only_ && static_cast<JobId>(trial.job) != *only_) continue;
      OpenTrial open{.trial = static_cast<TrialId>(trial.id), .spec = spec_of(trial)};
      for (const db::Lease& lease : store_.leases(trial.id))
        open.grants.push_back({.lease = static_cast<LeaseId>(lease.id),
                               .attempt = static_cast<uint32_t>(lease.attempt),
                               .worker = lease.worker,
                               .lost = lease.state == db::Lease::State::kLost});
      // Where the database says leased and has no lease, nobody could claim it: it is pending then.
      open.leased = trial.state == db::TrialState::kLeased && !open.grants.empty();
      state.open.push_back(std::move(open));
    }
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
                        .purpose = candidate.confirm ? db::Purpose::kConfirm : db::Purpose::kSearch,
                        .settings = to_settings(candidate.evaluation, kInputSeed)});
    const auto owner = static_cast<db::JobId>(job);
    // Committed before the farm hears of them: a trial that is leased is always in the database.
    const std::vector<db::EnqueuedTrial> added = store_.add_trials(owner, trials);
    const db::TargetId target = store_.job(owner).target;
    std::vector<Submission> submissions;
    for (size_t i = 0; i < added.size(); ++i) {
      Submission submission{.status = static_cast<Submission::Status>(added[i].status),
                            .trial = static_cast<TrialId>(added[i].trial),
                            .measurement = added[i].measurement};
      if (submission.status == Submission::Status::kQueued)
        submission.spec = std::make_shared<TrialSpec>(TrialSpec{
            .job = job,
            .workload = workload(candidates[i].workload),
            .trace = candidates[i].trace,
            .target = target_text(target),
            .evaluation = candidates[i].evaluation,
            .seed = kInputSeed,
            .fastest_seconds = fastest_seconds(candidates[i].workload, target, candidates[i].evaluation),
            .device_class = asker(owner).device_class,
            .owner = asker(owner).owner,
            .weight = asker(owner).weight,
            .measured_by = candidates[i].confirm ? store_.last_measured_by(added[i].trial) : ""});
      submissions.push_back(std::move(submission));
    }
    return submissions;
  }

  std::vector<LeaseId> commit(std::span<const Record> records) override {
    // One for all: a commit waits for the disk, however many rows it has (F8).
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
    auto [compiler, revision] = provenance(r.device);
    // Built by another program than the one that measured.
    if (!r.revision.empty()) revision = r.revision;
    db::TrialResult result{.lease = static_cast<db::LeaseId>(r.result.lease),
                           .outcome = r.result.outcome,
                           .samples = r.result.samples,
                           .relative_error = r.result.relative_error,
                           .error = r.result.message,
                           .signal = r.result.signal,
                           .artifact = r.result.artifact,
                           .compiler = compiler,
                           .revision = revision};
    const wire::Disturbance& seen = r.result.disturbance;
    if (seen.clock_hz > 0) result.clock_hz = seen.clock_hz;
    // Both are a worker's word: the share stays one whatever it says.
    if (seen.taken > 0)
      result.disturbed = static_cast<double>(std::min(seen.disturbed, seen.taken)) / seen.taken;
    if (!r.device.empty()) result.device = device_id(r.worker, r.device);
    const db::Recorded recorded = store_.record({&result, 1})[0];
    // Told to the worker as what it is; a duplicate was acknowledged once, and is so again.
    if (recorded == db::Recorded::kStale || recorded == db::Recorded::kUnknown)
      refused_.push_back(r.result.lease);
  }

  void write(const Examined& r) {
    const db::WorkerHealth& health = r.health;
    if (r.distrust)
      store_.set_suspect(store_.add_worker(health.worker),
                         store_.last_good_canary(health.worker, health.device_class)
                             .value_or(store_.now_ms() - r.unproven.count()));
    store_.set_worker_health(health, r.good);
  }

  void write(const Drained& r) { store_.set_drained(r.worker, r.drained); }

  void write(const Cancelled& r) { store_.cancel_trial(static_cast<db::TrialId>(r.trial)); }

  db::DeviceId device_id(const std::string& worker, const std::string& device) {
    // Once in a life of the tracker, not with every lease and result.
    const auto [it, added] = devices_.try_emplace({worker, device}, 0);
    if (added) {
      it->second = store_.add_device(parse_device(device));
      if (db::Machine machine = parse_machine(it->second, device); !machine.numbers.empty())
        store_.set_machine(machine);
      store_.add_worker(worker, it->second);
    }
    return it->second;
  }

  double fastest_seconds(int64_t workload, db::TargetId target, const wire::Evaluation& evaluation) {
    const auto [flops, added] = flops_.try_emplace(workload, 0);
    if (added) flops->second = store_.workload(workload).flops;
    return fastest_believable(flops->second, parse_target_text(target_text(target)),
                              static_cast<int>(evaluation.threads));
  }

  std::shared_ptr<const std::string> workload(int64_t id) {
    // Shared by all open trials of it and gone with the last: it may have megabytes.
    std::weak_ptr<const std::string>& known = workloads_[id];
    std::shared_ptr<const std::string> text = known.lock();
    if (!text) known = text = std::make_shared<std::string>(store_.workload(id).text);
    return text;
  }

  /// For whom a job's trials are, if a tracker owns it; all of it is settled before its first trial.
  const db::ServedJob& asker(db::JobId job) {
    const auto [it, added] = askers_.try_emplace(job);
    if (added)
      if (auto served = store_.served_job_of(job)) it->second = std::move(*served);
    return it->second;
  }

  const std::string& target_text(db::TargetId id) {
    const auto [it, added] = targets_.try_emplace(id);
    if (added) it->second = store_.target(id).name;
    return it->second;
  }

  std::shared_ptr<const TrialSpec> spec_of(const db::Trial& trial) {
    TrialSpec spec{.job = static_cast<JobId>(trial.job),
                   .workload = workload(trial.workload),
                   .trace = trial.trace,
                   .target = target_text(trial.target)};
    spec.evaluation.threads = static_cast<uint32_t>(trial.threads);
    spec.seed = kInputSeed;
    from_settings(trial.settings, spec);
    spec.fastest_seconds = fastest_seconds(trial.workload, trial.target, spec.evaluation);
    spec.device_class = asker(trial.job).device_class;
    spec.owner = asker(trial.job).owner;
    spec.weight = asker(trial.job).weight;
    if (trial.purpose == db::Purpose::kConfirm) spec.measured_by = store_.last_measured_by(trial.id);
    return std::make_shared<TrialSpec>(std::move(spec));
  }

  db::Store store_;
  std::optional<JobId> only_;
  Claims claims_;
  std::set<JobId> claimed_;
  int64_t epoch_ = 0;
  std::vector<LeaseId> refused_;  // of the commit under way
  std::map<std::pair<std::string, std::string>, db::DeviceId> devices_;
  std::map<int64_t, std::weak_ptr<const std::string>> workloads_;
  std::map<db::TargetId, std::string> targets_;
  std::map<int64_t, double> flops_;  // of workloads
  std::map<db::JobId, db::ServedJob> askers_;
};

}  // namespace

std::unique_ptr<Journal> open_store_journal(const std::string& path, std::optional<JobId> only) {
  return std::make_unique<StoreJournal>(path, only);
}

}  // namespace lathe::tracker
