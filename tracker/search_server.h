// The tracker's end of a searcher's socket (search_link.h): does for the job what the searcher asks, and for
// no other job, whatever the searcher has become by reading its model.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "db/store.h"
#include "tracker/defaults.h"
#include "tracker/farm_client.h"
#include "tracker/search_link.h"
#include "tracker/search_quota.h"

namespace lathe::tracker {

/// What a searcher left behind: nothing, unless it came to the end of its job.
struct SearchEnding {
  bool done = false;
  std::string report, text;  // JSON, and for people
  int64_t kept_bytes = 0;    // in the database, by the whole job
};

class SearchServer {
 public:
  /// REQUIRES: store and farm outlive it; the thread's own store. `silence`: between two calls. Throws Error
  /// for an order whose request is none.
  /// `kept_bytes`: what all jobs of the owner may keep in the database. `given_up`: its devices have gone,
  /// and are not waited for any more; empty: they always are.
  SearchServer(int socket, SearchOrder order, db::ServedJob job, db::Store& store, ServiceFarm& farm,
               std::chrono::seconds silence = defaults::kSearchSilence,
               uint64_t kept_bytes = defaults::kKeptBytesOfOne, std::function<bool()> given_up = {});
  /// Nobody waits any more for a race that it began.
  ~SearchServer();
  SearchServer(const SearchServer&) = delete;
  SearchServer& operator=(const SearchServer&) = delete;

  /// Answers until the searcher closes its end. Throws Error for a searcher that sends nonsense or is silent
  /// for too long, QuotaError (search_quota.h) for one that wants to keep too much, and when the store or the
  /// farm fails.
  SearchEnding serve();

 private:
  nlohmann::json answer(const nlohmann::json& question);
  nlohmann::json begin(const nlohmann::json& question);
  nlohmann::json submit(const nlohmann::json& question);
  nlohmann::json poll(const nlohmann::json& question);
  nlohmann::json race(const nlohmann::json& question);
  void choose(const nlohmann::json& question);
  void add_latency(const nlohmann::json& question);
  void checkpoint(const nlohmann::json& question);
  void tell(const nlohmann::json& question);
  void require_begun() const;
  void note_kept();
  size_t checkpoint_bytes() const;

  const int socket_;
  const SearchOrder order_;
  const db::ServedJob served_;
  db::Store& store_;
  ServiceFarm& farm_;
  const std::chrono::seconds silence_;
  const std::function<bool()> given_up_;
  db::JobId job_ = 0;                           // of the search, once it has begun
  db::ChoiceKey model_;                         // of its builds
  std::map<db::WorkloadId, size_t> workloads_;  // with the bytes of their checkpoints
  size_t model_bytes_ = 0;                      // of its cost model
  SearchQuota quota_;
  double flops_ = 0;  // of one run of the model, in all tasks
  std::set<std::vector<int64_t>>
      raced_dims_;      // the sizes that it has raced at; one, of none, where none is open
  TrialId race_ = 0;    // that goes on
  bool raced_ = false;  // it has got the turns
  bool has_latency_ = false;
  SearchEnding ending_;
};

}  // namespace lathe::tracker
