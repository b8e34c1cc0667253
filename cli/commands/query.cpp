// `tune query WHAT`: what the tuning database knows. Each kind of answer is one row of kAnswers.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "core/tir/roofline.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "schedules/schedule.h"
#include "tuner/shortfall.h"
#include "workers/device.h"

namespace lathe::cli {
namespace {

struct Question {
  std::string what, model, target = "cpu", database;
  int64_t threads = 0, limit = 20;
  bool json = false;
};

/// A table: JSON gives each row as an object under the columns' names, text aligns them.
struct Answer {
  std::vector<std::string> columns;
  std::vector<std::vector<nlohmann::json>> rows;
  bool found = true;  // false: nothing is known, exit code 1
};

std::string time_text(int64_t milliseconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<time_t>(milliseconds / 1000)));
}

/// Rounded, so that text and JSON show the digits that mean something.
nlohmann::json microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

db::ModelId required_model(db::Store& store, const Question& question) {
  if (question.model.empty()) fail("tune query {}: --model is required", question.what);
  if (auto model = store.find_model(question.model)) return *model;
  std::vector<std::string> names = store.model_names();
  fail("the database {} has no model `{}`{}", question.database, question.model,
       did_you_mean(question.model, names));
}

db::BestQuery query_for(db::Store& store, const Question& question) {
  std::string name = to_text(codegen::resolve_target(question.target));
  auto target = store.find_target(name);
  if (!target) fail("the database {} has nothing for the target {}", question.database, name);
  return {.target = *target, .threads = static_cast<int>(question.threads), .accept_unconfirmed = true};
}

/// The limit that binds and the share of it achieved, on the device and the threads of the measurement.
std::vector<nlohmann::json> achieved(db::Store& store, const db::Coverage& task) {
  const db::Measurement& measurement = task.best->measurement;
  auto limits = worker::limits_of(store.device(measurement.device).details, measurement.threads);
  if (!limits) return {nullptr, nullptr};
  Roofline limit = roofline(task.flops, store.workload(task.task.workload).bytes, *limits);
  return {limit.name(), std::round(limit.share(measurement.seconds) * 1e3) / 1e3};
}

Answer best(db::Store& store, const Question& question) {
  db::ModelId model = required_model(store, question);
  Answer answer{
      {"task", "calls", "us", "gflops", "limit", "share", "measured", "confirmed", "from", "recorded"},
      {},
      false};
  for (const db::Coverage& task : store.coverage(model, query_for(store, question))) {
    std::vector<nlohmann::json> row{task.task.name, task.task.calls};
    if (task.best) {
      const db::Measurement& measurement = task.best->measurement;
      row.insert(row.end(), {microseconds(measurement.seconds),
                             std::round(task.flops / measurement.seconds / 1e7) / 1e2});
      for (nlohmann::json& cell : achieved(store, task)) row.push_back(std::move(cell));
      row.insert(row.end(), {task.measured, measurement.confirmed,
                             task.best->rung == db::Rung::kCompatible ? "a compatible target" : "this target",
                             time_text(measurement.recorded_ms)});
    } else {
      row.insert(row.end(), {nullptr, nullptr, nullptr, nullptr, task.measured, nullptr, nullptr, nullptr});
    }
    answer.found |= task.best.has_value();
    answer.rows.push_back(std::move(row));
  }
  return answer;
}

/// What is measured by the best record of each task, against the roofline of its device.
struct Standing {
  const db::Coverage* task;
  Roofline limit;
  double model_share = 0;
};

std::vector<Standing> standings(db::Store& store, std::span<const db::Coverage> tasks) {
  std::vector<Standing> result;
  double model = 0;
  for (const db::Coverage& task : tasks) {
    if (!task.best) continue;
    const db::Measurement& measurement = task.best->measurement;
    auto limits = worker::limits_of(store.device(measurement.device).details, measurement.threads);
    if (!limits) continue;
    result.push_back({&task, roofline(task.flops, store.workload(task.task.workload).bytes, *limits)});
    result.back().model_share = static_cast<double>(task.task.calls) * measurement.seconds;
    model += result.back().model_share;
  }
  for (Standing& standing : result) standing.model_share /= model;
  std::stable_sort(result.begin(), result.end(),
                   [](const Standing& a, const Standing& b) { return a.model_share > b.model_share; });
  return result;
}

/// "" when the record is of a version whose schedules no longer apply.
std::string why_below(db::Store& store, const db::Coverage& task) {
  const db::Measurement& measurement = task.best->measurement;
  try {
    tir::Func workload = tir::parse_func(store.workload(task.task.workload).text);
    return tuner::shortfall_text(schedule::replay(schedule::parse_trace(measurement.trace), workload),
                                 measurement.seconds, {.trials = task.measured});
  } catch (const Error&) {
    return "";
  }
}

Answer below_limit(db::Store& store, const Question& question) {
  db::ModelId model = required_model(store, question);
  Answer answer{{"task", "calls", "us", "model_share", "limit", "share", "measured", "why"}, {}, false};
  const std::vector<db::Coverage> tasks = store.coverage(model, query_for(store, question));
  for (const Standing& standing : standings(store, tasks)) {
    answer.found = true;
    const db::Measurement& measurement = standing.task->best->measurement;
    double share = standing.limit.share(measurement.seconds);
    if (share >= tuner::kFarBelow) continue;
    answer.rows.push_back({standing.task->task.name, standing.task->task.calls,
                           microseconds(measurement.seconds), std::round(standing.model_share * 1e3) / 1e3,
                           standing.limit.name(), std::round(share * 1e3) / 1e3, standing.task->measured,
                           why_below(store, *standing.task)});
  }
  return answer;
}

Answer history(db::Store& store, const Question& question) {
  db::ModelId model = required_model(store, question);
  db::BestQuery query = query_for(store, question);
  Answer answer{{"task", "us", "mad_us", "threads", "error", "confirmed", "suspect", "recorded"}, {}};
  for (const db::ModelTask& task : store.model_tasks(model, query.target)) {
    std::vector<db::Measurement> all = store.history(task.workload, query.target);
    size_t shown = std::min(all.size(), static_cast<size_t>(question.limit));
    for (size_t i = all.size() - shown; i < all.size(); ++i)
      answer.rows.push_back({task.name, microseconds(all[i].seconds), microseconds(all[i].summary.mad),
                             all[i].threads, all[i].relative_error, all[i].confirmed, all[i].suspect,
                             time_text(all[i].recorded_ms)});
  }
  answer.found = !answer.rows.empty();
  return answer;
}

Answer jobs(db::Store& store, const Question& question) {
  Answer answer{{"job", "state", "model", "threads", "trials", "ok", "seconds", "created", "message"}, {}};
  for (const db::Job& job : store.jobs(static_cast<int>(question.limit))) {
    db::JobProgress progress = store.job_progress(job.id);
    answer.rows.push_back({job.uuid.substr(0, 8), std::string(db::to_string(job.state)), job.model_name,
                           job.threads, progress.ended(),
                           progress.outcomes[static_cast<size_t>(Outcome::kOk)],
                           std::round(job.seconds_used * 10) / 10, time_text(job.created_ms), job.message});
  }
  answer.found = !answer.rows.empty();
  return answer;
}

Answer devices(db::Store& store, const Question&) {
  Answer answer{{"device", "host", "model", "architecture", "cores", "system"}, {}};
  for (const auto& [id, device] : store.devices())
    answer.rows.push_back({db::fingerprint(device).substr(0, 12), device.host, device.model,
                           device.architecture, device.cores, device.system});
  answer.found = !answer.rows.empty();
  return answer;
}

struct Kind {
  const char* name;
  Answer (*answer)(db::Store&, const Question&);
};
constexpr Kind kAnswers[] = {
    {"best", best}, {"below-limit", below_limit}, {"history", history}, {"jobs", jobs}, {"devices", devices}};

/// "best|history|..."
std::string kinds_of_answers() {
  std::vector<std::string> names;
  for (const Kind& kind : kAnswers) names.emplace_back(kind.name);
  return join_text(names, "|");
}

/// REQUIRES: it is one.
const Kind& kind_of(const std::string& what) {
  return *std::find_if(std::begin(kAnswers), std::end(kAnswers),
                       [&](const Kind& kind) { return what == kind.name; });
}

std::string cell_text(const nlohmann::json& cell) {
  if (cell.is_null()) return "-";
  if (cell.is_boolean()) return cell.get<bool>() ? "yes" : "no";
  return cell.is_string() ? cell.get<std::string>() : cell.dump();
}

void print_text(const Answer& answer) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < answer.columns.size(); ++c) {
    widths.push_back(answer.columns[c].size());
    for (const auto& row : answer.rows) widths[c] = std::max(widths[c], cell_text(row[c]).size());
  }
  for (size_t c = 0; c < widths.size(); ++c) fmt::print("{:<{}}  ", answer.columns[c], widths[c]);
  fmt::print("\n");
  for (const auto& row : answer.rows) {
    for (size_t c = 0; c < widths.size(); ++c) {
      if (row[c].is_number())
        fmt::print("{:>{}}  ", cell_text(row[c]), widths[c]);
      else
        fmt::print("{:<{}}  ", cell_text(row[c]), widths[c]);
    }
    fmt::print("\n");
  }
}

void print_json(const Answer& answer) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& row : answer.rows) {
    nlohmann::json object;
    for (size_t c = 0; c < row.size(); ++c) object[answer.columns[c]] = row[c];
    list.push_back(std::move(object));
  }
  fmt::print("{}\n", list.dump());
}

}  // namespace

int query_command(Flags& flags) {
  Question question;
  flags.add("WHAT " + kinds_of_answers(), question.what,
            "best, below-limit (tasks below 30% of their own limits, and why), history, jobs or devices",
            Flags::Need::kRequired);
  flags.add("--model MODEL", question.model, "the model asked about (best, below-limit, history)");
  flags.add("--target TARGET", question.target, "the target asked about (best, below-limit, history)");
  flags.add("--threads", question.threads, 0, 1024,
            "prefer results with this many threads; 0: any (best, below-limit)");
  flags.add("--limit", question.limit, 1, 1'000'000, "rows, or rows a task (jobs, history)");
  flags.add("--db FILE", question.database, "the tuning database");
  flags.add("--json", question.json, "print a JSON array");
  if (!flags.parse()) return kSuccess;

  const Kind& kind = kind_of(question.what);
  if (question.database.empty()) question.database = db::default_database_path();
  db::Store store(question.database, {.read_only = true});
  Answer answer = kind.answer(store, question);
  (question.json ? print_json : print_text)(answer);
  return answer.found ? kSuccess : kNegative;
}

}  // namespace lathe::cli
