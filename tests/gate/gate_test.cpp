#include "gate/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lathe::gate {
namespace {

TEST(Gate, UnitsTakeTurnsUntilEachIsDecided) {
  Gate gate({}, 3, /*seed=*/1);
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) {
    const auto pair = gate.next();
    order.push_back(pair->unit);
    gate.record(*pair, {{1}}, {{1}});
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 2}));
  while (const auto pair = gate.next()) gate.record(*pair, {{1}}, {{1}});
  for (int unit = 0; unit < 3; ++unit) EXPECT_EQ(gate.trial(unit).verdict(), Verdict::kPass);
}

TEST(Gate, ADroppedUnitIsMeasuredNoMore) {
  Gate gate({}, 2, /*seed=*/1);
  gate.drop(0);
  while (const auto pair = gate.next()) {
    EXPECT_EQ(pair->unit, 1);
    gate.record(*pair, {{1}}, {{1}});
  }
  EXPECT_EQ(gate.trial(0).pairs(), 0);
}

TEST(Gate, TheOrderWithinPairsIsDrawnAndRepeats) {
  const auto orders = [](uint64_t seed) {
    Gate gate({}, 25, seed);
    std::vector<bool> firsts;
    while (const auto pair = gate.next()) {
      firsts.push_back(pair->candidate_first);
      gate.record(*pair, {{1}}, {{1}});
    }
    return firsts;
  };
  const std::vector<bool> firsts = orders(1);
  EXPECT_EQ(firsts, orders(1));
  EXPECT_NE(firsts, orders(2));
  const auto candidates = std::count(firsts.begin(), firsts.end(), true);
  EXPECT_NEAR(static_cast<double>(candidates) / static_cast<double>(firsts.size()), 0.5, 0.1);
}

}  // namespace
}  // namespace lathe::gate
