// What a worker's key allows: to measure at all, under which names, and how much of it.
#include <algorithm>

#include "core/support/error.h"
#include "tracker/farm.h"

namespace lathe::tracker {

/// Null for a key that is not listed any more.
const Principal* Farm::principal_of(const std::string& key) const {
  static const Principal kAnybody{.role = Role::kWorker};
  // A tracker without keys, or with --allow alone: the socket's gatekeeper has said all there is to say.
  if (!listed_) return &kAnybody;
  const auto found = listed_->find(key);
  return found == listed_->end() ? nullptr : &found->second;
}

/// Why no worker of that name may serve by that key; nothing when one may.
/// Whoever is not allowed gives up; who is one too many comes back later, and so is told kFull last,
/// when all else is well.
std::optional<wire::Refusal> Farm::objection(const std::string& name, const std::string& key) const {
  using wire::Refusal;
  using Code = Refusal::Code;
  const Principal* principal = principal_of(key);
  if (!principal)
    return Refusal{Code::kNotAllowed, fmt::format("the key of worker `{}` is not listed any more", name)};
  if (!may_measure(principal->role))
    return Refusal{Code::kNotAllowed, fmt::format("the key of worker `{}` is {}'s, a {}, who may not measure",
                                                  name, principal->name, to_string(principal->role))};
  if (!principal->worker_names.empty() && !principal->owns(name))
    return Refusal{Code::kNotAllowed, fmt::format("workers of {} are called `{}`, not `{}`", principal->name,
                                                  principal->worker_names, name)};
  // The other way round too: a name that is kept for one key is nobody else's, even while its owner is away.
  if (listed_ && !principal->owns(name))
    for (const auto& [other, owner] : *listed_)
      if (owner.owns(name))
        return Refusal{Code::kNotAllowed, fmt::format("the name `{}` is kept for {}", name, owner.name)};
  // Of another name: the same one is this worker's own last life, which goes when it is greeted.
  const auto others =
      static_cast<size_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
        return entry.second.key == key && entry.second.name != name;
      }));
  if (others >= principal->workers)
    return Refusal{Code::kFull, fmt::format("{} may have {} workers at once, and worker `{}` is one more",
                                            principal->name, principal->workers, name)};
  return std::nullopt;
}

/// Of the leases that the worker asks for, those that its key leaves it beside the others that came with it:
/// beside what they may hold, and what they do hold.
uint32_t Farm::allowed_slots(const Peer& peer, uint32_t asked) {
  Worker& worker = workers_.at(peer);
  const Principal& principal = *principal_of(worker.key);
  uint32_t others = 0;
  // What they hold counts where it is more than what they may: a cap that was lowered takes no leases away,
  // but no others get what is left until those end.
  for (const auto& [other, theirs] : workers_)
    if (other != peer && theirs.key == worker.key)
      others += std::max(theirs.slots, static_cast<uint32_t>(theirs.leases.size()));
  const uint32_t allowed = std::min(asked, principal.slots - std::min(principal.slots, others));
  // CREDIT is repeated with each heartbeat; it is said when it begins to hold, not every two seconds.
  const bool told = std::exchange(worker.capped, allowed < asked);
  if (worker.capped && !told) {
    const std::string why =
        fmt::format("worker `{}` asks for {} leases at once and gets {}: {} may have {} in all", worker.name,
                    asked, allowed, principal.name, principal.slots);
    effects_->notes.push_back(why);
    explain(peer, why);
  }
  return allowed;
}

/// Whose key is listed no more, or allows less than before, has to go, the newest first; its leases go to
/// others, without blame for their candidates.
void Farm::admit(const Admit& event) {
  listed_ = event.keys;
  std::vector<Peer> peers;
  for (const auto& [peer, worker] : workers_) peers.push_back(peer);
  // So that who was there first stays, whatever the order of the peers' random names.
  std::stable_sort(peers.begin(), peers.end(), [&](const Peer& a, const Peer& b) {
    return workers_.at(a).joined > workers_.at(b).joined;
  });
  for (const Peer& peer : peers) {
    const Worker& worker = workers_.at(peer);
    // Asked one by one, as each goes: the newest are over a lowered limit, and the rest are within it again.
    const auto objection = this->objection(worker.name, worker.key);
    if (!objection) continue;
    if (principal_of(worker.key))
      refuse(peer, worker.version, *objection);
    else  // it hears nothing more
      effects_->notes.push_back(
          fmt::format("worker {} is cut off: its key is not listed any more", worker.name));
    forget_worker(peer, /*lost=*/false);
  }
}

}  // namespace lathe::tracker
