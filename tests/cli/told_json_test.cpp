// What is told of models with more tasks than can be.
#include "cli/told_json.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"

namespace lathe::cli {
namespace {

using nlohmann::json;

json report_of(int tasks) {
  json report = {{"model", "net"}, {"after_ms", 1.5}, {"tasks", json::array()}};
  for (int i = 0; i < tasks; ++i)
    // Every third takes most of the time.
    report["tasks"].push_back(
        {{"name", fmt::format("task {}", i)}, {"model_share", i % 3 == 0 ? 0.5 : 0.001}});
  return report;
}

TEST(ToldReport, IsWholeWhereItMayBe) {
  const json report = report_of(6);
  const std::string text = json_line(report);
  EXPECT_EQ(told_report(report, text.size()), text);
}

TEST(ToldReport, LeavesOutTheTasksOfLeastTime) {
  const json report = report_of(3000);
  const size_t most = json_line(report).size() / 2;
  const std::string text = told_report(report, most);
  EXPECT_LE(text.size(), most);
  EXPECT_GT(text.size(), most - 100) << "what there is room for is told";
  const json told = json::parse(text);
  ASSERT_EQ(told["tasks"].size(), 3000u) << "each in its place";
  size_t left_out = 0;
  for (size_t i = 0; i < 3000; ++i) {
    if (!told["tasks"][i].is_null()) {
      EXPECT_EQ(told["tasks"][i], report["tasks"][i]);
      continue;
    }
    ++left_out;
    EXPECT_NE(i % 3, 0u) << i << " takes much time";
  }
  EXPECT_GT(left_out, 0u);
  EXPECT_EQ(told["tasks_left_out"], left_out);
  EXPECT_EQ(told["after_ms"], 1.5);
}

TEST(ToldReport, LeavesOutFamiliesWhereTasksAreNotEnough) {
  json report = report_of(10);
  report["families"] = std::string(5000, 'f');
  const json told = json::parse(told_report(report, 2000));
  EXPECT_FALSE(told.contains("families"));
  EXPECT_EQ(told["tasks_left_out"], 0);
}

TEST(CountTold, IsWhatThereIsRoomFor) {
  const json list = {"four", "four", "four"};  // 6 bytes and a comma each
  EXPECT_EQ(count_told(list, 21), 3u);
  EXPECT_EQ(count_told(list, 20), 2u);
  EXPECT_EQ(count_told(list, 0), 0u);
  EXPECT_EQ(count_told(json::array(), 0), 0u);
}

}  // namespace
}  // namespace lathe::cli
