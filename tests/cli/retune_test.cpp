// `tune retune` as a user runs it: on a database that another device has filled.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "db/store.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {
using ::testing::HasSubstr;

/// Measured once, on this machine, by a job; each test says of another device what it has found.
class Retunes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    original_ = new TemporaryFolder;
    const Finished job =
        tune(fmt::format("--model dqn --target cpu --threads 1 --seed 1 --trials 40 --db {} --out {} --json",
                         *original_ / "t.db", *original_ / "out"));
    ASSERT_EQ(job.code, 0) << job.output;
  }
  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }

  /// A database of what this machine has found, as if the host `name` had. Returns its device there.
  /// `target`: what it was measured for; "": for this machine's. `model_name`: what the model is called
  /// there.
  db::DeviceId as_if_found_by(const std::string& name, const std::string& target = "",
                              const std::string& model_name = "dqn") {
    db::Store from(*original_ / "t.db", {.read_only = true});
    db::Store to(path("t.db"));
    const db::TargetId old_target = from.find_target(to_text(codegen::host_target())).value();
    db::Target row = from.target(old_target);
    if (!target.empty()) row.name = target, row.architecture = "elsewhere";
    const db::TargetId new_target = to.add_target(row);
    db::Device device = from.devices().at(0).second;
    device.host = name;
    const db::DeviceId elsewhere = to.add_device(device);
    const db::ModelId model = from.find_model("dqn").value();
    std::vector<db::ModelTask> tasks = from.model_tasks(model, old_target);
    for (db::ModelTask& task : tasks) {
      const db::WorkloadId old = std::exchange(task.workload, to.add_workload(from.workload(task.workload)));
      for (db::Measurement& each : from.top({.workload = old, .target = old_target}, 1000)) {
        each.workload = task.workload;
        each.target = new_target;
        each.device = elsewhere;
        to.adopt({.measurement = std::move(each)});
      }
    }
    to.adopt_model({.name = model_name,
                    .digest = from.model_digest(model),
                    .target = new_target,
                    .tasks = std::move(tasks)});
    return elsewhere;
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  Finished retune(const std::string& flags) const {
    return tune("retune --threads 1 --seed 2 --db " + path("t.db") + " " + flags);
  }
  Finished strictly_best() const {
    return tune("query best --model dqn --strict --threads 1 --json --db " + path("t.db"));
  }
  static nlohmann::json last_line(const std::string& output) {
    std::vector<std::string> lines = split_text(output, '\n');
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines.empty() ? nlohmann::json() : nlohmann::json::parse(lines.back(), nullptr, false);
  }

  TemporaryFolder folder_;
  static TemporaryFolder* original_;
};
TemporaryFolder* Retunes::original_ = nullptr;

/// Models are called as the paths that were given, which may be longer than a column.
TEST_F(Retunes, TellsTheKernelsOfALongPathApart) {
  as_if_found_by("farm1", "", "/srv/models/of-the-second-quarter/quantized/dqn.onnx");
  const Finished run = retune("--trials 8 --json");
  ASSERT_EQ(run.code, 0) << run.output;
  const nlohmann::json report = last_line(run.output);
  ASSERT_FALSE(report["tasks"].empty()) << run.output;
  for (const auto& task : report["tasks"]) {
    const auto name = task["task"].get<std::string>();
    EXPECT_THAT(run.output, HasSubstr("/srv/models/"));
    EXPECT_THAT(run.output, HasSubstr("..." + name.substr(name.size() - 19) + " "));
  }
}

TEST_F(Retunes, MeasuresHereWhatOthersFoundAndThenSearches) {
  const db::DeviceId elsewhere = as_if_found_by("farm1");
  EXPECT_EQ(strictly_best().code, 2) << "this machine is not known";
  const Finished first = retune("--trials 8 --json");
  ASSERT_EQ(first.code, 0) << first.output;
  const nlohmann::json report = last_line(first.output);
  ASSERT_TRUE(report.is_object()) << first.output;
  ASSERT_FALSE(report["tasks"].empty());
  EXPECT_EQ(report["measured_here"], 0);
  EXPECT_LE(report["trials"], 8 * report["tasks"].size());
  for (const auto& task : report["tasks"]) {
    EXPECT_EQ(task["elsewhere"], "farm1");
    EXPECT_GT(task["elsewhere_us"], 0);
    EXPECT_GT(task["best_us"], 0);
    EXPECT_GT(task["untuned_us"], 0);
    EXPECT_THAT(task["task"].get<std::string>(), HasSubstr("dqn/"));
  }
  EXPECT_THAT(first.output, HasSubstr("best here"));

  const Finished known = strictly_best();
  ASSERT_EQ(known.code, 0) << known.output;
  for (const auto& task : last_line(known.output)) {
    EXPECT_EQ(task["from"], "this device");
    EXPECT_GT(task["us"], 0);
    EXPECT_EQ(task["confirmed"], true);
  }
  {
    db::Store store(path("t.db"), {.read_only = true});
    const db::TargetId target = store.find_target(to_text(codegen::host_target())).value();
    db::DeviceId here = 0;
    for (const auto& [id, device] : store.devices())
      if (id != elsewhere) here = id;
    for (const db::ModelTask& task : store.model_tasks(store.find_model("dqn").value(), target)) {
      std::set<std::string> mine;
      for (const db::Measurement& each :
           store.top({.workload = task.workload, .target = target, .device = here}, 1000))
        mine.insert(each.program);
      // Under another seed than theirs, so that no search comes upon both by itself.
      const auto best = store.top({.workload = task.workload, .target = target, .device = elsewhere}, 2);
      EXPECT_FALSE(best.empty());
      for (const db::Measurement& each : best)
        EXPECT_TRUE(mine.contains(each.program)) << task.name << ": not tried: " << each.trace;
    }
  }
  const Finished again = retune("--trials 8 --json");
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("nothing is left to do"));
  EXPECT_EQ(last_line(again.output)["measured_here"], report["tasks"].size());
  EXPECT_EQ(last_line(again.output)["trials"], 0);
}

TEST_F(Retunes, TasksOfARelatedTargetAreFoundByTheirModelAfterwards) {
  // As of an older machine of the same architecture, and one that is no relative.
  std::string older = to_text(codegen::host_target());
  const size_t processor = older.find("mcpu=");
  older.replace(processor, older.find(',', processor) - processor, "mcpu=nehalem");
  as_if_found_by("old", older);
  {
    db::Store store(path("t.db"));
    const db::TargetId board = store.add_target({.name = "board:model=x", .architecture = "y"});
    const db::WorkloadId strange = store.add_workload({.digest = "d", .text = "no program of ours"});
    store.adopt({.measurement = {.workload = strange,
                                 .target = board,
                                 .device = store.add_device({.host = "board1"}),
                                 .samples = {1e-3f},
                                 .trace = "[]",
                                 .program = "p"}});
  }
  const Finished done = retune("--trials 8 --json");
  ASSERT_EQ(done.code, 0) << done.output;
  EXPECT_EQ(last_line(done.output)["other_targets"], 1);
  EXPECT_THAT(done.output, HasSubstr("1 task of other targets"));
  const Finished known = strictly_best();
  ASSERT_EQ(known.code, 0) << known.output;
  for (const auto& task : last_line(known.output)) EXPECT_GT(task["us"], 0);
}

TEST_F(Retunes, ADeviceIsWhoseKnowledgeIsTaken) {
  as_if_found_by("farm1");
  db::Store(path("t.db")).add_device({.host = "idle", .model = "m", .architecture = "a"});
  const Finished none = retune("--device idle");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, HasSubstr("knows no task for cpu/"));
  EXPECT_THAT(none.output, HasSubstr("of `idle`"));
  const Finished some = retune("--device farm1 --trials 8 --json");
  EXPECT_EQ(some.code, 0) << some.output;
  EXPECT_FALSE(last_line(some.output)["tasks"].empty());
  // The machine at hand has no news for itself.
  const db::Device mine = db::Store(path("t.db"), {.read_only = true}).devices().back().second;
  const Finished self = retune("--device " + db::fingerprint(mine));
  EXPECT_EQ(self.code, 2);
  EXPECT_THAT(self.output, HasSubstr("is this machine, on which is measured"));
}

TEST_F(Retunes, AnInterruptedOneGoesOnWhenItIsCalledAgain) {
  as_if_found_by("farm1");
  // In the foreground: else `timeout` signals its group as well, and a second interrupt ends all at once.
  const Finished stopped = run_command(
      "timeout --foreground -s INT 6 " TUNE " retune --threads 1 --time 100s --json --db " + path("t.db"));
  ASSERT_THAT(stopped.output, HasSubstr("nothing measured is lost. The same command goes on"));
  nlohmann::json before;
  for (const std::string& line : split_text(stopped.output, '\n'))
    if (line.starts_with("{")) before = nlohmann::json::parse(line, nullptr, false);
  ASSERT_TRUE(before.is_object()) << stopped.output;
  EXPECT_EQ(before["interrupted"], true);
  const Finished after = retune("--trials 8 --json");
  ASSERT_EQ(after.code, 0) << after.output;
  // As many as it came to in its seconds, and what was under way when it had counted.
  const auto begun = std::count_if(before["tasks"].begin(), before["tasks"].end(),
                                   [](const nlohmann::json& task) { return !task["best_us"].is_null(); });
  EXPECT_GT(begun, 0);
  EXPECT_GE(last_line(after.output)["begun"], begun);
  EXPECT_THAT(retune("").output, HasSubstr("nothing is left to do"));
  // Its job is over, with all that it wanted measured, and told from those that `tune resume` goes on with.
  const nlohmann::json jobs = last_line(tune("query jobs --json --db " + path("t.db")).output);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[1]["state"], "cancelled");
  db::Store(path("t.db"), {.read_only = true}).visit_open_trials([](const db::OpenTrial& trial) {
    ADD_FAILURE() << "trial " << trial.id << " is open";
  });
  const Finished resume = tune("resume " + jobs[1]["job"].get<std::string>() + " --db " + path("t.db"));
  EXPECT_EQ(resume.code, 2);
  EXPECT_THAT(resume.output, HasSubstr("one of `tune retune`"));
}

/// Ctrl-C in the moment between the plan and the first trial.
TEST_F(Retunes, AnInterruptedOneLeavesNoFolderBehind) {
  as_if_found_by("farm1");
  std::filesystem::create_directory(path("tmp"));
  // As soon as its folder is there: the farm is not, yet.
  const Finished stopped = run_command(
      "TMPDIR=" + path("tmp") + " " TUNE " retune --threads 1 --time 100s --db " + path("t.db") +
      " 2>&1 & until set -- " + path("tmp") + "/lathe-*; [ -e \"$1\" ]; do :; done; kill -INT $!; wait $!");
  EXPECT_EQ(stopped.code, 130) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("stopped; nothing measured is lost. The same command goes on"));
  EXPECT_TRUE(std::filesystem::is_empty(path("tmp"))) << stopped.output;
}

TEST_F(Retunes, AKilledOneIsOverWhenItIsCalledAgain) {
  as_if_found_by("farm1");
  const auto state = [&](size_t i) {
    const nlohmann::json jobs = last_line(tune("query jobs --json --db " + path("t.db")).output);
    return i < jobs.size() ? jobs[i]["state"].get<std::string>() : "";
  };
  run_command("timeout --foreground -s KILL 6 " TUNE " retune --threads 1 --time 100s --db " + path("t.db"));
  EXPECT_EQ(state(0), "stopped") << "by its row it runs, and there is no process that has its lock";
  const Finished after = retune("--trials 8 --json");
  ASSERT_EQ(after.code, 0) << after.output;
  EXPECT_EQ(state(0), "done");
  EXPECT_EQ(state(1), "cancelled");
  db::Store(path("t.db"), {.read_only = true}).visit_open_trials([](const db::OpenTrial& trial) {
    ADD_FAILURE() << "trial " << trial.id << " is open";
  });
}

TEST_F(Retunes, MistakesAreOneMessageAndExitCode2) {
  as_if_found_by("farm1");
  { db::Store empty(path("empty.db")); }
  const std::string db = " --db " + path("t.db");
  const std::pair<std::string, std::string> cases[] = {
      {"--db " + path("none.db"), "there is no database"},
      {"--db " + path("empty.db"), "knows no task for cpu/"},
      {"--device frm1" + db, "--device: the database has no device `frm1`; did you mean `farm1`?"},
      {"--trials 0" + db, "--trials 0 is no limit: give a --time"},
      {"--trials -1" + db, "--trials"},
      {"--trials 7" + db, "--trials 7: at least 8"},
      {"--time soon" + db, "--time"},
      {"--target gpux" + db, "gpux"},
      {"--model dqn" + db, "--model"},
  };
  for (const auto& [flags, message] : cases) {
    const Finished finished = tune("retune " + flags);
    EXPECT_EQ(finished.code, 2) << flags << "\n" << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(message));
  }
  EXPECT_FALSE(std::filesystem::exists(path("none.db")));
  db::Store store(path("t.db"), {.read_only = true});
  EXPECT_EQ(store.devices().size(), 1u) << "a mistake changes nothing";
  EXPECT_TRUE(store.jobs().empty());
}

}  // namespace
}  // namespace lathe::cli
