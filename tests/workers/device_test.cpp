#include "workers/device.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lathe::worker {
namespace {

TEST(Device, KnowsThisMachine) {
  const DeviceInfo device = probe_device(/*measure=*/false);
  EXPECT_FALSE(device.model.empty());
  EXPECT_FALSE(device.architecture.empty());
  EXPECT_FALSE(device.features.empty());
  EXPECT_GE(device.cores, 1);
  EXPECT_GT(device.memory_bytes, int64_t{1} << 28);
  EXPECT_TRUE(std::is_sorted(device.features.begin(), device.features.end()));
  for (const CacheLevel& cache : device.caches) EXPECT_GT(cache.bytes, 0);
}

TEST(Device, PeaksArePlausible) {
  const DeviceInfo device = probe_device(/*measure=*/true);
  fmt::print("peak {:.1f} GFLOP/s on one core, {:.1f} on {}; {:.1f} GB/s\n", device.peak_flops_core / 1e9,
             device.peak_flops / 1e9, device.cores, device.memory_bandwidth / 1e9);
  EXPECT_GT(device.peak_flops_core, 1e9);
  EXPECT_LT(device.peak_flops_core, 1e12);
  EXPECT_GT(device.peak_flops, device.peak_flops_core * 0.5);
  EXPECT_GT(device.memory_bandwidth, 1e8);
}

TEST(Device, Json) {
  const DeviceInfo device{.host = "h\xff", .model = "m", .features = {"a"}, .caches = {{1, 32768, 64}}};
  const auto json = nlohmann::json::parse(to_json(device));
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["caches"][0]["bytes"], 32768);
  EXPECT_FALSE(json.contains("peak_flops"));
}

}  // namespace
}  // namespace lathe::worker
