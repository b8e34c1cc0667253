// The jobs that a tracker owns (D16): starts a searcher process for each, as many as are allowed at once, and
// sees them through crashes, pauses, cancellation and restarts of the tracker itself.
//
//   queued -> running -> done | failed | cancelled
//      ^---- stopped <-'
//
// All that decides what happens next is in the database: a tracker killed at any moment goes on where it was.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "db/store.h"
#include "tracker/defaults.h"
#include "tracker/device_choice.h"
#include "tracker/device_class.h"
#include "tracker/farm_client.h"
#include "tracker/needs.h"
#include "tracker/own_folder.h"

namespace lathe::tracker {

struct KeeperSettings {
  std::string database;
  std::string folder;                 // of models and results
  size_t searches = 4;                // at once
  std::vector<std::string> searcher;  // the command; its descriptor 3 is the link (search_link.h)
  /// The complete text of a target that names a processor. Throws Error for one that does not exist.
  std::function<std::string(const std::string&)> resolve_target;
  LackingFeatures lacking;                           // empty: any CPU of the architecture will do
  std::function<void(const std::string& line)> log;  // from any thread; may be empty
  /// What all jobs of an owner may keep, in bytes. From any thread; empty: what is usual.
  std::function<uint64_t(const std::string& owner)> kept_bytes;
  uint64_t search_bytes = defaults::kSearchBytes;  // of a search's folder, besides what its model takes
  /// So long a search whose devices have gone keeps its place, while others could use it.
  std::chrono::milliseconds gives_way = defaults::kGivesWay;
  /// So long a job that has begun waits for them; then it ends with what it has.
  std::chrono::milliseconds waits_for_devices = defaults::kWaitsForDevices;
};

class JobKeeper {
 public:
  /// Takes up the jobs of the database that are queued or running. `farm` outlives it.
  JobKeeper(KeeperSettings settings, ServiceFarm& farm);
  /// Stops the searchers; their jobs go on with the next tracker.
  ~JobKeeper();

  /// A job was added.
  void wake();
  // Each is false when the job's state does not allow it. In the database when they return; a searcher ends a
  // little later, of itself or by SIGKILL.
  bool cancel(db::ServedJobId id);
  bool pause(db::ServedJobId id);
  bool resume(db::ServedJobId id);

  /// Throws db::DatabaseError when its folder has gone: no search can end well.
  void require_folder() const { folder_.require_held(); }
  std::string job_folder(const std::string& uuid) const;
  /// Where an uploaded model lies, under the digest of its bytes.
  std::string blob_path(const std::string& digest) const;

 private:
  struct Search;
  struct Order;
  struct Life;

  /// What decides which device classes there are: of each worker its device's text, its back ends and slots.
  struct Seat {
    std::shared_ptr<const ToldDevice> device;
    std::vector<std::string> backends;
    uint32_t slots = 0;
    /// A worker that comes again with what it said before is no change.
    bool operator==(const Seat& other) const {
      return (device == other.device || device->text == other.device->text) && backends == other.backends &&
             slots == other.slots;
    }
  };
  using Fleet = std::vector<Seat>;
  /// The class for a target's text and a wanted device, or why there is none.
  struct Choice {
    std::optional<DeviceClass> device;
    bool is_ready = false;  // some of its devices take leases now
    std::string why;
    bool is_damaged = false;  // the request: no device ever has what it wants
    bool is_over = false;     // they have gone for good, and nothing can be built for them
  };
  using Choices = std::map<std::tuple<std::string, std::string, Properties>, Choice>;
  /// When the devices of a job that has begun were last seen to measure; for people by the wall clock.
  struct Seen {
    std::chrono::steady_clock::time_point at = std::chrono::steady_clock::now();
    int64_t wall_ms = 0;
  };
  /// One that is not searched, for want of them.
  struct Absence {
    std::string device_class;
    Properties needs;
    Seen seen;
  };

  void keep();
  void watch_folders();
  void start_some(db::Store& store, bool woken);
  void tell_what_searches_wait_for(db::Store& store);
  std::string what_it_waits_for(const std::string& devices, ClassSlots slots, const Seen& seen) const;
  bool is_given_up(const Seen& seen) const;
  void await_devices(db::Store& store, const db::ServedJob& job, Choice& choice);
  void tell_that_places_are_taken(db::Store& store, std::map<std::string, std::vector<db::ServedJob>> queues,
                                  const FarmStatus& farm, Choices& known);
  void free_a_place(db::Store& store, const FarmStatus& farm);
  void start(db::Store& store, const db::ServedJob& job, DeviceClass device);
  Choice find_device(const db::ServedJob& job, const FarmStatus& farm, Choices& known) const;
  void run(Search& search, db::Store& store);
  bool run_once(Search& search, db::Store& store);
  Order prepare_order(const Search& search, db::Store& store) const;
  std::optional<Life> live(Search& search, db::Store& store, Order made);
  bool settle(const db::ServedJob& job, db::Store& store, const Life& life);
  bool end(db::ServedJobId id, db::JobState state, int signal);
  void cancel_trials(db::Store& store, db::ServedJobId id);
  void log(const std::string& line) const;

  const KeeperSettings settings_;
  ServiceFarm& farm_;
  const FolderInUse folder_;

  std::mutex deciding_;  // what state a job has next; taken before mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  bool awake_ = true, closing_ = false;
  std::map<db::ServedJobId, std::unique_ptr<Search>> searches_;
  Fleet fleet_;                                   // of the last look; of keep()'s thread
  bool waits_for_fleet_ = false;                  // some job found no device then
  std::map<db::ServedJobId, Absence> absences_;   // of keep()'s thread
  std::chrono::steady_clock::time_point told_{};  // what searches wait for
  std::thread thread_;
};

}  // namespace lathe::tracker
