#include "workers/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lathe::worker {
namespace {

TEST(Device, KnowsThisMachine) {
  const DeviceInfo device = probe_device();
  EXPECT_FALSE(device.model.empty());
  EXPECT_FALSE(device.architecture.empty());
  EXPECT_FALSE(device.features.empty());
  EXPECT_GE(device.cores, 1);
  EXPECT_GT(device.memory_bytes, int64_t{1} << 28);
  EXPECT_TRUE(std::is_sorted(device.features.begin(), device.features.end()));
  for (const CacheLevel& cache : device.caches) EXPECT_GT(cache.bytes, 0);
}

TEST(Device, Json) {
  const DeviceInfo device{.host = "h\xff", .model = "m", .features = {"a"}, .caches = {{1, 32768, 64}}};
  const auto json = nlohmann::json::parse(to_json(device));
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["caches"][0]["bytes"], 32768);
  EXPECT_FALSE(json.contains("peak_flops"));
}

TEST(Device, LimitsOfTheThreadsInUse) {
  const DeviceInfo device{
      .cores = 8, .target = "cpu:x", .machine = "latency=4", .limits_core = {100, 20}, .limits = {800, 60}};
  EXPECT_EQ(nlohmann::json::parse(to_json(device))["machine"], "latency=4");
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
