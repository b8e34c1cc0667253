#include "tuner/checkpoint.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/error.h"

namespace lathe::tuner {
namespace {

using nlohmann::json;

constexpr int kVersion = 1, kDepth = 4;
constexpr size_t kMostAhead = 1'000'000;  // answers; more than any farm has places for

/// JSON has no infinity.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }
double number_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

json shared_json(const SharedState& shared) {
  return {shared.round,      shared.random,           shared.submitted,      shared.window,
          shared.trained_on, shared.quality.spearman, shared.quality.recall, shared.quality.samples};
}

SharedState shared_of(const json& value) {
  return {.round = value.at(0),
          .random = value.at(1),
          .submitted = value.at(2),
          .window = value.at(3),
          .trained_on = value.at(4),
          .quality = {value.at(5), value.at(6), value.at(7)}};
}

json search_json(const SearchState& search) {
  json elite = json::array(), suggested = json::array();
  for (const SearchState::Known& known : search.elite)
    elite.push_back({schedule::to_json(known.trace), known.seconds});
  for (const schedule::Trace& trace : search.suggested) suggested.push_back(schedule::to_json(trace));
  return {{"random", search.random},
          {"elite", std::move(elite)},
          {"seen", search.seen},
          {"codes", search.codes},
          {"suggested", std::move(suggested)},
          {"reported", search.reported},
          {"proposed_default", search.proposed_default}};
}

schedule::Trace trace_of(const json& value) {
  return schedule::parse_trace(value.get_ref<const std::string&>());
}

SearchState search_of(const json& value) {
  SearchState search{.random = value.at("random"),
                     .seen = value.at("seen"),
                     .codes = value.at("codes"),
                     .reported = value.at("reported"),
                     .proposed_default = value.at("proposed_default")};
  for (const json& known : value.at("elite"))
    search.elite.push_back({trace_of(known.at(0)), known.at(1).get<double>()});
  for (const json& trace : value.at("suggested")) search.suggested.push_back(trace_of(trace));
  return search;
}

json state_json(const TaskState& state) {
  return {{"default_seconds", state.default_seconds},
          {"best_seconds", state.best_seconds},
          {"best", schedule::to_json(state.best)},
          {"trials", state.trials},
          {"outcomes", state.outcomes},
          {"since_best", state.since_best},
          {"exhausted", state.exhausted}};
}

TaskState state_of(const json& value) {
  return {.default_seconds = value.at("default_seconds"),
          .best_seconds = value.at("best_seconds"),
          .best = trace_of(value.at("best")),
          .trials = value.at("trials"),
          .outcomes = value.at("outcomes"),
          .since_best = value.at("since_best"),
          .exhausted = value.at("exhausted")};
}

}  // namespace

std::string to_bytes(const TaskCheckpoint& checkpoint) {
  json best_after = json::array(), lessons = json::array(), open = json::array();
  for (double seconds : checkpoint.best_after) best_after.push_back(number(seconds));
  for (const Lesson& lesson : checkpoint.lessons)
    lessons.push_back({lesson.fingerprint, number(lesson.seconds)});
  for (const OpenCandidate& candidate : checkpoint.open)
    open.push_back({candidate.number, schedule::to_json(candidate.trace), candidate.fingerprint,
                    number(candidate.score)});
  return json{{"version", kVersion},
              {"shared", shared_json(checkpoint.shared)},
              {"search", search_json(checkpoint.search)},
              {"best_after", std::move(best_after)},
              {"state", state_json(checkpoint.state)},
              {"lessons", std::move(lessons)},
              {"open", std::move(open)}}
      .dump();
}

TaskCheckpoint parse_task_checkpoint(std::string_view bytes) {
  // The database may be anybody's.
  const json value = parse_bounded_json(bytes, kDepth, "it", bytes.size());
  if (!value.is_object()) fail("it is damaged: it is no object of JSON");
  try {
    if (value.at("version") != kVersion) fail("it is of another version");
    TaskCheckpoint checkpoint{.shared = shared_of(value.at("shared")),
                              .search = search_of(value.at("search")),
                              .state = state_of(value.at("state"))};
    // A search proposes as much before it waits for an answer.
    if (checkpoint.shared.window > kMostAhead)
      fail("it is damaged: it waits for {}", checkpoint.shared.window);
    for (const json& seconds : value.at("best_after")) checkpoint.best_after.push_back(number_of(seconds));
    for (const json& lesson : value.at("lessons"))
      checkpoint.lessons.push_back({lesson.at(0), number_of(lesson.at(1))});
    for (const json& candidate : value.at("open"))
      checkpoint.open.push_back(
          {candidate.at(0), trace_of(candidate.at(1)), candidate.at(2), number_of(candidate.at(3))});
    return checkpoint;
  } catch (const json::exception& error) {
    fail("it is damaged: {}", error.what());
  }
}

}  // namespace lathe::tuner
