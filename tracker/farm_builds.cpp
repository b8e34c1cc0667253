// What runners without a compiler need: candidates built elsewhere. Builds are kept, measurements never.
#include <algorithm>
#include <tuple>

#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {

using namespace defaults;
using Verdict = wire::ResultAck::Verdict;

/// Runners are to find something built whenever they are free, and no more than that is built ahead.
/// More would be built for nothing when a job is cancelled, and would push out of the store
/// what others still need.
bool Farm::wants_builds(const Lane& lane) const {
  // Counted once for all who are to be given leases in this step (assign): none of these changes meanwhile.
  const auto [slots, is_new] = runner_slots_.try_emplace(lane);
  if (is_new)
    for (const auto& [peer, worker] : workers_)
      // Whoever builds for itself waits for no build.
      if (worker.runner_only && runs(worker, lane)) slots->second += worker.credit();
  if (slots->second == 0) return false;
  size_t ahead = 0;
  // All of a lane but its owner: runners are shared, so what is ahead for one owner is not ahead for another
  // to add to. Not of other needs: those who meet them all may be few, and builds that others run keep nobody
  // from building for these.
  const auto runners_of = [](const Lane& of) {
    return std::tie(of.platform, of.device_class, of.needs, of.is_open);
  };
  const auto same_runners = [&](const Lane& other) { return runners_of(other) == runners_of(lane); };
  for (const auto& [other, queue] : ready_)
    if (same_runners(other)) ahead += queue.trials.size();
  for (const auto& [other, leases] : building_)
    if (same_runners(other)) ahead += leases;
  return ahead < slots->second;
}

std::optional<Farm::Offer> Farm::take_unbuilt(const Worker& worker) {
  const TrialId id =
      pop(pending_, [&](const Lane& lane) { return builds(worker, lane) && wants_builds(lane); });
  return id != 0 ? std::optional(Offer{id, wire::Part::kBuild}) : std::nullopt;
}

/// The next trial whose build is there, or 0. One whose build had to go meanwhile is to be built again.
TrialId Farm::take_ready(const Worker& worker) {
  while (const TrialId id = pop(ready_, [&](const Lane& lane) { return runs(worker, lane); })) {
    const Trial& trial = trials_.at(id);
    if (is_built(trial)) return id;
    // To the front: it has waited its turn once.
    queue_of(pending_, lane_of(*trial.spec)).trials.push_front(id);
  }
  return 0;
}

void Farm::queue_built(Trial& trial) {
  // By the rule of queue(): what cares who runs it goes where that is looked at.
  if (std::as_const(trial).past().avoid.empty())
    queue_of(ready_, lane_of(*trial.spec)).trials.push_back(trial.id);
  else
    queue_retry(trial);
}

/// Whether such a program has built the same before; then runners may have the trial.
bool Farm::recall_build(Trial& trial, const std::string& revision) {
  const Build* known = builds_.find({trial.candidate, revision});
  if (!known) return false;
  trial.make_past().build = *known;
  queue_built(trial);
  return true;
}

// A worker may say it as often as it likes until it is acknowledged; what is fetched already is
// not asked for again.
void Farm::on(const Peer& peer, const wire::Built& built) {
  const Worker& worker = workers_.at(peer);
  const auto lease = leases_.find(built.lease);
  // Of this worker, for this trial, which is no race, and by somebody who builds for its platform. Not by the
  // lease's part, which a restart of ours forgets (adopt).
  const bool in_force = lease != leases_.end() && lease->second.peer == peer &&
                        lease->second.trial == built.trial && !trials_.at(built.trial).spec->race &&
                        worker.builds_for(platform_of(trials_.at(built.trial).spec->target));
  if (!in_force) {
    send(peer, wire::ResultAck{built.lease,
                               recent_set_.contains(built.lease) ? Verdict::kDuplicate : Verdict::kStale});
    return;
  }
  // Of what the store holds no piece is asked for, so that nothing else would tell: whoever the trial is for
  // would be charged for bytes that are not there, and its own builds go for them.
  for (const wire::Blob& blob : {built.artifact, built.reference})
    if (builds_.has_other_size(blob))
      return expel(peer, "a size that is not that of its digest", /*lied=*/true);
  if (!fetches_.contains(built.lease)) {
    // Each holds its bytes in memory until they are whole and checked.
    if (fetches_.size() >= kBuildsFetched && !free_place(worker)) return;  // the worker says it again
    fetches_[built.lease] = {.built = built, .progress = now_};
  }
  advance(peer, built.lease);
}

/// Whoever holds most places gives one up, its last, to a worker that would still have no more with it: its
/// builder says it again. Else who sends small pieces slowly keeps all others from being fetched. All workers
/// of an owner are one, whatever keys they have; beside each other they are by their keys.
bool Farm::free_place(const Worker& worker) {
  using Places = std::map<std::string, std::vector<LeaseId>>;
  const std::string owner = voice_of(worker.name);
  Places all, own;
  for (const auto& [id, fetch] : fetches_) {
    const std::string& builder = leases_.at(id).worker;
    const std::string its_owner = voice_of(builder);
    all[its_owner].push_back(id);
    if (its_owner == owner) own[identity_of(builder)].push_back(id);
  }
  const auto gives_way = [&](Places& places, const std::string& to) {
    const size_t has = places[to].size();
    const auto most = std::max_element(places.begin(), places.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    if (most->second.size() < has + 2) return false;
    fetches_.erase(most->second.back());
    return true;
  };
  return gives_way(all, owner) || gives_way(own, identity(worker));
}

/// Asks for the next piece of what the store lacks.
void Farm::advance(const Peer& peer, LeaseId id) {
  Fetch& fetch = fetches_.at(id);
  // One at a time and one piece at a time: a piece is asked for when the last has come, so a builder never
  // has more on its way than one chunk, and heartbeats get through between them.
  for (const wire::Blob& blob : {fetch.built.artifact, fetch.built.reference})
    if (!fetch.coming && !builds_.holds(blob.digest) && !fetch.here.contains(blob.digest))
      fetch.coming.emplace(blob);
  if (fetch.coming)
    send(peer, fetch.coming->next(id));
  else
    complete(peer, id);
}

void Farm::on(const Peer& peer, const wire::BlobChunk& chunk) {
  // A chunk names its blob and no lease, as one blob may serve several; kBuildsFetched bounds the walk.
  for (auto& [id, fetch] : fetches_) {
    if (leases_.at(id).peer != peer || !fetch.coming || !fetch.coming->add(chunk)) continue;
    fetch.progress = now_;
    if (fetch.coming->complete()) {
      // The digest is what the store files it under, and what other runners ask for: wrong bytes
      // would be run as another's.
      if (!fetch.coming->verify())
        return expel(peer, "bytes that are not what their digest says", /*lied=*/true);
      fetch.here[chunk.digest] = fetch.coming->take();
      fetch.coming.reset();
    }
    return advance(peer, id);
  }
}

void Farm::complete(const Peer& peer, LeaseId id) {
  // Ending the lease erases the fetch.
  Fetch fetch = std::move(fetches_.at(id));
  Trial& trial = end_lease(id, /*lost=*/false);
  const std::string& revision = workers_.at(peer).revision;
  const Build build{fetch.built.artifact, fetch.built.reference, revision};
  trial.make_past().build = build;
  // Stored before the record of the end is committed and before any runner hears of it (the
  // order of Effects).
  for (auto& [digest, bytes] : fetch.here) effects_->stored.push_back({digest, std::move(bytes)});
  for (std::string& digest : builds_.add({trial.candidate, revision}, build, trial.spec->owner))
    effects_->stored.push_back({std::move(digest), std::nullopt});
  queue_built(trial);
  remember(id);
  send(peer, wire::ResultAck{id, Verdict::kRecorded});
}

void Farm::on(const Peer& peer, const wire::BlobGet& get) {
  const bool in_force = workers_.at(peer).leases.contains(get.lease);
  if (in_force) {
    const Trial& trial = trials_.at(leases_.at(get.lease).trial);
    // A race's modules are files of its job's folder, not of the store of builds.
    if (auto module = find_module(trial, get.digest)) {
      effects_->wanted.push_back({peer, get, std::move(module)});
      return;
    }
    // Nobody reads by digest what its lease does not name: a store has the builds of all users.
    const bool is_its = is_built(trial) && (get.digest == trial.past().build->artifact.digest ||
                                            get.digest == trial.past().build->reference.digest);
    if (is_its) {
      effects_->wanted.push_back({peer, get, nullptr});
      return;
    }
  }
  // The lease is void; or the build went while the lease was on its way, or with the tracker's last life.
  send(peer, wire::Cancel{get.lease});
  // Not lost: the candidate has done nothing wrong, and is to be built again.
  if (in_force) release(get.lease, /*lost=*/false);
}

/// A builder that does not go on leaves its place to others.
void Farm::drop_idle_fetches() {
  std::erase_if(fetches_, [&](const auto& entry) { return now_ - entry.second.progress >= kSilence; });
}

}  // namespace lathe::tracker
