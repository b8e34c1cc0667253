// The tracker: a farm with a socket, a journal and a clock. `tune` runs one inside itself, `tune tracker` one
// by itself: the same code.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tracker/defaults.h"
#include "tracker/farm_client.h"
#include "tracker/journal.h"
#include "tracker/principals.h"
#include "tracker/wire/socket.h"

namespace lathe::tracker {

struct TrackerSettings {
  std::string endpoint;  // ipc://PATH, or tcp://HOST:PORT, where * is any free port
  std::optional<wire::ServerKeys> keys;
  /// Whose keys are admitted beside those of `keys`, whatever they are when they change. May be null.
  /// REQUIRES: with it, `keys`.
  std::shared_ptr<Principals> principals;
  /// Who says what owners of jobs weigh, whenever that changes. May be null: their jobs do.
  std::shared_ptr<Principals> users;
  /// Called once, on the tracker's thread, which is the only one to use what it returns.
  std::function<std::unique_ptr<Journal>()> open_journal;
  /// Folder of its own for what is built for runners; "": a temporary one. What it holds at most, in bytes.
  std::string artifacts;
  uint64_t artifact_bytes = defaults::kTrackerStoreBytes;
  /// Told what happens, a line at a time, on the tracker's thread. May be empty.
  std::function<void(const std::string& line)> log;
};

class Tracker final : public ServiceFarm {
 public:
  /// Serves on a thread of its own from here on. Throws Error when it cannot listen or open its journal.
  explicit Tracker(TrackerSettings settings);
  /// Gives no more leases, writes down what has come, and stops.
  ~Tracker() override;

  const std::string& endpoint() const;

  std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) override;
  std::vector<Finished> poll(JobId job, std::chrono::milliseconds timeout) override;
  size_t in_flight(JobId job) override;
  FarmStatus status() override;
  void cancel(JobId job) override;
  TrialId race(TrialSpec spec) override;
  void cancel_race(TrialId race) override;
  void leave(JobId job) override;
  /// On disk when it returns. False when no worker of that name was ever here.
  bool manage(const Manage& order);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace lathe::tracker
