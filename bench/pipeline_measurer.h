// Candidates built and measured by the stages of a worker, with no tracker between.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <unordered_map>

#include "core/tir/target.h"
#include "tuner/session.h"
#include "workers/pipeline.h"

namespace lathe::bench {

/// Measures each as a search does, but gives up none early; and remembers nothing: a candidate submitted
/// twice is measured twice. The process must serve "internal-sandbox" (worker::internal_sandbox_main) when it
/// is started with that as its first argument.
class PipelineMeasurer final : public tuner::Measurer {
 public:
  PipelineMeasurer(std::span<const tuner::Task> tasks, const Target& target, int builders);

  void submit(size_t task, std::span<const tuner::Proposal> proposals) override;
  std::vector<tuner::Measured> wait(std::chrono::milliseconds timeout) override;
  size_t in_flight() const override { return waiting_.size(); }
  size_t capacity() const override { return 16; }

  /// Told of each candidate that was built, as it is answered. May be empty.
  std::function<void(const tuner::Measured&, const wire::Result&)> on_ran;

 private:
  void start();

  std::span<const tuner::Task> tasks_;
  std::string target_;
  size_t builders_;
  worker::Pipeline pipeline_;
  struct Waiting {
    tuner::Measured answer;
    wire::Lease lease;
  };
  std::unordered_map<uint64_t, Waiting> waiting_;  // by lease
  std::deque<uint64_t> to_build_;
  std::deque<uint64_t> to_run_;
  size_t building_ = 0;
  bool running_ = false;
  uint64_t last_lease_ = 0;
};

}  // namespace lathe::bench
