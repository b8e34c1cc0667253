// Prints the conversation of workers with their tracker, all of one commit: its state machines in virtual
// time, every frame as its bytes. record.py compiles this against the sources of that commit, so it has to
// suit old ones; transcript_test.cpp replays what comes of it. The store of what is built is no part of a
// farm: here it is a map, from which runners get their pieces.
#include <fmt/core.h>

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#if __has_include("tracker/wire/blob.h")
#include "tracker/wire/blob.h"
#endif
#if __has_include("tests/tracker/memory_journal.h")  // else tracker/journal.h has it
#include "tests/tracker/memory_journal.h"
#endif
#include "tracker/defaults.h"
#include "tracker/farm.h"
#include "workers/agent.h"

using namespace lathe;
using Time = std::chrono::milliseconds;

namespace {

constexpr const char* kBoard = "cpu:triple=aarch64-linux-gnu";

std::string hex(const std::string& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// A worker of version 1 builds and measures for itself.
template <typename Settings>
constexpr bool kHasRoles = requires(Settings settings) {
  settings.runner_only;
};

template <typename Settings>
Settings settings_of(const std::string& name, bool is_board) {
  Settings settings;
  settings.name = name;
  settings.device = fmt::format(R"({{"architecture":"{}"}})", is_board ? "aarch64" : "x86_64");
  settings.backends = {"cpu"};
  if constexpr (kHasRoles<Settings>) {
    settings.runner_only = is_board;
    if (!is_board) settings.builds = {"cpu/aarch64"};
  }
  return settings;
}

template <typename Run>
uint64_t lease_of(const Run& run) {
  if constexpr (requires { run.lease.lease; })
    return run.lease.lease;
  else
    return run;
}

template <typename Built>
void put_code(Built& built) {
  if constexpr (requires { built.artifact; }) {
    built.artifact = fmt::format("code {}", built.lease);
    built.reference = "reference code";
  }
}

struct Worker {
  tracker::Peer peer;
  worker::Agent agent;
  std::deque<worker::Event> work = {};  // one piece ends at each half second
  bool gone = false;
};

class Conversation {
 public:
  void join(const tracker::Peer& peer, const std::string& name, bool is_board) {
    workers_.push_back({peer, worker::Agent(settings_of<worker::AgentSettings>(name, is_board), now_)});
  }
  void submit(const std::string& target, int count) {
    fmt::print("{} submit {} {}\n", now_.count(), target, count);
    std::vector<tracker::Candidate> candidates(count);
    for (int i = 0; i < count; ++i) candidates[i].trace = fmt::format("trace {}", i);
    std::vector<tracker::Submission> trials = journal_.add(1, candidates);
    for (tracker::Submission& trial : trials) {
      tracker::TrialSpec spec = *trial.spec;
      spec.target = target;
      trial.spec = std::make_shared<tracker::TrialSpec>(spec);
    }
    tell_farm(tracker::Submit{trials});
    deliver();
  }
  void restart() {
    fmt::print("{} restart\n", now_.count());
    farm_ = std::make_unique<tracker::Farm>(journal_.start(), now_);
  }
  void lose_an_acknowledgement() { loses_ = true; }
  void terminate() { tell_worker(workers_[0], worker::Terminate{}), deliver(); }

  void run(Time time) {
    for (const Time end = now_ + time; now_ < end;) {
      now_ += defaults::kTick;
      tell_farm(tracker::Tick{});
      deliver();
      for (Worker& worker : workers_) {
        if (now_ % Time(500) == Time(0) && !worker.work.empty()) {
          const worker::Event ended = worker.work.front();
          worker.work.pop_front();
          tell_worker(worker, ended);
        }
        tell_worker(worker, worker::Tick{});
        deliver();
      }
    }
  }

 private:
  void tell_farm(const tracker::Event& event) {
    tracker::Effects effects;
    farm_->step(event, now_, effects);
    journal_.commit(effects.records);
    keep_and_give(effects);
    for (tracker::Outgoing& out : effects.messages) {
      print('<', out.peer, out.message);
      if (loses_ && std::holds_alternative<wire::ResultAck>(out.message))
        loses_ = false;
      else
        coming_.push_back(std::move(out));
    }
  }

  /// As the tracker's store does: pieces follow all other messages.
  template <typename Effects>
  void keep_and_give(Effects& effects) {
    if constexpr (requires { effects.wanted; }) {
      for (const auto& change : effects.stored)
        if (change.bytes) store_[change.digest] = *change.bytes;
      for (const auto& wanted : effects.wanted)
        effects.messages.push_back({wanted.peer, chunk_of(store_.at(wanted.get.digest), wanted.get)});
    }
  }

  void tell_worker(Worker& worker, const worker::Event& event) {
    if (worker.gone) return;
    const worker::Actions actions = worker.agent.step(event, now_);
    worker.gone = actions.exit;
    for (const wire::Message& message : actions.send) {
      print('>', worker.peer, message);
      tell_farm(tracker::Received{worker.peer, message});
    }
    for (const wire::Lease& lease : actions.build) {
      worker::Built built{.lease = lease.lease};
      built.report.build_seconds = 0.5;
      if (++builds_ % 3 == 0) {
        built.report.outcome = Outcome::kBuildFailed;
        built.report.message = "no such register";
      } else {
        put_code(built);
      }
      worker.work.push_back(built);
    }
    for (const auto& run : actions.run) {
      worker::Measured measured{.lease = lease_of(run)};
      measured.report.samples = {0.001f, 0.002f};
      measured.report.relative_error = 1e-6;
      measured.report.run_seconds = 0.25;
      measured.report.artifact = "of machine code";
      worker.work.push_back(measured);
    }
  }

  void deliver() {
    while (!coming_.empty()) {
      const tracker::Outgoing out = std::move(coming_.front());
      coming_.pop_front();
      for (Worker& worker : workers_)
        if (worker.peer == out.peer) tell_worker(worker, out.message);
    }
  }

  void print(char direction, const tracker::Peer& peer, const wire::Message& message) const {
    fmt::print("{} {} {} {} {}\n", now_.count(), peer, direction, wire::name_of(message),
               hex(wire::encode(message)));
  }

  tracker::MemoryJournal journal_;
  Time now_{1000};
  std::unique_ptr<tracker::Farm> farm_ = std::make_unique<tracker::Farm>(journal_.start(), now_);
  std::vector<Worker> workers_;
  std::deque<tracker::Outgoing> coming_;      // to workers
  std::map<std::string, std::string> store_;  // bytes by digest
  bool loses_ = false;
  int builds_ = 0;
};

}  // namespace

int main() {
  constexpr bool kHasBoards = kHasRoles<worker::AgentSettings>;
  Conversation all;
  all.join("server", "host/0", false);
  if (kHasBoards) all.join("board", "board/0", true);
  all.run(Time(1000));
  all.submit("cpu", 5);
  all.run(Time(500));
  all.lose_an_acknowledgement();
  all.run(Time(6000));
  all.submit("cpu", 3);
  all.run(Time(500));
  all.restart();
  all.run(Time(5000));
  if (kHasBoards) {
    all.submit(kBoard, 3);
    all.run(Time(6000));
  }
  all.submit("cpu", 4);
  all.run(Time(500));
  all.terminate();
  all.run(Time(3000));
}
