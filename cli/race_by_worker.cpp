#include "cli/race_by_worker.h"

#include <chrono>

#include "core/support/error.h"

namespace lathe::cli {
namespace {

/// A race that is over, for race() to judge: the rule that says who won is one, whoever has run the modules.
class RecordedTurns final : public TurnTimer {
 public:
  explicit RecordedTurns(std::span<const float> turns) : turns_(turns) {}
  Turn turn() override {
    const Turn turn{.incumbent = turns_[0], .challenger = turns_[1]};
    turns_ = turns_.subspan(2);
    return turn;
  }
  // The worker has kept to the budget of seconds; no turn of it is to be left out here.
  double elapsed() const override { return 0; }
  bool over() const { return turns_.empty(); }

 private:
  std::span<const float> turns_;
};

RaceOutcome outcome_of(const tracker::Finished& finished) {
  const wire::Result& result = finished.result;
  switch (result.outcome) {
    case Outcome::kOk:
      return {.result = race_again(result.samples)};
    case Outcome::kCrashed:
    case Outcome::kTimeout:
      return {.why_not = fmt::format("a build ended badly: {}", result.message), .crashed = true};
    default:
      return {.why_not = result.message};
  }
}

}  // namespace

RaceResult race_again(std::span<const float> turns) {
  RecordedTurns recorded(turns);
  return race(recorded, {.stop = [&] { return recorded.over(); }});
}

RaceOutcome race_by_worker(tracker::FarmClient& farm, tracker::JobId job,
                           const std::function<tracker::TrialId()>& begin,
                           const std::function<bool()>& stop) {
  tracker::TrialId race = 0;
  try {
    race = begin();
  } catch (const Error& error) {  // a module that is too large, say
    return {.why_not = error.what()};
  }
  while (!stop())
    for (const tracker::Finished& finished : farm.poll(job, std::chrono::seconds(1)))
      if (finished.trial == race) return outcome_of(finished);
  return {.why_not = "it was interrupted"};
}

}  // namespace lathe::cli
