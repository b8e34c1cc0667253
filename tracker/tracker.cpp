#include "tracker/tracker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "core/support/error.h"
#include "core/support/record_limits.h"
#include "tracker/carry_out.h"
#include "tracker/content_store.h"
#include "tracker/defaults.h"
#include "tracker/mailbox.h"
#include "tracker/refusal_log.h"

namespace lathe::tracker {

using namespace defaults;

namespace {

// Not the wall clock: a step of NTP must neither end leases nor keep them.
Time monotonic_now() {
  return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

/// Why no worker would read a lease of it, which is the submitter's mistake; "" when all would.
std::string unreadable(const Candidate& candidate, const TrialSpec& spec) {
  if (candidate.trace.size() > limits::kText || spec.workload->size() > limits::kText)
    return fmt::format("a candidate's workload has {} bytes and its trace {}, more than the limit of {}",
                       spec.workload->size(), candidate.trace.size(), limits::kText);
  if (spec.target.size() > limits::kTarget)
    return fmt::format("a target's text has {} bytes, more than the limit of {}", spec.target.size(),
                       limits::kTarget);
  return wire::fault_of(candidate.evaluation);
}

std::vector<std::string> keys_of(const Admit& listed) {
  std::vector<std::string> keys;
  for (const auto& [key, principal] : listed.keys) keys.push_back(key);
  return keys;
}

// What is committed at once, so that a busy tracker waits less for its disk; and no more, for it is in
// memory.
constexpr int kFramesTogether = 256;
constexpr size_t kMessagesTogether = 4096;

/// A journal whose disk may keep it waiting for seconds: workers are listened to meanwhile.
class ListenedBeside final : public Journal {
 public:
  /// REQUIRES: the server outlives it.
  ListenedBeside(std::unique_ptr<Journal> journal, wire::Server& server)
      : journal_(std::move(journal)), server_(server) {}

  JournalState start() override {
    const wire::Server::Absence absence(server_);
    return journal_->start();
  }
  std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) override {
    const wire::Server::Absence absence(server_);
    return journal_->add(job, candidates);
  }
  std::vector<Recipe> recipes(std::span<const TrialId> trials) override {
    const wire::Server::Absence absence(server_);
    return journal_->recipes(trials);
  }
  std::string owner(JobId job) override { return journal_->owner(job); }
  void ping() override {
    const wire::Server::Absence absence(server_);
    journal_->ping();
  }
  std::vector<LeaseId> commit(std::span<const Record> records) override {
    const wire::Server::Absence absence(server_);
    return journal_->commit(records);
  }

 private:
  const std::unique_ptr<Journal> journal_;
  wire::Server& server_;
};

}  // namespace

/// The thread that owns farm, journal and socket, and the mailboxes through which others reach it.
class Tracker::Loop final : private Outside {
 public:
  explicit Loop(TrackerSettings settings)
      : settings_(std::move(settings)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        content_({.folder = settings_.artifacts}) {
    CHECK(wake_ >= 0, "eventfd");
    // The constructor throws what the thread meets while it starts: a port in use, a database
    // of another tracker.
    std::promise<void> started;
    auto ready = started.get_future();
    // The thread makes all that it owns: a journal's connection to the database is of one thread.
    thread_ = std::thread([this, started = std::move(started)]() mutable { run(started); });
    try {
      ready.get();
    } catch (...) {
      thread_.join();
      close(wake_);
      throw;
    }
  }

  ~Loop() override {
    // On the thread, like all that touches the loop's state; commands posted before are carried out first.
    post([this] { stop_ = true; });
    thread_.join();
    close(wake_);
  }

  /// Runs `command` on the thread and waits for what it returns. Throws what it throws.
  template <typename Command>
  auto call(Command command) {
    // What it throws goes to the caller, and does not end the loop. Shared, since std::function copies.
    auto task = std::make_shared<std::packaged_task<decltype(command())()>>(std::move(command));
    auto result = task->get_future();
    // Of a thread that has failed nobody would ever fulfil the promise.
    if (!post([task = std::move(task)] { (*task)(); })) rethrow();
    try {
      return result.get();
    } catch (const std::future_error&) {  // the thread failed before it came to this command
      rethrow();
    }
  }

  std::vector<Finished> take(JobId job, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    // Made here too: a job that goes on after a restart polls before it submits.
    Mailbox& box = mailboxes_[job];
    arrived_.wait_for(lock, timeout, [&] { return !box.empty() || failed_; });
    // Results from before the failure are delivered first.
    if (box.empty() && failed_) std::rethrow_exception(failed_);
    return box.take();
  }

  // On the thread.
  std::vector<Submission> submit(JobId job, const std::vector<Candidate>& candidates) {
    // All of a batch or nothing: a searcher asks again with the same list, and half of it would
    // be its own duplicates.
    if (const size_t room = farm_->room(job, journal_->owner(job)); candidates.size() > room)
      throw QueueFull(fmt::format("the queue has room for {} more candidates of this job, not for {}", room,
                                  candidates.size()));
    {
      // Before the farm has the trials, so that the first result finds where to go.
      std::lock_guard lock(mutex_);
      mailboxes_[job];
    }
    // In the database when this returns, and so never lost once the caller knows of it.
    std::vector<Submission> submissions = journal_->add(job, candidates);
    Submit event;
    std::string problem;
    for (size_t i = 0; i < submissions.size(); ++i) {
      if (submissions[i].status != Submission::Status::kQueued) continue;
      event.trials.push_back(submissions[i]);
      if (problem.empty()) problem = unreadable(candidates[i], *submissions[i].spec);
    }
    if (!problem.empty()) {
      // The journal has them already: open, they would be leased by the next tracker.
      for (const Submission& submission : event.trials)
        // Committed with the next settle(), though the caller hears of its mistake now.
        effects_.records.emplace_back(Cancelled{submission.trial});
      throw Error(problem);
    }
    step(event);
    return submissions;
  }
  TrialId race(TrialSpec spec) {
    if (farm_->room(spec.job, spec.owner) == 0) throw QueueFull("the queue has no room for a race");
    {
      std::lock_guard lock(mutex_);
      mailboxes_[spec.job];
    }
    const TrialId id = next_race_++;
    step(Submit{{{.trial = id, .spec = std::make_shared<const TrialSpec>(std::move(spec))}}});
    return id;
  }
  void leave(JobId job) {
    std::lock_guard lock(mutex_);
    mailboxes_.erase(job);
  }
  bool manage(const Manage& order) {
    // Nothing is written down of a name that nobody has had: it would stay for ever.
    if (!farm_->knows(order.worker)) return false;
    step(order);
    try {
      settle();
    } catch (...) {
      // call() hands the exception to the caller, who is not the one to stop the tracker:
      // obey_commands() throws it again.
      broken_ = std::current_exception();
      throw;
    }
    return true;
  }
  Farm& farm() { return *farm_; }
  void step(const Event& event) { farm_->step(event, monotonic_now(), effects_); }

  std::string endpoint;

 private:
  /// False when the thread has failed.
  bool post(std::function<void()> command) {
    {
      std::lock_guard lock(mutex_);
      if (failed_) return false;
      commands_.push_back(std::move(command));
    }
    const uint64_t one = 1;
    // After the command is there: a loop that wakes up finds it.
    (void)!write(wake_, &one, sizeof one);
    return true;
  }

  /// Of a thread that has failed, or is about to say so: promises break before it does.
  [[noreturn]] void rethrow() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return failed_ != nullptr; });
    std::rethrow_exception(failed_);
  }

  void run(std::promise<void>& started) {
    try {
      std::optional<wire::ServerKeys> keys = settings_.keys;
      if (settings_.principals) keys->allowed = keys_of(listed());
      server_ = std::make_unique<wire::Server>(settings_.endpoint, keys);
      endpoint = server_->endpoint();
      journal_ = std::make_unique<ListenedBeside>(settings_.open_journal(), *server_);
      // The socket is bound first: what a worker says meanwhile waits in it.
      JournalState state = journal_->start();
      log(fmt::format("epoch {}, {} open trials, listening on {}", state.epoch, state.open.size(), endpoint));
      farm_ = std::make_unique<Farm>(std::move(state), monotonic_now(), settings_.artifact_bytes);
    } catch (...) {
      started.set_exception(std::current_exception());
      return;
    }
    started.set_value();
    try {
      admit_listed();
      weigh_listed();
      while (!stop_) serve_once();
      // What has come is written down and acknowledged; nothing new is given out (F10).
      step(Close{});
      settle();
    } catch (const std::exception& error) {
      // What rests on the commit that failed was never sent: the workers keep it, and a tracker started again
      // gets it from them.
      log(fmt::format("stopped: {}", error.what()));
      // Whoever waits for a command or a result gets the exception (rethrow, take); nobody hangs.
      std::lock_guard lock(mutex_);
      failed_ = std::current_exception();
      commands_.clear();  // which breaks their promises
      arrived_.notify_all();
    }
    // Here, where they were made; the socket's lingering is 0, so this does not wait.
    journal_.reset();
    server_.reset();
  }

  void serve_once() {
    // What the last round has left is not to wait for the next frame.
    const bool is_settled = effects_.records.empty();
    const Time until_tick = is_settled ? std::max(Time(0), next_tick_ - monotonic_now()) : Time(0);
    // Wakes for a frame, a command (wake_), or the tick.
    std::optional<wire::Frame> frame = server_->receive(until_tick, wake_);
    // What has come together is committed together; the bound keeps commands and ticks from starving.
    for (int count = 0; frame && count < kFramesTogether && effects_.messages.size() < kMessagesTogether;
         ++count) {
      // Effects pile up over all frames, and become one commit below: of a thousand results a second each
      // would else wait for the disk by itself.
      hear(*frame);
      frame = server_->receive(Time(0));
    }
    // The last one was read before the bound was looked at.
    if (frame) hear(*frame);
    settle();  // whoever is told that nothing is in flight finds all results in the database
    obey_commands();
    if (monotonic_now() >= next_tick_) {
      // From now, not from when it was due: a loop that was held up does not tick in a row.
      next_tick_ = monotonic_now() + kTick;
      // With nothing to commit it would else not hear that its database is gone, and with it the lock that
      // keeps other trackers out.
      journal_->ping();
      admit_listed();
      weigh_listed();
      step(Tick{});
      // Before those of the next minute.
      if (const size_t count = refusals_.left_out(monotonic_now()))
        log(fmt::format("refused {} more within a minute", count));
      for (const std::string& refused : server_->refusals()) log_refusal(refused);
    }
    settle();
  }

  void log_refusal(const std::string& refused) {
    if (refusals_.is_news(refused)) log("refused " + refused);
  }

  /// All who may connect. REQUIRES: there are principals.
  Admit listed() {
    // A key that is in both is what the file of principals says of it (docs/tracker.md, Keys).
    Admit all{settings_.principals->keys()};
    for (const std::string& key : settings_.keys->allowed)
      all.keys.try_emplace(key, Principal{.name = key, .role = Role::kWorker});
    return all;
  }

  /// When the files have changed: whose key is listed no more is cut off.
  void admit_listed() {
    if (!settings_.principals) return;
    const uint64_t edition = settings_.principals->edition();
    if (std::exchange(edition_, edition) == edition) return;
    const Admit event = listed();
    // First at the socket, so that no message of a key that is out comes after the farm has forgotten it.
    server_->admit(keys_of(event));
    step(event);
  }

  void weigh_listed() {
    if (!settings_.users) return;
    const uint64_t edition = settings_.users->edition();
    if (std::exchange(weighed_, edition) != edition) step(Weigh{settings_.users->weights()});
  }

  void hear(const wire::Frame& frame) {
    try {
      step(Received{frame.peer, wire::decode(frame.bytes), frame.key});
    } catch (const Error& error) {
      // At once and not as an effect: it rests on no record.
      server_->send({frame.peer, wire::encode(wire::Refusal{wire::Refusal::Code::kMalformed, error.what()})});
    }
  }

  void obey_commands() {
    uint64_t count = 0;
    (void)!read(wake_, &count, sizeof count);
    std::deque<std::function<void()>> commands;
    {
      std::lock_guard lock(mutex_);
      // Carried out without the lock: whoever posts must not wait for a commit.
      commands.swap(commands_);
    }
    for (auto& command : commands) {
      command();
      // Out of serve_once(): the tracker stops as for any commit that fails.
      if (broken_) std::rethrow_exception(broken_);
    }
  }

  void settle() {
    // What the farm makes of these are effects again, for the next round: see is_settled.
    for (Unreadable& event : carry_out(std::exchange(effects_, {}), *journal_, *this)) step(std::move(event));
  }

  void store(const StoreChange& change) override {
    change.bytes ? content_.keep(change.digest, *change.bytes) : content_.forget(change.digest);
  }

  void send(const Outgoing& out) override {
    using Code = wire::Refusal::Code;
    if (const auto* refusal = std::get_if<wire::Refusal>(&out.message);
        // Those are answers to noise, and a paused worker was noted by the farm itself.
        refusal && refusal->code != Code::kMalformed && refusal->code != Code::kHelloFirst &&
        refusal->code != Code::kPaused)
      log_refusal("a worker: " + refusal->text);
    server_->send({out.peer, wire::encode(out.message)});
  }

  bool send_piece(const Wanted& wanted) override {
    const auto& [peer, get, file] = wanted;
    // Read here and not in a step of the farm, which knows no files.
    std::string bytes =
        file ? file->read(get.offset, kChunkBytes) : content_.read(get.digest, get.offset, kChunkBytes);
    // Beyond its end; or it is gone or unreadable. The worker of a build asks again, and its lease ends at
    // the latest.
    if (bytes.empty()) return !file || get.offset >= file->blob().size;
    server_->send({peer, wire::encode(wire::BlobChunk{get.digest, get.offset, std::move(bytes)})});
    return true;
  }

  void tell(std::vector<Finished> all) override {
    std::lock_guard lock(mutex_);
    for (Finished& finished : all) {
      // Where nobody has asked for the job, nobody collects: the journal has the result.
      const auto box = mailboxes_.find(finished.job);
      if (box == mailboxes_.end()) continue;
      box->second.put(std::move(finished));
    }
    arrived_.notify_all();
  }

  void log(const std::string& line) override {
    if (settings_.log) settings_.log(line);
  }

  const TrackerSettings settings_;
  const int wake_;

  // The thread's.
  std::unique_ptr<wire::Server> server_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Farm> farm_;
  ContentStore content_;
  Effects effects_;
  std::exception_ptr broken_;  // a command's commit failed: the farm has gone on, the journal has not
  TrialId next_race_ = kFirstRace;
  Time next_tick_{0};
  RefusalLog refusals_;
  uint64_t edition_ = 0;  // of the principals, as admitted
  uint64_t weighed_ = 0;  // of the users, as weighed
  bool stop_ = false;

  // Everyone's, under mutex_.
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> commands_;
  std::map<JobId, Mailbox> mailboxes_;
  std::exception_ptr failed_;

  std::thread thread_;
};

Tracker::Tracker(TrackerSettings settings) : loop_(std::make_unique<Loop>(std::move(settings))) {}
Tracker::~Tracker() = default;

const std::string& Tracker::endpoint() const { return loop_->endpoint; }

std::vector<Submission> Tracker::submit(JobId job, std::span<const Candidate> candidates) {
  // A copy, for the caller's span ends with an exception of the wait.
  return loop_->call([&, copy = std::vector<Candidate>(candidates.begin(), candidates.end())] {
    return loop_->submit(job, copy);
  });
}

std::vector<Finished> Tracker::poll(JobId job, std::chrono::milliseconds timeout) {
  return loop_->take(job, timeout);
}

size_t Tracker::in_flight(JobId job) {
  return loop_->call([&] { return loop_->farm().open(job); });
}

FarmStatus Tracker::status() {
  return loop_->call([&] { return loop_->farm().status(monotonic_now()); });
}

bool Tracker::manage(const Manage& order) {
  return loop_->call([&] { return loop_->manage(order); });
}

TrialId Tracker::race(TrialSpec spec) {
  return loop_->call([&] { return loop_->race(std::move(spec)); });
}

void Tracker::cancel_race(TrialId race) {
  loop_->call([&] { loop_->step(CancelRace{race}); });
}

void Tracker::leave(JobId job) { loop_->leave(job); }

void Tracker::cancel(JobId job) {
  loop_->call([&] { loop_->step(CancelJob{job}); });
}

}  // namespace lathe::tracker
