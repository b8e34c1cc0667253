// Whom the farm believes, and who is to work for it.
#include <algorithm>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {

using namespace defaults;

/// On another class of devices it begins anew.
Health& Farm::health_of(const Worker& worker) {
  // By name and not by connection: a suspect worker is not trusted for having been started again.
  Health& health = health_.try_emplace(worker.name, worker.name, worker.device_class).first->second;
  if (health.row().device_class != worker.device_class) health = health.elsewhere(worker.device_class);
  return health;
}

/// Twice as often as it should, and a few at once.
bool Farm::may_sing(Worker& worker) const {
  constexpr Time kEach = kCanaryEvery / 2;
  constexpr Time kSaved = 64 * kEach;
  // The time up to which canaries are paid for.
  worker.sung = std::max(worker.sung, now_ - kSaved) + kEach;
  if (worker.sung <= now_) return true;
  worker.sung -= kEach;
  return false;
}

void Farm::on(const Peer& peer, const wire::Canary& canary) {
  Worker& worker = workers_.at(peer);
  // Each may be a row of the database and a line of the log.
  if (!may_sing(worker)) return;
  Health& health = health_of(worker);
  const std::optional<Health::Change> change = health.hear(canary);
  // A copy, or one overtaken by a later one: nothing to write down.
  if (!change) return;
  worker.canary = now_;
  judge(worker.name, *change, health.last_was_good());
}

/// Writes down what is known of the worker now, and acts on what has changed. One that has gone is judged
/// too: what it has said is still here. REQUIRES: its health is known.
void Farm::judge(const std::string& name, Health::Change change, bool good, bool lied) {
  const Health& health = health_.at(name);
  const auto here = std::find_if(workers_.begin(), workers_.end(),
                                 [&](const auto& entry) { return entry.second.name == name; });
  // A worker may be suspect for its canaries, which is about the time since the last good one, and be
  // found to lie, which is about all that it ever said.
  const bool distrust = change == Health::Change::kSuspect || lied;
  // With every canary, in the same transaction as results: a tracker that starts again knows what
  // this one knew. `unproven` bounds how far back distrust reaches where no good canary is known: to
  // when the worker joined.
  effects_->records.push_back(
      Examined{.health = health.row(),
               .good = good,
               .distrust = distrust,
               .unproven = here == workers_.end() ? Time(0) : now_ - here->second.joined,
               .lied = lied});
  if (distrust) {
    ++distrusts_;
    incumbents_.forget_said_by(voice_of(name));
  }
  if (change == Health::Change::kTrusted)
    effects_->notes.push_back(fmt::format("worker {} is trusted again", name));
  if (change == Health::Change::kSuspect)
    effects_->notes.push_back(fmt::format("worker {} is suspect: {}", name, health.row().suspect));
  if (here == workers_.end()) return;
  here->second.suspect = health.suspect();
  if (change != Health::Change::kSuspect) return;
  // First the reason, then the cancellations: the worker's log reads in that order.
  pause(here->first, health.row().suspect);
  take_leases_back(here->first);
}

/// What workers of that key, or without keys of that name, have ever said is out until measured again.
void Farm::distrust_all(const std::string& identity) {
  for (const auto& [name, health] : health_)
    if (identity_of(name) == identity) judge(name, Health::Change::kNone, /*good=*/false, /*lied=*/true);
}

/// They go to others, without blame for their candidates.
void Farm::take_leases_back(const Peer& peer) {
  // A copy: release() takes them out of the worker's set.
  const std::set<LeaseId> leases = workers_.at(peer).leases;
  for (LeaseId id : leases) {
    send(peer, wire::Cancel{id});
    release(id, /*lost=*/false);
  }
}

void Farm::pause(const Peer& peer, const std::string& why) { explain(peer, "no leases for now: " + why); }

/// Tells the worker why it gets less than it asks for; one of an older version would not understand.
void Farm::explain(const Peer& peer, std::string why) {
  if (workers_.at(peer).version >= wire::kCanaryVersion)
    send(peer, wire::Refusal{wire::Refusal::Code::kPaused, std::move(why)});
}

// --- failures that may be the worker's own

/// Many candidates fail, and one that does says nothing of its worker. But after some in a row, the next is
/// tried elsewhere too before it counts; and so is one whose times cannot be (`impossible`), at once.
/// An invalid trace fails everywhere alike, and who is lost says nothing of the candidate. Only once a trial:
/// two workers that both fail with it agree.
bool Farm::wants_second_opinion(const Trial& trial, const Worker& worker, const wire::Result& result,
                                bool impossible) const {
  const bool failed = result.outcome != Outcome::kOk && result.outcome != Outcome::kInvalidTrace &&
                      result.outcome != Outcome::kWorkerLost;
  return failed && (impossible || worker.failures >= kFailuresToDoubt) && trial.past().doubted.empty() &&
         runs(worker, lane_of(*trial.spec)) && has_another(trial, worker);
}

void Farm::doubt(Trial& trial, const std::string& worker, LeaseId lease, bool lied) {
  // It may wait already, when a result comes late: it keeps its place, among others of its like.
  unfile_retry(trial);
  Past& past = trial.make_past();
  past.avoid = past.doubted = worker;
  if (past.place != 0) file_retry(trial);
  // The worker repeats its result, since it was not recorded; that copy would else be the second opinion.
  past.doubted_lease = lease;
  past.doubted_lie = lied;
  // A result of an earlier lease leaves the one in force alone: whoever has it gives the second opinion.
  if (trial.lease == lease) release(lease, /*lost=*/false);
}

void Farm::blame(const std::string& name, TrialId trial, bool lied) {
  const auto health = health_.find(name);
  if (health == health_.end()) return;  // so many came after it that nothing is known of it
  const Health::Change change = health->second.blame(trial, lied);
  judge(name, change, /*good=*/false,
        change == Health::Change::kSuspect && health->second.said_what_cannot_be());
}

// --- words against words

/// What workers of the class say.
std::vector<Word> Farm::words_of(const std::vector<Testimony>& said, const std::string& device_class) const {
  std::map<std::string, std::vector<double>> seconds;
  for (const Testimony& one : said)
    if (!one.suspect && one.device_class == device_class) seconds[one.worker].push_back(one.seconds);
  std::vector<Word> words;
  for (auto& [name, its] : seconds) {
    Word word{.worker = name, .seconds = median(std::move(its))};
    if (const auto key = keys_.find(name); key != keys_.end()) word.owner = owner_of(key->second);
    if (const auto health = health_.find(name); health != health_.end())
      word.compute = health->second.row().compute, word.memory = health->second.row().memory;
    words.push_back(std::move(word));
  }
  return words;
}

/// The worker has measured again what others had `said` before. Of three that speak of a candidate two may
/// show that the third lies; of two nobody knows which.
void Farm::compare(std::vector<Testimony> said, const Worker& worker, CandidateId candidate, double seconds) {
  const bool was_open = !find_dispute(words_of(said, worker.device_class)).open.empty();
  said.push_back({worker.name, worker.device_class, seconds});
  const Dispute dispute = find_dispute(words_of(said, worker.device_class));
  if (!was_open && !dispute.open.empty())
    effects_->notes.push_back(dispute.open + ": the slower counts until another worker tells");
  for (const Contradicted& one : dispute.contradicted) {
    const auto liar = health_.find(one.worker);
    if (liar == health_.end()) continue;  // as in blame()
    judge(one.worker, liar->second.contradict(candidate, one.reason), /*good=*/false, /*lied=*/true);
  }
}

/// Of the same class, and free to take the trial sooner or later.
bool Farm::has_another(const Trial& trial, const Worker& worker,
                       const std::function<bool(const Worker&)>& wanted) const {
  const Lane lane = lane_of(*trial.spec);
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const Worker& other = entry.second;
    // Of the same class of devices, for times of two classes cannot be compared; credit() is 0 of whoever is
    // drained or suspect, so that nothing waits for somebody who will not come.
    return other.name != worker.name && other.credit() > 0 && other.device_class == worker.device_class &&
           runs(other, lane) && (!wanted || wanted(other));
  });
}

/// First those that have said nothing of it, since two that agree tell who lies; then any but the last.
bool Farm::prefers_another(const Trial& trial, const Worker& worker) const {
  const Past& past = trial.past();
  const auto is_new = [&](const Worker& candidate) {
    return candidate.name != past.avoid &&
           std::none_of(past.said.begin(), past.said.end(),
                        [&](const Testimony& one) { return one.worker == candidate.name; });
  };
  if (past.said.empty()) return worker.name == past.avoid && has_another(trial, worker);
  return !is_new(worker) &&
         (has_another(trial, worker, is_new) || (worker.name == past.avoid && has_another(trial, worker)));
}

// --- what administrators say

void Farm::manage(const Manage& event) {
  const bool drains = event.order == Manage::Order::kDrain;
  if (event.order == Manage::Order::kTrust) {
    if (const auto health = health_.find(event.worker); health != health_.end()) {
      // Whoever is not connected may be trusted too: its row is what counts when it comes back.
      health->second.trust();
      effects_->records.push_back(Examined{.health = health->second.row()});
    }
  } else {
    drains ? (void)drained_.insert(event.worker) : (void)drained_.erase(event.worker);
    effects_->records.push_back(Drained{event.worker, drains});
  }
  // At most one is connected under a name (greet), but the map is by connection.
  for (auto& [peer, worker] : workers_) {
    if (worker.name != event.worker) continue;
    worker.suspect = health_of(worker).suspect();
    worker.drained = drained_.contains(worker.name);
    if (drains) pause(peer, kDrained);
  }
}

}  // namespace lathe::tracker
