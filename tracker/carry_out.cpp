#include "tracker/carry_out.h"

#include <algorithm>
#include <utility>

namespace lathe::tracker {
namespace {

constexpr size_t kFilledTogether = 64;  // messages: a lease may have megabytes

// The farm had counted it, but the database has another's result for the trial: what is on the
// disk is what is said.
void acknowledge_as_stale(LeaseId lease, std::vector<Outgoing>& messages) {
  for (Outgoing& out : messages)
    if (auto* ack = std::get_if<wire::ResultAck>(&out.message); ack && ack->lease == lease)
      ack->verdict = wire::ResultAck::Verdict::kStale;
}

}  // namespace

std::vector<Unreadable> fill_in(std::span<Outgoing> messages, Journal& journal) {
  std::vector<Outgoing*> leases;
  std::vector<TrialId> trials;
  for (Outgoing& out : messages) {
    if (!out.spec) continue;
    leases.push_back(&out);
    trials.push_back(std::get<wire::Lease>(out.message).trial);
  }
  if (leases.empty()) return {};
  // Read after the commit, so a lease is sent only of what the database holds.
  std::vector<Recipe> recipes = journal.recipes(trials);
  std::vector<Unreadable> unreadable;
  for (size_t i = 0; i < leases.size(); ++i) {
    auto& lease = std::get<wire::Lease>(leases[i]->message);
    if (!recipes[i].problem.empty()) {
      unreadable.push_back({lease.lease, std::move(recipes[i].problem)});
      continue;
    }
    // An unreadable one keeps its spec, by which carry_out() knows not to send it.
    const auto spec = std::exchange(leases[i]->spec, nullptr);
    const double incumbent = lease.evaluation.incumbent_seconds;
    lease.evaluation = recipes[i].evaluation;
    // Whoever confirms wants all samples.
    if (lease.evaluation.incumbent_seconds > 0) lease.evaluation.incumbent_seconds = incumbent;
    lease.seed = recipes[i].seed;
    if (lease.part == wire::Part::kRun) continue;  // a runner needs no more than the code
    lease.workload = *spec->workload;
    lease.target = spec->target;
    lease.trace = std::move(recipes[i].trace);
  }
  return unreadable;
}

std::vector<Unreadable> carry_out(Effects effects, Journal& journal, Outside& outside) {
  // First: a record that says "built" rests on the blob. One that is stored and not recorded
  // is room lost, no more.
  for (const StoreChange& change : effects.stored) outside.store(change);
  if (!effects.records.empty())
    for (LeaseId lease : journal.commit(effects.records)) acknowledge_as_stale(lease, effects.messages);
  for (const std::string& note : effects.notes) outside.log(note);
  std::vector<Unreadable> unreadable;
  const std::span messages(effects.messages);
  for (size_t begin = 0; begin < messages.size(); begin += kFilledTogether) {
    const auto some = messages.subspan(begin, std::min(kFilledTogether, messages.size() - begin));
    for (Unreadable& one : fill_in(some, journal)) unreadable.push_back(std::move(one));
    for (Outgoing& out : some) {
      if (!out.spec) outside.send(out);
      out.message = {};  // what was filled in is needed no more
    }
  }
  // Pieces after leases and acknowledgements, which are short and waited for.
  for (const Wanted& wanted : effects.wanted)
    if (!outside.send_piece(wanted))
      unreadable.push_back({wanted.get.lease, "its module is not what it was when the race began"});
  if (!effects.finished.empty()) outside.tell(std::move(effects.finished));
  return unreadable;
}

}  // namespace lathe::tracker
