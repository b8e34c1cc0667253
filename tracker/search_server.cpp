#include "tracker/search_server.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "tracker/device_class.h"
#include "tracker/evaluation_json.h"
#include "tracker/race_spec.h"
#include "tracker/remote_reader.h"
#include "tracker/sampling.h"
#include "tuner/tasks.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

// Beyond anything a compiler makes of a model, and small enough that what is held of them fits in memory.
constexpr size_t kMostTasks = 100'000, kMostCandidates = 4096, kMostCheckpoint = size_t{1} << 30;
constexpr int kToldDepth = 8;
constexpr auto kLongestPoll = std::chrono::milliseconds(1000);

/// What a searcher may have its candidates measured with. It compiles a user's model, so it is only as good
/// as that: all it says is checked in this file as if a stranger had said it (docs/decisions/025).
wire::Evaluation bounded(wire::Evaluation e) {
  // NaN compares false, and so becomes `most` as well.
  const auto within = [](double value, double most) { return value >= 0 && value <= most ? value : most; };
  e.threads = std::clamp<uint32_t>(e.threads, 1, kMostThreads);
  e.warmup = std::min<uint32_t>(e.warmup, 1000);
  e.max_samples = std::clamp<uint32_t>(e.max_samples, 1, kMostSamples);
  e.min_samples = std::min(e.min_samples, e.max_samples);
  e.budget_seconds = within(e.budget_seconds, 10);
  e.relative_interval = within(e.relative_interval, 1);
  e.incumbent_seconds = within(e.incumbent_seconds, wire::kNoIncumbent);
  e.build_limit_seconds = within(e.build_limit_seconds, 60);
  e.run_limit_seconds = within(e.run_limit_seconds, 60);
  e.tolerance = within(e.tolerance, 1);
  return e;
}

db::Purpose purpose_of(int number) {
  if (number < 0 || number > static_cast<int>(db::Purpose::kTell)) fail("a candidate is for nothing known");
  return static_cast<db::Purpose>(number);
}

/// What a searcher may tell of, all of which others read.
/// "state", "error" and the like are the tracker's own words, which clients act upon.
bool is_told(std::string_view kind) {
  if (kind.starts_with(kScheduleEvent)) {
    kind.remove_prefix(std::string_view(kScheduleEvent).size());
    return !kind.empty() && kind.size() <= 6 &&
           // The number of a task: a route looks for it by this very text.
           kind.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return kind == "tasks" || kind == "progress" || kind == "task_state" || kind == "disturbance";
}

/// The JSON in `text`, written anew: what this gives can be read by whoever reads JSON, a page or a recursive
/// one.
std::string clean_json(const std::string& text, const char* what, size_t most = kToldBytes) {
  if (text.size() > most) fail("a searcher's {} has {} bytes, more than {}", what, text.size(), most);
  const json value = parse_bounded_json(text, kToldDepth, what);
  // Parsed and written again, for what is passed on: duplicate keys, odd numbers and bytes that
  // are no UTF-8 end here.
  if (value.is_discarded()) fail("a searcher's {} is no JSON", what);
  return json_line(value);
}

int64_t room_beside(uint64_t all, int64_t others) {
  const auto most = static_cast<int64_t>(std::min<uint64_t>(all, INT64_MAX));
  return most - std::min(most, others);
}

/// Counted here and not taken from the searcher: too many, and what workers that tell the truth measure would
/// not count, in every job with this workload; too few, and those that lie would be believed. Parser and
/// verifier are made for any text.
double operations_of(const std::string& text) {
  try {
    const tir::Func func = tir::parse_func(text);
    return tir::find_fault(func) ? 0 : tuner::count_flops(func);
  } catch (const Error&) {  // which no worker will build either
    return 0;
  }
}

}  // namespace

SearchServer::SearchServer(int socket, SearchOrder order, db::ServedJob job, db::Store& store,
                           ServiceFarm& farm, std::chrono::seconds silence, uint64_t kept_bytes,
                           std::function<bool()> given_up)
    : socket_(socket),
      order_(std::move(order)),
      served_(std::move(job)),
      store_(store),
      farm_(farm),
      silence_(silence),
      given_up_(std::move(given_up)),
      quota_(parse_job_request(order_.request), store_.stored_by(served_.id),
             room_beside(kept_bytes, store_.kept_by_owner(served_.owner, served_.id))) {
  // Of its last life.
  if (served_.job) {
    for (const db::JobTask& task : store_.job_tasks(*served_.job))
      workloads_[task.workload] = task.checkpoint.size();
    if (const auto model = store_.cost_model_of(*served_.job)) model_bytes_ = model->model.size();
    quota_.keep_state(checkpoint_bytes() + model_bytes_);
  }
  note_kept();
}

// Whatever ended the search: its mailbox goes, and no worker goes on racing for nobody.
SearchServer::~SearchServer() {
  if (job_ != 0) farm_.leave(static_cast<JobId>(job_));
  try {
    note_kept();
    if (race_ != 0) farm_.cancel_race(race_);
  } catch (const std::exception&) {
    // The farm has failed, and all its races with it; or the disk, and the next life counts anew.
  }
}

/// So that other jobs of the owner leave it its part, also after a crash of ours.
void SearchServer::note_kept() {
  // Of a job that was ended meanwhile nobody goes on: see set_served_state.
  const bool over = db::is_final(store_.served_job(served_.id).state);
  store_.set_served_kept(served_.id, quota_.bytes() - (over ? static_cast<int64_t>(checkpoint_bytes()) : 0));
}

size_t SearchServer::checkpoint_bytes() const {
  size_t bytes = 0;
  for (const auto& [workload, size] : workloads_) bytes += size;
  return bytes;
}

SearchEnding SearchServer::serve() {
  // Between two calls it prepares a model, or builds a module. A model may be made so that this never ends.
  const timeval limit{.tv_sec = silence_.count(), .tv_usec = 0};
  // A read that waits longer fails with EAGAIN (socket(7)), which ends the searcher.
  CHECK(setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  // Nor need one that asks ever read an answer: what it does not take fills the socket's buffer.
  CHECK(setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
  std::string bytes;
  // One call, one answer: a searcher has one link and asks one thing at a time, so nothing
  // here is concurrent.
  while (read_search_frame(socket_, bytes)) {
    const json question = parse_bounded_json(bytes, kSearchDepth, "a searcher's call");
    if (!question.is_object()) fail("a searcher's call is no JSON");
    json reply;
    try {
      reply = answer(question);
    } catch (const json::exception& error) {
      // at() and get() throw for what is missing or of another type: malformed is the same as hostile.
      fail("a searcher's call is malformed: {}", error.what());
    }
    bytes = json_line(reply);
    // No fault of the searcher's: it ends with these words.
    if (bytes.size() > kSearchFrameLimit)
      bytes = json_line({{"error", fmt::format("an answer of {} bytes is over the limit", bytes.size())}});
    write_search_frame(socket_, bytes);
  }
  ending_.kept_bytes = quota_.bytes();
  return ending_;
}

void SearchServer::require_begun() const {
  if (job_ == 0) fail("a searcher calls before its job has begun");
}

json SearchServer::answer(const json& question) {
  // What may be told grows with the time that has passed since the job was submitted (search_quota.cpp).
  quota_.set_age(static_cast<double>(store_.now_ms() - served_.created_ms) * 1e-3);
  const std::string& call = question.at("call").get_ref<const std::string&>();
  if (call == "order")
    return {{"request", order_.request},
            {"target", order_.target},
            {"machine", order_.machine},
            {"cores", order_.cores},
            {"file", order_.file},
            {"folder", order_.folder},
            {"seconds_used", order_.seconds_used},
            {"resume", order_.resume ? json(*order_.resume) : json()}};
  if (call == "begin") return begin(question);
  if (call == "tell") {
    tell(question);
    return json::object();
  }
  // Kept until the process has ended well (job_keeper.cpp): a report alone makes no job done.
  if (call == "deliver") {
    ending_ = {
        .done = true, .report = clean_json(question.at("report"), "report"), .text = question.at("text")};
    quota_.take_text(ending_.report.size() + ending_.text.size());
    return json::object();
  }
  require_begun();
  const auto job = static_cast<JobId>(job_);
  // The store is the tracker's: a searcher opens no database, and asks for what it may know.
  if (call == "read") return answer_reader(store_, job_, served_.device_class, question);
  if (call == "submit") return submit(question);
  if (call == "poll") return poll(question);
  if (call == "in_flight") return {{"count", farm_.in_flight(job)}};
  if (call == "status") {
    const FarmStatus status = farm_.status();
    // Of its own devices: others' measure nothing for it, and who waits for its own must know (Patience).
    return {{"slots", slots_of(status, served_.device_class, needs_of_request(served_.request)).ready},
            {"unserved", status.unserved},
            {"withheld", status.withheld},
            {"distrusts", status.distrusts},
            {"given_up", given_up_ && given_up_()}};
  }
  if (call == "cancel") {
    farm_.cancel(job);
    return json::object();
  }
  if (call == "race") return race(question);
  if (call == "choose") {
    choose(question);
    return json::object();
  }
  if (call == "latency") {
    add_latency(question);
    return json::object();
  }
  if (call == "checkpoint") {
    checkpoint(question);
    return json::object();
  }
  if (call == "end") {
    const db::JobState state = db::job_state_named(question.at("state").get_ref<const std::string&>());
    // So that time limits hold for all lives of a job together.
    store_.add_job_seconds(job_, std::max(0.0, question.at("seconds").get<double>()));
    // A search that is over is no job that is done: its module is still to be built.
    if (state == db::JobState::kStopped) store_.set_job_state(job_, state);
    return json::object();
  }
  fail("a searcher calls `{}`, which is unknown", call);
}

void SearchServer::tell(const json& question) {
  const std::string& kind = question.at("kind").get_ref<const std::string&>();
  if (!is_told(kind)) fail("a searcher tells of `{}`, which is unknown", kind);
  const bool is_figures = kind == "progress" || kind == "disturbance";
  // Schedules with their machine code are for those alone who ask for them.
  const size_t most = kind.starts_with(kScheduleEvent) ? SIZE_MAX : is_figures ? kFigureBytes : kToldBytes;
  const std::string body = clean_json(question.at("body"), "news", most);
  quota_.take_text(body.size());
  store_.add_served_event(served_.id, kind, body);
}

/// Digests are of the texts: what a workload is called by decides whose measurements count for it.
json SearchServer::begin(const json& question) {
  // Its quota, its digests and its race are of one job; a second one would begin with none of it counted.
  if (job_ != 0) fail("a searcher begins twice");
  JobStart start{.model = question.at("model"),
                 .model_digest = question.at("model_digest"),
                 .target = question.at("target"),
                 .threads = std::clamp(question.at("threads").get<int>(), 1, kMostThreads),
                 .trials = question.at("trials"),
                 .seconds = question.at("seconds"),
                 .seed = question.at("seed"),
                 .options = question.at("options"),
                 .resume = order_.resume};
  // The device class was chosen for that target; trials for another would go to whoever is of it.
  if (start.target != order_.target) fail("a searcher begins for another target than it was given");
  const json& tasks = question.at("tasks");
  if (tasks.size() > kMostTasks) fail("a model has {} tasks, more than {}", tasks.size(), kMostTasks);
  size_t bytes = start.model.size() + start.model_digest.size() + start.options.size();
  std::vector<std::pair<int64_t, std::string>> counted;  // as tasks_digest wants them
  std::set<std::string> digests;
  for (const json& task : tasks) {
    start.tasks.push_back(
        {{task.at("digest"), task.at("text"), 0, task.at("bytes")}, task.at("name"), task.at("calls")});
    db::Workload& workload = start.tasks.back().workload;
    // Measurements are shared by all users' jobs through this digest.
    if (sha256(workload.text) != workload.digest) fail("a task's digest is not that of its text");
    if (!digests.insert(workload.digest).second) fail("a model has a task twice");
    if (start.tasks.back().calls <= 0) fail("a model calls a task {} times", start.tasks.back().calls);
    workload.flops = operations_of(workload.text);
    bytes += workload.text.size() + start.tasks.back().name.size();
    flops_ += static_cast<double>(start.tasks.back().calls) * workload.flops;
    counted.emplace_back(start.tasks.back().calls, workload.digest);
  }
  // Choices and latencies are kept by it: a searcher that could name another's model could choose for it.
  if (start.model_digest != tuner::tasks_digest(counted)) fail("a model's digest is not that of its tasks");
  quota_.set_tasks(tasks.size());
  quota_.take_text(bytes);
  // One: a job that is begun and not tied to its request would be searched again, and never be found.
  auto transaction = store_.begin();
  StoreJobWriter writer(store_, served_.uuid);
  const JobRows rows = writer.begin(start);
  store_.set_served_search(served_.id, rows.job);
  transaction.commit();
  job_ = rows.job;
  model_ = {.model_digest = start.model_digest,
            .target = rows.target,
            .threads = start.threads,
            .max_relative_error = parse_job_request(order_.request).max_relative_error,
            .kind = kind_of_class(served_.device_class)};
  for (const db::WorkloadId workload : rows.workloads) workloads_.try_emplace(workload, 0);
  return {{"job", rows.job}, {"uuid", rows.uuid}, {"target", rows.target}, {"workloads", rows.workloads}};
}

json SearchServer::submit(const json& question) {
  std::vector<Candidate> candidates;
  size_t bytes = 0;
  const json& list = question.at("candidates");
  if (list.size() > kMostCandidates) fail("a searcher submits {} candidates at once", list.size());
  for (const json& one : list) {
    Candidate candidate{.workload = one.at("workload"),
                        .trace = one.at("trace"),
                        .program = one.at("program"),
                        .predicted = one.at("predicted").is_number() ? one.at("predicted").get<double>() : 0,
                        .purpose = purpose_of(one.at("purpose"))};
    // By its own job's tasks alone does a searcher reach the farm.
    if (!workloads_.contains(candidate.workload)) fail("a candidate is of no task of its job");
    read_evaluation(one.at("evaluation"), candidate.evaluation);
    candidate.evaluation = bounded(candidate.evaluation);
    bytes += candidate.trace.size() + candidate.program.size();
    candidates.push_back(std::move(candidate));
  }
  // Taken before, for what the farm does cannot be undone; given back where it did nothing.
  quota_.take_trials(candidates.size(), bytes);
  std::vector<Submission> answers;
  try {
    answers = farm_.submit(static_cast<JobId>(job_), candidates);
  } catch (const QueueFull&) {  // it asks again
    quota_.give_back(candidates.size(), bytes);
    return {{"full", true}};
  }
  json submissions = json::array();
  for (const Submission& one : answers) {
    if (one.status != Submission::Status::kQueued) quota_.return_trials(1);  // no new row
    submissions.push_back(
        {{"status", static_cast<int>(one.status)}, {"trial", one.trial}, {"measurement", one.measurement}});
  }
  return {{"submissions", std::move(submissions)}};
}

/// What it says of where it stands is for its next life alone; how much that may be is ours to say.
void SearchServer::checkpoint(const json& question) {
  JobCheckpoint checkpoint{.job = job_,
                           .target = model_.target,
                           .round = question.at("round"),
                           .seconds = std::max(0.0, question.at("seconds").get<double>())};
  for (const json& task : question.at("tasks")) {
    checkpoint.tasks.push_back({task.at(0), task.at(1)});
    const auto known = workloads_.find(checkpoint.tasks.back().workload);
    if (known == workloads_.end()) fail("a checkpoint is of no task of its job");
    // A checkpoint replaces the last one of its task: what counts is the sum of the newest.
    known->second = checkpoint.tasks.back().bytes.size();
  }
  const size_t bytes = checkpoint_bytes();
  if (bytes > kMostCheckpoint) fail("a searcher's checkpoints are {} bytes", bytes);
  if (const json& model = question.at("model"); !model.is_null()) {
    checkpoint.model = {model.at(0), model.at(1), model.at(2), model.at(3)};
    model_bytes_ = checkpoint.model->bytes.size();
  }
  quota_.keep_state(bytes + model_bytes_);
  StoreJobWriter(store_).checkpoint(checkpoint);
  note_kept();
}

/// Its two builds lie in its folder, where nobody else writes; a name leads nowhere else.
json SearchServer::race(const json& question) {
  // Each holds a worker for minutes, and no quota counts them.
  const std::vector<int64_t> dims = question.at("dims");
  // And of one size once; sizes are few, and one race is over before the next begins.
  constexpr size_t kMostRaces = 64;
  if (dims.size() > defaults::kDimsLimit) fail("a searcher races at {} numbers", dims.size());
  if (!raced_dims_.insert(dims).second) fail("a searcher races for the second time");
  if (raced_dims_.size() > kMostRaces) fail("a searcher races at more than {} sizes", kMostRaces);
  if (race_ != 0) fail("a searcher races while its last race goes on");
  const auto path = [&](const char* which) {
    const std::string& name = question.at(which).get_ref<const std::string&>();
    if (name.find('/') != std::string::npos) fail("a searcher races `{}`, which is no name of a file", name);
    // That the file is no link is for ModuleFile to see, when it opens it.
    return order_.folder + "/" + name;
  };
  const std::string incumbent = path("incumbent"), challenger = path("challenger");
  try {
    TrialSpec spec = race_spec({.job = static_cast<JobId>(job_),
                                .target = order_.target,
                                .incumbent = incumbent,
                                .challenger = challenger,
                                // Of which tasks a run at one size is made only the searcher knows.
                                .flops = dims.empty() ? flops_ : 0,
                                .threads = question.at("threads"),
                                .seconds = question.at("seconds"),
                                .dims = dims,
                                .needs = needs_of_request(served_.request)});
    spec.device_class = served_.device_class;
    spec.owner = served_.owner;
    spec.weight = served_.weight;
    race_ = farm_.race(std::move(spec));
    return {{"trial", race_}};
  } catch (const Error& error) {  // too large a module, or a full queue: its job can end without a race
    return {{"error", error.what()}};
  }
}

/// Whose builds follow is not the searcher's to say: those of its job's tasks. Nor is what they may follow:
/// something that was measured for each.
void SearchServer::choose(const json& question) {
  db::Choice choice{.key = model_,
                    .seconds_before = question.at("seconds_before"),
                    .seconds_after = question.at("seconds_after")};
  const auto kind = kind_of_class(served_.device_class);
  for (const json& task : question.at("tasks")) {
    const db::WorkloadId workload = task.at(0);
    const db::MeasurementId chosen = task.at(1);
    if (!workloads_.contains(workload)) fail("a choice is of no task of its job");
    // Else a choice of any number would decide what later builds of this model follow.
    if (store_.measurements(workload, model_.target, std::span(&chosen, 1), SIZE_MAX, kind).empty())
      fail("a choice is of what was not measured for its task");
    choice.tasks.push_back({workload, chosen});
  }
  // To choose nothing takes back what an earlier job chose, and only ever leads to what is
  // best by measurement.
  if (!choice.tasks.empty() && !raced_) fail("a searcher chooses without a race");
  store_.set_choice(choice);
}

void SearchServer::add_latency(const json& question) {
  if (!raced_) fail("a searcher tells how long its model takes without a race");
  if (std::exchange(has_latency_, true)) fail("a searcher tells twice how long its model takes");
  const db::ModelLatency latency{.model_digest = model_.model_digest,
                                 .target = model_.target,
                                 .threads = model_.threads,
                                 .seconds = question.at("seconds"),
                                 .low = question.at("low"),
                                 .high = question.at("high"),
                                 .n = question.at("n")};
  if (latency.low <= 0 || latency.low > latency.seconds || latency.seconds > latency.high)
    fail("a model takes {} .. {} s, by its searcher", latency.low, latency.high);
  if (latency.n <= 0) fail("a model's time is of {} runs, by its searcher", latency.n);
  store_.add_model_latency(latency);
}

json SearchServer::poll(const json& question) {
  const auto timeout = std::chrono::milliseconds(question.at("milliseconds").get<int64_t>());
  json results = json::array();
  for (const Finished& finished : farm_.poll(
           static_cast<JobId>(job_), std::clamp(timeout, std::chrono::milliseconds(0), kLongestPoll))) {
    const wire::Result& result = finished.result;
    // That a worker has raced its builds is seen here, not told by the searcher.
    if (finished.trial == race_) {
      raced_ |= result.outcome == Outcome::kOk;
      race_ = 0;
    }
    results.push_back({{"trial", finished.trial},
                       {"outcome", to_string(result.outcome)},
                       {"message", result.message},
                       {"samples", result.samples},
                       {"taken", result.disturbance.taken},
                       {"disturbed", result.disturbance.disturbed},
                       {"canary", result.disturbance.canary}});
  }
  return {{"finished", std::move(results)}};
}

}  // namespace lathe::tracker
