#include "schedules/crop_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tir/verify.h"
#include "schedules/anatomy.h"
#include "schedules/program.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

using ::testing::ElementsAre;
using tir::Func;

/// What the sum runs over.
std::vector<int64_t> summed(const Func& func) {
  std::vector<int64_t> extents;
  for (const tir::BlockIter& iter : dominant_reduction(func)->iters)
    if (iter.kind == tir::IterKind::kReduce) extents.push_back(int_value(iter.extent));
  return extents;
}

std::vector<std::string> blocks_of(const Func& func) {
  std::vector<std::string> names;
  for (const Ref<tir::Block>& block : all_blocks(func)) names.push_back(block->name);
  return names;
}

Func cropped(const ConvShape& shape) {
  const Func func = conv2d(shape), result = crop_sums(func);
  expect_same_results(func, result);
  if (auto fault = tir::find_fault(result, tir::Level::kScheduled)) ADD_FAILURE() << *fault;
  return result;
}

constexpr ConvShape kPixel{
    .out_blocks = 1, .in_blocks = 2, .height = 1, .width = 1, .lanes = 2, .in_lanes = 2};

TEST(CropSums, LeavesOutTapsThatSeePaddingAloneAndThePaddingWithThem) {
  EXPECT_THAT(summed(conv2d(kPixel)), ElementsAre(2, 3, 3, 2));
  const Func pixel = cropped(kPixel);
  EXPECT_THAT(summed(pixel), ElementsAre(2, 1, 1, 2));
  EXPECT_THAT(blocks_of(pixel), testing::Not(testing::Contains("pad")));
  ConvShape pair = kPixel;
  pair.height = 2, pair.width = 2, pair.stride = 2;
  EXPECT_THAT(summed(cropped(pair)), ElementsAre(2, 2, 2, 2));
}

TEST(CropSums, KeepsPaddingThatSomeTapSees) {
  ConvShape wide = kPixel;
  wide.width = 3;
  const Func func = cropped(wide);
  EXPECT_THAT(summed(func), ElementsAre(2, 1, 3, 2));
  EXPECT_THAT(blocks_of(func), testing::Contains("pad"));
  ConvShape large = kPixel;
  large.height = large.width = 7;

  EXPECT_THAT(summed(cropped(large)), ElementsAre(2, 3, 3, 2));
}
}  // namespace
}  // namespace lathe::schedule
