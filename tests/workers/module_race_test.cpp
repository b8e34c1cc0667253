// Whole modules raced in a confined child, as a worker does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

#include "core/runtime/plan_builder.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "workers/confine.h"
#include "workers/pipeline.h"

namespace lathe::worker {
namespace {

using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A module file whose one kernel is `name` of tests/workers/kernels.cpp.
std::string module_of(const std::string& name) {
  const runtime::TensorType type{{4096}, kFloat32};
  runtime::PlanBuilder builder;
  const int64_t a = builder.input("a", type), b = builder.input("b", type);
  builder.output("y", builder.call({.kernel = name, .args = {a, b}, .results = {type}})[0]);
  runtime::ModuleImage image = builder.finish();
  image.library = read_file(TEST_KERNELS);
  const TemporaryFolder folder;
  runtime::write_module(folder / "m.lathe", image);
  return read_file(folder / "m.lathe");
}

wire::Result race_of(const std::string& incumbent, const std::string& challenger, double limit = 60,
                     uint32_t threads = 1) {
  Pipeline pipeline({"/proc/self/exe", "internal-sandbox"}, /*builders=*/0);
  pipeline.race({.lease = 7,
                 .evaluation = {.threads = threads, .budget_seconds = 5, .run_limit_seconds = limit},
                 .part = wire::Part::kRace},
                incumbent, challenger);
  for (;;) {
    for (const Pipeline::Ended& ended : pipeline.collect()) {
      EXPECT_EQ(ended.lease, 7u);
      return ended.report;
    }
    std::vector<pollfd> ready;
    for (const int descriptor : pipeline.descriptors()) ready.push_back({descriptor, POLLIN, 0});
    poll(ready.data(), ready.size(), 100);
  }
}

TEST(ModuleRace, EndsWhenOneIsClearlyTheFaster) {
  const wire::Result result = race_of(module_of("works_a_while"), module_of("good"));
  ASSERT_EQ(result.outcome, Outcome::kOk) << result.message;
  EXPECT_THAT(result.samples, SizeIs(20)) << "ten turns, the first look";
  EXPECT_THAT(result.samples, Each(Gt(0.0F)));
  size_t won = 0;
  for (size_t i = 0; i < result.samples.size(); i += 2) won += result.samples[i + 1] < result.samples[i];
  EXPECT_GE(won, 9u);
}

TEST(ModuleRace, TakesTheSameModuleTwice) {
  const std::string module = module_of("good");
  const wire::Result result = race_of(module, module);
  ASSERT_EQ(result.outcome, Outcome::kOk) << result.message;
  EXPECT_EQ(result.samples.size() % 2, 0u);
  EXPECT_GE(result.samples.size(), 20u);
}

TEST(ModuleRace, SaysHowAModuleEnded) {
  const wire::Result illegal = race_of(module_of("good"), module_of("illegal"));
  EXPECT_EQ(illegal.outcome, Outcome::kCrashed);
  EXPECT_THAT(illegal.message, HasSubstr("killed by signal"));
  EXPECT_NE(illegal.signal, 0);
  const wire::Result hung = race_of(module_of("good"), module_of("loops"), /*limit=*/1);
  EXPECT_EQ(hung.outcome, Outcome::kTimeout);
  EXPECT_THAT(hung.samples, IsEmpty());
  const wire::Result refuses = race_of(module_of("refuses"), module_of("good"));
  EXPECT_EQ(refuses.outcome, Outcome::kCrashed);
  EXPECT_THAT(refuses.message, HasSubstr("7"));
}

TEST(ModuleRace, NamesAModuleThatIsNone) {
  const wire::Result result = race_of(module_of("good"), "garbage");
  EXPECT_EQ(result.outcome, Outcome::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("the challenger is not a module file"));
}

/// Their code comes from a searcher, which a model may have taken over.
TEST(ModuleRace, ConfinesTheirCode) {
  if (!kConfines) GTEST_SKIP();
  const wire::Result result = race_of(module_of("opens_a_socket"), module_of("good"));
  EXPECT_EQ(result.outcome, Outcome::kCrashed);
  EXPECT_EQ(result.signal, SIGSYS);
}

TEST(ModuleRace, WhatTheMachineCannotDoIsNoCrash) {
  const wire::Result result = race_of(module_of("good"), module_of("good"), 60, /*threads=*/4000);
  EXPECT_EQ(result.outcome, Outcome::kBuildFailed);
  EXPECT_THAT(result.message, HasSubstr("threads"));
}

}  // namespace
}  // namespace lathe::worker
