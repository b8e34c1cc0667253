#include "tuner/shortfall.h"

#include <gmock/gmock.h>

#include "schedules/program.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::tuner {
namespace {
using schedule::BlockHandle;
using schedule::Schedule;
using ::testing::HasSubstr;
using ::testing::Not;

tir::Func by_default(const tir::Func& func) {
  return schedule::replay(schedule::default_trace(func, schedule::avx512_target()), func);
}

TEST(Shortfall, SaysWhatTheProgramDoes) {
  tir::Func row = schedule::leaky_relu(64, 128, kFloat32);
  EXPECT_THAT(shortfall_text(row, 1e-3, {.trials = 50}), HasSubstr("100% of its work on single elements"));
  EXPECT_EQ(shortfall_text(by_default(row), 1e-3, {.trials = 50}), "");
  // Vectors along rows of a tensor that is read by columns.
  tir::Func packed = schedule::pack_layout(2, 8, kFloat32);
  Schedule gathers(packed);
  for (const Ref<tir::Block>& block : schedule::all_blocks(packed))
    gathers.vectorize(gathers.get_loops(gathers.get_block(block->name)).back());
  EXPECT_THAT(shortfall_text(gathers.func(), 1e-3, {.trials = 50}), HasSubstr("gathers"));
  EXPECT_THAT(shortfall_text(by_default(schedule::softmax(8, 64)), 1e-3, {.trials = 50}),
              HasSubstr("elementary functions"));
  EXPECT_THAT(shortfall_text(by_default(row), 1e-6, {.trials = 50}), HasSubstr("so short"));
}

TEST(Shortfall, SaysHowTheSearchWent) {
  tir::Func row = by_default(schedule::leaky_relu(64, 128, kFloat32));
  const auto text = [&](const SearchFacts& search) { return shortfall_text(row, 1e-3, search); };
  EXPECT_EQ(text({.trials = 24, .since_best = 3, .exhausted = true}), "all 24 candidates tried");
  EXPECT_EQ(text({.trials = 8, .since_best = 1}), "8 candidates tried");
  EXPECT_EQ(text({.trials = 100, .since_best = 10}), "was still getting faster");
  EXPECT_EQ(text({.trials = 100, .since_best = 60}), "the last 60 of 100 candidates brought nothing");
  EXPECT_EQ(text({}), "nothing new tried");
}

}  // namespace
}  // namespace lathe::tuner
