#include "workers/device.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

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
  fmt::print("peak {:.1f} GFLOP/s on one core, {:.1f} on {}; {:.1f} GB/s\n", device.limits_core.flops / 1e9,
             device.limits.flops / 1e9, device.cores, device.limits.bandwidth / 1e9);
  EXPECT_GT(device.limits_core.flops, 1e9);
  EXPECT_LT(device.limits_core.flops, 1e12);
  EXPECT_GT(device.limits.flops, device.limits_core.flops * 0.5);
  EXPECT_GT(device.limits_core.bandwidth, 1e8);
  EXPECT_GT(device.limits.bandwidth, 1e8);
}

TEST(Peak, SumsAllWords) {
  std::vector<uint64_t> words(100);
  std::iota(words.begin(), words.end(), 1);
  for (size_t count : {0, 1, 7, 31, 32, 33, 99})
    EXPECT_EQ(sum_words(std::span(words).subspan(1, count)), count * (count + 3) / 2);
}

TEST(Device, Json) {
  const DeviceInfo device{.host = "h\xff", .model = "m", .features = {"a"}, .caches = {{1, 32768, 64}}};
  const auto json = nlohmann::json::parse(to_json(device));
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["caches"][0]["bytes"], 32768);
  EXPECT_FALSE(json.contains("peak_flops"));
}

TEST(Device, LimitsOfTheThreadsInUse) {
  const DeviceInfo device{.cores = 8, .limits_core = {100, 20}, .limits = {800, 60}};
  auto limits = limits_of(to_json(device), 1);
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->flops, 100);
  EXPECT_EQ(limits->bandwidth, 20);
  limits = limits_of(to_json(device), 4);
  EXPECT_EQ(limits->flops, 400);
  EXPECT_EQ(limits->bandwidth, 60);  // memory is shared
  limits = limits_of(to_json(device), 64);
  EXPECT_EQ(limits->flops, 800);

  EXPECT_FALSE(limits_of(to_json(device), 0));
  EXPECT_FALSE(limits_of(to_json(DeviceInfo{}), 1));  // not measured
  EXPECT_FALSE(limits_of(R"({"peak_flops": "fast"})", 1));
  for (const char* text : {"", "[]", "garbage"}) EXPECT_FALSE(limits_of(text, 1)) << text;
}

}  // namespace
}  // namespace lathe::worker
