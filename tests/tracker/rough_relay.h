// A relay between workers and a tracker that loses, doubles and reorders whole messages, and cuts all
// connections now and then. Real sockets and keys on both sides; what it does to them is what TCP never does
// and what a process in between may.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "tracker/wire/socket.h"

namespace lathe::tracker::testing {

struct RelaySettings {
  std::string tracker;          // where to
  wire::ClientKeys to_tracker;  // the relay's, for all workers: they are told apart by their peer names
  wire::KeyPair own;            // to whom workers connect
  int drop = 5, twice = 5, reorder = 10;  // percent of messages, each way
  std::chrono::milliseconds cut_every{2000};
};

struct RelayReport {
  uint64_t passed = 0, dropped = 0, doubled = 0, reordered = 0, cuts = 0;
};

class RoughRelay {
 public:
  explicit RoughRelay(RelaySettings settings);
  ~RoughRelay();

  const std::string& endpoint() const;  // for workers
  /// On one thread.
  void serve(const std::stop_token& stop);
  const RelayReport& report() const;

 private:
  class Pipes;
  std::unique_ptr<Pipes> pipes_;
};

}  // namespace lathe::tracker::testing
