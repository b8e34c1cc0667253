// What workers say to the farm, and what it makes of it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/record_limits.h"
#include "tracker/defaults.h"
#include "tracker/device_class.h"
#include "tracker/farm.h"
#include "tracker/sampling.h"

namespace lathe::tracker {

using namespace defaults;
using Verdict = wire::ResultAck::Verdict;

namespace {
/// A worker that does not say its architecture takes what names none.
std::vector<std::string> platforms_of(const std::vector<std::string>& backends,
                                      const nlohmann::json& device) {
  const std::string architecture = string_member(device, "architecture");
  // A target that names no architecture ("cpu") goes to any worker of its backend: the jobs of before there
  // were boards are still in databases.
  std::vector<std::string> platforms = backends;
  if (!architecture.empty())
    for (const std::string& backend : backends) platforms.push_back(platform_name(backend, architecture));
  return platforms;
}

/// A worker of an older version cannot read a code that came later. It is told one that makes it do the same:
/// give up, or come back later.
wire::Refusal::Code known_code(wire::Refusal::Code code, uint32_t version) {
  using Code = wire::Refusal::Code;
  if (version >= wire::kPartsVersion) return code;
  if (code == Code::kFull) return Code::kShuttingDown;
  return code == Code::kNotAllowed || code == Code::kSuspect ? Code::kVersion : code;
}
}  // namespace

void Farm::receive(const Received& event) {
  const Peer& peer = event.peer;
  const wire::Message& message = event.message;
  const auto known = workers_.find(peer);
  // Peers name themselves: a stranger that takes another connection's name is not that
  // worker, whatever it says.
  const bool is_known = known != workers_.end() && known->second.key == event.key;
  // Any message is a sign of life, not heartbeats alone: a worker that sends a long result is not silent.
  if (is_known) known->second.heard = now_;
  if (const auto* hello = std::get_if<wire::Hello>(&message)) return greet(peer, *hello, event.key);
  if (!is_known) {
    // The answer to BYE would go to somebody who has gone, or bring it back.
    if (!std::holds_alternative<wire::Bye>(message))
      send(peer, wire::Refusal{wire::Refusal::Code::kHelloFirst, "say HELLO first"});
    return;
  }
  std::visit(
      [&](const auto& body) {
        // A message that only workers read (LEASE, say) has no overload here. So a new kind is refused until
        // someone handles it, and none can be forgotten silently in a switch.
        if constexpr (requires { on(peer, body); }) {
          on(peer, body);
        } else {
          send(peer, wire::Refusal{wire::Refusal::Code::kMalformed,
                                   fmt::format("{} is not for a tracker", wire::name_of(message))});
        }
      },
      message);
}

/// A name belongs to the first key that comes with it, while that is listed: nobody acts under another's.
bool Farm::owns_name(const std::string& name, const std::string& key) {
  const auto [owner, added] = keys_.try_emplace(name, key);
  if (!added) {
    if (principal_of(owner->second)) return owner->second == key;
    // The key was taken out of the list: the name is free for the worker's new one.
    std::erase(named_[owner->second], name);
    owner->second = key;
  }
  named_[key].push_back(name);
  // Bounded, as names are strangers' to make up where there are no keys.
  while (keys_.size() > kNamesRemembered && forget_some_name(name)) {
  }
  return true;
}

/// Of whoever has the most names, the oldest that is away. So whoever makes names up takes none of another,
/// and nobody becomes a stranger whom others found out; there is a row of the database for each of those.
bool Farm::forget_some_name(const std::string& newest) {
  std::vector<std::deque<std::string>*> owners;
  for (auto& [key, names] : named_) owners.push_back(&names);
  std::stable_sort(owners.begin(), owners.end(), [](auto* a, auto* b) { return a->size() > b->size(); });
  std::set<std::string> here = {newest};
  for (const auto& [peer, worker] : workers_) here.insert(worker.name);
  for (std::deque<std::string>* names : owners)
    for (size_t left = names->size(); left > 0; --left) {
      const std::string oldest = std::move(names->front());
      names->pop_front();
      const auto health = health_.find(oldest);
      const bool has_a_record = health != health_.end() && health->second.has_a_record();
      if (!has_a_record && !here.contains(oldest)) {
        forget_name(oldest);
        return true;
      }
      names->push_back(oldest);
    }
  return false;
}

/// What is written down of it stays.
void Farm::forget_name(const std::string& name) {
  keys_.erase(name);
  // Only where there are no keys, is somebody expelled by name.
  expelled_.erase(name);  // a key stays
  returned_.erase(name);
  devices_.erase(name);
  device_of_.erase(name);
  health_.erase(name);
}

void Farm::refuse(const Peer& peer, uint32_t version, wire::Refusal refusal) {
  refusal.code = known_code(refusal.code, version);
  send(peer, std::move(refusal));
}

void Farm::greet(const Peer& peer, const wire::Hello& hello, const std::string& key) {
  if (std::optional<wire::Refusal> refusal = refusal_of(peer, hello, key))
    return refuse(peer, hello.newest_version, std::move(*refusal));
  forget_former(peer, hello.worker);
  const bool is_new = !workers_.contains(peer);
  Worker& worker = workers_[peer];
  worker.name = hello.worker;
  worker.version = std::min(hello.newest_version, wire::kNewestVersion);
  worker.key = key;
  take_description(worker, hello);
  worker.heard = now_;
  worker.drained = drained_.contains(worker.name);
  Health& health = health_of(worker);
  worker.suspect = health.suspect();
  if (is_new) {
    worker.joined = now_;
    // A worker's canaries are numbered from 1 in each of its lives.
    health.begin();
  }
  send(peer, wire::Welcome{worker.version, epoch_});
  take_up_leases(peer, worker, hello.holding);
  if (worker.suspect) {
    pause(peer, health.row().suspect);
    // It may come with leases that it was given before it became suspect, by an earlier life of this tracker.
    take_leases_back(peer);
  } else if (worker.drained) {
    pause(peer, kDrained);
  }
}

/// Why the tracker does not take it. Its name and its device are noted here, and count against it.
std::optional<wire::Refusal> Farm::refusal_of(const Peer& peer, const wire::Hello& hello,
                                              const std::string& key) {
  using Code = wire::Refusal::Code;
  // Before all else: of a peer that speaks no version of ours, no other field can be relied on.
  if (std::min(hello.newest_version, wire::kNewestVersion) <
      std::max(hello.oldest_version, wire::kOldestVersion))
    return wire::Refusal{Code::kVersion,
                         fmt::format("tracker speaks versions {}..{}, worker {}..{}", wire::kOldestVersion,
                                     wire::kNewestVersion, hello.oldest_version, hello.newest_version)};
  // HELLO is repeated until WELCOME comes, so most of these come from who is known.
  const auto known = workers_.find(peer);
  if (known == workers_.end() && workers_.size() >= kWorkersLimit)
    return wire::Refusal{Code::kFull, fmt::format("the tracker has {} workers already", kWorkersLimit)};
  if (auto objection = this->objection(hello.worker, key)) return objection;
  // Whoever made up many would else be one device, and be nobody's whom the farm found out.
  if (known != workers_.end() && known->second.key == key && known->second.name != hello.worker)
    return wire::Refusal{Code::kNotAllowed,
                         fmt::format("the worker `{}` calls itself `{}` on the same connection",
                                     known->second.name, hello.worker)};
  // Or a peer's name was taken by a connection with another key.
  if ((known != workers_.end() && known->second.key != key) || !owns_name(hello.worker, key))
    return wire::Refusal{Code::kNotAllowed,
                         fmt::format("the name `{}` belongs to a worker with another key", hello.worker)};
  const std::string& who = key.empty() ? hello.worker : key;
  // With its first lease a device becomes a row of the database, of up to kDeviceLimit bytes. A worker that
  // starts again and again is the device that it was.
  if (!expelled_.contains(who) && (known == workers_.end() || known->second.device->text != hello.device))
    if (std::string device = sha256(hello.device); device != device_of_[hello.worker]) {
      device_of_[hello.worker] = std::move(device);
      if (++devices_[who] > kDevicesToExpel) expelled_.insert(who);
    }
  // Asked last, since a name is not known to be its own before.
  if (expelled_.contains(who))
    return wire::Refusal{
        Code::kSuspect,
        fmt::format("{} sent what cannot be, named too many devices, or let too many leases pass their time",
                    key.empty() ? fmt::format("the worker `{}`", hello.worker) : "a worker of this key")};
  return std::nullopt;
}

/// The same name from another process: the worker was restarted, and what its last life held is lost with it.
void Farm::forget_former(const Peer& peer, const std::string& name) {
  std::vector<Peer> former;
  for (const auto& [other, worker] : workers_)
    if (other != peer && worker.name == name) former.push_back(other);
  for (const Peer& other : former) forget_worker(other, /*lost=*/true);
}

/// What it is, and for what it may be used.
void Farm::take_description(Worker& worker, const wire::Hello& hello) {
  worker.device = std::make_shared<const ToldDevice>(hello.device);
  worker.device_class = worker.device->its_class.name;
  worker.backends = hello.backends;
  const nlohmann::json device = parse_bounded_json(hello.device, limits::kDetailsDepth, "hello.device");
  // Builds are filed under it (builds_): code of another release of the compiler is other code.
  worker.revision = string_member(device, "revision");
  worker.platforms = platforms_of(hello.backends, device);
  worker.builds = hello.builds;
  worker.runner_only = hello.runner_only;
}

/// First what it holds, so that only the rest is sent again; then what it does not list of this life's
/// leases.
void Farm::take_up_leases(const Peer& peer, Worker& worker, const std::vector<uint64_t>& holding) {
  for (LeaseId id : holding) adopt(peer, worker, id);
  renew_unclaimed(peer, worker);
  reconcile(peer, holding);
}

/// Leases from before our restart that were this worker's and that it does not hold: we died between writing
/// them down and sending them, or it did.
void Farm::renew_unclaimed(const Peer& peer, Worker& worker) {
  std::vector<LeaseId> unclaimed;
  for (const auto& [id, lease] : leases_)
    if (lease.peer.empty() && lease.worker == worker.name) unclaimed.push_back(id);
  std::sort(unclaimed.begin(), unclaimed.end());
  for (LeaseId id : unclaimed) {
    adopt(peer, worker, id);
    renew_lease(id);
  }
}

/// `id` is held by `peer`, which has just said so: from before our restart, or its own.
void Farm::adopt(const Peer& peer, Worker& worker, LeaseId id) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) {
    // Over, or given to another meanwhile. A finished result in the worker's spool still comes and is judged
    // then.
    // Else it would measure for nothing, for up to five minutes.
    send(peer, wire::Cancel{id});
    return;
  }
  // Of another worker, or claimed already: a lease is only ever held by whom it was granted to.
  if (lease->second.worker != worker.name || !lease->second.peer.empty()) return;
  lease->second.peer = peer;
  // In full: how much of its time it has used is not written down, and to give too much costs no
  // more than five minutes.
  lease->second.deadline = now_ + kLeaseLimit;
  // Which part it was is not written down: the worker's roles say, and where it has both, it may say BUILT
  // too.
  const Trial& trial = trials_.at(lease->second.trial);
  lease->second.part = worker.runner_only                   ? wire::Part::kRun
                       : runs(worker, lane_of(*trial.spec)) ? wire::Part::kWhole
                                                            : wire::Part::kBuild;
  if (lease->second.part == wire::Part::kBuild) building_[lane_of(*trial.spec)]++;
  worker.leases.insert(id);
}

void Farm::on(const Peer& peer, const wire::Credit& credit) {
  const uint32_t before = workers_.at(peer).slots;
  workers_.at(peer).slots = allowed_slots(peer, credit.slots);
  // It comes with each heartbeat.
  may_assign_ = workers_.at(peer).slots != before;
}

void Farm::on(const Peer& peer, const wire::Heartbeat& heartbeat) {
  may_assign_ = false;  // unless a lease goes below (queue_retry)
  reconcile(peer, heartbeat.holding);
  send(peer, wire::Heartbeat{.epoch = epoch_});
}

/// What we gave the worker and it does not list never reached it, unless it is still under way: say it again.
void Farm::reconcile(const Peer& peer, const std::vector<uint64_t>& holding) {
  // A copy: renew_lease() may release one.
  const std::set<LeaseId> leases = workers_.at(peer).leases;
  // Up to 1024 in up to 4096, as often as a worker likes to say so: each looked for in all would be
  // milliseconds of everybody's time.
  const std::unordered_set<LeaseId> held(holding.begin(), holding.end());
  for (LeaseId id : leases) {
    if (held.contains(id)) continue;
    if (now_ - leases_.at(id).sent >= kLeaseSettles) renew_lease(id);
  }
}

void Farm::on(const Peer& peer, const wire::Result& result) {
  // Unless it is recorded below. Both make the worker forget it.
  wire::ResultAck ack{.lease = result.lease,
                      .verdict = recent_set_.contains(result.lease) ? Verdict::kDuplicate : Verdict::kStale};
  if (const auto found = trials_.find(result.trial); found != trials_.end()) {
    Trial& trial = found->second;
    const Past& past = std::as_const(trial).past();
    Worker& worker = workers_.at(peer);
    // Any lease ever given for an open trial may end it, by the worker it was given to.
    const bool granted = !worker.suspect && result.lease != past.doubted_lease &&
                         std::any_of(past.grants.begin(), past.grants.end(), [&](const Grant& grant) {
                           return grant.lease == result.lease && grant.attempt == result.attempt &&
                                  grant.worker == worker.name;
                         });
    // What is written down of it where nobody else is asked.
    wire::Result told = result;
    const std::string too_fast = impossible_time(trial, result);
    if (!too_fast.empty()) told.outcome = Outcome::kWrongResult, told.samples = {}, told.message = too_fast;
    // Before everything that records or believes it; only of a lease that was its own, so that nobody
    // gets another expelled.
    if (const std::string reason = disbelief(trial, worker, result); granted && !reason.empty()) {
      expel(peer, fmt::format("a result that cannot be: {}", reason), /*lied=*/true);
    } else if (granted && result.outcome == Outcome::kInvalidTrace && worker.version < wire::kNewestVersion) {
      // A worker of our version that cannot read the trace is right, and no other could.
      // A worker of the release before knows fewer schedule primitives: another is asked.
      // Counted as a loss, so that three such workers end it, instead of passing it round for ever.
      if (trial.lease == result.lease) release(result.lease, /*lost=*/true);
    } else if (granted && wants_second_opinion(trial, worker, told, !too_fast.empty())) {
      doubt(trial, worker.name, result.lease, !too_fast.empty());
    } else if (granted && told.outcome != Outcome::kWorkerLost) {
      // A lease given before, thought lost, has answered after all: whoever has the trial now
      // works for nothing.
      if (trial.lease != 0 && trial.lease != result.lease && !leases_.at(trial.lease).peer.empty())
        send(leases_.at(trial.lease).peer, wire::Cancel{trial.lease});
      const bool is_ok = told.outcome == Outcome::kOk;
      // In a row, of results that were recorded: see wants_second_opinion.
      if (!is_ok && told.outcome != Outcome::kInvalidTrace) worker.failures++;
      if (is_ok) worker.failures = 0, worker.mute = false, worker.overdue = 0;
      if (is_ok) returned_.erase(identity(worker)), devices_.erase(identity(worker));
      // Somebody failed with what another could do: three such candidates make the first suspect.
      if (is_ok && !past.doubted.empty() && past.doubted != worker.name)
        blame(past.doubted, trial.id, past.doubted_lie);
      // A build that fails is the candidate's, and says nothing of the builder's machine.
      // The device is written down with the result and makes it count for that machine.
      const auto spec = trial.spec;
      const std::vector<Testimony> said = past.said;
      const CandidateId candidate = trial.candidate;
      const double seconds = is_ok && !told.samples.empty() ? summarize(told.samples).median : 0;
      finish(trial, worker.name, runs(worker, lane_of(*spec)) ? worker.device->text : "", std::move(told));
      ack.verdict = Verdict::kRecorded;
      // After its own result, which may be the lie.
      if (!said.empty() && seconds > 0) compare(said, worker, candidate, seconds);
      // What it holds of them was leased before this was known.
      const double incumbent = incumbents_.seconds(*spec, voice_of(worker.name));
      if (worker.version >= wire::kIncumbentVersion && incumbent < wire::kNoIncumbent)
        ack.incumbent_seconds = incumbent;
    }
  }
  send(peer, ack);
}

/// Why the result is none of an honest worker; "" when it may be.
std::string Farm::disbelief(const Trial& trial, const Worker& worker, const wire::Result& result) const {
  if (result.samples.empty()) return "";
  if (!runs(worker, lane_of(*trial.spec))) return "times on a machine that it is not";
  // Turns of both sides alternate; who reads them pairs them.
  if (trial.spec->race && result.samples.size() % 2 != 0) return "a race with a turn of one side";
  return "";
}

/// Why the times cannot be, or are more than were asked for, each a row's weight of the database; "" when
/// they can. Either the worker lies, or the workload's text has operations
/// that are never executed, as under a condition that does not hold: only another worker's times tell which,
/// and what nobody knows is neither recorded nor anybody's fault.
std::string Farm::impossible_time(const Trial& trial, const wire::Result& result) const {
  if (result.samples.empty()) return "";
  if (!trial.spec->race && result.samples.size() > kMostSamples)
    return fmt::format("{} samples, and nobody asks for more than {}", result.samples.size(), kMostSamples);
  // The least and not the median: one sample that cannot be shows that the clock, or the worker,
  // is not to be believed.
  const float fastest = *std::min_element(result.samples.begin(), result.samples.end());
  if (fastest >= trial.spec->fastest_seconds) return "";
  return fmt::format("a time that cannot be: {:g} s for what takes {:g} s at least", fastest,
                     trial.spec->fastest_seconds);
}

/// Who says what cannot be, or nothing, is believed nothing more: the leases of this worker, and of all of
/// its key, go to others, without blame for their candidates. With a lie (`lied`) all goes that they have
/// said: who began to tell of it yesterday has not become a liar today.
void Farm::expel(const Peer& peer, const std::string& reason, bool lied) {
  // A copy: the worker goes below.
  const std::string key = workers_.at(peer).key;
  // Until the tracker is started again: an operator is to look at it, and a list of keys is theirs to change.
  expelled_.insert(identity(workers_.at(peer)));
  if (lied) distrust_all(identity(workers_.at(peer)));
  std::vector<Peer> expelled;
  // Who holds the key of one of its workers could be any of them.
  for (const auto& [other, worker] : workers_)
    if (other == peer || (!key.empty() && worker.key == key)) expelled.push_back(other);
  for (const Peer& other : expelled) {
    refuse(other, workers_.at(other).version, {wire::Refusal::Code::kSuspect, reason});
    forget_worker(other, /*lost=*/false);
  }
}

void Farm::on(const Peer& peer, const wire::Drain& drain) {
  workers_.at(peer).slots = 0;
  hand_back(peer, drain.returned);
}

void Farm::on(const Peer& peer, const wire::Bye& bye) {
  if (hand_back(peer, bye.returned)) forget_worker(peer, /*lost=*/false);
}

std::string Farm::identity_of(const std::string& name) const {
  const auto key = keys_.find(name);
  return key == keys_.end() || key->second.empty() ? name : key->second;
}

std::string Farm::owner_of(const std::string& key) const {
  const Principal* principal = listed_ ? principal_of(key) : nullptr;
  return principal ? principal->name : key;
}

std::string Farm::voice_of(const std::string& name) const {
  const auto key = keys_.find(name);
  return key == keys_.end() || key->second.empty() ? name : owner_of(key->second);
}

/// False when the worker is gone with that.
bool Farm::hand_back(const Peer& peer, const std::vector<uint64_t>& returned) {
  for (LeaseId id : returned) {
    // A worker returns only what is its own; the list is its word.
    if (!workers_.at(peer).leases.contains(id)) continue;
    const TrialId trial = leases_.at(id).trial;
    release(id, /*lost=*/false);
    // No result of it will come: what is remembered of a trial does not grow by it. One that was lost as
    // often as may be, as a database can say of a trial that waits, has ended with its release.
    if (const auto open = trials_.find(trial); open != trials_.end())
      open->second.make_past().grants.pop_back();
    returned_[identity(workers_.at(peer))]++;
  }
  // Each lease is a row of the database: nobody makes them without end.
  const auto all = returned_.find(identity(workers_.at(peer)));
  if (all == returned_.end() || all->second < kReturnsToExpel) return true;
  expel(peer, fmt::format("it has handed back {} leases, and measured nothing meanwhile", kReturnsToExpel),
        /*lied=*/false);
  return false;
}

void Farm::forget_worker(const Peer& peer, bool lost) {
  const std::set<LeaseId> leases = workers_.at(peer).leases;
  for (LeaseId id : leases) release(id, lost);
  workers_.erase(peer);
}

}  // namespace lathe::tracker
