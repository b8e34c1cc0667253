// What a searcher may ask, and what one that has become hostile gets.
#include <map>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "tests/tracker/search_desk.h"
#include "tracker/remote_reader.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

TEST(SearchServer, DoesWhatASearcherMay) {
  Desk desk;
  SearchLink link(desk.ends[0]);
  EXPECT_EQ(link.order().target, kTarget);
  const JobRows rows = link.begin(start_of("a workload"));
  EXPECT_EQ(rows.uuid, desk.job.uuid);
  Candidate candidate{.workload = rows.workloads.at(0), .trace = "trace", .program = "p", .predicted = NAN};
  candidate.evaluation.run_limit_seconds = 1e9;
  candidate.evaluation.threads = 1 << 30;
  EXPECT_EQ(link.submit(0, std::span(&candidate, 1)).at(0).trial, 1u);
  EXPECT_EQ(desk.farm.asked.at(0).evaluation.run_limit_seconds, 60);
  EXPECT_EQ(desk.farm.asked.at(0).evaluation.threads, 1024u);
  EXPECT_EQ(link.poll(0, std::chrono::milliseconds(1)).at(0).result.samples.at(1), 0.5f);
  EXPECT_EQ(link.in_flight(0), 3u);
  EXPECT_EQ(link.status().unserved.at(0), "cpu/aarch64");
  link.cancel(77);  // whatever it says, its own job
  EXPECT_EQ(desk.farm.jobs, (std::vector<JobId>{static_cast<JobId>(rows.job), static_cast<JobId>(rows.job)}));
  link.tell("progress", "{}");
  link.checkpoint({.round = 3,
                   .tasks = {{rows.workloads[0], "where it stands"}},
                   .model = {{"model", 5, 0.5, 0.25}},
                   .seconds = 1.5});
  link.deliver("{}", "text");
  desk.leave();
  EXPECT_EQ(desk.error, "");
  EXPECT_TRUE(desk.ending.done);
  EXPECT_EQ(desk.store.served_job(desk.job.id).job, rows.job);
  EXPECT_EQ(desk.store.cost_model_of(rows.job)->model, "model");
  EXPECT_EQ(desk.store.cost_model_of(rows.job)->recall, 0.25);
  EXPECT_EQ(desk.store.job_tasks(rows.job).at(0).checkpoint, "where it stands");
  EXPECT_EQ(desk.store.job_tasks(rows.job).at(0).round, 3);
  EXPECT_EQ(desk.store.job(rows.job).seconds_used, 1.5);
  EXPECT_EQ(desk.store.last_served_event(desk.job.id, "progress")->body, "{}");
}

/// A lease that no worker reads passes its time, and workers that let some of these pass are expelled.
TEST(SearchServer, AsksForNothingThatNoWorkerReads) {
  Desk desk;
  SearchLink link(desk.ends[0]);
  const JobRows rows = link.begin(start_of("a workload"));
  const auto asked = [&](const wire::Evaluation& evaluation) {
    const Candidate candidate{.workload = rows.workloads.at(0), .trace = "t", .evaluation = evaluation};
    link.submit(0, std::span(&candidate, 1));
    return desk.farm.asked.back().evaluation;
  };
  const wire::Evaluation sane;
  EXPECT_EQ(asked(sane), sane);
  for (const wire::Evaluation& strange : std::initializer_list<wire::Evaluation>{
           {.threads = 0},
           {.warmup = UINT32_MAX},
           {.min_samples = UINT32_MAX, .max_samples = UINT32_MAX},
           {.budget_seconds = -1},
           {.relative_interval = -1},
           {.incumbent_seconds = -1},
           {.incumbent_seconds = 1e300},
           {.tolerance = -1},
           {.build_limit_seconds = -1},
           {.run_limit_seconds = -1},
       })
    EXPECT_NO_THROW(wire::decode(wire::encode(wire::Lease{.evaluation = asked(strange)})));
}

/// What others' devices could hold, it would wait for in vain.
TEST(SearchServer, TellsOfTheSlotsOfItsOwnDevices) {
  for (const auto& [device_class, slots] :
       std::map<std::string, uint32_t>{{"m, 1 core", 3}, {"m, 2 cores", 2}, {"n, 1 core", 0}}) {
    Desk desk(0, defaults::kKeptBytesOfOne, device_class);
    SearchLink link(desk.ends[0]);
    link.begin(start_of("a workload"));
    EXPECT_EQ(link.status().slots, slots) << device_class;
  }
  const FarmStatus farm = EchoFarm().status();
  EXPECT_EQ(slots_of(farm, "m, 1 core", {{"memory", {1}}}).ready, 3u);
  EXPECT_EQ(slots_of(farm, "m, 1 core", {{"memory", {2}}}).ready, 0u);
}

/// Who asks for the farm's state learns whether anybody is waited for.
TEST(SearchServer, SaysThatItsDevicesAreGivenUp) {
  Desk desk;
  SearchLink link(desk.ends[0]);
  link.begin(start_of("a workload"));
  EXPECT_FALSE(link.status().given_up);
  desk.given_up = true;
  EXPECT_TRUE(link.status().given_up);
}

TEST(SearchServer, AnswersWhatASearchReads) {
  Desk desk;
  SearchLink link(desk.ends[0]);
  const JobRows rows = link.begin(start_of("a workload"));
  const db::WorkloadId workload = rows.workloads.at(0);
  const db::TrialId trial = measure(desk.store, rows.job, workload, "p"),
                    slow = measure(desk.store, rows.job, workload, "q");
  link.checkpoint({.tasks = {{workload, "bytes \x01"}}, .model = {{"model", 5, 0.5, 0.25}}});
  const std::unique_ptr<db::Reader> records = link.records();

  EXPECT_EQ(records->find_target(kTarget), rows.target);
  EXPECT_EQ(records->find_target("cpu:another"), std::nullopt);
  EXPECT_EQ(records->find_workload(sha256("a workload")), workload);
  EXPECT_EQ(records->find_workload("none"), std::nullopt);
  EXPECT_EQ(records->workload(workload).text, "a workload");
  EXPECT_EQ(records->workload(workload).flops, 0) << "it is no program";
  EXPECT_EQ(records->measured_workloads(rows.target), std::vector{workload});

  db::BestQuery query{.workload = workload, .target = rows.target, .threads = 1};
  EXPECT_FALSE(records->best(query)) << "nothing is confirmed";
  query.accept_unconfirmed = true;
  const db::Measurement expected = desk.store.best(query)->measurement,
                        best = records->best(query)->measurement;
  EXPECT_EQ(best.id, expected.id);
  EXPECT_EQ(best.trace, "trace of p");
  EXPECT_EQ(best.samples, expected.samples);
  EXPECT_EQ(best.seconds, 0.25);
  EXPECT_EQ(best.summary.mad, expected.summary.mad);
  EXPECT_EQ(best.relative_error, 1e-5);
  EXPECT_EQ(best.recorded_ms, expected.recorded_ms);
  EXPECT_EQ(best.imported_ms, std::nullopt);
  query.max_relative_error = 1e-9;
  EXPECT_FALSE(records->best(query));
  query.max_relative_error = 1;
  EXPECT_EQ(records->top(query, 5).size(), 2u);
  EXPECT_EQ(records->history(workload, rows.target).at(1).program, "q");

  const db::ChoiceKey key{"digest", rows.target, 1, 1};
  EXPECT_FALSE(records->find_choice(key));
  const db::MeasurementId chosen = desk.store.history(workload, rows.target).at(1).id;
  desk.store.set_choice({.key = key, .seconds_before = 2, .seconds_after = 1, .tasks = {{workload, chosen}}});
  const auto choice = records->find_choice(key);
  EXPECT_EQ(choice->seconds_before, 2);
  EXPECT_EQ(records->chosen(*choice, query)->program, "q");

  EXPECT_EQ(records->job_tasks(0).at(0).checkpoint, "bytes \x01");
  EXPECT_EQ(records->job_tasks(0).at(0).best_seconds, 0.25);
  EXPECT_EQ(records->job_progress(0).ended(), 2);
  EXPECT_EQ(records->cost_model_of(0)->model, "model");
  EXPECT_FALSE(records->latest_cost_model(rows.target)) << "it still learns";
  EXPECT_EQ(records->candidates(0, workload, rows.target).at(1).trace, "trace of q");
  EXPECT_TRUE(records->candidates(0, workload, rows.target).at(1).tried);
  EXPECT_TRUE(records->confirmations(0).empty());
  EXPECT_EQ(records->trial_end(0, slow)->samples, (std::vector{0.5f, 0.25f, 0.125f}));
  EXPECT_EQ(records->trial_end(0, trial)->outcome, Outcome::kOk);

  const db::JobId other = desk.store.create_job({.target = rows.target, .tasks = {{.workload = workload}}});
  const db::TrialId theirs = measure(desk.store, other, workload, "r");
  EXPECT_FALSE(records->candidates(0, workload, rows.target).at(2).tried) << "by this job";
  EXPECT_THROW(records->trial_end(other, theirs), Error);
  desk.leave();
  EXPECT_EQ(desk.error, fmt::format("trial {} is of another job", theirs));
}

/// Histories, as many jobs leave them, are more than one answer may have.
TEST(RemoteReader, ReadsALongHistoryInPages) {
  TemporaryFolder folder;
  db::Store store(folder / "tuning.db");
  const db::TargetId target = store.add_target({.name = kTarget});
  const db::WorkloadId workload = store.add_workload({.digest = sha256("w"), .text = "w"});
  const db::JobId job = store.create_job({.target = target, .tasks = {{.workload = workload}}});
  const std::string large(4 << 20, 'x');
  constexpr size_t kMany = 6;
  for (size_t i = 0; i < kMany; ++i) measure(store, job, workload, std::to_string(i) + large);
  size_t longest = 0;
  RemoteReader records([&](const json& question) {
    json answer = answer_reader(store, job, "", question);
    longest = std::max(longest, json_line(answer).size());
    return answer;
  });
  const std::vector<db::Measurement> history = records.history(workload, target, db::kHistory);
  ASSERT_EQ(history.size(), kMany);
  for (size_t i = 0; i < kMany; ++i) EXPECT_EQ(history[i].program[0], static_cast<char>('0' + i));
  EXPECT_TRUE(history[0].samples.empty());
  EXPECT_EQ(records.candidates(job, workload, target).size(), kMany);
  EXPECT_LE(longest, 17u << 20);
  EXPECT_EQ(records.history(workload, target, 2).size(), 2u);
  EXPECT_EQ(records.measurement(workload, target, history[3].id)->program, history[3].program);
  EXPECT_FALSE(records.measurement(workload + 1, target, history[3].id));
  EXPECT_EQ(records.measured(workload, target, history[5].program).at(0).id, history[5].id);
  EXPECT_TRUE(records.measured(workload, target, "another").empty());
}

/// A target's text may be that of several classes: cloud machines of one generation differ in their cores
/// alone.
TEST(RemoteReader, TellsOfDevicesOfItsClassAlone) {
  TemporaryFolder folder;
  db::Store store(folder / "tuning.db");
  const db::TargetId target = store.add_target({.name = kTarget});
  const db::WorkloadId workload = store.add_workload({.digest = sha256("w"), .text = "w"});
  const std::map<std::string, db::Device> devices = {
      {"m, 1 core", {.host = "a", .model = "m", .architecture = "x86_64", .cores = 1}},
      {"m, 2 cores", {.host = "b", .model = "m", .architecture = "x86_64", .cores = 2}},
      {"m, 2, 2 cores", {.host = "c", .model = "m, 2", .architecture = "x86_64", .cores = 2}}};
  std::map<std::string, db::JobId> jobs;
  std::map<std::string, db::TrialId> trials;
  for (const auto& [name, device] : devices) {
    const auto served = store.add_served_job({.owner = "alice", .model_name = "net"});
    store.set_served_device_class(served.id, name);
    jobs[name] = store.create_job({.target = target, .tasks = {{.workload = workload}}});
    store.set_served_search(served.id, jobs[name]);
    trials[name] = measure(store, jobs[name], workload, "same", device);
    measure(store, jobs[name], workload, "on " + name, device);
    store.add_cost_model({.job = jobs[name], .target = target, .model = "of " + name});
    store.set_job_state(jobs[name], db::JobState::kDone);
  }
  const db::BestQuery query{.workload = workload, .target = target, .threads = 1, .accept_unconfirmed = true};
  const db::ChoiceKey key{"digest", target, 1, 1};
  for (const auto& [name, device] : devices) {
    RemoteReader records(
        [&, &name = name](const json& question) { return answer_reader(store, jobs[name], name, question); });
    const db::DeviceId own = store.add_device(device);
    const auto are_own = [&](const std::vector<db::Measurement>& found, size_t count) {
      EXPECT_EQ(found.size(), count) << name;
      for (const db::Measurement& one : found) EXPECT_EQ(one.device, own) << name;
    };
    are_own(records.top(query, 9), 2);
    are_own({records.best(query)->measurement}, 1);
    db::BestQuery any_threads = query;
    any_threads.threads = 0;
    are_own(records.top(any_threads, 9), 2);
    are_own(records.history(workload, target, 9), 2);
    are_own(records.measured(workload, target, "same"), 1);
    EXPECT_EQ(records.latest_cost_model(target)->model, "of " + name);
    const db::MeasurementId last = records.history(workload, target, 9).back().id;
    for (const auto& [other, ignored] : devices) {
      const std::vector<db::Measurement> theirs = store.measured(workload, target, "on " + other);
      ASSERT_EQ(theirs.size(), 1u);
      EXPECT_EQ(records.measurement(workload, target, theirs[0].id).has_value(), other == name);
      store.set_choice({.key = key, .tasks = {{workload, theirs[0].id}}});
      // Each class has its own, which no other's replaces.
      const std::optional<db::Choice> choice = records.find_choice(key);
      EXPECT_TRUE(choice || other != name);
      if (choice) are_own({store.measurement(workload, target, choice->tasks.at(0).measurement).value()}, 1);
      db::BestQuery on_other = query;
      on_other.device = theirs[0].device;
      EXPECT_EQ(records.top(on_other, 9).empty(), other != name);
    }
    EXPECT_EQ(records.trial_end(jobs[name], trials[name])->samples.size(), 3u);
    EXPECT_GT(last, 0);
  }
  const db::WorkerId worker = store.add_worker("w");
  store.set_suspect(worker, 0);
  for (const auto& [name, device] : devices) {
    RemoteReader records(
        [&, &name = name](const json& question) { return answer_reader(store, jobs[name], name, question); });
    EXPECT_EQ(records.top_suspect(query, 9).size(), 2u);
    EXPECT_TRUE(records.history(workload, target, 9).empty());
  }
}

/// Both ends of a search, which nothing serves by itself as a Desk does.
struct Bench {
  Bench() { CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
  ~Bench() {
    for (const int end : ends) close(end);
  }
  SearchServer server(const std::string& machine, std::chrono::seconds silence = std::chrono::minutes(1)) {
    return SearchServer(ends[1], {.request = kRequest, .machine = machine}, job, store, farm, silence);
  }

  TemporaryFolder folder;
  db::Store store{folder / "tuning.db"};
  EchoFarm farm;
  const db::ServedJob job = store.add_served_job({.owner = "alice", .model_name = "net"});
  int ends[2];
};

/// Nor is it to blame: three such answers had failed its job.
TEST(SearchServer, SaysThatAnAnswerIsTooLong) {
  Bench bench;
  write_search_frame(bench.ends[0], R"({"call": "order"})");
  shutdown(bench.ends[0], SHUT_WR);
  bench.server(std::string(kSearchFrameLimit, 'x')).serve();
  std::string answer;
  ASSERT_TRUE(read_search_frame(bench.ends[0], answer));
  EXPECT_NE(answer.find("bytes is over the limit"), std::string::npos);
}

/// By what a searcher says of a workload, all jobs with it would believe or expel their workers.
TEST(SearchServer, CountsOperationsItself) {
  for (const double claimed : {1e30, 0.0}) {
    Desk desk;
    // Known from an honest job.
    const db::WorkloadId workload =
        desk.store.add_workload({.digest = sha256(twice()), .text = twice(), .flops = kOperations});
    SearchLink link(desk.ends[0]);
    JobStart start = start_of(twice());
    start.tasks[0].workload.flops = claimed;
    EXPECT_EQ(link.begin(start).workloads.at(0), workload);
    EXPECT_EQ(desk.store.workload(workload).flops, kOperations) << claimed;
  }
}

TEST(SearchServer, KeepsNoMoreThanASearchNeeds) {
  const auto refusal = [](const JobCheckpoint& checkpoint) {
    Desk desk;
    SearchLink link(desk.ends[0]);
    link.begin(start_of("a workload"));
    EXPECT_THROW(link.checkpoint(checkpoint), Error);
    desk.leave();
    return desk.error;
  };
  EXPECT_EQ(refusal({.tasks = {{4711, "bytes"}}}), "a checkpoint is of no task of its job");
  Desk desk;
  SearchLink link(desk.ends[0]);
  const JobRows rows = link.begin(start_of("a workload"));
  link.checkpoint({.tasks = {{rows.workloads[0], "bytes"}}, .seconds = -1e9});
  link.end(rows.job, db::JobState::kStopped, -1e9);
  EXPECT_EQ(desk.store.job(rows.job).seconds_used, 0) << "time comes back to nobody";
}

/// A byte of which takes 25 of memory.
std::string many_lists() {
  std::string text;
  for (int i = 0; i < (2 << 20); ++i) text += "[],";
  return text;
}

TEST(SearchServer, EndsWithWhoeverSendsNonsense) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "a searcher's call is no JSON"},
      {"[1]", "a searcher's call is no JSON"},
      {R"({"call": "rm"})", "a searcher calls before its job has begun"},
      {R"({"call": "submit", "candidates": []})", "a searcher calls before its job has begun"},
      {R"({"call": "read", "what": "best"})", "a searcher calls before its job has begun"},
      {R"({"call": "begin", "model": 3})", "a searcher's call is malformed"},
      {R"({"call": "tell", "kind": "progress"})", "a searcher's call is malformed"},
      {std::string(100'000, '['), "a searcher's call is nested more than 16 deep"},
      {"[" + many_lists() + "1]", "a searcher's call has more than 2097152 values"},
      {R"({"call": "tell", "kind": "state", "body": "{}"})", "a searcher tells of `state`, which is unknown"},
      {R"({"call": "tell", "kind": "schedule/1\ndata: x", "body": "{}"})", "a searcher tells of `schedule/1"},
      {R"({"call": "tell", "kind": "progress", "body": "<script>"})", "a searcher's news is no JSON"},
      {R"({"call": "tell", "kind": "tasks", "body": ")" + std::string(100'000, '[') + R"("})",
       "news is nested more than 8 deep"},
      {R"({"call": "deliver", "text": "", "report": ")" + std::string(100'000, '[') + R"("})",
       "report is nested more than 8 deep"},
  };
  for (const auto& [bytes, message] : cases) {
    Desk desk;
    EXPECT_EQ(desk.refusal(bytes).substr(0, message.size()), message);
  }
}

/// Of a model made so that preparing it never ends.
TEST(SearchServer, WaitsForASearcherSoLong) {
  Bench bench;
  try {
    bench.server("", std::chrono::seconds(1)).serve();
    ADD_FAILURE() << "it came to an end";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "nothing was heard for too long");
  }
}

/// One that asks, and never reads what it is told.
TEST(SearchServer, WaitsForItsAnswersToBeTakenSoLong) {
  Bench bench;
  write_search_frame(bench.ends[0], R"({"call": "order"})");
  const std::string more_than_a_socket_holds(8 << 20, 'x');
  try {
    bench.server(more_than_a_socket_holds, std::chrono::seconds(1)).serve();
    ADD_FAILURE() << "it came to an end";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "nothing was taken for too long");
  }
}

TEST(SearchServer, BelievesNoDigestAndNoOtherTarget) {
  const auto refusal = [](JobStart start) {
    Desk desk;
    SearchLink link(desk.ends[0]);
    EXPECT_THROW(link.begin(start), Error);
    desk.leave();
    return desk.error;
  };
  JobStart other = start_of("a workload");
  other.tasks[0].workload.digest = sha256("another");  // whose measurements it would spoil
  EXPECT_EQ(refusal(other), "a task's digest is not that of its text");
  JobStart pretended = start_of("a workload");
  pretended.model_digest = sha256("1 of another model\n");  // whose builds would follow its choices
  EXPECT_EQ(refusal(pretended), "a model's digest is not that of its tasks");
  JobStart elsewhere = start_of("a workload");
  elsewhere.target = "cpu:mcpu=znver4";
  EXPECT_EQ(refusal(elsewhere), "a searcher begins for another target than it was given");
}

/// Each would break a rule of the database's tables.
TEST(SearchServer, BeginsWithNoTaskThatIsNone) {
  const auto refusal = [](JobStart start, const std::string& counted) {
    start.model_digest = sha256(counted);
    Desk desk;
    SearchLink link(desk.ends[0]);
    EXPECT_THROW(link.begin(start), Error);
    desk.leave();
    return desk.error;
  };
  JobStart never = start_of("a workload");
  never.tasks[0].calls = 0;
  EXPECT_EQ(refusal(never, fmt::format("0 {}\n", sha256("a workload"))), "a model calls a task 0 times");
  JobStart twice = start_of("a workload");
  twice.tasks.push_back(twice.tasks[0]);
  EXPECT_EQ(refusal(twice, fmt::format("2 {0}\n2 {0}\n", sha256("a workload"))), "a model has a task twice");
}

TEST(SearchServer, MeasuresNoWorkloadOfOthers) {
  Desk desk;
  SearchLink link(desk.ends[0]);
  link.begin(start_of("a workload"));
  const Candidate candidate{.workload = 4711, .trace = "t", .program = "p"};
  EXPECT_THROW(link.submit(0, std::span(&candidate, 1)), Error);
  desk.leave();
  EXPECT_EQ(desk.error, "a candidate is of no task of its job");
}

/// Where there is no room it waits, and is not charged for what did not come to be.
TEST(SearchServer, WaitsForRoomInTheQueue) {
  Desk desk;
  desk.farm.full = 3;
  SearchLink link(desk.ends[0]);
  const JobRows rows = link.begin(start_of("a workload"));
  // 74 are allowed: see FillsNoDatabase.
  const std::vector<Candidate> most(74, {.workload = rows.workloads[0], .trace = "t"});
  EXPECT_EQ(link.submit(0, most).size(), most.size());
  EXPECT_EQ(desk.farm.full, 0);
  EXPECT_EQ(desk.farm.asked.size(), most.size());
}

/// Its results are in the database; nobody else takes them out of the tracker's memory.
TEST(SearchServer, LeavesNothingBehind) {
  Desk desk;
  JobRows rows;
  {
    SearchLink link(desk.ends[0]);
    rows = link.begin(start_of("a workload"));
    EXPECT_TRUE(desk.farm.left.empty());
  }
  desk.leave();
  EXPECT_EQ(desk.farm.left, std::vector<JobId>{static_cast<JobId>(rows.job)});
}

TEST(SearchLink, SaysThatTheTrackerIsGone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  close(ends[1]);
  SearchLink link(ends[0]);
  EXPECT_THROW(link.status(), Error);
  close(ends[0]);
}

TEST(SearchLink, TakesNoFrameOverTheLimit) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(write(ends[1], "\xff\xff\xff\xff", 4), 4);
  std::string bytes;
  EXPECT_THROW(read_search_frame(ends[0], bytes), Error);
  close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace lathe::tracker
