// The race that ends a search: what a searcher may have raced, and which choices are kept
// (033-served-races.md).
#include <filesystem>

#include "core/support/file.h"
#include "core/tir/roofline.h"
#include "tests/tracker/search_desk.h"

namespace lathe::tracker {
namespace {

// --- the race

struct RaceDesk : Desk {
  SearchLink link{ends[0]};
  JobRows rows = link.begin(start_of(twice()));
  RaceDesk() {
    write_file(folder / "untuned", "the untuned build");
    write_file(folder / "tuned", "the tuned build");
    write_file(folder / "empty", "");
  }
};

TEST(SearchServer, HasTwoBuildsOfItsFolderRaced) {
  RaceDesk desk;
  EXPECT_EQ(desk.link.race("untuned", "tuned", /*threads=*/2, /*seconds=*/1e9), kRace);
  const TrialSpec& race = desk.farm.races.at(0);
  EXPECT_EQ(race.race->incumbent->blob(), wire::blob_of("the untuned build"));
  EXPECT_EQ(race.race->challenger->read(4, 5), "tuned");
  EXPECT_EQ(race.target, kTarget);
  EXPECT_EQ(race.owner, "alice");
  EXPECT_EQ(race.race->evaluation.threads, 2u);
  EXPECT_EQ(race.needs, (Properties{{"cores", {2}}}));
  EXPECT_EQ(race.race->evaluation.budget_seconds, defaults::kRaceTurns);
  // Two calls.
  EXPECT_EQ(race.fastest_seconds, fastest_believable(2.0 * kOperations, parse_target_text(kTarget), 2));
}

TEST(SearchServer, RacesOpenBuildsOnceAtEachSize) {
  RaceDesk desk;
  desk.link.race("untuned", "tuned", 1, 1, std::vector<int64_t>{2, 128});
  EXPECT_TRUE(desk.farm.races.at(0).is_open);
  EXPECT_EQ(desk.farm.races[0].race->evaluation.dims, (std::vector<int64_t>{2, 128}));
  // Of which tasks a run at one size is made is not known.
  EXPECT_EQ(desk.farm.races[0].fastest_seconds, fastest_believable(0, parse_target_text(kTarget), 1));
  desk.link.poll(0, std::chrono::milliseconds(1));
  desk.link.race("untuned", "tuned", 1, 1, std::vector<int64_t>{2, 1});
  EXPECT_THROW(desk.link.race("untuned", "tuned", 1, 1, std::vector<int64_t>{4, 1}), Error);
  desk.leave();
  EXPECT_EQ(desk.error, "a searcher races while its last race goes on");
  RaceDesk other;
  other.link.race("untuned", "tuned", 1, 1, std::vector<int64_t>{2, 1});
  other.link.poll(0, std::chrono::milliseconds(1));
  EXPECT_THROW(other.link.race("untuned", "tuned", 1, 1, std::vector<int64_t>{2, 1}), Error);
  other.leave();
  EXPECT_EQ(other.error, "a searcher races for the second time");
}

TEST(SearchServer, RacesNothingElse) {
  const auto refusal = [](const std::string& untuned) {
    RaceDesk desk;
    std::filesystem::create_symlink("/etc/passwd", desk.folder / "link");
    try {
      desk.link.race(untuned, "tuned", 1, 1);
    } catch (const Error& error) {
      EXPECT_TRUE(desk.farm.races.empty());
      desk.leave();
      return desk.error.empty() ? std::string(error.what()) : desk.error;
    }
    return std::string();
  };
  EXPECT_EQ(refusal("../tuned"), "a searcher races `../tuned`, which is no name of a file");
  EXPECT_EQ(refusal("link"), "cannot read link: Too many levels of symbolic links");
  EXPECT_EQ(refusal(".."), ".. is no regular file");
  EXPECT_EQ(refusal("none"), "cannot read none: No such file or directory");
  EXPECT_EQ(refusal("empty"), "empty has 0 bytes, must be 1..1073741824");
}

/// Its searcher is killed for a job that is paused, say, and its next life races again.
TEST(SearchServer, TakesItsRaceBackWhenItsSearcherIsGone) {
  RaceDesk desk;
  desk.leave();
  EXPECT_TRUE(desk.farm.cancelled_races.empty()) << "it had none";
  RaceDesk other;
  other.link.race("untuned", "tuned", 1, 1);
  EXPECT_TRUE(other.farm.cancelled_races.empty());
  other.leave();
  EXPECT_EQ(other.farm.cancelled_races, std::vector{kRace});
}

/// The race has been won by the untuned build.
TEST(SearchServer, KeepsWhatARaceHasChosen) {
  RaceDesk desk;
  const db::WorkloadId workload = desk.rows.workloads.at(0);
  measure(desk.store, desk.rows.job, workload, "p");
  const db::MeasurementId chosen = desk.store.history(workload, desk.rows.target).at(0).id;
  desk.link.race("untuned", "tuned", 1, 1);
  desk.link.poll(0, std::chrono::milliseconds(1));
  // Of its job's model, whatever it says.
  const db::ChoiceKey another{"another model", 4711, 8, 0.5},
      own{start_of(twice()).model_digest, desk.rows.target, 1,
          parse_job_request(kRequest).max_relative_error};
  desk.link.choose({.key = another, .seconds_before = 2, .seconds_after = 1, .tasks = {{workload, chosen}}});
  desk.link.add_model_latency({.seconds = 0.5, .low = 0.25, .high = 1, .n = 10});
  EXPECT_FALSE(desk.store.find_choice(another));
  ASSERT_TRUE(desk.store.find_choice(own));
  EXPECT_EQ(desk.store.find_choice(own)->tasks.at(0).measurement, chosen);
  EXPECT_EQ(desk.store.find_choice(own)->seconds_after, 1);
  EXPECT_EQ(desk.store.find_model_latency(own.model_digest, own.target, own.threads)->seconds, 0.5);
  desk.link.choose({});
  EXPECT_TRUE(desk.store.find_choice(own)->tasks.empty());
  desk.leave();
  EXPECT_EQ(desk.error, "");
}

TEST(SearchServer, KeepsNoOtherChoice) {
  const auto refusal = [](bool races, const std::function<void(RaceDesk&)>& attack) {
    RaceDesk desk;
    measure(desk.store, desk.rows.job, desk.rows.workloads.at(0), "p");
    if (races) {
      desk.link.race("untuned", "tuned", 1, 1);
      desk.link.poll(0, std::chrono::milliseconds(1));
    }
    EXPECT_THROW(attack(desk), Error);
    desk.leave();
    return desk.error;
  };
  const auto choose = [](db::WorkloadId workload, db::MeasurementId chosen) {
    return [=](RaceDesk& desk) { desk.link.choose({.tasks = {{workload, chosen}}}); };
  };
  EXPECT_EQ(refusal(true, choose(4711, 1)), "a choice is of no task of its job");
  EXPECT_EQ(refusal(true, choose(1, 4711)), "a choice is of what was not measured for its task");
  EXPECT_EQ(refusal(false, choose(1, 1)), "a searcher chooses without a race");
  const db::ModelLatency latency{.seconds = 0.5, .low = 0.25, .high = 1, .n = 10};
  EXPECT_EQ(refusal(false, [&](RaceDesk& desk) { desk.link.add_model_latency(latency); }),
            "a searcher tells how long its model takes without a race");
  EXPECT_EQ(refusal(true,
                    [&](RaceDesk& desk) {
                      desk.link.add_model_latency(latency);
                      desk.link.add_model_latency(latency);
                    }),
            "a searcher tells twice how long its model takes");
  EXPECT_EQ(refusal(true, [](RaceDesk& desk) { desk.link.add_model_latency({.seconds = -1, .low = -1}); }),
            "a model takes -1 .. 0 s, by its searcher");
  EXPECT_EQ(refusal(true,
                    [](RaceDesk& desk) {
                      desk.link.add_model_latency({.seconds = 0.5, .low = 0.25, .high = 1, .n = 0});
                    }),
            "a model's time is of 0 runs, by its searcher");
}

TEST(SearchServer, RacesOnce) {
  RaceDesk desk;
  desk.link.race("untuned", "tuned", 1, 1);
  EXPECT_THROW(desk.link.race("untuned", "tuned", 1, 1), Error);
  desk.leave();
  EXPECT_EQ(desk.error, "a searcher races for the second time");
  EXPECT_EQ(desk.farm.races.size(), 1u);
}

}  // namespace
}  // namespace lathe::tracker
