#include <fmt/core.h>

#include <climits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "tracker/api_impl.h"

namespace lathe::tracker {

using http::Response;

namespace {

/// A model that is on its way here.
struct Upload final : http::Sink {
  Upload(ContentStore& store, const Principal& user, WorkShares& shares)
      : work(shares), name(user.name), incoming(store, {user.name, user.model_bytes}) {}
  // On the server's thread, between two reads of the socket: a write to the page cache, no wait for the disk.
  void add(std::string_view bytes) override {
    const Worked worked(work, name);
    try {
      incoming.add(bytes);
    } catch (const ShareFull& full) {
      throw http::TooLarge(full.what());
    }
  }
  // On a thread for the disk: an fsync of gigabytes takes seconds, in which others are to be answered.
  void complete() override { incoming.sync(); }
  WorkShares& work;
  const std::string name;
  ContentStore::Incoming incoming;
};

}  // namespace

/// Those of jobs that have not ended. Where the store is full, each piece of an upload asks: the database is
/// looked through only when something has happened, and a job that comes or ends is an event.
ContentStore::Pinned Api::Impl::models_in_use() {
  const int64_t now = store.last_event();
  if (std::exchange(pinned_at, now) == now) return pinned;
  pinned.clear();
  // Paused ones too: they go on with the same model, whenever that is.
  for (const db::JobState state : {db::JobState::kQueued, db::JobState::kRunning, db::JobState::kStopped})
    for (const db::ServedJob& job : store.served_jobs({.state = state, .limit = INT_MAX})) try {
        pinned[string_member(parse_bounded_json(job.request, 8, "a job"), "model_digest")].insert(job.owner);
      } catch (const Error&) {
        // A row that is not ours to read needs no model, and keeps nobody else from uploading.
      }
  return pinned;
}

Response Api::Impl::has_blob(const Call& call) {
  if (!is_digest(call.part)) throw Refused{400, "a model is named by its sha256, 64 hexadecimal digits", {}};
  const std::optional<uint64_t> bytes = models.find(call.part);
  if (!bytes) throw Refused{404, "it is not here", {}};
  return json_response({{"digest", call.part}, {"bytes", *bytes}});
}

Response Api::Impl::put_blob(const Call& call) {
  if (!is_digest(call.part)) throw Refused{400, "a model is named by its sha256, 64 hexadecimal digits", {}};
  // Api::sink made it by the same table, but for somebody whose token was not known at that moment.
  if (!call.request.sink) throw Refused{401, "the token was not known here when the upload began", {}};
  ContentStore::Incoming& model = static_cast<Upload&>(*call.request.sink).incoming;
  // The name is the digest, so that nobody can put other bytes under a model that others have named.
  if (model.digest() != call.part)
    throw Refused{400, fmt::format("the bytes have the sha256 {}, not {}", model.digest(), call.part), {}};
  try {
    model.keep();
  } catch (const ShareFull& full) {  // a job has begun to need what might have gone
    throw Refused{413, full.what(), {}};
  }
  return json_response({{"digest", call.part}}, 201);
}

std::shared_ptr<http::Sink> Api::sink(const http::Request& request) {
  std::string part;
  bool known_path = false;
  const Impl::Route* route = impl_->find(request, part, known_path);
  if (!route || route->handle != &Impl::put_blob) return nullptr;
  // admit() has let it in; the file of principals may have changed in between. handle() says so then.
  const std::optional<Principal> user = impl_->principals.find(request.token);
  if (!user) return nullptr;
  return std::make_shared<Upload>(impl_->models, *user, impl_->work);
}

}  // namespace lathe::tracker
