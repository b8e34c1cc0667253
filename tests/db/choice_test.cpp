// Choices over whole models.
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

class ChoiceTest : public ::testing::Test {
 protected:
  MeasurementId measured(const std::string& trace, float seconds) {
    farm_.measured(trace, {seconds});
    return store_.history(farm_.workload, farm_.target).back().id;
  }
  ChoiceKey key() const { return {"digest", farm_.target, 2, 1e-4}; }
  Choice choice(MeasurementId chosen) const {
    return {.key = key(), .seconds_before = 3, .seconds_after = 2, .tasks = {{farm_.workload, chosen}}};
  }
  BestQuery query() const {
    return {.workload = farm_.workload, .target = farm_.target, .accept_unconfirmed = true};
  }

  TemporaryFolder folder_;
  Farm farm_{database_in(folder_, "lathe.db")};
  Store& store_ = farm_.store;
};

TEST_F(ChoiceTest, RoundTripByKey) {
  MeasurementId fast = measured("fast", 1e-3f), lean = measured("lean", 2e-3f);
  EXPECT_FALSE(store_.find_choice(key()));
  farm_.now_ms += 5;
  store_.set_choice(choice(lean));
  auto found = store_.find_choice(key());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->seconds_before, 3);
  EXPECT_EQ(found->seconds_after, 2);
  EXPECT_EQ(found->chosen_ms, farm_.now_ms);
  ASSERT_EQ(found->tasks.size(), 1u);
  EXPECT_EQ(found->tasks[0].workload, farm_.workload);
  EXPECT_EQ(found->tasks[0].measurement, lean);
  for (const ChoiceKey& other :
       {ChoiceKey{"other", farm_.target, 2, 1e-4}, ChoiceKey{"digest", farm_.target, 1, 1e-4},
        ChoiceKey{"digest", farm_.target, 2, 1e-3}})
    EXPECT_FALSE(store_.find_choice(other));
  store_.set_choice(choice(fast));
  EXPECT_EQ(store_.find_choice(key())->tasks.at(0).measurement, fast);
  Choice nothing = choice(fast);
  nothing.tasks.clear();
  store_.set_choice(nothing);
  EXPECT_TRUE(store_.find_choice(key())->tasks.empty());
  EXPECT_TRUE(store_.problems().empty());
}

/// Two machines may have one target's text: a race on one says nothing of the other.
TEST_F(ChoiceTest, EachClassOfDevicesHasItsOwn) {
  const DeviceKind two{"m", 2}, four{"m", 4};
  const MeasurementId here = measured("here", 2e-3f);
  const DeviceId other = store_.add_device({.host = "o", .model = "m", .architecture = "x86_64", .cores = 4});
  const TrialResult result{.lease = farm_.leased("there").id, .device = other, .samples = {1e-3f}};
  store_.record(std::span(&result, 1));
  const MeasurementId there = store_.history(farm_.workload, farm_.target).back().id;
  const auto of = [&](std::optional<DeviceKind> kind) {
    ChoiceKey wanted = key();
    wanted.kind = std::move(kind);
    const auto found = store_.find_choice(wanted);
    return found && !found->tasks.empty() ? found->tasks[0].measurement : 0;
  };
  const auto choose = [&](std::optional<DeviceKind> kind, MeasurementId chosen) {
    Choice made = choice(chosen);
    made.key.kind = std::move(kind);
    if (chosen == 0) made.tasks.clear();
    farm_.now_ms++;
    store_.set_choice(made);
  };
  choose(two, here);
  choose(four, there);
  EXPECT_EQ(of(two), here);
  EXPECT_EQ(of(four), there);
  EXPECT_EQ(of({{"m", 8}}), 0);
  EXPECT_EQ(of({}), there) << "the newest";
  choose(four, 0);
  EXPECT_EQ(of(four), 0);
  EXPECT_EQ(of(two), here) << "only its own is taken back";
  choose({}, there);
  EXPECT_EQ(of(four), there) << "it was measured by one of these";
  EXPECT_EQ(of(two), here);
  choose({}, 0);
  EXPECT_EQ(of(two), 0) << "nobody knows whose";
  EXPECT_EQ(of(four), 0);
}

TEST_F(ChoiceTest, TheLatestLatencyIsTheOneOfThoseThreads) {
  const auto add = [&](int threads, double seconds) {
    store_.add_model_latency({.model_digest = "digest",
                              .target = farm_.target,
                              .threads = threads,
                              .seconds = seconds,
                              .low = seconds,
                              .high = seconds,
                              .n = 1});
  };
  EXPECT_FALSE(store_.find_model_latency("digest", farm_.target, 0));
  add(1, 3);
  add(2, 2);
  EXPECT_EQ(store_.find_model_latency("digest", farm_.target, 1)->seconds, 3);
  EXPECT_FALSE(store_.find_model_latency("digest", farm_.target, 4));
  const auto latest = store_.find_model_latency("digest", farm_.target, 0);
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->threads, 2);
  EXPECT_EQ(latest->seconds, 2);
}

TEST_F(ChoiceTest, HoldsUntilABetterRecordComes) {
  MeasurementId fast = measured("fast", 1e-3f), lean = measured("lean", 2e-3f);
  store_.set_choice(choice(lean));
  Choice found = store_.find_choice(key()).value();
  EXPECT_EQ(store_.chosen(found, query())->trace, "lean");
  BestQuery other = query();
  other.workload = store_.add_workload({.digest = "o", .text = "o"});
  EXPECT_FALSE(store_.chosen(found, other));
  EXPECT_FALSE(store_.chosen(choice(fast), query()));  // the best itself

  farm_.now_ms += 1000;
  measured("slower", 1.5e-3f);
  EXPECT_EQ(store_.chosen(found, query())->trace, "lean");
  measured("faster", 0.5e-3f);
  EXPECT_FALSE(store_.chosen(found, query()));
}

TEST_F(ChoiceTest, NeverNamesASuspectOrInaccurateResult) {
  measured("fast", 1e-3f);
  farm_.now_ms += 1000;
  TrialResult result{
      .lease = farm_.leased("rough").id, .device = farm_.device, .samples = {2e-3f}, .relative_error = 1e-3};
  store_.record(std::span(&result, 1));
  store_.set_choice(choice(store_.history(farm_.workload, farm_.target).back().id));
  Choice found = store_.find_choice(key()).value();
  EXPECT_TRUE(store_.chosen(found, query()));
  BestQuery strict = query();
  strict.max_relative_error = 1e-4;
  EXPECT_FALSE(store_.chosen(found, strict));
  store_.set_suspect(farm_.worker, farm_.now_ms);
  EXPECT_FALSE(store_.chosen(found, query()));
}

TEST_F(ChoiceTest, AChoiceOfWhatIsNotThereIsRefusedWhole) {
  MeasurementId lean = measured("lean", 2e-3f);
  store_.set_choice(choice(lean));
  EXPECT_NE(thrown_by([&] { store_.set_choice(choice(lean + 100)); }), "no error");
  EXPECT_EQ(store_.find_choice(key())->tasks.at(0).measurement, lean);
}

}  // namespace
}  // namespace lathe::db
