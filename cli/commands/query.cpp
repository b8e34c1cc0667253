// `tune query WHAT`: what the tuning database knows. Each kind of answer is one row of kAnswers.
#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/queries/question.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/support/printable.h"
#include "core/support/text.h"

namespace lathe::cli {
namespace {

struct Kind {
  const char* name;
  Answer (*answer)(db::Store&, const Question&);
};
constexpr Kind kAnswers[] = {
    {"best", answer_best},       {"below-limit", answer_below_limit}, {"coverage", answer_coverage},
    {"history", answer_history}, {"transfer", answer_transfer},       {"foreign", answer_foreign},
    {"jobs", answer_jobs},       {"devices", answer_devices},
};

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
  return cell.is_string() ? printable(cell.get<std::string>()) : cell.dump();
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
  fmt::print("{}\n", json_line(list));
}

}  // namespace

int query_command(Flags& flags) {
  Question question;
  flags.add(
      "WHAT " + kinds_of_answers(), question.what,
      "best; below-limit (tasks below 30% of their own limits, and why); coverage (how much of a model is "
      "tuned, estimated against measured time); history; transfer (how well one device tells what is fast "
      "on another); foreign (records of other tuners); jobs; devices",
      Flags::Need::kRequired);
  flags.add("--model MODEL", question.model, "the model asked about (all but foreign, jobs, devices)");
  flags.add("--target TARGET", question.target, "the target asked about (all but foreign, jobs, devices)");
  flags.add("--device NAME", question.device,
            "whose best: a host, or the beginning of a fingerprint; this machine if it is known (best, "
            "below-limit, coverage)");
  flags.add("--strict", question.strict, "only what was measured on that very device, with these threads");
  flags.add("--from NAME", question.from, "the device that is known (transfer)");
  flags.add("--to NAME", question.to, "the device that is asked about (transfer)");
  flags.add("--workload NAME", question.workload, "only the workload of this name (foreign)");
  flags.add("--threads", question.threads, 0, kMostThreads,
            "prefer results with this many threads; 0: any (best, below-limit, coverage, transfer)");
  flags.add("--limit", question.limit, 1, 1'000'000, "rows, or rows a task (foreign, jobs, history)");
  flags.add("--db FILE", question.database, "the tuning database");
  flags.add("--json", question.json, "print a JSON array");
  if (!flags.parse()) return kSuccess;

  const Kind& kind = kind_of(question.what);
  if (question.database.empty()) question.database = db::default_database_path();
  // Beside a tracker that writes: a question never waits for it, nor changes anything.
  db::Store store(question.database, {.read_only = true});
  Answer answer = kind.answer(store, question);
  (question.json ? print_json : print_text)(answer);
  // Nothing known is an answer, which a script can tell from a mistake.
  return answer.found ? kSuccess : kNegative;
}

}  // namespace lathe::cli
