// What candidates of a search are given up against, and who has a say in it.
#include "tracker/incumbents.h"

#include "tests/tracker/farm_bench.h"
#include "workers/agent.h"

namespace lathe::tracker {
namespace {

using testing::ElementsAre;

TEST(Incumbent, IsToldByTwo) {
  Incumbent incumbent;
  const auto note = [&](CandidateId candidate, double seconds) { incumbent.note(candidate, "w", seconds); };
  EXPECT_EQ(incumbent.seconds("w"), wire::kNoIncumbent);
  note(1, 2);
  note(1, 1.9);
  EXPECT_EQ(incumbent.seconds("w"), wire::kNoIncumbent) << "a candidate measured twice is one";
  note(2, 2.1);
  EXPECT_DOUBLE_EQ(incumbent.seconds("w"), 0.95 * 2.1);
  note(3, 1.97);
  EXPECT_DOUBLE_EQ(incumbent.seconds("w"), 1.9) << "two are about as fast: the fastest";
  note(4, 1e-9);
  EXPECT_DOUBLE_EQ(incumbent.seconds("w"), 0.95 * 1.9) << "whatever one says";
  note(4, 1e-12);
  EXPECT_DOUBLE_EQ(incumbent.seconds("w"), 0.95 * 1.9);
}

TEST(Incumbent, IsToldByTwoWorkersWhereThereAreTwo) {
  Incumbent incumbent;
  incumbent.note(1, "liar", 1e-9);
  incumbent.note(2, "liar", 1e-8);
  EXPECT_EQ(incumbent.seconds("honest"), wire::kNoIncumbent);
  EXPECT_DOUBLE_EQ(incumbent.seconds("liar"), 0.95e-8) << "its own samples it may save";
  incumbent.note(3, "honest", 2);
  incumbent.note(4, "liar", 1e-7);
  for (const char* who : {"honest", "liar", "another"}) EXPECT_DOUBLE_EQ(incumbent.seconds(who), 0.95 * 2);
  incumbent.note(1, "honest", 2);
  incumbent.note(5, "another", 1);
  EXPECT_DOUBLE_EQ(incumbent.seconds("honest"), 0.95);
  // Another worker says so, too: now it is told by two.
  incumbent.note(6, "honest", 1e-10);
  EXPECT_DOUBLE_EQ(incumbent.seconds("honest"), 0.95e-9);
}

/// A worker with one slot measures candidates of one search, one after the other.
struct Search : Bench {
  Search() { join("p", "w", 1); }
  wire::Lease next(const std::string& trace, JobId job = 1, double incumbent = wire::kNoIncumbent,
                   double fastest_seconds = 1e-6) {
    Candidate candidate{.workload = 7, .trace = trace};
    candidate.evaluation.incumbent_seconds = incumbent;
    std::vector<Submission> trials = journal.add(job, std::vector{candidate});
    TrialSpec spec = *trials[0].spec;
    spec.fastest_seconds = fastest_seconds;
    trials[0].spec = std::make_shared<TrialSpec>(spec);
    step(Submit{trials});
    return lease("p");
  }
  void answer(const wire::Lease& lease, float seconds) {
    wire::Result result = ok(lease);
    result.samples = {seconds};
    say("p", result);
  }
  double told() const { return sent<wire::ResultAck>("p").at(0).incumbent_seconds; }
};

TEST(Incumbents, AreWhatIsBelieved) {
  Search s;
  s.answer(s.next("a"), 1e-3f);
  EXPECT_EQ(s.told(), 0) << "of one alone nobody is compared with";
  const wire::Lease second = s.next("b");
  EXPECT_EQ(second.evaluation.incumbent_seconds, wire::kNoIncumbent);
  EXPECT_EQ(second.job, 1u);
  EXPECT_EQ(second.workload_id, 7);
  s.answer(second, 1.02e-3f);
  EXPECT_FLOAT_EQ(s.told(), 1e-3);
  // Below what the roofline allows, and it is the only worker: the candidate fails.
  s.answer(s.next("cannot be"), 1e-9f);
  EXPECT_FLOAT_EQ(s.told(), 1e-3);
  // What could be may be a lie all the same.
  s.answer(s.next("may be"), 1.1e-6f);
  const wire::Lease honest = s.next("c");
  EXPECT_FLOAT_EQ(honest.evaluation.incumbent_seconds, 0.95e-3);
  s.answer(honest, 1e-3f);
  EXPECT_EQ(s.next("a again", 1, 0).evaluation.incumbent_seconds, 0) << "whoever confirms wants all samples";
}

TEST(Incumbents, AreOfOneJob) {
  Search s;
  for (const char* trace : {"a", "b"}) s.answer(s.next(trace, /*job=*/1), 1e-5f);
  EXPECT_FLOAT_EQ(s.told(), 1e-5);
  EXPECT_EQ(s.next("c", /*job=*/2).evaluation.incumbent_seconds, wire::kNoIncumbent)
      << "another's candidates have no say";
}

/// A worker says of two candidates what could be, and is not: others measure theirs as before.
TEST(Incumbents, OfOneWorkerAreItsOwn) {
  Search s;
  s.answer(s.next("a"), 1.1e-6f);
  s.answer(s.next("b"), 1.1e-6f);
  s.say("p", wire::Bye{});
  s.join("p", "another", 1);
  const wire::Lease lease = s.next("c");
  EXPECT_EQ(lease.evaluation.incumbent_seconds, wire::kNoIncumbent);
  s.answer(lease, 1e-3f);
  EXPECT_FLOAT_EQ(s.told(), 0.95e-3);
}

TEST(Incumbents, AreForgottenWithWhoIsSuspectAndWithTheirJob) {
  Incumbents incumbents;
  const TrialSpec first{.job = 1, .workload_id = 1}, other{.job = 1, .workload_id = 2},
      last{.job = 2, .workload_id = 1};
  for (const TrialSpec* spec : {&first, &other, &last})
    for (CandidateId candidate : {1, 2}) incumbents.note(*spec, candidate, "w", 1);
  incumbents.forget(1);
  EXPECT_EQ(incumbents.seconds(first, "w"), wire::kNoIncumbent);
  EXPECT_EQ(incumbents.seconds(other, "w"), wire::kNoIncumbent);
  EXPECT_EQ(incumbents.seconds(last, "w"), 1);
  for (CandidateId candidate : {3, 4}) incumbents.note(other, candidate, "honest", 1);
  incumbents.forget_said_by("w");
  EXPECT_EQ(incumbents.seconds(last, "w"), wire::kNoIncumbent);
  EXPECT_EQ(incumbents.seconds(other, "honest"), 1);
}

TEST(Incumbents, OfAFloodOfTasksTheOldestGo) {
  Incumbents incumbents;
  TrialSpec spec{.job = 1};
  for (spec.workload_id = 1; spec.workload_id <= 100'000; ++spec.workload_id)
    for (CandidateId candidate : {1, 2}) incumbents.note(spec, candidate, "w", 1);
  EXPECT_EQ(incumbents.seconds(TrialSpec{.job = 1, .workload_id = 1}, "w"), wire::kNoIncumbent);
  EXPECT_EQ(incumbents.seconds(TrialSpec{.job = 1, .workload_id = 100'000}, "w"), 1);
}

/// What it holds was leased before the acknowledgement: rivals of what is acknowledged go by that.
TEST(Incumbents, ReachWhatAWorkerHolds) {
  worker::Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}, .canaries = false}, Time(0));
  agent.step(wire::Message(wire::Welcome{}), Time(0));
  const auto lease = [](uint64_t id, uint64_t job, double incumbent) {
    wire::Lease lease{.lease = id, .trial = id, .limit_ms = 60'000, .job = job, .workload_id = 7};
    lease.evaluation.incumbent_seconds = incumbent;
    return lease;
  };
  for (const wire::Lease& each : {lease(1, 1, wire::kNoIncumbent), lease(2, 1, wire::kNoIncumbent),
                                  lease(3, 2, wire::kNoIncumbent), lease(4, 1, 0)})
    agent.step(wire::Message(each), Time(0));
  std::vector<double> compared_with;
  for (LeaseId id = 1; id <= 4; ++id) {
    for (const worker::Run& run : agent.step(worker::Built{.lease = id}, Time(0)).run) {
      EXPECT_EQ(run.lease.lease, id);
      compared_with.push_back(run.lease.evaluation.incumbent_seconds);
    }
    agent.step(worker::Measured{.lease = id}, Time(0));
    agent.step(wire::Message(wire::ResultAck{.lease = id, .incumbent_seconds = id == 1 ? 0.5 : 0}), Time(0));
  }
  EXPECT_THAT(compared_with, ElementsAre(wire::kNoIncumbent, 0.5, wire::kNoIncumbent, 0));
}

}  // namespace
}  // namespace lathe::tracker
