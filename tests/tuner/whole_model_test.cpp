// Alternatives from a database, and the choice that builds follow.
#include "tuner/whole_model.h"

#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/relay/text.h"
#include "core/runtime/module_pair.h"
#include "core/support/temporary_folder.h"
#include "core/tir/text.h"
#include "schedules/anatomy.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/best_schedules.h"
#include "tuner/final_build.h"
#include "tuner/model_race.h"
#include "tuner/optimize.h"
#include "tuner/search.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

constexpr const char* kTwoLayers = R"(#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 14, 14), float32]) {
  %0 = nn.relu(nn.conv2d(%x, multiply(ones(shape=[16, 16, 3, 3], dtype="float32"), 0.1f), padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]));
  nn.relu(nn.conv2d(%0, multiply(ones(shape=[32, 16, 3, 3], dtype="float32"), 0.1f), padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]))
})";

/// A database with records of the model's first convolution.
class WholeModel : public ::testing::Test {
 protected:
  WholeModel() {
    for (const Task& each : tasks_) {
      db::WorkloadId id = store_.add_workload({each.digest, each.text, each.flops, each.bytes});
      if (&each == &task_) workload_ = id;
    }
    job_ = store_.create_job({.target = id_, .tasks = {{.workload = workload_}}});
  }

  /// Traces of the first convolution, each of another program, `algorithm` in its steps or not.
  std::vector<std::string> traces(bool winograd, size_t count) {
    std::vector<std::string> found;
    for (const schedule::DesignSpace* space : schedule::spaces_for(task_.workload, target_))
      for (uint64_t seed = 0; seed < 8 && found.size() < count; ++seed) {
        std::string trace =
            schedule::to_json(schedule::sample(*space, task_.workload, target_, seed).trace());
        if ((trace.find("\"winograd\"") != std::string::npos) == winograd) found.push_back(trace);
      }
    return found;
  }

  db::MeasurementId measured(const std::string& trace, float seconds, double error = 0,
                             const std::string& print = "") {
    db::NewTrial trial{.workload = workload_, .trace = trace, .program = print};
    db::TrialId id = store_.add_trials(job_, std::span(&trial, 1)).at(0).trial;
    db::TrialResult result{.lease = store_.grant(id, "w", 1).value().id,
                           .device = device_,
                           .samples = {seconds},
                           .relative_error = error};
    store_.record(std::span(&result, 1));
    return store_.history(workload_, id_).back().id;
  }

  db::ChoiceKey key() const { return {tasks_digest(tasks_), id_, 1, 1e-4}; }
  db::BestQuery query() const {
    return {.workload = workload_,
            .target = id_,
            .threads = 1,
            .accept_unconfirmed = true,
            .max_relative_error = 1e-4};
  }
  std::string built(double max_relative_error = 1e-4, bool for_model = true) {
    BestSchedules best(path_, target_, 1, max_relative_error, for_model ? key().model_digest : "");
    return tir::print(best.schedule(task_.workload));
  }
  std::string program(const std::string& trace) const {
    return tir::print(schedule::replay(schedule::parse_trace(trace), task_.workload));
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "t.db";
  int64_t now_ms_ = 1000;
  db::Store store_{path_, {.now_ms = [this] { return now_ms_; }}};
  Target target_ = codegen::host_target();
  relay::Module fused_ = optimize(relay::parse_module(kTwoLayers, "two.relay"), target_);
  std::vector<Task> tasks_ = extract_tasks(fused_);
  const Task& task_ = tasks_.at(0);
  db::TargetId id_ = store_.add_target({.name = to_text(target_), .architecture = "a"});
  db::DeviceId device_ = store_.add_device({.host = "h"});
  db::WorkloadId workload_ = 0;
  db::JobId job_ = 0;
};

TEST_F(WholeModel, AlternativesAreOfOtherAlgorithmsAndNear) {
  std::vector<std::string> direct = traces(false, 3), winograd = traces(true, 2);
  ASSERT_EQ(direct.size(), 3u);
  ASSERT_EQ(winograd.size(), 2u);
  db::MeasurementId best = measured(winograd[0], 1e-3f);
  measured(direct[0], 1.6e-3f);                  // too slow
  measured(direct[1], 0.9e-3f, /*error=*/1e-3);  // too far off
  db::MeasurementId other = measured(direct[2], 1.3e-3f);
  Alternatives found = find_alternatives(store_, query(), task_.workload, target_);
  ASSERT_EQ(found.list.size(), 2u);
  EXPECT_EQ(found.list[found.best].measurement, best);
  EXPECT_EQ(found.best, 1u);  // after the lean one
  EXPECT_EQ(found.list[0].measurement, other);
  EXPECT_LT(found.list[0].constant_bytes, found.list[1].constant_bytes);
}

TEST_F(WholeModel, ImplicitGemmIsAnotherAlgorithm) {
  std::string direct = traces(false, 1).at(0);
  schedule::Schedule gathered(task_.workload);
  gathered.im2col(gathered.get_block(schedule::dominant_reduction(task_.workload)->name));
  measured(direct, 1e-3f);
  db::MeasurementId other = measured(schedule::to_json(gathered.trace()), 1.3e-3f);
  Alternatives found = find_alternatives(store_, query(), task_.workload, target_);
  ASSERT_EQ(found.list.size(), 2u) << "slower than another schedule of one algorithm may be";
  EXPECT_EQ(found.list[1 - found.best].measurement, other);
}

TEST_F(WholeModel, WithoutRecordsThatApplyThereIsTheDefault) {
  for (int damaged : {false, true}) {
    if (damaged) measured(R"({"steps":[{"do":"get_block","in":[["nowhere"]],"out":["b0"]}]})", 1e-3f);
    Alternatives found = find_alternatives(store_, query(), task_.workload, target_);
    ASSERT_EQ(found.list.size(), 1u);
    EXPECT_FALSE(found.list[0].measurement);
  }
}

TEST_F(WholeModel, BuildsFollowTheChoiceUntilABetterRecordComes) {
  std::vector<std::string> direct = traces(false, 2);
  std::string winograd = traces(true, 1).at(0);
  measured(winograd, 1e-3f);
  db::MeasurementId lean = measured(direct[0], 1.2e-3f);
  EXPECT_EQ(built(), program(winograd));
  store_.set_choice({.key = key(), .seconds_before = 2, .seconds_after = 1, .tasks = {{workload_, lean}}});
  EXPECT_EQ(built(), program(direct[0]));
  EXPECT_EQ(built(1e-4, /*for_model=*/false), program(winograd));
  EXPECT_EQ(built(1e-3), program(winograd));  // among other schedules: another choice
  now_ms_ += 1000;
  measured(direct[1], 0.5e-3f);
  EXPECT_EQ(built(), program(direct[1]));
}

TEST_F(WholeModel, BuildsFollowTheDefaultsWhereTheseWonUntilThatIsTakenBack) {
  const schedule::Trace trace = schedule::default_trace(task_.workload, target_);
  const std::string print = fingerprint(schedule::replay(trace, task_.workload));
  std::string other = traces(true, 1).at(0);
  if (program(other) == program(schedule::to_json(trace))) other = traces(false, 1).at(0);
  EXPECT_TRUE(default_records(store_, key(), tasks_, target_).empty());
  db::MeasurementId by_default = measured(schedule::to_json(trace), 1.3e-3f, /*error=*/0, print);
  measured(other, 1e-3f);
  const auto defaults = default_records(store_, key(), tasks_, target_);
  ASSERT_EQ(defaults.size(), 1u);
  EXPECT_EQ(defaults.at(workload_).id, by_default);
  EXPECT_EQ(built(), program(other));
  EXPECT_FALSE(has_chosen_defaults(defaults, store_, key()));
  store_.set_choice(choice_of_defaults(defaults, store_, key(), {.incumbent = 1, .challenger = 2}));
  EXPECT_EQ(built(), program(schedule::to_json(trace)));
  EXPECT_EQ(store_.find_choice(key())->seconds_after, 1);
  EXPECT_TRUE(has_chosen_defaults(defaults, store_, key()));
  store_.set_choice({.key = key()});
  EXPECT_FALSE(has_chosen_defaults(defaults, store_, key()));
  EXPECT_EQ(built(), program(other));
  store_.set_choice({.key = key(), .tasks = {{workload_, measured(traces(false, 3).at(2), 1.1e-3f)}}});
  EXPECT_FALSE(has_chosen_defaults(defaults, store_, key())) << "it is of something else";
}

TEST_F(WholeModel, ModulesRaceAsFiles) {
  const std::string path = folder_ / "m.lathe";
  runtime::write_module(path, final_build(fused_, target_, default_schedules(target_)));
  runtime::ModulePair pair(runtime::Module::open(path), runtime::Module::open(path), /*threads=*/1);
  const RaceResult result = race(pair, {.seconds = 0});
  EXPECT_EQ(result.turns, 10);
  EXPECT_GT(result.incumbent, 0);
  EXPECT_LE(result.low, result.ratio);
  EXPECT_LE(result.ratio, result.high);
}

TEST_F(WholeModel, ChoosesOnThisMachineAndRemembers) {
  std::string winograd = traces(true, 1).at(0);
  std::string direct = schedule::to_json(schedule::default_trace(task_.workload, target_));
  if (direct.find("\"winograd\"") != std::string::npos) direct = traces(false, 1).at(0);
  measured(winograd, 1e-3f);
  measured(direct, 1e-3f);
  WholeModelResult none = choose_whole_model(fused_, target_, store_, key(), {.seconds = 0});
  EXPECT_EQ(none.challengers, 0);
  EXPECT_FALSE(store_.find_choice(key()));
  int shown = 0;
  WholeModelResult result = choose_whole_model(
      fused_, target_, store_, key(), {.seconds = 2, .on_change = [&](const ChoiceStatus&) { ++shown; }});
  EXPECT_GE(result.challengers, 1);
  EXPECT_GE(shown, 1);
  auto choice = store_.find_choice(key());
  ASSERT_TRUE(choice);
  EXPECT_EQ(static_cast<int>(choice->tasks.size()), result.exchanged);
  EXPECT_EQ(choice->seconds_after, result.after);
}

TEST_F(WholeModel, BuildersShareWhatLivingBuildsHave) {
  ModelBuilder builder(fused_, target_);
  std::vector<tir::Func> first, second;
  for (size_t i = 0; i < builder.size(); ++i) {
    first.push_back(
        schedule::replay(schedule::default_trace(builder.workload(i), target_), builder.workload(i)));
    second.push_back(first.back());
  }
  ASSERT_GE(builder.size(), 2u);
  size_t changed = 0;
  while (builder.workload(changed) && tir::workload_digest(builder.workload(changed)) != task_.digest)
    ++changed;
  second[changed] = schedule::replay(schedule::parse_trace(traces(true, 1).at(0)), builder.workload(changed));
  ModelBuilder::Build a = builder.build(first), b = builder.build(second);
  for (size_t i = 0; i < builder.size(); ++i) EXPECT_EQ(a.kernels[i] == b.kernels[i], i != changed);

  std::vector<std::vector<tir::Func>> scheduled;
  for (size_t i = 0; i < builder.size(); ++i) scheduled.push_back({first[i], second[i]});
  ModelRace race(builder, scheduled, Combination(builder.size(), 0), 1);
  Combination other(builder.size(), 0);
  other[changed] = 1;
  race.challenge(other);
  ModelTimer::Turn turn = race.turn();
  EXPECT_GT(turn.incumbent, 0);
  EXPECT_GT(turn.challenger, 0);
  ModelTimer::Profile profile = race.profile();
  for (const auto* seconds : {&profile.incumbent, &profile.challenger}) {
    ASSERT_EQ(seconds->size(), builder.size());
    for (double task : *seconds) EXPECT_GT(task, 0);
  }
}

}  // namespace
}  // namespace lathe::tuner
