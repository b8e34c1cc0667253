#include "tracker/search_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/evaluation_json.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

constexpr size_t kMostTasks = 100'000, kMostCandidates = 4096;
constexpr auto kLongestPoll = std::chrono::milliseconds(1000);

/// What a searcher may have its candidates measured with.
wire::Evaluation bounded(wire::Evaluation e) {
  const auto within = [](double value, double most) { return value >= 0 && value <= most ? value : most; };
  e.threads = std::clamp<uint32_t>(e.threads, 1, 1024);
  e.warmup = std::min<uint32_t>(e.warmup, 1000);
  e.max_samples = std::clamp<uint32_t>(e.max_samples, 1, 1000);
  e.min_samples = std::min(e.min_samples, e.max_samples);
  e.budget_seconds = within(e.budget_seconds, 10);
  e.build_limit_seconds = within(e.build_limit_seconds, 60);
  e.run_limit_seconds = within(e.run_limit_seconds, 60);
  e.tolerance = within(e.tolerance, 1);
  return e;
}

}  // namespace

SearchServer::SearchServer(int socket, SearchOrder order, db::ServedJob job, db::Store& store,
                           FarmClient& farm)
    : socket_(socket), order_(std::move(order)), served_(std::move(job)), store_(store), farm_(farm) {}

SearchEnding SearchServer::serve() {
  std::string bytes;
  while (read_search_frame(socket_, bytes)) {
    const json question = parse_bounded_json(bytes, kSearchDepth, "a searcher's call");
    if (!question.is_object()) fail("a searcher's call is no JSON");
    json reply;
    try {
      reply = answer(question);
    } catch (const json::exception& error) {
      fail("a searcher's call is malformed: {}", error.what());
    }
    write_search_frame(socket_, reply.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  return ending_;
}

void SearchServer::require_begun() const {
  if (job_ == 0) fail("a searcher calls before its job has begun");
}

json SearchServer::answer(const json& question) {
  const std::string& call = question.at("call").get_ref<const std::string&>();
  if (call == "order")
    return {{"request", order_.request},           {"target", order_.target},
            {"machine", order_.machine},           {"file", order_.file},
            {"database", order_.database},         {"folder", order_.folder},
            {"seconds_used", order_.seconds_used}, {"resume", order_.resume ? json(*order_.resume) : json()}};
  if (call == "begin") return begin(question);
  if (call == "tell") {
    store_.add_served_event(served_.id, question.at("kind"), question.at("body"));
    return json::object();
  }
  if (call == "deliver") {
    ending_ = {true, question.at("report"), question.at("text")};
    return json::object();
  }
  require_begun();
  const auto job = static_cast<JobId>(job_);
  if (call == "submit") return submit(question);
  if (call == "poll") return poll(question);
  if (call == "in_flight") return {{"count", farm_.in_flight(job)}};
  if (call == "status") {
    const FarmStatus status = farm_.status();
    return {{"slots", status.slots}, {"unserved", status.unserved}, {"withheld", status.withheld}};
  }
  if (call == "cancel") {
    farm_.cancel(job);
    return json::object();
  }
  if (call == "cost_model") {
    store_.add_cost_model({job_, target_, question.at("round"), question.at("samples"),
                           question.at("spearman"), question.at("recall"), question.at("model")});
    return json::object();
  }
  if (call == "end") {
    const db::JobState state = db::job_state_named(question.at("state").get_ref<const std::string&>());
    store_.add_job_seconds(job_, question.at("seconds"));
    // A search that is over is no job that is done: its module is still to be built.
    if (state == db::JobState::kStopped) store_.set_job_state(job_, state);
    return json::object();
  }
  fail("a searcher calls `{}`, which is unknown", call);
}

/// Digests are of the texts: what a workload is called by decides whose measurements count for it.
json SearchServer::begin(const json& question) {
  JobStart start{.model = question.at("model"),
                 .model_digest = question.at("model_digest"),
                 .target = question.at("target"),
                 .threads = question.at("threads"),
                 .trials = question.at("trials"),
                 .seconds = question.at("seconds"),
                 .seed = question.at("seed"),
                 .options = question.at("options"),
                 .resume = order_.resume};
  if (start.target != order_.target) fail("a searcher begins for another target than it was given");
  const json& tasks = question.at("tasks");
  if (tasks.size() > kMostTasks) fail("a model has {} tasks, more than {}", tasks.size(), kMostTasks);
  for (const json& task : tasks) {
    start.tasks.push_back({{task.at("digest"), task.at("text"), task.at("flops"), task.at("bytes")},
                           task.at("name"),
                           task.at("calls")});
    const db::Workload& workload = start.tasks.back().workload;
    if (sha256(workload.text) != workload.digest) fail("a task's digest is not that of its text");
  }
  auto transaction = store_.begin();
  StoreJobWriter writer(store_, served_.uuid);
  const JobRows rows = writer.begin(start);
  store_.set_served_search(served_.id, rows.job);
  transaction.commit();
  job_ = rows.job;
  target_ = rows.target;
  workloads_ = {rows.workloads.begin(), rows.workloads.end()};
  return {{"job", rows.job}, {"uuid", rows.uuid}, {"target", rows.target}, {"workloads", rows.workloads}};
}

json SearchServer::submit(const json& question) {
  std::vector<Candidate> candidates;
  const json& list = question.at("candidates");
  if (list.size() > kMostCandidates) fail("a searcher submits {} candidates at once", list.size());
  for (const json& one : list) {
    Candidate candidate{.workload = one.at("workload"),
                        .trace = one.at("trace"),
                        .program = one.at("program"),
                        .predicted = one.at("predicted").is_number() ? one.at("predicted").get<double>() : 0,
                        .confirm = one.at("confirm")};
    if (!workloads_.contains(candidate.workload)) fail("a candidate is of no task of its job");
    read_evaluation(one.at("evaluation"), candidate.evaluation);
    candidate.evaluation = bounded(candidate.evaluation);
    candidates.push_back(std::move(candidate));
  }
  json submissions = json::array();
  for (const Submission& one : farm_.submit(static_cast<JobId>(job_), candidates))
    submissions.push_back(
        {{"status", static_cast<int>(one.status)}, {"trial", one.trial}, {"measurement", one.measurement}});
  return {{"submissions", std::move(submissions)}};
}

json SearchServer::poll(const json& question) {
  const auto timeout = std::chrono::milliseconds(question.at("milliseconds").get<int64_t>());
  json results = json::array();
  for (const Finished& finished : farm_.poll(
           static_cast<JobId>(job_), std::clamp(timeout, std::chrono::milliseconds(0), kLongestPoll))) {
    const wire::Result& result = finished.result;
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
