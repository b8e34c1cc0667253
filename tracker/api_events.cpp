#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/support/bounded_json.h"
#include "tracker/api_impl.h"
#include "tracker/search_link.h"

namespace lathe::tracker {

using http::Response;

Response Api::Impl::job_events(const Call& call) { return events(call, job_of(call).id); }

/// From the beginning for one job, from now on for all, or from where the client was when it lost us.
Response Api::Impl::events(const Call& call, db::ServedJobId id) {
  const std::string& user = call.principal.name;
  // Each holds a connection for as long as it likes, of which the server has a bounded number.
  if (streams[user] >= defaults::kStreamsOfOne)
    throw Refused{
        429,
        fmt::format("{} has {} event streams open, which is as many as may be", user, streams[user]),
        {{"Retry-After", "10"}}};
  ++streams[user];
  // Counted until the last copy of the stream goes, however its connection ends.
  const std::shared_ptr<void> open(nullptr, [this, user](void*) {
    if (--streams[user] == 0) streams.erase(user);
  });
  Response response;
  // A job's are few and tell its story; those of all jobs would be the whole past.
  response.first_event = id == 0 ? store.last_event() : 0;
  if (const std::string& last = call.request.last_event_id; !last.empty()) {
    const std::optional<int64_t> id_told = whole_number(last);
    if (!id_told) throw Refused{400, fmt::format("Last-Event-ID: {} is no number", last), {}};
    // A number that is still to come is of a later database, in whose place a backup was put: what follows it
    // here has smaller ones.
    if (*id_told <= store.last_event()) response.first_event = *id_told;
  }
  // Called by the server every kEventPause (http_server.cpp), on its thread; `last` ends the stream.
  response.events = [this, id, open, principal = call.principal, token = call.request.token, look = true](
                        int64_t after, bool& last) mutable {
    const std::string& user = principal.name;
    const Worked worked(work, user);
    std::vector<http::Event> list;
    // Asked each time, several times a second: S5 gives five seconds.
    last = !principals.find(token);  // revoked meanwhile
    if (last) return list;
    // Later, when its user's time is used up: what is new is in the database until then.
    if (!has_time(principal)) return list;
    // Whether it is over is asked first: what was told before that is then in the list.
    // Not each time, for its row has its report.
    last = id != 0 && std::exchange(look, false) && db::is_final(store.served_job(id).state);
    // The thread is everybody's: a long past goes out a piece at a time.
    constexpr int kAtOnce = 200;
    // And small ones, as each is held until its client has taken it.
    constexpr size_t kBytesAtOnce = 1 << 20;
    std::map<db::ServedJobId, std::string> rows;
    for (db::Event& event : store.served_events_after(id, after, kAtOnce, kBytesAtOnce)) {
      std::string data = std::move(event.body);
      look |= event.kind == "state";
      // Each state is told as it is now, which takes milliseconds to say.
      if (event.kind == "state" && event.served_job) {
        std::string& row = rows[*event.served_job];
        if (row.empty()) {
          const db::ServedJob job = store.served_job(*event.served_job);
          row = json_line(job_json(job, figures_of(job), store));
        }
        data = row;
      }
      if (event.kind.starts_with(kScheduleEvent)) data = "{}";  // long: its route has it
      // An end of line would end the event: JSON has none within its strings.
      std::erase(data, '\n');
      list.push_back({event.id, event.kind, std::move(data)});
    }
    return list;
  };
  return response;
}

}  // namespace lathe::tracker
