#include "workers/machine_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"

namespace lathe::worker {
namespace {

TEST(Settled, TheLeastOfRoundsThatAnotherOneAgreesWith) {
  EXPECT_EQ(settled({1.3, 1.0, 1.02}, 0.03), 1.0);
  EXPECT_EQ(settled({1.3, 1.0, 1.2}, 0.03), std::nullopt) << "which of them was disturbed?";
  EXPECT_EQ(settled({1.0}, 0.03), std::nullopt);
  EXPECT_EQ(settled({}, 0.03), std::nullopt);
}

TEST(Rounding, RatesAreWholeOrHalfWhereTheyNearlyAre) {
  EXPECT_EQ(snapped(1.93, 3), 2);
  EXPECT_EQ(snapped(0.48, 3), 0.5);
  EXPECT_EQ(snapped(2.04, 3), 2);
  EXPECT_EQ(snapped(0.7284, 3), 0.728) << "of several instructions";
  EXPECT_EQ(snapped(0.02, 3), 0.02);
  EXPECT_EQ(rounded(26.86, 2), 27);
  EXPECT_EQ(rounded(2345, 2), 2300);
  EXPECT_EQ(rounded(0, 2), 0);
}

/// Loosely: the machine of a test may be any, and busy.
TEST(MachineProbe, NumbersArePlausible) {
  const Target host = codegen::host_target();
  const MachineReading reading = measure_machine(host);
  for (const auto& [name, value] : reading.numbers) {
    ASSERT_TRUE(find_machine_field(name)) << name;
    EXPECT_GT(value, 0) << name;
    EXPECT_THAT(reading.unsettled, testing::Not(testing::Contains(name)));
  }
  EXPECT_NO_THROW(parse_machine_numbers(to_text(reading.numbers)));
  auto within = [&](const char* name, double least, double most) {
    auto found = reading.numbers.find(name);
    if (found == reading.numbers.end()) return;
    EXPECT_GT(found->second, least) << name;
    EXPECT_LT(found->second, most) << name;
  };
  within("multiply_adds_128", 0.1, 20);
  within("latency", 1, 100);
  within("memory_bandwidth", 0.01, 200);
  within("clock", 0.1, 20);
}

}  // namespace
}  // namespace lathe::worker
