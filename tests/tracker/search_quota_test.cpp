// How much a search may write down, of its own and of its owner's.
#include "tracker/search_quota.h"

#include <nlohmann/json.hpp>

#include "tests/tracker/search_desk.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

/// It has become hostile, and writes into the database until that is full.
TEST(SearchServer, FillsNoDatabase) {
  const auto ended = [](size_t told, const std::function<void(SearchLink&, const JobRows&)>& attack) {
    Desk desk(told);
    SearchLink link(desk.ends[0]);
    const JobRows rows = link.begin(start_of("a workload"));
    EXPECT_THROW(attack(link, rows), Error);
    desk.leave();
    return std::pair(desk.error, desk.farm.asked.size());
  };
  const auto trials = ended(0, [](SearchLink& link, const JobRows& rows) {
    const std::vector<Candidate> few(10, {.workload = rows.workloads[0], .trace = "t"});
    for (int i = 0; i < 100; ++i) link.submit(0, few);
  });
  EXPECT_EQ(trials.first,
            "its search asks for more than 74 trials, which a job of 10 may have with confirmations");
  EXPECT_EQ(trials.second, 70u);
  const std::string text(1 << 20, 't');
  constexpr size_t kAlmostAll = 70 << 20;
  const auto traces = ended(kAlmostAll, [&](SearchLink& link, const JobRows& rows) {
    const Candidate large{.workload = rows.workloads[0], .trace = text, .program = "p"};
    link.submit(0, std::span(&large, 1));
  });
  EXPECT_EQ(traces.first, "its search wants to keep more than 70 MiB, which a job of 10 trials may by now");
  EXPECT_EQ(traces.second, 0u);
  const auto news = ended(kAlmostAll, [&](SearchLink& link, const JobRows&) {
    link.tell("progress", "{}");
    link.tell("schedule/0", json(text).dump());
  });
  EXPECT_EQ(news.first, traces.first);
  const auto again = ended(0, [](SearchLink& link, const JobRows&) { link.begin(start_of("another")); });
  EXPECT_EQ(again.first, "a searcher begins twice");
}

/// Which each list of jobs reads, of each job.
TEST(SearchServer, TellsNoMegabytesToWhoeverLists) {
  const auto refusal = [](const std::function<void(SearchLink&, const std::string&)>& tell) {
    Desk desk;
    SearchLink link(desk.ends[0]);
    const std::string large = json(std::string(1 << 20, 't')).dump();
    EXPECT_THROW(tell(link, large), Error);
    desk.leave();
    return desk.error;
  };
  for (const char* kind : {"tasks", "task_state"})
    EXPECT_EQ(refusal([&](SearchLink& link, const std::string& large) { link.tell(kind, large); }),
              "a searcher's news has 1048578 bytes, more than 1048576");
  // Thousands of these are read for one curve.
  for (const char* kind : {"progress", "disturbance"})
    EXPECT_EQ(refusal([&](SearchLink& link, const std::string& large) { link.tell(kind, large); }),
              "a searcher's news has 1048578 bytes, more than 4096");
  EXPECT_EQ(refusal([](SearchLink& link, const std::string& large) { link.deliver(large, ""); }),
            "a searcher's report has 1048578 bytes, more than 1048576");
}

/// Many jobs that each keep what a job may are bounded together, the ended ones included.
TEST(SearchServer, KeepsNoMoreThanItsOwnerMay) {
  Desk desk(0, 3 << 20);
  const db::ServedJob before =
      desk.store.add_served_job({.owner = desk.job.owner, .model_name = "net", .request = kRequest});
  desk.store.set_served_kept(before.id, 1 << 20);
  desk.store.set_served_kept(
      desk.store.add_served_job({.owner = "another", .model_name = "n", .request = "{}"}).id, 1 << 30);
  {
    SearchLink link(desk.ends[0]);
    link.begin(start_of("a workload"));
    link.tell("schedule/0", json(std::string(1 << 20, 't')).dump());
    EXPECT_THROW(link.tell("schedule/0", json(std::string(2 << 20, 't')).dump()), Error);
  }
  desk.leave();
  EXPECT_EQ(desk.error,
            "the database has no more room for its owner: an administrator can raise `kept-gib=`");
  const int64_t kept = desk.store.kept_by_owner(desk.job.owner);
  EXPECT_GT(kept, 2 << 20) << "written down when it ends";
  EXPECT_LE(kept, 3 << 20);
  EXPECT_EQ(desk.store.kept_by_owner(desk.job.owner, desk.job.id), 1 << 20);
}

/// They stay in the database for as long as the job is not over, and its cost model for ever.
TEST(SearchServer, CountsItsCheckpoints) {
  Desk desk(0, 3 << 20);
  const std::string large(1 << 20, 'c');
  {
    SearchLink link(desk.ends[0]);
    const JobRows rows = link.begin(start_of("a workload"));
    const auto checkpoint = [&](const std::string& bytes, const std::string& model) {
      link.checkpoint({.tasks = {{rows.workloads[0], bytes}}, .model = {{model, 5, 0.5, 0.25}}});
    };
    checkpoint(large, "m");
    // In the place of the last one.
    checkpoint(large + large, large.substr(1 << 19));
    const int64_t kept = desk.store.kept_by_owner(desk.job.owner);
    EXPECT_GT(kept, 5 << 19);
    EXPECT_LT(kept, 3 << 20);
    EXPECT_THROW(checkpoint(large + large, large), Error);
  }
  desk.leave();
  EXPECT_EQ(desk.error,
            "the database has no more room for its owner: an administrator can raise `kept-gib=`");
  EXPECT_TRUE(desk.store.set_served_state(desk.job.id, db::JobState::kCancelled));
  EXPECT_LT(desk.store.kept_by_owner(desk.job.owner), 2 << 20) << "nobody goes on from them";
  EXPECT_EQ(desk.store.job_tasks(*desk.store.served_job(desk.job.id).job).at(0).checkpoint, "");
}

/// What an earlier life of the searcher has written counts.
TEST(SearchServer, CountsWhatIsThere) {
  Desk desk;
  SearchLink link(desk.ends[0]);
  const JobRows rows = link.begin(start_of("a workload"));
  measure(desk.store, rows.job, rows.workloads.at(0), "p");
  link.tell("progress", "[1, 2]");
  const db::StoredByJob stored = desk.store.stored_by(desk.job.id);
  EXPECT_EQ(stored.tasks, 1);
  EXPECT_EQ(stored.trials, 1);
  EXPECT_EQ(stored.events, 2) << "the first says that it is queued";
  EXPECT_GE(stored.bytes, static_cast<int64_t>(std::string("trace of p"
                                                           "p"
                                                           "[1,2]")
                                                   .size()));
  SearchQuota quota(parse_job_request(kRequest), {.trials = 9});
  quota.take_trials(1, 0);
  EXPECT_THROW(quota.take_trials(1, 0), QuotaError);
  quota.return_trials(1);
  quota.take_trials(1, 0);
  quota.set_tasks(1);
  quota.take_trials(64, 0);
  EXPECT_THROW(quota.take_trials(1, 0), QuotaError);
  SearchQuota timed(parse_job_request(R"({"model": "net", "trials": 0, "seconds": 2})"), {});
  timed.take_trials(2000, 0);
  EXPECT_THROW(timed.take_trials(1, 0), QuotaError);
}

}  // namespace
}  // namespace lathe::tracker
