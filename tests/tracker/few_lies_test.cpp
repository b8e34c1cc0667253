// A worker that lies about one or two candidates, with canaries that are all as they should be: what becomes
// the best of a job with it, by the real farm, its real journal, and the confirmations of the job.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "core/support/temporary_folder.h"
#include "tracker/carry_out.h"
#include "tracker/confirm.h"
#include "tracker/defaults.h"
#include "tracker/store_journal.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

const std::string kLiar = "liar";

/// Workers of one class that answer at once, in a time of their own.
class SmallFarm final : public FarmClient {
 public:
  explicit SmallFarm(const std::string& database)
      : journal_(open_store_journal(database, std::nullopt)),
        farm_(std::make_unique<Farm>(journal_->start(), now_)) {}

  void join(const std::string& worker) {
    joined_.insert(worker);
    say(worker, wire::Hello{.worker = worker,
                            .device = fmt::format(R"({{"host":"{}","model":"m","cores":2}})", worker),
                            .backends = {"cpu"}});
    canaries_[worker] = 0;
    for (int i = 0; i < 5; ++i) sing(worker);
    say(worker, wire::Credit{1});
  }
  void leave(const std::string& worker) {
    say(worker, wire::Bye{});
    joined_.erase(worker);
  }
  /// Off its baseline, so that it is suspect.
  void croak(const std::string& worker) {
    for (int i = 0; i < 2; ++i)
      say(worker,
          wire::Canary{
              .number = ++canaries_[worker], .kernels = 1, .compute_seconds = 2e-5, .memory_seconds = 2e-5});
  }
  /// Says times of a machine that it has ceased to be.
  void betray(const std::string& worker) {
    ASSERT_FALSE(leases_.empty());
    const auto [holder, lease] = leases_.front();
    ASSERT_EQ(holder, worker);
    say(worker,
        wire::Hello{.worker = worker, .device = "{}", .backends = {"opencl"}, .holding = {lease.lease}});
    say(worker,
        wire::Result{.lease = lease.lease, .trial = lease.trial, .attempt = lease.attempt, .samples = {1}});
    leases_.clear();
    joined_.erase(worker);
  }
  void sing(const std::string& worker) {
    // The database's milliseconds tell what was measured before a canary from what was measured since.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    say(worker,
        wire::Canary{
            .number = ++canaries_[worker], .kernels = 1, .compute_seconds = 1e-5, .memory_seconds = 1e-5});
  }

  std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) override {
    std::vector<Submission> answers = journal_->add(job, candidates);
    step(Submit{answers});
    return answers;
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override {
    while (!leases_.empty()) {
      const auto [worker, lease] = leases_.front();
      leases_.pop_front();
      say(worker, wire::Result{.lease = lease.lease,
                               .trial = lease.trial,
                               .attempt = lease.attempt,
                               .samples = {seconds_of(worker, lease.trace)}});
    }
    pass(1s);
    return std::exchange(ended_, {});
  }
  size_t in_flight(JobId job) override { return farm_->open(job); }
  FarmStatus status() override { return farm_->status(now_); }
  void cancel(JobId) override {}

  std::string state_of(const std::string& worker) {
    for (const WorkerStatus& each : status().workers)
      if (each.name == worker) return std::string(each.state());
    return "gone";
  }

  std::map<std::string, float> truth;  // by trace
  std::map<std::string, float> lies;   // what the liar says instead
  std::vector<std::string> notes;

 private:
  float seconds_of(const std::string& worker, const std::string& trace) const {
    const auto lie = lies.find(trace);
    return worker == kLiar && lie != lies.end() ? lie->second : truth.at(trace);
  }
  void say(const std::string& worker, wire::Message message) { step(Received{worker, std::move(message)}); }
  void pass(Time time) {
    now_ += time;
    for (const std::string& worker : joined_) say(worker, wire::Heartbeat{.holding = holding_of(worker)});
    step(Tick{});
  }
  std::vector<uint64_t> holding_of(const std::string& worker) const {
    std::vector<uint64_t> holding;
    for (const auto& [holder, lease] : leases_)
      if (holder == worker) holding.push_back(lease.lease);
    return holding;
  }
  void step(const Event& event) {
    Effects effects;
    farm_->step(event, now_, effects);
    journal_->commit(effects.records);
    EXPECT_THAT(fill_in(effects.messages, *journal_), IsEmpty());
    for (const Outgoing& out : effects.messages) {
      if (const auto* lease = std::get_if<wire::Lease>(&out.message)) leases_.emplace_back(out.peer, *lease);
      if (const auto* cancel = std::get_if<wire::Cancel>(&out.message))
        std::erase_if(leases_, [&](const auto& held) { return held.second.lease == cancel->lease; });
    }
    for (Finished& finished : effects.finished) ended_.push_back(std::move(finished));
    for (std::string& note : effects.notes) notes.push_back(std::move(note));
  }

  Time now_ = 1s;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Farm> farm_;
  std::set<std::string> joined_;
  std::map<std::string, uint32_t> canaries_;
  std::deque<std::pair<std::string, wire::Lease>> leases_;
  std::vector<Finished> ended_;
};

class FewLies : public ::testing::Test {
 protected:
  FewLies() {
    const db::TargetId target = store_.add_target({.name = "cpu", .architecture = "x86_64"});
    query_ = {.workload = store_.add_workload({.digest = "t", .text = "t"}), .target = target, .threads = 1};
    job_ =
        static_cast<JobId>(store_.create_job({.target = target, .tasks = {{.workload = query_.workload}}}));
    farm_.truth = {{"a", 1.0f}, {"b", 1.05f}, {"c", 1.1f}, {"x", 1.3f}, {"y", 1.4f}};
  }

  void search(std::initializer_list<const char*> traces) {
    for (const char* trace : traces) {
      const Candidate candidate{query_.workload, trace, trace};
      farm_.submit(job_, std::span(&candidate, 1));
      farm_.poll(job_, {});
    }
    EXPECT_EQ(farm_.in_flight(job_), 0u);
  }

  /// The liar alone measures what it lies about; then others join, and all search on.
  void lie_first(std::map<std::string, float> lies, std::initializer_list<const char*> others) {
    farm_.lies = std::move(lies);
    farm_.join(kLiar);
    search({"x", "y"});
    for (const char* other : others) farm_.join(other);
    search({"a", "b", "c"});
  }

  void expect_told_as_it_is() {
    const db::Measurement told = best();
    EXPECT_EQ(told.trace, "a");
    EXPECT_FLOAT_EQ(told.told_seconds, 1.0f);
    EXPECT_TRUE(told.confirmed_elsewhere);
  }

  /// What the database believes of a worker's first words, whoever has confirmed them.
  std::set<std::string> believed_of(const std::string& worker) {
    std::set<std::string> traces;
    for (db::Query row = store_.database().query(
             "SELECT trace FROM measurement JOIN candidate ON candidate.id = candidate JOIN worker ON "
             "worker.id = measurement.worker WHERE worker.name = ? AND suspect = 0 AND confirmed = 0",
             {worker});
         row.step();)
      traces.insert(row.text());
    return traces;
  }

  /// As a job ends.
  db::Measurement best() {
    const std::vector<db::WorkloadId> workloads = {query_.workload};
    const auto of = [&](db::WorkloadId) { return query_; };
    Patience patience({});
    std::vector<Leader> leaders =
        find_leaders(store_, workloads, of, std::vector<std::string>(workloads.size()), {});
    EXPECT_TRUE(
        measure_again(leaders, db::Purpose::kConfirm, job_, {}, farm_, patience, [] { return false; }));
    std::vector<Leader> told = find_told(store_, workloads, of, {});
    EXPECT_TRUE(measure_again(told, db::Purpose::kTell, job_, {}, farm_, patience, [] { return false; }));
    return store_.best(query_).value().measurement;
  }

  TemporaryFolder folder_;
  db::Store store_{folder_ / "t.db"};
  SmallFarm farm_{folder_ / "t.db"};
  db::BestQuery query_;
  JobId job_ = 0;
};

TEST_F(FewLies, OfTwoCandidatesAreNotTheBestOfTwoWorkers) {
  lie_first({{"x", 0.5f}, {"y", 0.6f}}, {"honest"});
  expect_told_as_it_is();
  // Nobody else can tell who of the two is right.
  EXPECT_EQ(farm_.state_of(kLiar), "ready");
  EXPECT_EQ(farm_.state_of("honest"), "ready");
  EXPECT_THAT(farm_.notes, testing::Contains("liar says that a candidate takes 0.5 s, and honest 1.3 s: the "
                                             "slower counts until another worker tells"));
}

TEST_F(FewLies, OfTwoCandidatesEndTheirWorkerWhereTwoOthersAgree) {
  lie_first({{"x", 0.5f}, {"y", 0.6f}}, {"honest", "upright"});
  expect_told_as_it_is();
  EXPECT_EQ(farm_.state_of(kLiar), "suspect");
  EXPECT_EQ(farm_.state_of("honest"), "ready");
  EXPECT_EQ(farm_.state_of("upright"), "ready");
  for (int i = 0; i < 5; ++i) farm_.sing(kLiar);
  EXPECT_EQ(farm_.state_of(kLiar), "suspect") << "canaries say nothing of who chooses when to lie";
}

TEST_F(FewLies, OfOneCandidateAreNotTheBestEither) {
  lie_first({{"x", 0.5f}}, {"honest", "upright"});
  expect_told_as_it_is();
  EXPECT_EQ(farm_.state_of(kLiar), "suspect");
  for (int i = 0; i < 2; ++i) farm_.sing(kLiar);
  EXPECT_EQ(farm_.state_of(kLiar), "ready") << "once may have been an accident";
}

/// What it said of others, unnoticed, goes with what it is caught at: also what it said in an earlier life,
/// and when it has left before anybody else came.
TEST_F(FewLies, TakeAllWithThemThatTheirWorkerHasSaid) {
  const auto said_before = [&] {
    farm_.truth.insert({{"p", 5.0f}, {"q", 5.5f}, {"r", 6.0f}});
    farm_.lies = {{"x", 0.5f}, {"q", 1.15f}};
    farm_.join(kLiar);
    search({"p", "q", "r", "x"});
    EXPECT_THAT(believed_of(kLiar), testing::UnorderedElementsAre("p", "q", "r", "x"));
  };
  said_before();
  farm_.leave(kLiar);
  farm_.join(kLiar);
  farm_.leave(kLiar);
  for (const char* other : {"honest", "upright"}) farm_.join(other);
  search({"a", "b", "c", "y"});
  expect_told_as_it_is();
  EXPECT_THAT(believed_of(kLiar), IsEmpty());
  EXPECT_GT(farm_.status().distrusts, 0u);
  farm_.join(kLiar);
  EXPECT_NE(farm_.state_of(kLiar), "gone");
}

/// Its canaries have told already that it is slow now: that is about today, and this about all that it said.
TEST_F(FewLies, OfASuspectWorkerGoAsFarBack) {
  farm_.truth.insert({{"p", 5.0f}});
  farm_.lies = {{"x", 0.5f}};
  farm_.join(kLiar);
  search({"p", "x"});
  farm_.sing(kLiar);
  farm_.croak(kLiar);
  ASSERT_EQ(farm_.state_of(kLiar), "suspect");
  ASSERT_THAT(believed_of(kLiar), testing::UnorderedElementsAre("p", "x"));
  for (const char* other : {"honest", "upright"}) farm_.join(other);
  search({"a", "b", "c", "y"});
  expect_told_as_it_is();
  EXPECT_THAT(believed_of(kLiar), IsEmpty());
}

TEST_F(FewLies, GoWithWhoeverIsExpelledForThem) {
  farm_.truth.insert({{"p", 5.0f}});
  farm_.join(kLiar);
  search({"p", "x"});
  farm_.sing(kLiar);
  const Candidate candidate{query_.workload, "y", "y"};
  farm_.submit(job_, std::span(&candidate, 1));
  farm_.betray(kLiar);
  EXPECT_EQ(farm_.state_of(kLiar), "gone");
  EXPECT_THAT(believed_of(kLiar), IsEmpty());
}

/// Of one that is said to be slower than it is.
TEST_F(FewLies, DoNotPutTheBestDownWhereTwoOthersAgree) {
  farm_.lies = {{"a", 10.0f}};
  farm_.join("honest");
  search({"a", "b", "c", "x"});
  farm_.join(kLiar);
  farm_.join("upright");
  EXPECT_EQ(best().trace, "a");
  EXPECT_EQ(farm_.state_of(kLiar), "suspect");
}

/// A lie of the search alone; measured again, it says what is so.
TEST_F(FewLies, OfTheOnlyWorkerAreMeasuredAgain) {
  farm_.lies = {{"x", 0.5f}};
  farm_.join(kLiar);
  search({"a", "b", "x"});
  farm_.lies.clear();
  EXPECT_EQ(best().trace, "a");
  EXPECT_EQ(farm_.state_of(kLiar), "ready");
}

/// Machines of one class may differ; that is no lie.
TEST_F(FewLies, AreNotWhatWorkersDifferBy) {
  farm_.lies = {{"a", 0.93f}, {"b", 0.95f}};
  farm_.join(kLiar);
  search({"a", "b", "c"});
  farm_.join("honest");
  farm_.join("upright");
  EXPECT_EQ(best().trace, "a");
  for (const std::string worker : {kLiar.c_str(), "honest", "upright"})
    EXPECT_EQ(farm_.state_of(worker), "ready") << worker;
  EXPECT_THAT(farm_.notes, IsEmpty());
}

}  // namespace
}  // namespace lathe::tracker
