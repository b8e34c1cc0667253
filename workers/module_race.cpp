#include "workers/module_race.h"

#include "core/runtime/module_pair.h"
#include "core/support/error.h"
#include "core/support/race.h"
#include "tracker/defaults.h"

namespace lathe::worker {
namespace {

/// Keeps the turns as they will travel, so that whoever repeats the race with them comes to the same end.
class KeptTurns final : public TurnTimer {
 public:
  explicit KeptTurns(TurnTimer& timer) : timer_(timer) {}

  Turn turn() override {
    const Turn turn = timer_.turn();
    samples.push_back(static_cast<float>(turn.incumbent));
    samples.push_back(static_cast<float>(turn.challenger));
    return {.incumbent = samples.end()[-2], .challenger = samples.end()[-1]};
  }
  double elapsed() const override { return timer_.elapsed(); }

  std::vector<float> samples;

 private:
  TurnTimer& timer_;
};

std::shared_ptr<const runtime::Module> load(const char* name, int file, int object) {
  runtime::ModuleBytes bytes = runtime::map_module(fmt::format("/proc/self/fd/{}", file));
  bytes.name = name;
  return runtime::Module::load(bytes, object);
}

}  // namespace

Reply race_modules(const RunJob& job, Child& child) {
  const std::span<const int> files = child.descriptors();
  if (files.size() != 4) fail("race: {} descriptors, must be 4", files.size());
  runtime::ModulePair pair(load("the incumbent", files[0], files[2]),
                           load("the challenger", files[1], files[3]),
                           static_cast<int>(job.evaluation.threads), job.evaluation.dims);
  child.open_window();
  KeptTurns turns(pair);
  const double latest = pair.elapsed() + defaults::kRaceTurns;
  // The first look is taken whatever it takes, but not later than this.
  race(turns, {.seconds = job.evaluation.budget_seconds, .stop = [&] { return pair.elapsed() >= latest; }});
  child.close_window();
  return {.samples = std::move(turns.samples)};
}

}  // namespace lathe::worker
