#include "workers/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "core/support/error.h"
#include "core/support/file.h"
#include "tests/workers/roles.h"
#include "workers/jobs.h"
#include "workers/packets.h"
#include "workers/quiet.h"
#include "workers/sampler.h"

namespace lathe::worker {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

/// Makes the case with the kernel `good`, then measures others against it.
class MeasureTest : public testing::Test {
 protected:
  MeasureTest()
      : sandbox_(sandbox_command("run")),
        object_(memory_file("object", read_file(TEST_KERNELS))),
        case_(memory_file("case", "")) {
    const Report report = run("good", {}, /*reference=*/true);
    EXPECT_EQ(report.end, Report::End::kReplied) << describe(report) << report.stderr_tail;
  }
  ~MeasureTest() override {
    close(object_);
    close(case_);
  }

  static Artifact artifact(const std::string& kernel) {
    const BufferSpec buffer{.shape = {4096}, .dtype = kFloat32};
    BufferSpec output = buffer;
    output.output = true;
    return {.main = {kernel, /*workspace_bytes=*/100, {0, 1, 2}}, .buffers = {buffer, buffer, output}};
  }

  Report run(const std::string& kernel, const wire::Evaluation& evaluation, bool reference = false,
             bool stop_builders = false, double seconds = 30) {
    return run(artifact(kernel), evaluation, reference, stop_builders, seconds);
  }

  Report run(const Artifact& artifact, const wire::Evaluation& evaluation, bool reference = false,
             bool stop_builders = false, double seconds = 30) {
    const RunJob job{.artifact = artifact, .evaluation = evaluation, .seed = 1, .reference = reference};
    return sandbox_.run({.request = encode(job),
                         .descriptors = {object_, case_},
                         .limits = {.wall_seconds = seconds, .memory_bytes = uint64_t{1} << 30},
                         .stop_builders = stop_builders});
  }
  Reply measure(const std::string& kernel, const wire::Evaluation& evaluation = {}) {
    const Report report = run(kernel, evaluation);
    EXPECT_EQ(report.end, Report::End::kReplied) << describe(report) << report.stderr_tail;
    return decode_reply(report.reply);
  }

  Sandbox sandbox_;
  int object_, case_;
};

TEST_F(MeasureTest, GoodKernels) {
  for (const char* kernel : {"good", "good_parallel"}) {
    const Reply reply = measure(kernel);
    EXPECT_EQ(reply.outcome, Outcome::kOk) << reply.message;
    EXPECT_EQ(reply.relative_error, 0);
    ASSERT_GE(reply.samples.size(), 3u);
    for (float sample : reply.samples) EXPECT_LT(sample, 0.1f);
  }
}

TEST_F(MeasureTest, UsesTheThreadsAsked) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP();
  EXPECT_EQ(measure("good_parallel", {.threads = 2}).outcome, Outcome::kOk);
}

TEST_F(MeasureTest, WrongIsNeverTimed) {
  struct Row {
    const char *kernel, *message;
  };
  for (const Row& row :
       {Row{"wrong_at_one_place", "outputs differ from the reference by "},
        Row{"forgets_the_end", "outputs differ from the reference by "},
        Row{"writes_outside", "writes outside its buffers"}, Row{"changes_inputs", "changes its inputs"}}) {
    const Reply reply = measure(row.kernel);
    EXPECT_EQ(reply.outcome, Outcome::kWrongResult) << row.kernel;
    EXPECT_THAT(reply.message, HasSubstr(row.message));
    EXPECT_THAT(reply.samples, SizeIs(0));
  }
  EXPECT_EQ(measure("wrong_at_one_place", {.tolerance = 1}).outcome, Outcome::kOk);
}

/// y[i] = a[i] + b[i] for a number of elements that is open: measured with 4096, and checked with others.
Artifact open_artifact(const std::string& kernel) {
  const auto buffers = [](int64_t n) {
    const BufferSpec input{.shape = {n}, .dtype = kFloat32},
        output{.shape = {n}, .dtype = kFloat32, .output = true};
    return std::vector<BufferSpec>{input, input, output};
  };
  Artifact artifact{
      .main = {kernel, /*workspace_bytes=*/100, {0, 1, 2}}, .buffers = buffers(4096), .dims = {4096}};
  for (int64_t n : {1, 17, 5000})
    artifact.checked.push_back({.dims = {n}, .workspace_bytes = 64 * n, .buffers = buffers(n)});
  return artifact;
}

TEST_F(MeasureTest, AnOpenKernelIsRightAtAllSizesBeforeItIsTimed) {
  const Report made = run(open_artifact("good_open"), {}, /*reference=*/true);
  ASSERT_EQ(made.end, Report::End::kReplied) << describe(made) << made.stderr_tail;
  ASSERT_EQ(decode_reply(made.reply).outcome, Outcome::kOk) << decode_reply(made.reply).message;
  const Reply right = decode_reply(run(open_artifact("good_open"), {}).reply);
  EXPECT_EQ(right.outcome, Outcome::kOk) << right.message;
  EXPECT_GE(right.samples.size(), 3u);
  const Reply wrong = decode_reply(run(open_artifact("wrong_at_seventeen"), {}).reply);
  EXPECT_EQ(wrong.outcome, Outcome::kWrongResult);
  EXPECT_THAT(wrong.message, HasSubstr("of its largest value, tolerance 0.0001, at (17)"));
  EXPECT_THAT(wrong.samples, SizeIs(0));
}

TEST(Artifacts, KeepTheirSizesOnAJourney) {
  const Artifact artifact = open_artifact("good_open");
  const Artifact there = decode_artifact(encode(artifact));
  EXPECT_EQ(there.dims, artifact.dims);
  EXPECT_EQ(there.checked, artifact.checked);
  Artifact damaged = artifact;
  damaged.checked[1].dims = {};
  EXPECT_THROW(decode_artifact(encode(damaged)), Error);
  damaged = artifact;
  damaged.checked[1].buffers.pop_back();
  EXPECT_THROW(decode_artifact(encode(damaged)), Error);
}

TEST_F(MeasureTest, AResultIn16BitsMayBeTheNextNumber) {
  auto rounded = [](const std::string& kernel) {
    Artifact result = artifact(kernel);
    result.buffers[2].dtype = kBFloat16;
    return result;
  };
  ASSERT_EQ(run(rounded("ones"), {}, /*reference=*/true).end, Report::End::kReplied);
  const Reply next = decode_reply(run(rounded("next_to_one"), {.tolerance = 0}).reply);
  EXPECT_EQ(next.outcome, Outcome::kOk) << next.message;
  EXPECT_EQ(next.relative_error, 0);
  const Reply beyond = decode_reply(run(rounded("beyond_the_next"), {}).reply);
  EXPECT_EQ(beyond.outcome, Outcome::kWrongResult);
  EXPECT_NEAR(beyond.relative_error, 0x1p-7, 1e-4);
}

TEST_F(MeasureTest, AWideResultOfInputsIn16BitsMayBeRoundedToThem) {
  auto with_input = [](const std::string& kernel, DataType type) {
    Artifact result = artifact(kernel);
    result.buffers[0].dtype = type;
    return result;
  };
  for (DataType type : {kBFloat16, kFloat32}) {
    ASSERT_EQ(run(with_input("wide_ones", type), {}, /*reference=*/true).end, Report::End::kReplied);
    const Reply near = decode_reply(run(with_input("near_wide_ones", type), {}).reply);
    EXPECT_EQ(near.outcome, type == kBFloat16 ? Outcome::kOk : Outcome::kWrongResult) << near.message;
  }
}

/// y = a + b by a prologue that makes m of b, and a kernel that takes a and m.
TEST_F(MeasureTest, AReferenceHasAPrologueToo) {
  Artifact parts = artifact("adds_half");
  parts.made = {parts.buffers[1]};
  parts.prologue = {"doubles", /*workspace_bytes=*/64, {1, 3}};
  parts.main.params = {0, 3, 2};
  ASSERT_EQ(run(parts, {}, /*reference=*/true).end, Report::End::kReplied);
  const Reply reply = measure("good");
  EXPECT_EQ(reply.outcome, Outcome::kOk) << reply.message;
}

TEST_F(MeasureTest, APrologueRunsOnceAndIsNotTimed) {
  struct Row {
    const char *prologue, *main;
    Outcome outcome;
    const char* message;
  };
  for (const Row& row :
       {Row{"doubles", "adds_half", Outcome::kOk, ""},
        Row{"doubles_half", "adds_half", Outcome::kWrongResult, "outputs differ from the reference by "},
        Row{"doubles_and_more", "adds_half", Outcome::kWrongResult, "writes outside its buffers"},
        Row{"doubles", "adds_half_and_spoils", Outcome::kWrongResult, "changes its inputs"},
        Row{"refuses", "adds_half", Outcome::kCrashed, "the kernel's check 7 failed"}}) {
    Artifact parts = artifact(row.main);
    parts.made = {parts.buffers[1]};
    parts.prologue = {row.prologue, /*workspace_bytes=*/64, {1, 3}};
    parts.main.params = {0, 3, 2};
    const Report report = run(parts, {.warmup = 2, .max_samples = 10});
    ASSERT_EQ(report.end, Report::End::kReplied) << describe(report) << report.stderr_tail;
    const Reply reply = decode_reply(report.reply);
    EXPECT_EQ(reply.outcome, row.outcome) << row.prologue << " " << row.main << ": " << reply.message;
    EXPECT_THAT(reply.message, HasSubstr(row.message));
    EXPECT_EQ(reply.samples.empty(), row.outcome != Outcome::kOk);
  }
}

TEST_F(MeasureTest, CrashesAndHangsAreClassed) {
  EXPECT_EQ(measure("refuses").message, "the kernel's check 7 failed");
  EXPECT_EQ(measure("refuses").outcome, Outcome::kCrashed);
  EXPECT_EQ(run("loops", {}, false, false, /*seconds=*/0.5).end, Report::End::kTimedOut);
  EXPECT_EQ(run("aborts", {}).code, SIGABRT);
  if (kConfines) {
    EXPECT_EQ(run("far_store", {}).code, SIGSEGV);  // sanitizers exit instead
  }
  const Report missing = run("no_such_kernel", {});
  EXPECT_EQ(missing.end, Report::End::kExited);
  EXPECT_EQ(missing.stderr_tail, "the shared object has no symbol no_such_kernel\n");
}

TEST_F(MeasureTest, StopsEarlyOnLosers) {
  const wire::Evaluation patient{.max_samples = 8, .budget_seconds = 10, .relative_interval = 0};
  EXPECT_THAT(measure("slow", patient).samples, SizeIs(8));
  wire::Evaluation impatient = patient;
  impatient.incumbent_seconds = 1e-3;
  // One, and others where something disturbed the first.
  EXPECT_THAT(measure("slow", impatient).samples, SizeIs(AllOf(Ge(1u), Le(7u))));
  impatient.incumbent_seconds = 1;  // 20 ms is less than this, whatever else the machine does
  EXPECT_THAT(measure("slow", impatient).samples, SizeIs(8));
}

TEST_F(MeasureTest, StopsWhenTheBudgetIsSpent) {
  const wire::Evaluation evaluation{.budget_seconds = 0.09, .relative_interval = 0};
  // Of 20 ms each, in three times the budget at most: disturbed ones are taken again.
  EXPECT_THAT(measure("slow", evaluation).samples, SizeIs(AllOf(Ge(1u), Le(14u))));
}

TEST(Interval, CoversTheMedian) {
  EXPECT_EQ(relative_interval({1, 1, 1, 1, 1}), 1);
  EXPECT_EQ(relative_interval({1, 1, 1, 1, 1, 1}), 0);
  std::mt19937 random(1);
  std::lognormal_distribution<float> noise(0, 0.1f);  // of median 1
  int covered = 0;
  for (int round = 0; round < 1000; ++round) {
    std::vector<float> samples(40);
    for (float& sample : samples) sample = noise(random);
    std::vector<float> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    covered += sorted[13] <= 1 && 1 <= sorted[27];  // the ranks of 40 samples
    EXPECT_NEAR(relative_interval(samples), (sorted[27] - sorted[13]) / 2 / sorted[20], 1e-4);
  }
  EXPECT_GT(covered, 930);
}

TEST(Jobs, MalformedIsAnError) {
  EXPECT_THROW(decode_run_job("garbage"), Error);
  EXPECT_THROW(decode_reply(std::string("\x08\x63", 2)), Error);
  const std::string huge =
      encode(Reply{.artifact = {.buffers = {{.shape = {1 << 30, 1 << 30}, .dtype = kFloat32}}}});
  EXPECT_THROW(decode_reply(huge), Error);

  const BufferSpec buffer{.shape = {4}, .dtype = kFloat32};
  const Artifact good{
      .main = {"main", 0, {0, 1}}, .prologue = {{"ahead", 0, {0, 1}}}, .buffers = {buffer}, .made = {buffer}};
  EXPECT_EQ(decode_reply(encode(Reply{.artifact = good})).artifact.prologue, good.prologue);
  EXPECT_EQ(decode_reply(encode(Reply{.artifact = good})).artifact.made, good.made);
  const auto refused = [&](auto change) {
    Artifact bad = good;
    change(bad);
    EXPECT_THROW(decode_reply(encode(Reply{.artifact = bad})), Error);
    EXPECT_THROW(decode_run_job(encode(RunJob{.artifact = bad})), Error);
  };
  refused([](Artifact& a) { a.main.params = {0, 2}; });
  refused([](Artifact& a) { a.prologue->params = {4294967295u}; });
  refused([](Artifact& a) { a.prologue->workspace_bytes = -1; });
  refused([](Artifact& a) { a.made[0].shape = {-4}; });
  refused([](Artifact& a) { a.made.clear(), a.main.params = a.prologue->params = {0}; });
  refused([](Artifact& a) { a.prologue.reset(); });
  // Tensors of these write wider elements than they have room for.
  for (const DataType& strange :
       {DataType{TypeCode::kFloat, 8}, DataType{TypeCode::kInt, 24}, DataType{TypeCode::kUInt, 63},
        DataType{TypeCode::kBFloat, 32}, DataType{TypeCode::kBool, 1}, DataType{TypeCode::kHandle, 64}})
    refused([&](Artifact& a) { a.buffers[0].dtype = strange; });
}

// The same kernel again and again, alone and with builders beside it that keep every core busy: printed,
// since on a shared machine nothing about times can be asserted. That builders stand still is asserted in
// sandbox_test.
TEST_F(MeasureTest, SpreadOfARepeatedMeasurement) {
  if (!kConfines) GTEST_SKIP() << "nobody times sanitized code";
  const size_t builders_wanted = 2 * plan_cores(1).run.size() + 2;
  const auto measure_often = [&](const char* what, bool stop_builders) {
    std::vector<float> means;
    for (int i = 0; i < 12; ++i) {
      const Report report =
          run("works_a_while", {.max_samples = 20, .budget_seconds = 0.05, .relative_interval = 0},
              /*reference=*/false, stop_builders);
      ASSERT_EQ(report.end, Report::End::kReplied) << describe(report) << report.stderr_tail;
      const auto samples = decode_reply(report.reply).samples;
      means.push_back(std::accumulate(samples.begin(), samples.end(), 0.0f) /
                      static_cast<float>(samples.size()));
    }
    std::sort(means.begin(), means.end());
    fmt::print("{:18} mean of 20 samples, 12 times: lowest {:7.1f} us, median {:7.1f}, highest {:7.1f}\n",
               what, 1e6 * means.front(), 1e6 * means[6], 1e6 * means.back());
  };
  measure_often("alone", false);
  std::vector<std::unique_ptr<Sandbox>> builders;
  for (size_t i = 0; i < builders_wanted; ++i) {
    builders.push_back(std::make_unique<Sandbox>(sandbox_command("builder")));
    builders.back()->start({.request = "loop", .limits = {.wall_seconds = 60}});
  }
  measure_often("builders running", false);
  measure_often("builders stopped", true);
}

}  // namespace
}  // namespace lathe::worker
