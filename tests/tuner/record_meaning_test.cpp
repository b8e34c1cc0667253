// Packs of real programs, and what similar ones teach each other.
#include "tuner/record_meaning.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/tir/roofline.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"
#include "tests/thrown_by.h"
#include "tuner/nearest_shape.h"
#include "tuner/search.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

using schedule::avx512_target;
using ::testing::HasSubstr;

class Records : public ::testing::Test {
 protected:
  db::WorkloadId add(const tir::Func& func) {
    const std::string text = tir::print(tir::canonical(func));
    return store_.add_workload({sha256(text), text, count_flops(func), parameter_bytes(func)});
  }
  /// A confirmed result of the workload's default schedule, or of `trace`.
  void measure(db::WorkloadId workload, float seconds, std::string trace = "") {
    const tir::Func func = tir::parse_func(store_.workload(workload).text);
    const schedule::Trace by_default = schedule::default_trace(func, target_);
    if (trace.empty()) trace = schedule::to_json(by_default);
    db::Adopted adopted{.measurement = {.workload = workload,
                                        .target = id_,
                                        .device = device_,
                                        .samples = {seconds, seconds},
                                        .trace = trace,
                                        .program = fingerprint(schedule::replay(by_default, func)),
                                        .recorded_ms = 1000},
                        .confirmations = {{{seconds}, 2000}}};
    ASSERT_TRUE(store_.adopt(adopted));
  }
  std::string refusal(const std::string& pack) {
    return thrown_by([&] { db::import_pack(other_, pack, record_meaning()); });
  }

  TemporaryFolder folder_;
  db::Store store_{folder_ / "a.db"}, other_{folder_ / "b.db"};
  const Target target_ = avx512_target();
  const db::TargetId id_ = store_.add_target(target_row(to_text(target_)));
  const db::DeviceId device_ = store_.add_device({.host = "h", .model = "m", .architecture = "x86_64"});
};

TEST_F(Records, TravelInAPackByteForByte) {
  const db::WorkloadId dense = add(schedule::dense(8, 64, 32, kFloat32));
  measure(dense, 1e-3f);
  measure(add(schedule::elementwise(24, 49, kFloat32)), 1e-4f);
  const std::vector<db::ModelTask> tasks = {{.workload = dense, .name = "dense", .calls = 3}};
  const db::TaskList list = {{3, store_.workload(dense).digest}};
  store_.set_model_tasks(store_.add_model("net", tasks_digest(list)), id_, tasks);
  db::export_pack(store_, folder_ / "a.pack", {});
  const db::ImportReport report = db::import_pack(other_, folder_ / "a.pack", record_meaning());
  EXPECT_EQ(report.added.measurements, 2);
  EXPECT_EQ(report.not_applicable, 0);
  db::export_pack(other_, folder_ / "b.pack", {});
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "a.pack"))
    EXPECT_EQ(read_file(entry.path()), read_file(folder_ / "b.pack/" + entry.path().filename().string()));
  const db::WorkloadId there = other_.find_workload(store_.workload(dense).digest).value();
  EXPECT_EQ(other_.workload(there).flops, store_.workload(dense).flops) << "counted again";
  EXPECT_EQ(other_.history(there, 1).at(0).program, store_.history(dense, id_).at(0).program);
}

TEST_F(Records, TimesBelowTheMachinesTableAreRefused) {
  const db::WorkloadId large = add(schedule::matmul(512, 512, 512, kFloat32));
  const double least = fastest_believable(store_.workload(large).flops, target_, 1);
  ASSERT_GT(least, 1e-8);
  measure(large, static_cast<float>(least / 2));
  db::export_pack(store_, folder_ / "a.pack", {});
  EXPECT_THAT(refusal(folder_ / "a.pack"), HasSubstr("any machine of the target takes"));
}

TEST_F(Records, TextsThatMeanNothingAreRefused) {
  const db::Meaning meaning = record_meaning();
  const std::string text = tir::print(tir::canonical(schedule::elementwise(24, 49, kFloat32)));
  const db::Workload workload = meaning.workload(text);
  EXPECT_EQ(workload.digest, sha256(text));
  EXPECT_THROW(meaning.workload("func main("), Error);
  EXPECT_THROW(meaning.workload("# a comment\n" + text), Error)
      << "not canonical: two digests for one program";
  EXPECT_THROW(meaning.target("tpu"), Error);
  EXPECT_THROW(meaning.target("cpu"), Error) << "not canonical";
  EXPECT_THROW(meaning.program(workload, "{}"), Error);
  EXPECT_THROW(meaning.program(workload, R"({"steps":[{"do":"rm","in":[]}]})"), Error);
  EXPECT_EQ(meaning.program(workload, R"({"steps":[{"do":"get_block","in":[["none"]],"out":["b0"]}]})"),
            std::nullopt);
}

TEST(Shapes, NumbersAreSetApart) {
  const Shape shape =
      shape_of("func main(p0: float32[1, 64]) for i0 in 0..64 { t1[v0 + 3, 12] = 1.5 + 1e-05 + 7i32 }");
  EXPECT_EQ(shape.structure,
            "func main(p0: float32[#, #]) for i0 in #..# { t1[v0 + #, #] = 1.5 + 1e-05 + #i32 }");
  EXPECT_EQ(shape.numbers, (std::vector<int64_t>{1, 64, 0, 64, 3, 12, 7}));
}

TEST_F(Records, TheNearestShapeIsOfTheSameOperators) {
  const db::WorkloadId asked = add(schedule::dense(8, 64, 32, kFloat32)),
                       near = add(schedule::dense(8, 128, 32, kFloat32)),
                       far = add(schedule::dense(64, 512, 512, kFloat32));
  const db::BestQuery query{.workload = asked, .target = id_};
  measure(add(schedule::elementwise(8, 64, kFloat32)), 1e-4f);
  EXPECT_FALSE(nearest_shape(store_, query)) << "other operators";
  measure(far, 1e-3f);
  EXPECT_EQ(nearest_shape(store_, query)->measurement.workload, far);
  measure(near, 2e-3f);
  const NearestShape nearest = nearest_shape(store_, query).value();
  EXPECT_EQ(nearest.measurement.workload, near);
  EXPECT_TRUE(nearest.applies);
  EXPECT_FALSE(store_.best(query)) << "what was measured of another shape is no result of this one";
}

TEST_F(Records, ASearchOfAnUnknownShapeBeginsWithTheNearestOnesSchedule) {
  const tir::Func func = tir::canonical(schedule::dense(8, 64, 32, kFloat32));
  const db::WorkloadId asked = add(func), near = add(schedule::dense(8, 128, 32, kFloat32));
  TaskSearch any(func, target_, 1);
  const schedule::Trace other = any.propose(8, {}).back().trace;
  measure(near, 1e-3f, schedule::to_json(other));
  const NearestShape nearest = nearest_shape(store_, {.workload = asked, .target = id_}).value();
  ASSERT_TRUE(nearest.applies);
  TaskSearch search(func, target_, 2);
  search.suggest(nearest.trace);
  search.suggest(schedule::Trace{});
  const std::vector<Proposal> proposals = search.propose(4, {});
  ASSERT_GE(proposals.size(), 2u);
  EXPECT_EQ(proposals[0].trace, schedule::default_trace(func, target_));
  EXPECT_EQ(proposals[1].trace, other);
}

TEST_F(Records, SuggestionsThatARoundHasNoRoomForAreOfTheNext) {
  const tir::Func func = tir::canonical(schedule::dense(8, 64, 32, kFloat32));
  TaskSearch any(func, target_, 1), search(func, target_, 2);
  std::vector<Proposal> others = any.propose(6, {});
  others.erase(others.begin());  // the default, which is first in any case
  for (const Proposal& each : others) search.suggest(each.trace);
  std::vector<schedule::Trace> proposed;
  for (int round = 0; round < 3; ++round)
    for (const Proposal& each : search.propose(2, {})) proposed.push_back(each.trace);
  for (const Proposal& each : others)
    EXPECT_NE(std::find(proposed.begin(), proposed.end(), each.trace), proposed.end());
}

}  // namespace
}  // namespace lathe::tuner
