#include "workers/agent.h"

#include <algorithm>

#include "core/support/error.h"
#include "tracker/defaults.h"

namespace lathe::worker {

using namespace defaults;

namespace {

// Leases that a late copy may name: the tracker sends one again for seconds, not for hours.
constexpr size_t kDoneRemembered = 4096;
// Of the leases that its credit allows: acknowledgements get lost, and the tracker then gives new ones.
constexpr size_t kLeasesToCredit = 4;
constexpr int kWrongToGiveUp = 3;

/// Whether what it runs comes from the tracker.
bool comes_built(const wire::Lease& lease) {
  return lease.part == wire::Part::kRun || lease.part == wire::Part::kRace;
}

}  // namespace

Agent::Agent(AgentSettings settings, Time now) : settings_(std::move(settings)), now_(now), heard_(now) {}

Actions Agent::step(const Event& event, Time now) {
  Actions actions;
  actions_ = &actions;
  // As the tracker's farm does: a clock that goes back would end leases before their time.
  now_ = std::max(now, now_);
  struct Dispatch {
    Agent& agent;
    void operator()(const wire::Message& message) { agent.receive(message); }
    void operator()(const Built& event) { agent.built(event); }
    void operator()(const Measured& event) { agent.measured(event); }
    void operator()(const Lost& event) { agent.lost(event); }
    void operator()(const CanaryEnded& event) { agent.canary_ended(event); }
    void operator()(const Tick&) { agent.tick(); }
    void operator()(const Terminate&) { agent.terminate(); }
  };
  std::visit(Dispatch{*this}, event);
  // Any event may have freed a builder, ended a run or brought a blob.
  start_stages();
  actions_ = nullptr;
  return actions;
}

// --- from the tracker

void Agent::receive(const wire::Message& message) {
  // Anything from the tracker is a sign of life, a refusal too.
  heard_ = now_;
  std::visit(
      [&](const auto& body) {
        // What only trackers read is dropped: a tracker of a later version may send more.
        if constexpr (requires { on(body); }) on(body);  // the rest is not for a worker
      },
      message);
}

void Agent::on(const wire::Welcome& welcome) {
  serving_ = true;
  version_ = welcome.version;
  greeted_ = now_;
  // After WELCOME and not with HELLO: a tracker grants nothing to a worker that it does not know.
  say_credit();
  if (draining_) send(wire::Drain{returned_});
  // What was measured while no tracker was there; a tracker that is another may not know it.
  for (auto& [id, task] : tasks_)
    if (task.stage == Stage::kSpooled) spool(task);
  if (coming_) ask();
}

void Agent::on(const wire::Lease& lease) {
  // A second copy; or the tracker has not heard that it was handed back.
  if (late_.contains(lease.lease)) return say_late({lease.lease});
  if (tasks_.contains(lease.lease) || done_.contains(lease.lease)) return;
  if (!has_room(lease)) return;
  // It was under way when DRAIN was sent.
  if (draining_) {
    returned_.push_back(lease.lease);
    remember(lease.lease);
    send(wire::Drain{returned_});
    return;
  }
  Task& task = tasks_[lease.lease];
  task.lease = lease;
  task.deadline = now_ + Time(lease.limit_ms);
  task.result = {.lease = lease.lease, .trial = lease.trial, .attempt = lease.attempt};
}

/// False for what no tracker of ours gives; whether it meant it or not, it says it again.
bool Agent::has_room(const wire::Lease& lease) const {
  size_t bytes = lease.workload.size() + lease.trace.size();
  for (const auto& [id, task] : tasks_) bytes += task.lease.workload.size() + task.lease.trace.size();
  const size_t credit = settings_.builders + 1 + settings_.ahead;
  if (tasks_.size() < kLeasesToCredit * credit && returned_.size() < kHoldingLimit && bytes <= kLeaseBytes)
    return true;
  actions_->ignored = "more leases than this worker asks for";
  return false;
}

void Agent::on(const wire::ResultAck& ack) {
  const auto task = tasks_.find(ack.lease);
  // Only a verdict on a result that was sent: a lease that is being worked on cannot be acknowledged.
  if (task == tasks_.end() || task->second.stage != Stage::kSpooled) return;
  const wire::Lease lease = std::move(task->second.lease);
  tasks_.erase(task);
  remember(ack.lease);
  if (ack.incumbent_seconds <= 0 || lease.job == 0) return;
  for (auto& [id, other] : tasks_) {
    double& incumbent = other.lease.evaluation.incumbent_seconds;
    const bool is_rival = other.lease.job == lease.job && other.lease.workload_id == lease.workload_id;
    // Whoever confirms wants all samples.
    if (is_rival && incumbent > 0) incumbent = ack.incumbent_seconds;
  }
}

void Agent::on(const wire::Refusal& refusal) {
  switch (refusal.code) {
    case wire::Refusal::Code::kHelloFirst:
      serving_ = false;
      // Several messages may have been on their way, and each is answered so.
      if (now_ - greeted_ >= kHelloAgain) say_hello();
      break;
    case wire::Refusal::Code::kVersion:
    case wire::Refusal::Code::kNotAllowed:
    case wire::Refusal::Code::kSuspect:
      // To ask again would change nothing: people have to.
      actions_->exit = true;
      [[fallthrough]];
    case wire::Refusal::Code::kMalformed:
    case wire::Refusal::Code::kShuttingDown:
    case wire::Refusal::Code::kFull:
    case wire::Refusal::Code::kPaused:
      actions_->refused = refusal.text;
      break;
  }
}

// --- stages of a lease

void Agent::start_stages() {
  // A canary takes the place of a run: nothing else may be timed beside it.
  size_t building = count(Stage::kBuilding), running = count(Stage::kRunning) + (canary_runs_ ? 1 : 0);
  if (running == 0 && canary_is_due()) {
    canary_runs_ = actions_->canary = true;
    running++;
  }
  // By lease id, so in the order in which they were given.
  for (auto& [id, task] : tasks_) {
    if (task.stage == Stage::kQueued && comes_built(task.lease) && !refuses(task))
      task.stage = Stage::kFetching;
    if (task.stage == Stage::kFetching && is_here(task)) task.stage = Stage::kBuilt;
    if (task.stage == Stage::kQueued && building < settings_.builders) {
      task.stage = Stage::kBuilding;
      building++;
      actions_->build.push_back(task.lease);
    } else if (task.stage == Stage::kBuilt && running == 0) {
      task.stage = Stage::kRunning;
      task.began = now_;
      running++;
      // Nobody else needs modules, which are large.
      const bool is_race = task.lease.part == wire::Part::kRace;
      actions_->run.push_back({task.lease, is_race ? std::move(task.artifact) : task.artifact,
                               is_race ? std::move(task.reference) : task.reference});
    }
  }
  fetch_more();
}

// --- what was built elsewhere, one blob at a time

bool Agent::is_here(Task& task) {
  if (!task.artifact) task.artifact = blobs_.find(task.lease.artifact.digest);
  if (!task.reference) task.reference = blobs_.find(task.lease.reference.digest);
  return task.artifact && task.reference;
}

/// Says no to a race that would take too much of this machine's memory.
bool Agent::refuses(Task& task) {
  const uint64_t bytes = task.lease.artifact.size + task.lease.reference.size;
  if (task.lease.part != wire::Part::kRace || bytes <= settings_.module_bytes) return false;
  task.result.outcome = Outcome::kBuildFailed;
  task.result.message = fmt::format("{} has room for modules of {} bytes, and these have {}", settings_.name,
                                    settings_.module_bytes, bytes);
  spool(task);
  return true;
}

/// Goes on with what the first lease that waits lacks.
/// One blob comes at a time, so that heartbeats and results are not queued behind megabytes.
void Agent::fetch_more() {
  for (const auto& [id, task] : tasks_) {
    if (task.stage != Stage::kFetching) continue;
    const wire::Blob& wanted = task.artifact ? task.lease.reference : task.lease.artifact;
    coming_for_ = id;
    // Two leases that lack the same blob share what comes.
    if (coming_ && coming_->blob() == wanted) return;
    // What had come of another is dropped: its lease is gone, or an earlier one lacks something.
    coming_.emplace(wanted);
    wrong_ = 0;
    return ask();
  }
  coming_.reset();
}

void Agent::ask() {
  asked_ = now_;
  if (serving_) send(coming_->next(coming_for_));
}

void Agent::on(const wire::BlobChunk& chunk) {
  // A copy, or a piece of a blob that is wanted no more.
  if (!coming_ || !coming_->add(chunk)) return;
  if (coming_->complete() && coming_->verify()) {
    const std::string digest = coming_->blob().digest;
    const auto bytes = std::make_shared<const std::string>(coming_->take());
    coming_.reset();
    Task& task = tasks_.at(coming_for_);
    // Builds of one workload share their reference, so they are kept; a module is of one race.
    if (task.lease.part != wire::Part::kRace) return blobs_.add(digest, bytes);
    if (digest == task.lease.artifact.digest) task.artifact = bytes;
    if (digest == task.lease.reference.digest) task.reference = bytes;
  } else if (coming_->next(0).offset == 0 && ++wrong_ >= kWrongToGiveUp) {
    Task& task = tasks_.at(coming_for_);
    task.result.outcome = Outcome::kBuildFailed;
    task.result.message = fmt::format("the bytes that come for {} are others", coming_->blob().digest);
    spool(task);
  } else {
    // The next piece; or, where the sum is wrong, the first one again.
    ask();
  }
}

/// The tracker wants what was built for it.
void Agent::on(const wire::BlobGet& get) {
  const auto found = tasks_.find(get.lease);
  // Only of what this lease has built: what lies here for others is not the tracker's to read by digest.
  if (found == tasks_.end() || !found->second.built) return;
  const Task& task = found->second;
  const auto& bytes = get.digest == task.built->artifact.digest ? task.artifact : task.reference;
  wire::BlobChunk chunk = wire::chunk_of(*bytes, get);
  if (!chunk.bytes.empty()) send(std::move(chunk));
}

void Agent::built(const Built& event) {
  const auto found = tasks_.find(event.lease);
  // A child of a lease that was given up may still have ended.
  if (found == tasks_.end() || found->second.stage != Stage::kBuilding) return;  // cancelled meanwhile
  Task& task = found->second;
  const wire::Result& report = event.report;
  task.result.outcome = report.outcome;
  task.result.message = report.message;
  task.result.signal = report.signal;
  task.result.build_seconds = report.build_seconds;
  task.result.artifact = report.artifact;
  task.stage = Stage::kBuilt;
  if (task.lease.part == wire::Part::kBuild && report.outcome == Outcome::kOk) hold(task, event);
  if (task.lease.part == wire::Part::kBuild || task.result.outcome != Outcome::kOk) spool(task);
}

/// Keeps what was built for the tracker to get.
void Agent::hold(Task& task, const Built& event) {
  for (const std::string* bytes : {&event.artifact, &event.reference})
    // Said here, where it was built; the tracker would only refuse the whole message.
    if (bytes->size() > kBlobLimit) {
      task.result.outcome = Outcome::kBuildFailed;
      task.result.message =
          fmt::format("its code has {} bytes, more than the limit of {}", bytes->size(), kBlobLimit);
      return;
    }
  task.artifact = std::make_shared<const std::string>(event.artifact);
  task.reference = std::make_shared<const std::string>(event.reference);
  task.built = wire::Built{.lease = task.lease.lease,
                           .trial = task.lease.trial,
                           .attempt = task.lease.attempt,
                           .artifact = wire::blob_of(event.artifact),
                           .reference = wire::blob_of(event.reference)};
}

void Agent::measured(const Measured& event) {
  const auto found = tasks_.find(event.lease);
  if (found == tasks_.end() || found->second.stage != Stage::kRunning) return;
  Task& task = found->second;
  // A maximum that is forgotten by and by: what waits is of few jobs, and may all be as slow.
  if (task.lease.part != wire::Part::kRace)
    run_takes_ = std::max(now_ - task.began, run_takes_ - run_takes_ / 8);
  const wire::Result& report = event.report;
  task.result.outcome = report.outcome;
  task.result.samples = report.samples;
  task.result.message = report.message;
  task.result.signal = report.signal;
  task.result.relative_error = report.relative_error;
  task.result.run_seconds = report.run_seconds;
  task.result.artifact = report.artifact;
  task.result.disturbance = report.disturbance;
  task.result.celsius = report.celsius;
  task.result.timer_seconds = report.timer_seconds;
  spool(task);
}

void Agent::lost(const Lost& event) {
  const auto found = tasks_.find(event.lease);
  if (found == tasks_.end() || found->second.stage == Stage::kSpooled) return;
  hand_back(event.lease);
  if (!draining_)
    terminate();
  else if (serving_)
    send(wire::Drain{returned_});
}

/// First of all, and then every now and then.
bool Agent::canary_is_due() const {
  // Whoever builds only has no times that could drift. The first comes before any measurement, so that a
  // suspect machine measures nothing.
  return settings_.canaries && !settings_.backends.empty() && serving_ && version_ >= wire::kCanaryVersion &&
         !draining_ && (canaries_ == 0 || now_ - canary_at_ >= kCanaryEvery);
}

void Agent::canary_ended(const CanaryEnded& event) {
  canary_runs_ = false;
  canary_at_ = now_;
  wire::Canary canary = event.canary;
  // Counted also when it cannot be sent: the tracker tells copies by it, and gaps mean nothing.
  canary.number = ++canaries_;
  if (serving_) send(canary);
}

/// Sends what came of it, for the first time or again; it stays until the tracker says that it has it.
void Agent::spool(Task& task) {
  task.stage = Stage::kSpooled;
  task.sent = now_;
  if (!serving_) return;
  if (task.built)
    send(*task.built);
  else
    send(task.result);
}

void Agent::drop(LeaseId id) {
  const auto task = tasks_.find(id);
  if (task == tasks_.end() || task->second.stage == Stage::kSpooled)
    return;  // the verdict on it is on its way
  tasks_.erase(task);
  remember(id);
  actions_->discard.push_back(id);
}

void Agent::hand_back(LeaseId id) {
  returned_.push_back(id);
  drop(id);
}

/// Whether it may still be done within its time, if it takes all that it may. Half of its time it has anyhow:
/// what is handed back comes again at once.
bool Agent::is_in_time(const Task& task) const {
  const wire::Evaluation& asked = task.lease.evaluation;
  double seconds = task.lease.part == wire::Part::kBuild ? 0 : asked.run_limit_seconds;
  if (task.stage == Stage::kQueued) seconds += asked.build_limit_seconds;
  const Time needed = std::chrono::ceil<Time>(std::chrono::duration<double>(seconds)) + kHeartbeat;
  return now_ + std::min(needed, Time(task.lease.limit_ms) / 2) < task.deadline;
}

/// Runs are one at a time, and a lease's time begins when it is given: what waits here behind others would
/// pass its own, for which workers are blamed.
void Agent::hand_back_late() {
  std::vector<LeaseId> late;
  for (const auto& [id, task] : tasks_)
    if ((task.stage == Stage::kQueued || task.stage == Stage::kBuilt) &&
        task.lease.part != wire::Part::kRace && !is_in_time(task))
      late.push_back(id);
  if (late.empty() || !serving_ || draining_) return;
  for (const LeaseId id : late) drop(id), late_.insert(id);
  say_late(std::move(late));
}

/// DRAIN hands leases back in every version of the protocol, and the credit after it says that this worker
/// stays.
void Agent::say_late(std::vector<LeaseId> late) {
  send(wire::Drain{std::move(late)});
  say_credit();
}

void Agent::remember(LeaseId id) {
  if (!done_.insert(id).second) return;
  done_order_.push_back(id);
  if (done_order_.size() <= kDoneRemembered) return;
  done_.erase(done_order_.front());
  late_.erase(done_order_.front());
  done_order_.pop_front();
}

// --- time

void Agent::tick() {
  std::vector<LeaseId> late;
  for (auto& [id, task] : tasks_) {
    if (task.stage == Stage::kSpooled) {
      if (serving_ && now_ - task.sent >= kResultAgain) spool(task);
    } else if (now_ >= task.deadline) {
      late.push_back(id);  // the tracker has given it to another by now
    }
  }
  for (LeaseId id : late) drop(id);
  hand_back_late();
  if (coming_ && now_ - asked_ >= kResultAgain) ask();

  // A new socket too: a connection may be dead without either side having been told (a router
  // that forgot it).
  if (now_ - heard_ >= kSilence) {
    serving_ = false;
    // Not again with each tick: the new connection has as long.
    heard_ = now_;
    actions_->reconnect = true;
    say_hello();
  } else if (!serving_) {
    if (now_ - greeted_ >= kHelloAgain) say_hello();
  } else if (now_ - greeted_ >= kHeartbeat) {
    // HELLO counts as a heartbeat: it says as much.
    greeted_ = now_;
    send(wire::Heartbeat{.holding = holding()});
    say_credit();  // and again, for any of them may get lost
    if (draining_) send(wire::Drain{returned_});
  }

  // Everything is acknowledged; or nobody is there to do it, and waiting would keep the
  // machine from being stopped.
  if (draining_ && (tasks_.empty() || (!serving_ && now_ - draining_since_ >= kSilence))) {
    send(wire::Bye{returned_});
    actions_->exit = true;
  }
}

void Agent::terminate() {
  if (draining_) {
    std::vector<uint64_t> all = returned_;
    for (const auto& [id, task] : tasks_) {
      if (task.stage != Stage::kSpooled) all.push_back(id);
      if (task.stage == Stage::kBuilding || task.stage == Stage::kRunning) actions_->discard.push_back(id);
    }
    tasks_.clear();
    send(wire::Bye{all});
    actions_->exit = true;
    return;
  }
  draining_ = true;
  draining_since_ = now_;
  // A run goes on, as it is minutes at most and a result; a build that has begun is handed back.
  std::vector<LeaseId> waiting;
  for (const auto& [id, task] : tasks_)
    if (task.stage != Stage::kRunning && task.stage != Stage::kSpooled) waiting.push_back(id);
  for (LeaseId id : waiting) hand_back(id);
  if (serving_) send(wire::Drain{returned_});
}

// --- what is said

void Agent::say_hello() {
  greeted_ = now_;
  const bool has_both_roles = !settings_.runner_only && !settings_.backends.empty();
  // A tracker that knows no parts would give a runner trials to build.
  send(wire::Hello{.oldest_version = has_both_roles ? wire::kOldestVersion : wire::kPartsVersion,
                   .worker = settings_.name,
                   .device = settings_.device,
                   .backends = settings_.backends,
                   .holding = holding(),
                   .builds = settings_.builds,
                   .runner_only = settings_.runner_only});
}

uint32_t Agent::slots() const {
  if (draining_) return 0;
  // One more than is worked on is asked for (`ahead`), so that nobody waits for a lease to travel.
  const uint32_t places = settings_.builders + (settings_.backends.empty() ? 0 : 1) + settings_.ahead;
  if (run_takes_ <= Time(0)) return places;
  // With many cores more is built than can be run before its time is over (hand_back_late).
  const auto in_time = static_cast<uint32_t>(kLeaseLimit / 2 / run_takes_);
  return std::min(places, std::max(in_time, 1 + settings_.ahead));
}

void Agent::say_credit() { send(wire::Credit{slots()}); }

std::vector<uint64_t> Agent::holding() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, task] : tasks_) ids.push_back(id);
  return ids;
}

size_t Agent::count(Stage stage) const {
  return static_cast<size_t>(std::count_if(tasks_.begin(), tasks_.end(),
                                           [&](const auto& entry) { return entry.second.stage == stage; }));
}

}  // namespace lathe::worker
