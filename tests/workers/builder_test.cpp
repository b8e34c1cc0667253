// The pipeline with the real compiler: this binary is its own supervisor, as `tune` is.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>

#include "core/codegen/host_target.h"
#include "core/support/statistics.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/family.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"
#include "tracker/wire/blob.h"
#include "workers/build.h"
#include "workers/jobs.h"
#include "workers/pipeline.h"

namespace lathe::worker {
namespace {

using testing::HasSubstr;

class BuilderTest : public testing::Test {
 protected:
  static constexpr int kBuilders = 2;
  BuilderTest() : pipeline_({"/proc/self/exe", "internal-sandbox"}, kBuilders) {}

  /// Build and run of each lease, one after the other stage by stage; results by lease.
  std::map<uint64_t, wire::Result> process(const std::vector<wire::Lease>& leases) {
    std::map<uint64_t, wire::Result> results;
    std::deque<wire::Lease> waiting(leases.begin(), leases.end());
    std::map<uint64_t, wire::Lease> by_id;
    for (const wire::Lease& each : leases) by_id[each.lease] = each;
    std::deque<uint64_t> built;
    int building = 0;
    bool running = false;
    while (results.size() < leases.size()) {
      for (; building < kBuilders && !waiting.empty(); ++building, waiting.pop_front())
        pipeline_.build(waiting.front());
      if (!running && !built.empty()) {
        running = true;
        pipeline_.run(by_id.at(built.front()));
        built.pop_front();
      }
      std::vector<pollfd> ready;
      for (int descriptor : pipeline_.descriptors()) ready.push_back({descriptor, POLLIN, 0});
      if (!pipeline_.has_ended()) poll(ready.data(), ready.size(), 1000);
      for (const Pipeline::Ended& ended : pipeline_.collect()) {
        building -= ended.built;
        running &= ended.built;
        if (ended.built && ended.report.outcome == Outcome::kOk) {
          built.push_back(ended.lease);
          build_seconds_ += ended.report.build_seconds;
        } else {
          results[ended.lease] = ended.report;
          run_seconds_ += ended.report.run_seconds;
        }
      }
    }
    return results;
  }

  wire::Lease lease(uint64_t id, const tir::Func& func, const std::string& trace) {
    return {.lease = id,
            .trial = id,
            .workload = tir::print(func),
            .trace = trace,
            .target = to_text(target_),
            .evaluation = {.max_samples = 20, .budget_seconds = 0.02},
            .seed = 1};
  }

  Target target_ = codegen::resolve_target("cpu");
  Pipeline pipeline_;
  double build_seconds_ = 0, run_seconds_ = 0;
};

TEST_F(BuilderTest, MeasuresSchedulesOfAProgram) {
  const tir::Func func = tir::canonical(schedule::conv2d(
      {.out_blocks = 4, .in_blocks = 4, .height = 56, .width = 56}, kFloat32));  // of resnet18
  std::vector<wire::Lease> leases = {lease(1, func, to_json(schedule::default_trace(func, target_)))};
  for (const schedule::DesignSpace* space : schedule::spaces_for(func, target_))
    for (uint64_t seed = 0; seed < 12; ++seed)
      leases.push_back(
          lease(leases.size() + 1, func, to_json(schedule::sample(*space, func, target_, seed).trace())));
  const auto start = std::chrono::steady_clock::now();
  const auto results = process(leases);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} candidates in {:.2f} s: {:.1f} a second; a build {:.0f} ms, a run {:.0f} ms on average\n",
             leases.size(), seconds, static_cast<double>(leases.size()) / seconds,
             1e3 * build_seconds_ / static_cast<double>(leases.size()),
             1e3 * run_seconds_ / static_cast<double>(leases.size()));
  for (const auto& [id, result] : results) {
    EXPECT_EQ(result.outcome, Outcome::kOk) << result.message << "\n" << leases[id - 1].trace;
    EXPECT_LT(result.relative_error, 1e-5);
    EXPECT_FALSE(result.samples.empty());
  }
}

TEST_F(BuilderTest, GivesUpWhatIsSlowerThanTheIncumbentAndRemembersNone) {
  const tir::Func func = tir::canonical(
      schedule::conv2d({.out_blocks = 4, .in_blocks = 4, .height = 56, .width = 56}, kFloat32));
  wire::Lease fast = lease(1, func, to_json(schedule::default_trace(func, target_))),
              slow = lease(2, func, to_json(schedule::Trace{}));
  // As a search that knew of neither when it submitted both.
  for (wire::Lease* each : {&fast, &slow})
    each->evaluation = {.max_samples = 8,
                        .budget_seconds = 10,
                        .relative_interval = 0,
                        .incumbent_seconds = wire::kNoIncumbent};
  const wire::Result measured = process({fast}).at(1);
  EXPECT_EQ(measured.samples.size(), 8u);
  EXPECT_EQ(process({slow}).at(2).samples.size(), 8u)
      << "nobody has believed yet what the first said, which may be of another's job";
  slow.evaluation.incumbent_seconds = summarize(measured.samples).median;
  EXPECT_LT(process({slow}).at(2).samples.size(), 4u);
  slow.evaluation.incumbent_seconds = 0;
  EXPECT_EQ(process({slow}).at(2).samples.size(), 8u) << "whoever confirms wants all samples";
}

/// A dense layer of any number of rows.
constexpr const char* kOpenDense =
    R"(func dense[n](a: float32[n, 40], b: float32[40, 64]) -> (c: float32[n, 64]) {
  block root {
    for i in 0..n {
      for j in 0..64 {
        for k in 0..40 {
          block product(spatial y in 0..n = i, spatial x in 0..64 = j, reduce r in 0..40 = k) {
            reads a[y, r], b[r, x]
            writes c[y, x]
            init {
              c[y, x] = 0.0
            }
            c[y, x] = c[y, x] + a[y, r] * b[r, x]
          }
        }
      }
    }
  }
})";

TEST_F(BuilderTest, MeasuresSchedulesOfAnOpenProgramAtItsSize) {
  const tir::Func open = tir::canonical(tir::parse_func(kOpenDense));
  const schedule::DesignSpace& space = *schedule::spaces_for(open, target_).front();
  std::map<int64_t, double> fastest;
  for (int64_t rows : {1, 8, 200}) {
    const tir::Func func = schedule::program_at(open, std::vector{rows});
    std::vector<wire::Lease> leases = {lease(1, func, to_json(schedule::default_trace(func, target_)))};
    for (uint64_t seed = 0; seed < 6; ++seed)
      leases.push_back(
          lease(leases.size() + 1, func, to_json(schedule::sample(space, func, target_, seed).trace())));
    for (const auto& [id, result] : process(leases)) {
      EXPECT_EQ(result.outcome, Outcome::kOk) << rows << ": " << result.message << "\n"
                                              << leases[id - 1].trace;
      ASSERT_FALSE(result.samples.empty());
      double& seconds = fastest[rows];
      for (float sample : result.samples)
        if (seconds == 0 || sample < seconds) seconds = sample;
    }
  }
  EXPECT_GT(fastest[200], 2 * fastest[1]) << "it runs with as many rows as it says";
}

TEST_F(BuilderTest, WeightsArePackedAhead) {
  const tir::Func func = tir::canonical(schedule::dense(8, 32, 16, kFloat32));
  schedule::Schedule packed(func);
  const auto copy = packed.cache_read(packed.get_block("b0"), 1, tir::Scope::kGlobal);
  packed.transform_layout(copy, 0, {1, 16, 0, 2, 2, 16});
  const std::string trace = to_json(packed.trace());
  const auto results =
      process({lease(1, func, trace), lease(2, tir::with_constant_params(func, 0b10), trace)});
  for (const auto& [id, result] : results) {
    EXPECT_EQ(result.outcome, Outcome::kOk) << result.message;
    EXPECT_LT(result.relative_error, 1e-5);
    EXPECT_FALSE(result.samples.empty());
  }
}

TEST_F(BuilderTest, BuildsNothingTwice) {
  const tir::Func func = tir::canonical(schedule::dense(8, 32, 8, kFloat32));
  const std::string trace = to_json(schedule::default_trace(func, target_));
  const auto first = process({lease(1, func, trace)}).at(1);
  EXPECT_GT(std::exchange(build_seconds_, 0), 0);
  const auto second = process({lease(2, func, trace)}).at(2);
  EXPECT_EQ(build_seconds_, 0);
  EXPECT_EQ(second.outcome, Outcome::kOk) << second.message;
  EXPECT_FALSE(second.samples.empty());
}

/// What a runner without a compiler does: it measures code that came from elsewhere, against a reference that
/// did too.
class RunnerTest : public BuilderTest {
 protected:
  const std::string kUnscheduled = to_json(schedule::Trace());
  Pipeline::Ended end(Pipeline& pipeline) {
    for (;;) {
      std::vector<pollfd> ready;
      for (int descriptor : pipeline.descriptors()) ready.push_back({descriptor, POLLIN, 0});
      if (!pipeline.has_ended()) poll(ready.data(), ready.size(), 1000);
      if (std::vector<Pipeline::Ended> ended = pipeline.collect(); !ended.empty()) return ended[0];
    }
  }
  Pipeline::Ended build(const tir::Func& func, const std::string& trace) {
    wire::Lease build = lease(1, func, trace);
    build.part = wire::Part::kBuild;
    build.evaluation.threads = 64;  // more than any builder has: the board may have them
    pipeline_.build(build);
    return end(pipeline_);
  }
  wire::Result run(const std::string& artifact, const std::string& reference) {
    const wire::Lease run{.lease = 2,
                          .trial = 2,
                          .evaluation = {.max_samples = 5, .budget_seconds = 0.02},
                          .seed = 1,
                          .part = wire::Part::kRun,
                          .artifact = wire::blob_of(artifact),
                          .reference = wire::blob_of(reference)};
    runner_.run(run, artifact, reference);
    return end(runner_).report;
  }

  Pipeline runner_{{"/proc/self/exe", "internal-sandbox"}, /*builders=*/0};
};

TEST_F(RunnerTest, MeasuresWhatWasBuiltElsewhere) {
  const tir::Func func = tir::canonical(schedule::dense(8, 32, 8, kFloat32));
  const Pipeline::Ended built = build(func, to_json(schedule::default_trace(func, target_)));
  ASSERT_EQ(built.report.outcome, Outcome::kOk) << built.report.message;
  const wire::Result result = run(built.artifact, built.reference);
  EXPECT_EQ(result.outcome, Outcome::kOk) << result.message;
  EXPECT_FALSE(result.samples.empty());
  EXPECT_EQ(result.artifact, built.report.artifact);
  // The reference is built once for all candidates of the program.
  const Pipeline::Ended again = build(func, kUnscheduled);
  EXPECT_EQ(again.reference, built.reference);
  EXPECT_NE(again.artifact, built.artifact);
}

TEST_F(RunnerTest, ComparesWithTheReferenceThatCame) {
  const auto dense = [](int64_t k) { return tir::canonical(schedule::dense(8, k, 8, kFloat32)); };
  const std::string right = build(dense(32), kUnscheduled).artifact,
                    other = build(dense(32), kUnscheduled).reference;
  EXPECT_EQ(run(right, other).outcome, Outcome::kOk);
  tir::Func sum = tir::parse_func(
      "func f(a: float32[8, 32], b: float32[8, 32]) -> (out: float32[8, 8]) { block root { for i in 0..8 { "
      "for "
      "j in 0..8 { block b(spatial x in 0..8 = i, spatial y in 0..8 = j) { reads a[x, y], b[x, y] writes "
      "out[x, "
      "y] out[x, y] = a[x, y] + b[x, y] } } } } }",
      "sum");
  const Pipeline::Ended wrong = build(sum, kUnscheduled);
  ASSERT_EQ(wrong.report.outcome, Outcome::kOk) << wrong.report.message;
  EXPECT_EQ(run(wrong.artifact, other).outcome, Outcome::kWrongResult);
}

TEST_F(RunnerTest, RefusesWhatCannotBe) {
  const tir::Func func = tir::canonical(schedule::dense(8, 32, 8, kFloat32));
  const Pipeline::Ended built = build(func, kUnscheduled);
  EXPECT_EQ(run("garbage", built.reference).outcome, Outcome::kCrashed);
  Artifact huge = decode_artifact(built.artifact);
  huge.main.workspace_bytes = int64_t{1} << 36;
  huge.made.assign(64, {.shape = {int64_t{1} << 34}, .dtype = kFloat32});
  huge.prologue = huge.main;
  const wire::Result result = run(encode(huge), built.reference);
  EXPECT_EQ(result.outcome, Outcome::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("bytes of memory, and this machine has"));
}

TEST_F(BuilderTest, FailuresHaveTheirClass) {
  const tir::Func func = tir::canonical(schedule::dense(8, 32, 8, kFloat32));
  wire::Lease no_workload = lease(3, func, "[]"), no_target = lease(4, func, "[]");
  no_workload.workload = "garbage";
  no_target.target = "abacus";
  wire::Lease beyond = lease(5, func, "[]");
  beyond.workload =
      "func f(a: float32[8]) -> (out: float32[8]) { block root { for i in 0..8 { block b(spatial v in 0..8 = "
      "i) { reads a[v + 8] writes out[v] out[v] = a[v + 8] } } } }";
  const auto results =
      process({lease(1, func, "garbage"), lease(2, func, to_json(schedule::default_trace(func, target_))),
               no_workload, no_target, beyond});
  EXPECT_EQ(results.at(1).outcome, Outcome::kInvalidTrace);
  EXPECT_EQ(results.at(2).outcome, Outcome::kOk) << results.at(2).message;
  EXPECT_EQ(results.at(3).outcome, Outcome::kBuildFailed);
  EXPECT_EQ(results.at(4).outcome, Outcome::kBuildFailed);
  EXPECT_THAT(results.at(4).message, HasSubstr("abacus"));
  EXPECT_EQ(results.at(5).outcome, Outcome::kBuildFailed);
  EXPECT_THAT(results.at(5).message, HasSubstr("outside 0..8"));
  for (uint64_t id : {1, 3, 4, 5}) EXPECT_FALSE(results.at(id).message.empty());
}

}  // namespace
}  // namespace lathe::worker

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return lathe::worker::internal_sandbox_main(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
