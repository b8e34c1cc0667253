#include "tracker/search_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "tracker/defaults.h"
#include "tracker/evaluation_json.h"
#include "tracker/remote_reader.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

/// False at the end of the stream before the first byte.
bool read_all(int socket, char* bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = read(socket, bytes + done, size - done);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0) {
      if (done > 0) fail("the socket ends within a frame");
      return false;
    } else if (errno == EAGAIN) {  // of a socket with a time limit
      // SO_RCVTIMEO, of the tracker's end.
      fail("nothing was heard for too long");
    } else if (errno != EINTR) {
      fail("cannot read from a socket: {}", strerror(errno));
    }
  }
  return true;
}

}  // namespace

bool read_search_frame(int socket, std::string& bytes) {
  unsigned char head[4];
  if (!read_all(socket, reinterpret_cast<char*>(head), sizeof head)) return false;
  // The length in four bytes, the least first, whatever the machine: a frame in a log reads
  // the same everywhere.
  const size_t size = head[0] | head[1] << 8 | head[2] << 16 | static_cast<size_t>(head[3]) << 24;
  // Before there is memory for it.
  if (size > kSearchFrameLimit) fail("a frame of {} bytes is over the limit of {}", size, kSearchFrameLimit);
  bytes.resize(size);
  if (size > 0 && !read_all(socket, bytes.data(), size)) fail("the socket ends within a frame");
  return true;
}

void write_search_frame(int socket, const std::string& bytes) {
  if (bytes.size() > kSearchFrameLimit)
    fail("a frame of {} bytes is over the limit of {}", bytes.size(), kSearchFrameLimit);
  // Head and body in one send(): the other end reads both at once, mostly.
  std::string frame(4, '\0');
  for (int i = 0; i < 4; ++i) frame[i] = static_cast<char>(bytes.size() >> (8 * i) & 0xff);
  frame += bytes;
  for (size_t done = 0; done < frame.size();) {
    // MSG_NOSIGNAL: a searcher whose tracker has gone ends with a message, and a tracker goes on
    // without its searcher.
    const ssize_t count = send(socket, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (count > 0)
      done += static_cast<size_t>(count);
    else if (errno == EAGAIN)  // as above
      fail("nothing was taken for too long");
    else if (errno != EINTR)
      fail("cannot write to a socket: {}", strerror(errno));
  }
}

json SearchLink::call(const char* name, json arguments) {
  arguments["call"] = name;
  std::string bytes = json_line(arguments);
  // Question and answer are one step: the search and what reports its progress are on two threads.
  std::lock_guard lock(mutex_);
  write_search_frame(socket_, bytes);
  if (!read_search_frame(socket_, bytes)) fail("the tracker is gone");
  json answer = parse_bounded_json(bytes, kSearchDepth, "the tracker's answer", kSearchFrameLimit);
  if (!answer.is_object()) fail("the tracker's answer is no JSON");
  // The one call that answers so is "race", where going on without is possible.
  if (answer.contains("error")) throw Error(answer.at("error").get<std::string>());
  return answer;
}

SearchOrder SearchLink::order() {
  const json answer = call("order", json::object());
  SearchOrder order{.request = answer.at("request"),
                    .target = answer.at("target"),
                    .machine = answer.at("machine"),
                    .cores = answer.at("cores"),
                    .file = answer.at("file"),
                    .folder = answer.at("folder"),
                    .seconds_used = answer.at("seconds_used")};
  if (!answer.at("resume").is_null()) order.resume = answer.at("resume").get<db::JobId>();
  return order;
}

std::unique_ptr<db::Reader> SearchLink::records() {
  return std::make_unique<RemoteReader>([this](json question) { return call("read", std::move(question)); });
}

void SearchLink::tell(const std::string& kind, const std::string& body) {
  call("tell", {{"kind", kind}, {"body", body}});
}

TrialId SearchLink::race(const std::string& incumbent, const std::string& challenger, int threads,
                         double seconds, std::span<const int64_t> dims) {
  return call("race", {{"incumbent", incumbent},
                       {"challenger", challenger},
                       {"threads", threads},
                       {"seconds", seconds},
                       {"dims", std::vector<int64_t>(dims.begin(), dims.end())}})
      .at("trial");
}

void SearchLink::deliver(const std::string& report, const std::string& text) {
  call("deliver", {{"report", report}, {"text", text}});
}

std::vector<Submission> SearchLink::submit(JobId, std::span<const Candidate> candidates) {
  json list = json::array();
  for (const Candidate& candidate : candidates)
    list.push_back({{"workload", candidate.workload},
                    {"trace", candidate.trace},
                    {"program", candidate.program},
                    {"predicted", candidate.predicted},
                    {"purpose", static_cast<int>(candidate.purpose)},
                    {"evaluation", evaluation_json(candidate.evaluation)}});
  json answer;
  // By asking again and not by waiting in the tracker: its thread must stay free to hear that
  // the job is cancelled.
  while ((answer = call("submit", {{"candidates", list}})).contains("full"))
    std::this_thread::sleep_for(defaults::kQueueAgain);
  std::vector<Submission> submissions;
  for (const json& one : answer.at("submissions"))
    submissions.push_back({.status = static_cast<Submission::Status>(one.at("status").get<int>()),
                           .trial = one.at("trial"),
                           .measurement = one.at("measurement")});
  return submissions;
}

std::vector<Finished> SearchLink::poll(JobId job, std::chrono::milliseconds timeout) {
  // The tracker cuts the time short (kLongestPoll), and an empty answer is none yet.
  const json answer = call("poll", {{"milliseconds", timeout.count()}});
  std::vector<Finished> results;
  for (const json& one : answer.at("finished")) {
    Finished finished{.trial = one.at("trial"), .job = job};
    finished.result.outcome = parse_outcome(one.at("outcome").get<std::string>()).value();
    finished.result.message = one.at("message");
    finished.result.samples = one.at("samples").get<std::vector<float>>();
    finished.result.disturbance = {one.at("taken"), one.at("disturbed"), one.at("canary")};
    results.push_back(std::move(finished));
  }
  return results;
}

size_t SearchLink::in_flight(JobId) { return call("in_flight", json::object()).at("count"); }

FarmStatus SearchLink::status() {
  const json answer = call("status", json::object());
  return {.slots = answer.at("slots"),
          .unserved = answer.at("unserved"),
          .withheld = answer.at("withheld"),
          .distrusts = answer.at("distrusts"),
          .given_up = answer.at("given_up")};
}

void SearchLink::cancel(JobId) { call("cancel", json::object()); }

JobRows SearchLink::begin(const JobStart& start) {
  json tasks = json::array();
  for (const JobStart::Task& task : start.tasks)
    tasks.push_back({{"name", task.name},
                     {"calls", task.calls},
                     {"digest", task.workload.digest},
                     {"text", task.workload.text},
                     {"flops", task.workload.flops},
                     {"bytes", task.workload.bytes}});
  const json answer = call("begin", {{"model", start.model},
                                     {"model_digest", start.model_digest},
                                     {"target", start.target},
                                     {"tasks", std::move(tasks)},
                                     {"threads", start.threads},
                                     {"trials", start.trials},
                                     {"seconds", start.seconds},
                                     {"seed", start.seed},
                                     {"options", start.options}});
  return {.job = answer.at("job"),
          .uuid = answer.at("uuid"),
          .target = answer.at("target"),
          .workloads = answer.at("workloads")};
}

void SearchLink::checkpoint(const JobCheckpoint& checkpoint) {
  json tasks = json::array(), model;
  for (const JobCheckpoint::Task& task : checkpoint.tasks) tasks.push_back({task.workload, task.bytes});
  if (checkpoint.model)
    model = {checkpoint.model->bytes, checkpoint.model->samples, checkpoint.model->spearman,
             checkpoint.model->recall};
  call("checkpoint", {{"round", checkpoint.round},
                      {"tasks", std::move(tasks)},
                      {"model", std::move(model)},
                      {"seconds", checkpoint.seconds}});
}

void SearchLink::add_event(db::JobId, const std::string& kind, const std::string& body) { tell(kind, body); }

void SearchLink::end(db::JobId, db::JobState state, double seconds) {
  call("end", {{"state", db::to_string(state)}, {"seconds", seconds}});
}

void SearchLink::choose(const db::Choice& choice) {
  json tasks = json::array();
  for (const db::Choice::Task& task : choice.tasks) tasks.push_back({task.workload, task.measurement});
  call("choose", {{"seconds_before", choice.seconds_before},
                  {"seconds_after", choice.seconds_after},
                  {"tasks", std::move(tasks)}});
}

void SearchLink::add_model_latency(const db::ModelLatency& latency) {
  call("latency",
       {{"seconds", latency.seconds}, {"low", latency.low}, {"high", latency.high}, {"n", latency.n}});
}

}  // namespace lathe::tracker
