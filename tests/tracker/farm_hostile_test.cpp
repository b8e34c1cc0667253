// Peers that say anything at any time: well-formed messages in no sensible order. MemoryJournal aborts when
// the farm writes down what cannot be, and the farm's own CHECKs when it loses its way.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/tracker/farm_bench.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {
namespace {

class Chaos {
 public:
  explicit Chaos(uint32_t seed)
      : random_(seed), farm_(std::make_unique<Farm>(journal_.start(), now_, /*store_bytes=*/10)) {}

  void step() {
    now_ += Time(pick(400));
    switch (pick(12)) {
      case 0:
        return feed(Submit{believable(journal_.add(1 + pick(2), std::vector<Candidate>(pick(3))))});
      case 1:
        return feed(Tick{});
      case 2:
        if (pick(20) == 0) feed(CancelJob{1 + pick(2)});
        return;
      case 3:
        if (pick(50) == 0) farm_ = std::make_unique<Farm>(journal_.start(), now_, /*store_bytes=*/10);
        return;
      default:
        return feed(Received{std::string(1, static_cast<char>('a' + pick(5))), message(),
                             pick(10) == 0 ? "another key" : ""});
    }
  }

  void expect_consistent() {
    size_t open = 0;
    for (const auto& entry : journal_.entries()) open += entry.terminal == 0;
    EXPECT_EQ(farm_->open(1) + farm_->open(2), open);
    const FarmStatus status = farm_->status(now_);
    EXPECT_EQ(status.pending + status.leased, open);
  }

 private:
  uint64_t pick(uint64_t bound) { return random_() % bound; }

  /// Some times are too short for them.
  static std::vector<Submission> believable(std::vector<Submission> trials) {
    for (Submission& trial : trials) {
      TrialSpec spec = *trial.spec;
      spec.fastest_seconds = 0.5;
      trial.spec = std::make_shared<TrialSpec>(spec);
    }
    return trials;
  }

  void feed(const Event& event) {
    Effects effects;
    farm_->step(event, now_, effects);
    journal_.commit(effects.records);
    for (const Outgoing& out : effects.messages)
      if (const auto* lease = std::get_if<wire::Lease>(&out.message)) leases_.push_back(*lease);
  }

  /// A lease that was given to somebody, or one that never was.
  wire::Lease some_lease() {
    if (leases_.empty() || pick(10) == 0) return {.lease = pick(5), .trial = pick(5)};
    return leases_[leases_.size() - 1 - pick(std::min<size_t>(leases_.size(), 20))];
  }
  std::vector<uint64_t> some_leases() {
    std::vector<uint64_t> ids;
    for (uint64_t i = pick(4); i > 0; --i) ids.push_back(some_lease().lease);
    if (!ids.empty() && pick(4) == 0) ids.push_back(ids[0]);  // twice
    return ids;
  }

  std::string some_code() { return fmt::format("cod{}", pick(4)); }

  wire::Message message() {
    const wire::Lease lease = some_lease();
    switch (pick(13)) {
      case 0:
        return wire::Hello{.worker = std::string(1, static_cast<char>('v' + pick(3))),
                           .device = pick(2) == 0 ? "{}" : R"({"architecture":"aarch64"})",
                           .backends = {pick(5) == 0 ? "cuda" : "cpu"},
                           .holding = some_leases(),
                           .builds = {pick(2) == 0 ? "cpu" : "cpu/aarch64"},
                           .runner_only = pick(2) == 0};
      case 1:
        return wire::Credit{static_cast<uint32_t>(pick(4))};
      case 2:
        return wire::Heartbeat{some_leases()};
      case 3:
        return pick(8) == 0 ? wire::Message(wire::Bye{some_leases()}) : wire::Drain{some_leases()};
      case 4:
        return wire::Welcome{};
      case 5:
        return wire::Result{.lease = lease.lease,
                            .trial = lease.trial,
                            .attempt = lease.attempt,
                            .outcome = static_cast<Outcome>(1 + pick(6))};
      case 6:
      case 7:
        return wire::Built{lease.lease, lease.trial, lease.attempt, wire::blob_of(some_code()),
                           wire::blob_of(some_code())};
      case 8:
        return wire::BlobGet{lease.lease, wire::blob_of(some_code()).digest, pick(3)};
      case 10:
        return wire::Canary{static_cast<uint32_t>(pick(1000)), static_cast<uint32_t>(pick(3)), pick(4) * 1e-5,
                            pick(4) * 1e-5};
      case 9: {
        const std::string code = some_code();
        wire::BlobChunk chunk{wire::blob_of(code).digest, pick(20) == 0 ? 1u : 0u, code};
        if (pick(500) == 0) chunk.bytes = "xxxx";
        return chunk;
      }
      default:
        return wire::Result{.lease = lease.lease,
                            .trial = lease.trial,
                            .attempt = lease.attempt,
                            .samples = {pick(500) == 0 ? 0.1f : 1.0f}};
    }
  }

  std::mt19937 random_;
  Time now_{0};
  MemoryJournal journal_{{"cpu", "cpu:triple=aarch64-linux-gnu"}};
  std::unique_ptr<Farm> farm_;
  std::vector<wire::Lease> leases_;
};

TEST(FarmHostile, StaysConsistentWhateverPeersSay) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed);
    for (int i = 0; i < 2000; ++i) chaos.step();
    chaos.expect_consistent();
    if (HasFailure()) break;
  }
}

/// What a journal says of a trial that waits is anybody's word.
TEST(FarmHostile, ATrialWithTooManyLossesEndsWhenItsLeaseIsReturned) {
  Bench b;
  b.submit(1);
  JournalState state = b.journal.start();
  for (uint32_t i = 1; i <= defaults::kLossesToQuarantine; ++i)
    state.open.at(0).grants.push_back({.lease = i, .attempt = i, .worker = "w", .lost = true});
  Farm farm(std::move(state), b.now);
  Effects effects;
  for (wire::Message message :
       {wire::Message(wire::Hello{.worker = "w", .device = "{}", .backends = {"cpu"}}),
        wire::Message(wire::Credit{1})})
    farm.step(Received{"p", std::move(message)}, b.now, effects);
  const auto lease = std::find_if(effects.messages.begin(), effects.messages.end(), [](const auto& out) {
    return std::holds_alternative<wire::Lease>(out.message);
  });
  ASSERT_NE(lease, effects.messages.end());
  farm.step(Received{"p", wire::Drain{.returned = {std::get<wire::Lease>(lease->message).lease}}}, b.now,
            effects);
  ASSERT_EQ(effects.finished.size(), 1u);
  EXPECT_EQ(effects.finished[0].result.outcome, Outcome::kWorkerLost);
}

}  // namespace
}  // namespace lathe::tracker
