// A farm on a MemoryJournal, a clock, and what was last sent: for tests that drive it step by step.
#pragma once

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/tracker/memory_journal.h"
#include "tracker/carry_out.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {

struct Bench {
  MemoryJournal journal;
  Time now = std::chrono::seconds(1);
  std::unique_ptr<Farm> farm = std::make_unique<Farm>(journal.start(), now);
  Effects last;
  std::vector<Unreadable> unreadable;

  void step(const Event& event) {
    last = {};
    farm->step(event, now, last);
    journal.commit(last.records);
    unreadable = fill_in(last.messages, journal);
  }
  void say(const Peer& peer, wire::Message message) { step(Received{peer, std::move(message)}); }
  void join(const Peer& peer, const std::string& name, uint32_t slots, std::vector<uint64_t> holding = {}) {
    say(peer,
        wire::Hello{.worker = name, .device = "{}", .backends = {"cpu"}, .holding = std::move(holding)});
    say(peer, wire::Credit{slots});
  }
  void submit(int count, const std::string& target = "cpu", JobId job = 1, double fastest_seconds = 0) {
    std::vector<Candidate> candidates(count);
    for (int i = 0; i < count; ++i) candidates[i].trace = fmt::format("trace {}", i);
    journal.set_targets({target});
    std::vector<Submission> trials = journal.add(job, candidates);
    for (Submission& trial : trials) {
      TrialSpec spec = *trial.spec;
      spec.fastest_seconds = fastest_seconds;
      trial.spec = std::make_shared<TrialSpec>(spec);
    }
    step(Submit{trials});
  }
  void pass(Time time) {
    for (const Time end = now + time; now < end;) {
      now = std::min(end, now + defaults::kTick);
      step(Tick{});
    }
  }
  void restart() { farm = std::make_unique<Farm>(journal.start(), now); }
  template <typename T>
  std::vector<T> sent(const Peer& peer) const {
    std::vector<T> found;
    for (const Outgoing& out : last.messages)
      if (out.peer == peer && std::holds_alternative<T>(out.message))
        found.push_back(std::get<T>(out.message));
    return found;
  }
  wire::Lease lease(const Peer& peer) const {
    const auto leases = sent<wire::Lease>(peer);
    EXPECT_THAT(leases, testing::SizeIs(1));
    return leases.empty() ? wire::Lease{} : leases[0];
  }
  wire::Result ok(const wire::Lease& lease) {
    return {.lease = lease.lease, .trial = lease.trial, .attempt = lease.attempt, .samples = {1e-3f}};
  }
};

}  // namespace lathe::tracker
