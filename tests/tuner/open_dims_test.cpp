// What --open takes, and the values that it picks.
#include "tuner/open_dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/thrown_by.h"

namespace lathe::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> picked(DimRange range, int most = 4) {
  std::vector<int64_t> values;
  for (const WeightedValue& each : representative_values(range, most)) values.push_back(each.value);
  return values;
}

TEST(OpenDims, TakesRangesValuesAndWeights) {
  const OpenDims open = parse_open_dims({"all", "a", "b=1..512", "c=128:4,1,512", "x=y=16..64,32:0.5"});
  EXPECT_TRUE(open.all);
  EXPECT_FALSE(open.range("a").is_bounded());
  EXPECT_EQ(open.range("b").max, 512);
  EXPECT_THAT(open.range("c").values,
              ElementsAre(WeightedValue{1}, WeightedValue{128, 4}, WeightedValue{512}));
  EXPECT_FALSE(open.range("c").is_bounded());
  EXPECT_EQ(open.range("x=y").min, 16);
  EXPECT_THAT(open.range("x=y").values, ElementsAre(WeightedValue{32, 0.5}));
}

TEST(OpenDims, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "must be all, NAME"},
      {"=3", "must be all, NAME"},
      {"n=", "`` is no value"},
      {"n=5..2", "`5..2` is no range"},
      {"n=1..2..3", "`1..2..3` is no range"},
      {"n=1..2,3..4", "two ranges"},
      {"n=1..64,65", "65 is not within 1..64"},
      {"n=4,4", "4 is given twice"},
      {"n=4:0", "`4:0` is no value above 0 with a weight above 0"},
      {"n=4:", "`4:` is no value"},
      {"n=4:inf", "`4:inf` is no value"},
      {"n=0", "`0` is no value above 0"},
      {"n=4x", "`4x` is no value"},
      {"n=-3", "`-3` is no value"},
      {"n=99999999999999999999", "is no value"},
  };
  for (const auto& [flag, message] : cases)
    EXPECT_THAT(thrown_by([&] { parse_open_dims({flag}); }), HasSubstr(message)) << flag;
  EXPECT_THAT(thrown_by([] { parse_open_dims({"n", "n=3"}); }), HasSubstr("the dimension is given twice"));
}

TEST(OpenDims, PicksTheEndsAndPowersOfTwoBetween) {
  EXPECT_THAT(picked({.min = 1, .max = 512}), ElementsAre(1, 8, 64, 512));
  EXPECT_THAT(picked({.min = 1, .max = 512}, 2), ElementsAre(1, 32, 512));
  EXPECT_THAT(picked({.min = 1, .max = 512}, 1), ElementsAre(1, 512));
  EXPECT_THAT(picked({}), ElementsAre(1, 8, 64, 512)) << "as far as kFar";
  EXPECT_THAT(picked({.min = 0, .max = 3}), ElementsAre(1, 3));
  EXPECT_THAT(picked({.min = 1, .max = 16}), ElementsAre(1, 4, 16));
  EXPECT_THAT(picked({.min = 7, .max = 7}), ElementsAre(7));
  EXPECT_THAT(picked({.min = 100, .max = 2000}), ElementsAre(100, 512, 2000));
  EXPECT_THAT(picked({.min = 1000}), ElementsAre(1000));
  EXPECT_THAT(picked({.min = 1, .max = int64_t{1} << 30}), testing::SizeIs(5));
  EXPECT_THAT(picked({.values = {{3}, {90}}}), ElementsAre(3, 90));
}

}  // namespace
}  // namespace lathe::tuner
