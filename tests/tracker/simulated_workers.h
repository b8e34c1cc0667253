// Many workers in one process and thread: each a real Agent on a real (CURVE) connection of its own, and
// nothing built or run behind it. For loads and faults that so many processes would be too much for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tracker/wire/socket.h"

namespace lathe::tracker::testing {

struct SimulatedSettings {
  std::string tracker;  // tcp://HOST:PORT
  std::optional<wire::ClientKeys> keys;
  int count = 1;
  std::string name = "simulated";            // and a number
  std::chrono::milliseconds trial{1};        // what measuring takes, on average; building takes nothing
  uint32_t builders = 1;                     // a worker's, which decide how many leases it holds
  size_t samples = 1;                        // of a result
  std::chrono::milliseconds crash_every{0};  // one of them, at random, and a new life begins; 0: never
};

struct SimulatedReport {
  uint64_t measured = 0, crashes = 0;
  /// From the result that frees a place to the lease that fills it, in milliseconds, sorted; without the
  /// first fifth, when all come at once.
  std::vector<float> grants_ms;
};

class SimulatedWorkers {
 public:
  /// Throws Error on a malformed endpoint.
  explicit SimulatedWorkers(SimulatedSettings settings);
  ~SimulatedWorkers();

  /// Works until asked to stop; then they are gone without a word. On one thread.
  void serve(const std::stop_token& stop);
  SimulatedReport report() const;

 private:
  class Crowd;
  std::unique_ptr<Crowd> crowd_;
};

/// What measuring the trial gives, on every simulated worker.
float simulated_seconds(uint64_t trial);

}  // namespace lathe::tracker::testing
