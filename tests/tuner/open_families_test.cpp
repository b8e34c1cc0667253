// Tasks of open dimensions, and the kernels that records make of them.
#include "tuner/open_families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/codegen/host_target.h"
#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/digest.h"
#include "core/support/temporary_folder.h"
#include "core/tir/dims.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/thrown_by.h"
#include "tuner/best_schedules.h"
#include "tuner/optimize.h"
#include "tuner/search.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kLayer = R"(#[version = "0.0.5"]
def @main[n](%x: Tensor[(n, 32), float32]) {
  nn.relu(nn.dense(%x, multiply(ones(shape=[48, 32], dtype="float32"), 0.5f)))
})";

class OpenTasks : public ::testing::Test {
 protected:
  std::vector<Task> tasks(const std::vector<std::string>& open) {
    points_ = open_points(fused_, parse_open_dims(open));
    return extract_tasks(fused_, points_);
  }
  static std::vector<std::string> names(const std::vector<Task>& tasks) {
    std::vector<std::string> names;
    for (const Task& task : tasks) names.push_back(task.name);
    return names;
  }

  Target target_ = codegen::host_target();
  relay::Module fused_ = optimize(relay::parse_module(kLayer, "layer.relay"), target_);
  OpenPoints points_;
};

TEST_F(OpenTasks, AreOneForEachSize) {
  const std::vector<Task> found = tasks({"n=1,16,128:2"});
  ASSERT_EQ(found.size(), 3u);
  std::set<std::string> digests, programs;
  for (const Task& task : found) {
    EXPECT_EQ(task.calls, 1);
    ASSERT_THAT(task.points, SizeIs(1));
    EXPECT_THAT(task.name, HasSubstr(fmt::format("@{}", task.sizes.at(0))));
    EXPECT_EQ(task.flops > 0, true);
    digests.insert(task.digest);
    if (!task.program.empty()) programs.insert(task.program);
    // One row is a number, as in a model of one row; the others are open.
    EXPECT_EQ(tir::dims_of(*task.workload).empty(), task.sizes[0] == 1);
    // What a worker is sent says the size.
    EXPECT_EQ(schedule::typical_dims(tir::parse_func(task.text)), schedule::typical_dims(task.workload));
    if (task.sizes[0] > 1) {
      EXPECT_EQ(schedule::typical_dims(task.workload), task.sizes);
    }
  }
  EXPECT_THAT(digests, SizeIs(3));
  EXPECT_THAT(programs, SizeIs(1)) << "16 and 128 are sizes of one program";
  // A percent of each counts by its weight alone.
  const auto worth = [&](int64_t size) {
    for (const Task& task : found)
      if (task.sizes[0] == size) return task.weight() * (task.flops + task.bytes);
    return 0.0;
  };
  EXPECT_NEAR(worth(128) / worth(1), 2, 1e-6);
  EXPECT_NEAR(worth(16) / worth(1), 1, 1e-6);
}

TEST_F(OpenTasks, SizesThatAreTooLargeAreLeftOut) {
  tasks({"n=1..1000000000"});
  EXPECT_LT(points_.points.back().values[0], 1000000);
  EXPECT_GE(points_.points.size(), 2u);
  EXPECT_FALSE(points_.given);
}

/// Of as many dimensions as there may be; what is given stays.
TEST_F(OpenTasks, FewCombinationsOfManyDimensions) {
  fused_ = optimize(relay::parse_module(R"(#[version = "0.0.5"]
def @main[a, b, c, d, e, f, g](%x: Tensor[(a, b, c, d, e, f, g), float32]) { nn.relu(%x) })",
                                        "seven.relay"),
                    target_);
  tasks({"a=1..2", "b=1..2", "c=1..2", "d=1..2", "e=1..2", "f=1..2", "g=1..2"});
  EXPECT_THAT(points_.points, SizeIs(8));
  tasks({"a=1..2", "b=1,2,3,4,5", "c=1..2", "d=1..2", "e=1..2", "f=1..2", "g=1..2"});
  EXPECT_THAT(points_.points, SizeIs(5));
}

/// Products of which an operand lacks some of the batch, each another one, are one program.
TEST_F(OpenTasks, ProductsOfWhatABatchRepeatsAreOne) {
  fused_ = optimize(relay::parse_module(R"(#[version = "0.0.5"]
def @main[a, b, m, k, n](%x: Tensor[(a, 1, m, k), float32], %y: Tensor[(1, b, k, n), float32],
                         %z: Tensor[(a, b, k, n), float32]) {
  (nn.batch_matmul(%x, %y), nn.batch_matmul(%x, %z))
})",
                                        "products.relay"),
                    target_);
  EXPECT_THAT(open_programs(fused_, open_points(fused_, parse_open_dims({"all"}))), SizeIs(1));
}

TEST_F(OpenTasks, AreNoneOfAnUnknownDimension) {
  EXPECT_THAT(thrown_by([&] { tasks({"k=1..5"}); }),
              HasSubstr("no input has an open dimension of this name; "));
}

/// With records of the layer at some sizes.
class OpenFamiliesTest : public OpenTasks {
 protected:
  OpenFamiliesTest() {
    tasks_ = tasks({"n=1,16,256"});
    for (const Task& task : tasks_) {
      workloads_[task.sizes[0]] = store_.add_workload({task.digest, task.text, task.flops, task.bytes});
      by_size_[task.sizes[0]] = &task;
    }
    std::vector<db::NewJob::Task> all;
    for (const auto& [size, id] : workloads_) all.push_back({.workload = id});
    job_ = store_.create_job({.target = id_, .tasks = all});
  }

  /// Different schedules of the open program, as JSON.
  std::vector<std::string> traces(size_t count) {
    const tir::Func& func = by_size_.at(16)->workload;
    std::vector<std::string> found;
    std::set<std::string> prints;
    const schedule::DesignSpace& space = *schedule::spaces_for(func, target_).front();
    for (uint64_t seed = 0; seed < 64 && found.size() < count; ++seed) {
      schedule::Schedule sampled = schedule::sample(space, func, target_, seed);
      if (prints.insert(fingerprint(sampled.func())).second) found.push_back(to_json(sampled.trace()));
    }
    return found;
  }

  void measured(int64_t size, const std::string& trace, float seconds) {
    const std::string print =
        fingerprint(schedule::replay(schedule::parse_trace(trace), by_size_.at(size)->workload));
    db::NewTrial trial{.workload = workloads_.at(size), .trace = trace, .program = print};
    const db::TrialId id = store_.add_trials(job_, std::span(&trial, 1)).at(0).trial;
    db::TrialResult result{
        .lease = store_.grant(id, "w", 1).value().id, .device = device_, .samples = {seconds}};
    store_.record(std::span(&result, 1));
  }

  tir::Func program() { return open_programs(fused_, points_).begin()->second.program; }
  std::vector<TunedMember> family(const std::vector<std::string>& open) {
    const OpenPrograms programs = open_programs(fused_, open_points(fused_, parse_open_dims(open)));
    OpenFamilies families(store_, id_, 1, 1e-4);
    return families.family(programs.begin()->second.program, programs.begin()->second);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "t.db";
  db::Store store_{path_};
  db::TargetId id_ = store_.add_target({.name = to_text(target_), .architecture = "a"});
  db::DeviceId device_ = store_.add_device({.host = "h"});
  std::vector<Task> tasks_;
  std::map<int64_t, db::WorkloadId> workloads_;
  std::map<int64_t, const Task*> by_size_;
  db::JobId job_ = 0;
};

TEST_F(OpenFamiliesTest, AreWhatWasMeasuredAtTheSizes) {
  const std::vector<std::string> found = traces(2);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(family({"n"}), IsEmpty());
  measured(1, to_json(schedule::default_trace(by_size_.at(1)->workload, target_)), 1e-6f);
  // One row alone tells nothing of others.
  const std::vector<TunedMember> one = family({"n"});
  ASSERT_THAT(one, SizeIs(schedule::family_of(program()).size()));
  EXPECT_EQ(one[0].trace.empty(), false);
  for (size_t i = 1; i < one.size(); ++i) EXPECT_EQ(one[i].trace, "");
  measured(16, found[0], 2e-6f);
  measured(256, found[0], 50e-6f);
  measured(16, found[1], 4e-6f);
  measured(256, found[1], 25e-6f);
  const std::vector<TunedMember> members = family({"n"});
  ASSERT_THAT(members, SizeIs(3));
  EXPECT_EQ(members[0].member.dims[0], (schedule::DimValues{1, 1, 1}));
  EXPECT_TRUE(tir::dims_of(*members[0].member.program).empty());
  EXPECT_EQ(members[1].trace, found[0]);
  EXPECT_EQ(members[1].member.dims[0].max, 64);
  EXPECT_EQ(members[2].trace, found[1]);
  EXPECT_EQ(members[2].at.at(0).sizes, (std::vector<int64_t>{256}));
  EXPECT_FLOAT_EQ(static_cast<float>(members[2].at.at(0).alone), 25e-6f);
  // Bounds choose the members, and so do values that are given.
  const std::vector<TunedMember> few = family({"n=1..32"});
  ASSERT_THAT(few, SizeIs(2));
  EXPECT_EQ(few[1].trace, found[0]);
  const std::vector<TunedMember> given = family({"n=256"});
  ASSERT_THAT(given, SizeIs(1));
  EXPECT_EQ(given[0].trace, found[1]);
}

TEST_F(OpenFamiliesTest, UntunedOnesAreForTheValuesThatCallsMayHave) {
  auto dims = [&](const std::string& open) {
    const OpenPrograms programs = open_programs(fused_, open_points(fused_, parse_open_dims({open})));
    std::vector<schedule::DimValues> found;
    for (const schedule::Member& member : family_of_known(programs, program()))
      found.push_back(member.dims.at(0));
    return found;
  };
  using schedule::DimValues;
  EXPECT_EQ(dims("n=1..512"), (std::vector<DimValues>{{1, 1, 1}, {2, 4, 4}, {.typical = 64}}));
  // No member for what no call has, but the last one is right for all.
  EXPECT_EQ(dims("n=3..20"), (std::vector<DimValues>{{2, 4, 4}, {.typical = 20}}));
  EXPECT_EQ(dims("n=100..300"), (std::vector<DimValues>{{.typical = 100}}));
  // Between two values that were given, at their mean by ratio.
  EXPECT_EQ(dims("n=8..512,16,256"), (std::vector<DimValues>{{.max = 64, .typical = 16}, {.typical = 256}}));
  EXPECT_EQ(dims("n=1..512,3,128"), (std::vector<DimValues>{{1, 1, 1}, {2, 4, 3}, {.typical = 128}}));
}

TEST_F(OpenFamiliesTest, BuildsAreRightAtAllSizes) {
  const std::vector<std::string> found = traces(2);
  measured(1, to_json(schedule::default_trace(by_size_.at(1)->workload, target_)), 1e-6f);
  measured(16, found[0], 2e-6f);
  measured(256, found[1], 25e-6f);
  BestSchedules best(path_, target_, 1);
  const auto tuned = runtime::Module::from_image(final_build(fused_, target_, best.schedules()));
  EXPECT_EQ(best.measured(), 3);
  EXPECT_THAT(tuned->plan().steps, SizeIs(3));
  const auto untuned = runtime::Module::from_image(final_build(fused_, target_, default_schedules(target_)));
  for (int64_t n : {0, 1, 2, 15, 16, 17, 63, 64, 65, 100, 256, 300}) {
    runtime::Executor a(tuned, runtime::serial_parallel()), b(untuned, runtime::serial_parallel());
    for (runtime::Executor* executor : {&a, &b}) {
      executor->set_input(0, random_tensor({n, 32}, kFloat32, 3));
      executor->run();
    }
    EXPECT_LT(max_relative_error(a.output(0), b.output(0)), 1e-5) << n;
  }
}

/// Wherever nodes lie in memory, which what the threads of earlier builds have freed decides.
TEST(OpenBuilds, OfOneModuleAreTheSame) {
  const Target target = codegen::host_target();
  std::set<std::string> codes;
  for (int i = 0; i < 12; ++i) {
    const relay::Module module = optimize(relay::parse_module(R"(#[version = "0.0.5"]
      def @main[n, m](%past: Tensor[(m,), float32], %p: Tensor[(2, n, m + n), float32],
                      %v: Tensor[(2, m + n, 64), float32]) {
        (%past, nn.batch_matmul(%p, %v, transpose_b=False))
      })",
                                                              "attention.relay"),
                                          target);
    codes.insert(sha256(final_build(module, target, default_schedules(target)).library));
  }
  EXPECT_THAT(codes, SizeIs(1));
}

TEST_F(OpenFamiliesTest, WhereTheUntunedBuildWonFamiliesAreItsOwn) {
  const std::vector<std::string> found = traces(1);
  measured(16, found[0], 2e-6f);
  const std::string by_default = to_json(schedule::default_trace(by_size_.at(16)->workload, target_));
  measured(16, by_default, 3e-6f);
  const db::ChoiceKey key{tasks_digest(tasks_), id_, 1, 1e-4};
  const auto built = [&] {
    auto records = std::make_unique<db::Store>(path_, db::StoreOptions{.read_only = true});
    BestSchedules best(std::move(records), target_, 1, 1e-4, key.model_digest,
                       open_programs(fused_, points_));
    return best.family(program()).size();
  };
  EXPECT_EQ(built(), 1u);
  db::MeasurementId id = 0;
  for (const db::Measurement& known : store_.history(workloads_.at(16), id_))
    if (known.trace == by_default) id = known.id;
  store_.set_choice({.key = key, .tasks = {{workloads_.at(16), id}}});
  EXPECT_EQ(built(), family_of_known(open_programs(fused_, points_), program()).size());
}

constexpr const char* kConvolution = R"(#[version = "0.0.5"]
def @main[h, w](%x: Tensor[(1, 16, h, w), float32]) {
  nn.conv2d(%x, multiply(ones(shape=[16, 16, 3, 3], dtype="float32"), 0.5f), padding=[1, 1, 1, 1], channels=16,
            kernel_size=[3, 3])
})";

class OpenImages : public ::testing::Test {
 protected:
  std::vector<std::vector<int64_t>> points(const std::vector<std::string>& open) {
    std::vector<std::vector<int64_t>> found;
    for (const OpenPoint& point : open_points(fused_, parse_open_dims(open)).points)
      found.push_back(point.values);
    return found;
  }

  Target target_ = codegen::host_target();
  relay::Module fused_ = optimize(relay::parse_module(kConvolution, "convolution.relay"), target_);
};

TEST_F(OpenImages, AreTunedForAtTypicalSizes) {
  EXPECT_THAT(points({"all"}), ElementsAre(ElementsAre(256, 256)));
  EXPECT_THAT(points({"h=1..100", "w=300..400"}), ElementsAre(ElementsAre(100, 300)));
  EXPECT_THAT(points({"h=1..100,8,16", "w"}), ElementsAre(ElementsAre(8, 256), ElementsAre(16, 256)));
}

TEST_F(OpenImages, SmallOnesThatWereNotMeasuredAreAsUntuned) {
  TemporaryFolder folder;
  db::Store store{folder / "t.db"};
  const db::TargetId id = store.add_target({.name = to_text(target_), .architecture = "a"});
  const OpenPoints sizes = open_points(fused_, parse_open_dims({"h=1..300,64", "w=1..300,64"}));
  const OpenPrograms programs = open_programs(fused_, sizes);
  const OpenProgram* convolution = nullptr;
  for (const auto& [digest, program] : programs)
    if (schedule::image_dims(program.program)[0]) convolution = &program;
  ASSERT_TRUE(convolution);
  for (const Task& task : extract_tasks(fused_, sizes)) {
    if (tir::workload_digest(schedule::program_at(convolution->program, std::vector<int64_t>{64, 64})) !=
        task.digest)
      continue;
    const db::WorkloadId workload = store.add_workload({task.digest, task.text, task.flops, task.bytes});
    const db::NewJob::Task one{.workload = workload};
    const db::JobId job = store.create_job({.target = id, .tasks = {one}});
    const schedule::Trace trace = schedule::default_trace(task.workload, target_);
    db::NewTrial trial{.workload = workload,
                       .trace = to_json(trace),
                       .program = fingerprint(schedule::replay(trace, task.workload))};
    const db::TrialId number = store.add_trials(job, std::span(&trial, 1)).at(0).trial;
    db::TrialResult result{.lease = store.grant(number, "w", 1).value().id,
                           .device = store.add_device({.host = "h"}),
                           .samples = {1e-6f}};
    store.record(std::span(&result, 1));
  }
  const std::vector<TunedMember> family =
      OpenFamilies(store, id, 1, 1e-4).family(convolution->program, *convolution);
  ASSERT_GE(family.size(), 2U);
  EXPECT_TRUE(family.front().member.is_small);
  EXPECT_EQ(family.front().trace, "");
  EXPECT_FALSE(family.back().member.is_small);
  EXPECT_NE(family.back().trace, "");
}

}  // namespace
}  // namespace lathe::tuner
