#include "tracker/carry_out.h"

#include <utility>

namespace lathe::tracker {
namespace {

void acknowledge_as_stale(LeaseId lease, std::vector<Outgoing>& messages) {
  for (Outgoing& out : messages)
    if (auto* ack = std::get_if<wire::ResultAck>(&out.message); ack && ack->lease == lease)
      ack->verdict = wire::ResultAck::Verdict::kStale;
}

}  // namespace

void carry_out(Effects effects, Journal& journal, Outside& outside) {
  for (const StoreChange& change : effects.stored) outside.store(change);
  if (!effects.records.empty())
    for (LeaseId lease : journal.commit(effects.records)) acknowledge_as_stale(lease, effects.messages);
  for (const std::string& note : effects.notes) outside.log(note);
  for (const Outgoing& out : effects.messages) outside.send(out);
  for (const Wanted& wanted : effects.wanted) outside.send_piece(wanted);
  if (!effects.finished.empty()) outside.tell(std::move(effects.finished));
}

}  // namespace lathe::tracker
