#include "workers/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>

#include "core/support/descriptors.h"
#include "core/support/host_name.h"
#include "core/support/private_file.h"
#include "core/support/service_error.h"
#include "core/support/spare_threads.h"
#include "core/support/unfit.h"
#include "tracker/defaults.h"
#include "workers/agent.h"
#include "workers/pipeline.h"
#include "workers/quiet.h"

namespace lathe::worker {
namespace {

constexpr Time kAnswer = std::chrono::seconds(10);  // that a tracker has for its first

Time monotonic_now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

/// -1: another user has made the file, and may lock it as they like.
int lock_of(const std::string& path) {
  try {
    return open_private_file(path);
  } catch (const Unfit&) {
    return -1;
  }
}

/// "host/0": the number is the first that no other worker of this user holds here. The lock file lasts as
/// long as the process, so that a worker started anew takes its old name.
std::string default_name() {
  const std::string host = host_name();
  for (int number = 0; number < 1000; ++number) {
    // Not unlinked at the end: a file that is removed while another opens it would be locked by two.
    const std::string path = fmt::format("/tmp/lathe-worker-{}-{}", getuid(), number);
    const int lock = lock_of(path);
    // Left open on purpose.
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) return fmt::format("{}/{}", host, number);
    if (lock >= 0) close(lock);
  }
  throw Unfit("cannot find a free worker name in /tmp; give one with --name");
}

/// SIGTERM, SIGINT and SIGHUP as something to poll, for as long as this lives.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    // Of a terminal that is closed; by nohup it is ignored, which a descriptor would not know.
    struct sigaction known {};
    sigaction(SIGHUP, nullptr, &known);
    if (known.sa_handler != SIG_IGN) sigaddset(&set_, SIGHUP);
    // Before any thread is started (ZeroMQ's are, with the client): they inherit it, and no signal goes past
    // the descriptor.
    sigprocmask(SIG_BLOCK, &set_, &before_);
    descriptor_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(descriptor_ >= 0, "signalfd");
  }
  ~Signals() {
    close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  int descriptor() const { return descriptor_; }
  bool take() {
    signalfd_siginfo info;
    return read(descriptor_, &info, sizeof info) == sizeof info;
  }

 private:
  sigset_t set_, before_;
  int descriptor_ = -1;
};

using Names = std::vector<std::string>;

/// One a core, though timing needs some: plan_cores() has builders keep off those, or stand still meanwhile.
int builders_of(const WorkerSettings& settings) {
  if (settings.duty == Duty::kRun) return 0;
  return settings.builders > 0 ? settings.builders : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

constexpr int kFramesTogether = 256;
// Lines of what a tracker says, in so long, and bytes of one.
constexpr int kMostLogged = 100;
constexpr std::chrono::hours kLogged{1};
constexpr size_t kLongestLogged = 1024;
constexpr uint64_t kModuleShare = 8;  // of the memory, for the two modules of a race, which are copied once

uint64_t memory_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

class Worker {
 public:
  explicit Worker(const WorkerSettings& settings)
      : settings_(settings),
        builders_(builders_of(settings)),
        name_(settings.name.empty() ? default_name() : settings.name),
        agent_({.name = name_,
                .device = settings.device,
                .backends = settings.duty == Duty::kBuild ? Names() : Names{"cpu"},
                .builds = settings.builds,
                .runner_only = settings.duty == Duty::kRun,
                .canaries = settings.canaries,
                .module_bytes = memory_bytes() / kModuleShare,
                .builders = static_cast<uint32_t>(builders_)},
               monotonic_now()),
        pipeline_(settings.sandbox, builders_),
        client_(settings.tracker, wire::random_peer(), settings.keys) {}

  void serve() {
    // Before it says to a tracker that it is here: without the file nothing can be timed.
    const Quiet quiet;
    constexpr const char* kWhat[] = {"", ", builds only", ", runs only"};
    log(fmt::format("worker {} serves {}{}", name_, settings_.tracker,
                    kWhat[static_cast<int>(settings_.duty)]));
    step(Tick{});
    while (!exit_) {
      // All of them before waiting: ZeroMQ's descriptor tells of what comes, not of what is there. But a
      // tracker that never stops keeps no signal and no tick away.
      int count = 0;
      for (; count < kFramesTogether; ++count) {
        const auto frame = client_.receive();
        if (!frame) break;
        hear(*frame);
      }
      wait(/*more=*/count == kFramesTogether);
      if (signals_.take()) {
        log("draining; a second signal hands everything back");
        step(Terminate{});
      }
      for (const Pipeline::Ended& ended : pipeline_.collect()) {
        if (ended.canary)
          step(CanaryEnded{*ended.canary});
        else if (ended.lost)
          lose(ended);
        else if (ended.built)
          step(Built{ended.lease, ended.report, ended.artifact, ended.reference});
        else
          step(Measured{ended.lease, ended.report});
      }
      if (monotonic_now() >= next_tick_) {
        next_tick_ = monotonic_now() + defaults::kTick;
        step(Tick{});
        // With a tick, however often a tracker says that it knows this worker, and that it does not.
        if (agent_.serving() != served_) log_of_tracker(served_ ? "lost the tracker" : "connected");
        if (agent_.serving()) answer_by_.reset();
        if (answer_by_ && monotonic_now() >= *answer_by_) {
          answer_by_.reset();
          log_of_tracker(fmt::format("no answer from {} yet: is it a tracker's address, and in reach?",
                                     settings_.tracker));
        }
        served_ = agent_.serving();
        if (const auto refusal = client_.refusal(); refusal && *refusal != said_) {
          said_ = *refusal;
          log_of_tracker(fmt::format("the tracker at {} refuses this worker: {}", settings_.tracker, said_));
        }
      }
    }
    // So that BYE gets there: without it the tracker waits for the leases of a worker that is gone.
    client_.flush(std::chrono::milliseconds(1000));
    if (!unable_.empty())
      throw Unfit(fmt::format("worker {} cannot build or run anything here, however often it is tried: {}",
                              name_, unable_));
    if (!refused_.empty())
      throw ServiceError(
          fmt::format("the tracker at {} refuses this worker: {}", settings_.tracker, refused_));
  }

 private:
  void lose(const Ended& ended) {
    // The first reason: what comes after it may come of it.
    if (unable_.empty()) {
      unable_ = ended.report.message;
      log(fmt::format("draining, for this machine fails: {}", unable_));
    }
    step(Lost{ended.lease});
  }

  void hear(const std::string& frame) {
    try {
      step(wire::decode(frame));
    } catch (const Error& error) {
      log_of_tracker(fmt::format("from the tracker: {}", error.what()));
    }
  }

  void wait(bool more) {
    std::vector<pollfd> ready = {{client_.descriptor(), POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}};
    for (int descriptor : pipeline_.descriptors()) ready.push_back({descriptor, POLLIN, 0});
    const Time timeout =
        // What ended without a child is told by no descriptor.
        more || pipeline_.has_ended() ? Time(0)
                                      : std::clamp(next_tick_ - monotonic_now(), Time(0), defaults::kTick);
    poll(ready.data(), ready.size(), static_cast<int>(timeout.count()));
  }

  void step(const Event& event) {
    Actions actions = agent_.step(event, monotonic_now());
    // In this order: what is said goes over the new connection, and what is discarded makes room for what is
    // built.
    if (actions.reconnect) client_.reconnect();
    for (const wire::Message& message : actions.send) client_.send(wire::encode(message));
    for (uint64_t lease : actions.discard) pipeline_.discard(lease);
    for (const wire::Lease& lease : actions.build) pipeline_.build(lease);
    for (const Run& run : actions.run) {
      if (run.lease.part == wire::Part::kRace)
        pipeline_.race(run.lease, *run.reference, *run.artifact);
      else if (run.artifact)
        pipeline_.run(run.lease, *run.artifact, *run.reference);
      else
        pipeline_.run(run.lease);
    }
    if (actions.canary) pipeline_.run_canaries();
    exit_ |= actions.exit;
    if (actions.exit)
      refused_ = actions.refused;
    else if (!actions.refused.empty() && actions.refused != said_)
      log_of_tracker(fmt::format("the tracker at {} refuses: {}", settings_.tracker, actions.refused));
    if (!actions.refused.empty()) said_ = actions.refused;
    if (!actions.ignored.empty()) log_of_tracker(fmt::format("from the tracker: {}", actions.ignored));
  }

  /// A tracker may make up as much as it likes, as often as it likes.
  void log_of_tracker(const std::string& line) {
    if (const Time now = monotonic_now(); now - logged_since_ >= kLogged) logged_since_ = now, logged_ = 0;
    if (line == logged_last_) return;
    logged_last_ = line;
    if (++logged_ <= kMostLogged) log(line.substr(0, kLongestLogged));
  }

  void log(const std::string& line) {
    if (settings_.log) settings_.log(line);
  }

  const WorkerSettings& settings_;
  Signals signals_;
  int builders_;
  std::string name_;
  Agent agent_;
  Pipeline pipeline_;
  wire::Client client_;
  Time next_tick_{0};
  // When it is said that nobody answers: no later connection is as likely to be a mistake.
  std::optional<Time> answer_by_ = monotonic_now() + kAnswer;
  bool exit_ = false;
  std::string refused_;  // for good
  std::string unable_;   // why this machine works no more
  bool served_ = false;
  int logged_ = 0;  // lines of the tracker
  Time logged_since_{0};
  std::string logged_last_;
  std::string said_;  // of what it refuses, last: the same is not said again
};

}  // namespace

void serve(const WorkerSettings& settings) {
  require_descriptors();
  require_threads();
  Worker(settings).serve();
}

}  // namespace lathe::worker
