// `tune db` and the queries that go with it, from the outside.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/codegen/host_target.h"
#include "core/support/digest.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;

class DatabaseCommands : public ::testing::Test {
 protected:
  DatabaseCommands() {
    db::Store store(path("a.db"));
    const db::TargetId target =
        store.add_target({.name = to_text(codegen::host_target()), .architecture = "here"});
    std::vector<db::ModelTask> tasks;
    for (const char* name : {"dense", "relu"}) {
      const db::WorkloadId id = store.add_workload({.digest = sha256(name), .text = name, .flops = 1e6});
      tasks.push_back({.workload = id, .name = name, .calls = 2});
    }
    store.set_model_tasks(store.add_model("net", "d"), target, tasks);
    for (const char* host : {"first", "second"}) {
      const db::DeviceId device = store.add_device({.host = host, .model = "m", .architecture = "here"});
      for (int i = 1; i <= 4; ++i) {
        // What is fast on the first is slow on the second.
        const float seconds = 1e-3f * static_cast<float>(host[0] == 'f' ? i : 5 - i);
        store.adopt({.measurement = {.workload = tasks[0].workload,
                                     .target = target,
                                     .device = device,
                                     .samples = std::vector<float>(9, seconds),
                                     .trace = std::to_string(i),
                                     .program = std::to_string(i),
                                     .recorded_ms = 1000}});
      }
    }
    store.add_model_latency({.model_digest = "d",
                             .target = target,
                             .threads = 1,
                             .seconds = 3e-3,
                             .low = 2.5e-3,
                             .high = 4e-3,
                             .n = 10});
  }

  std::string path(const std::string& name) const { return folder_ / name; }
  nlohmann::json query(const std::string& what) {
    Finished finished = tune("query " + what + " --json --db " + path("a.db"));
    EXPECT_EQ(finished.code, 0) << finished.output;
    return nlohmann::json::parse(finished.output, nullptr, false);
  }

  TemporaryFolder folder_;
};

TEST_F(DatabaseCommands, TheRungIsSaidAndMayBeForbidden) {
  const auto rows = query("best --model net --device second");
  EXPECT_EQ(rows[0]["from"], "this device");
  EXPECT_EQ(rows[0]["us"], 1000);
  EXPECT_TRUE(rows[1]["us"].is_null());
  EXPECT_TRUE(rows[1]["from"].is_null());
  EXPECT_EQ(query("best --model net")[0]["from"], "this target, another device");
  EXPECT_EQ(query("best --model net --strict --device first --threads 1")[0]["us"], 1000);
  Finished none = tune("query best --model net --strict --device first --threads 7 --db " + path("a.db"));
  EXPECT_EQ(none.code, 1) << none.output;
  Finished unknown = tune("query best --model net --strict --db " + path("a.db"));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("does not know this machine; name a device with --device"));
}

TEST_F(DatabaseCommands, CoverageWeighsByTimeAndComparesWithTheModel) {
  const auto row = query("coverage --model net --threads 1")[0];
  EXPECT_EQ(row["tasks"], 2);
  EXPECT_EQ(row["tuned"], 1);
  EXPECT_EQ(row["time_share"], 0.5);
  EXPECT_EQ(row["estimated_ms"], 2);
  EXPECT_TRUE(row["estimated_low"].is_null()) << "samples of one process tell nothing of others";
  EXPECT_TRUE(row["estimated_high"].is_null());
  EXPECT_EQ(row["measured_ms"], 3);
  EXPECT_EQ(row["measured_low"], 2.5);
  EXPECT_EQ(row["measured_high"], 4);
  EXPECT_EQ(query("coverage --model net")[0]["measured_ms"], 3) << "by however many threads";
}

TEST_F(DatabaseCommands, CoverageIsAsSureAsItsProcessesAgree) {
  {
    db::Store store(path("a.db"));
    const auto best = store.best({.workload = 1, .target = 1, .accept_unconfirmed = true});
    ASSERT_TRUE(best);
    for (const float seconds : {0.9e-3f, 1.1e-3f})
      store.confirm(best->measurement.id, std::vector<float>(1000, seconds));
  }
  const auto row = query("coverage --model net --threads 1")[0];
  EXPECT_EQ(row["estimated_ms"], 2);
  // Student's t of one degree of freedom, 12.7, times how far one process of two is off.
  EXPECT_NEAR(row["estimated_low"].get<double>(), 0.559, 1e-3);
  EXPECT_NEAR(row["estimated_high"].get<double>(), 7.157, 1e-3);
}

TEST_F(DatabaseCommands, TransferTellsWhatOneDeviceKnowsOfAnother) {
  const auto rows = query("transfer --model net --from first --to second");
  EXPECT_EQ(rows[0]["shared"], 4);
  EXPECT_EQ(rows[0]["rank_correlation"], -1);
  EXPECT_EQ(rows[0]["taken_us"], 4000);
  EXPECT_EQ(rows[0]["best_us"], 1000);
  EXPECT_EQ(rows[0]["slowdown"], 4);
  EXPECT_EQ(rows[1]["shared"], 0);
}

TEST_F(DatabaseCommands, ExportBackupAndForeignRecords) {
  const std::string db = " --db " + path("a.db");
  EXPECT_EQ(tune("db export " + path("a.pack") + db).code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("a.pack/manifest.json")));
  Finished hostile = tune("db import " + path("a.pack") + " --db " + path("b.db"));
  EXPECT_EQ(hostile.code, 2) << "its workloads are no programs";
  EXPECT_THAT(hostile.output, HasSubstr("nothing was imported"));
  EXPECT_EQ(tune("db backup " + path("copy.db") + db).code, 0);
  EXPECT_EQ(tune("db check --db " + path("copy.db")).output, path("copy.db") + ": sound\n");
  EXPECT_EQ(tune("db import " FOREIGN_FIXTURES "/autotvm.json" + db).code, 0);
  EXPECT_EQ(tune("db import " FOREIGN_FIXTURES "/metaschedule" + db).code, 0);
  // What is left out of a stranger's log is told, and does not turn the direction of reading.
  write_file(path("odd.json"),
             read_file(FOREIGN_FIXTURES "/autotvm.json") + "{\"version\": \"\xe2\x80\xae\"}\n");
  const Finished odd = tune("db import " + path("odd.json") + db);
  EXPECT_EQ(odd.code, 0);
  EXPECT_THAT(odd.output, HasSubstr("is of version `\"\\xe2\\x80\\xae\"`, 0.2 is read"));
  EXPECT_EQ(query("foreign").size(), 7u);
  EXPECT_EQ(query("foreign --workload matmul")[0]["us"], 250);
  EXPECT_EQ(query("best --model net --device first")[0]["us"], 1000);
}

TEST_F(DatabaseCommands, MistakesAreOneMessageAndExitCode2) {
  const std::pair<std::string, std::string> cases[] = {
      {"db exprt", "`exprt` is not one of export, import, backup, check, migrate; did you mean `export`?"},
      {"db export", "tune db export: PATH is missing: the folder to write"},
      {"db check extra", "tune db check: unexpected `extra`"},
      {"db backup x.db --model net", "--model is for export alone"},
      {"db import /dev/null", "/dev/null: it is not a regular file"},
      {"db import " + folder_.path(), "holds neither a pack (manifest.json) nor a database of MetaSchedule"},
      {"db import " + path("a.db"), "a.db is a database, and what is imported is a pack: `tune db export "},
      {"db import none", "cannot read none: there is no such file or folder"},
      {"db export p --model nett", "has no model `nett`; did you mean `net`?"},
      {"query transfer --model net --from first", "--to is required"},
      {"query transfer --model net --from first --to first", "--from and --to are the same device"},
      {"query best --model net --device firs", "has no device `firs`; did you mean `first`?"},
  };
  for (const auto& [arguments, message] : cases) {
    Finished finished = tune(arguments + " --db " + path("a.db"));
    EXPECT_EQ(finished.code, 2) << arguments << "\n" << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(message));
  }
}

TEST_F(DatabaseCommands, WhatCannotBeReadMakesNoDatabase) {
  write_file(path("garbage"), "garbage\n");
  std::filesystem::create_directory(path("pack"));
  write_file(path("pack/manifest.json"), "{}");
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(folder_.path()),
                         std::filesystem::directory_iterator());
  };
  const auto before = count();
  for (const std::string& from : {path("garbage"), path("pack"), std::string("/dev/null")})
    EXPECT_EQ(tune("db import " + from + " --db " + path("new.db")).code, 2) << from;
  EXPECT_EQ(count(), before);
  EXPECT_EQ(tune("db import " FOREIGN_FIXTURES "/autotvm.json --db " + path("new.db")).code, 0);
  EXPECT_EQ(count(), before + 1) << "the database alone";
  EXPECT_EQ(tune("db check --db " + path("new.db")).code, 0);
  EXPECT_EQ(tune("db import " FOREIGN_FIXTURES "/autotvm.json --db " + path("deep/er/new.db")).code, 0);
  EXPECT_EQ(tune("db check --db " + path("deep/er/new.db")).code, 0);
}

/// `rm -r` in another terminal: what is named from there is nowhere.
TEST_F(DatabaseCommands, ARemovedWorkingFolderIsSaid) {
  const std::string gone = path("gone"),
                    enter = "mkdir " + gone + " && cd " + gone + " && rmdir " + gone + " && ";
  for (const char* arguments : {"tracker --db t.db", "--model dqn --db t.db"}) {
    const Finished finished = run_command("(" + enter + TUNE + " " + arguments + ")");
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_EQ(finished.output,
              "error: cannot find t.db: the folder that this was started in cannot be told (No such file or "
              "directory); it may have been removed\n")
        << arguments;
  }
  // Who names all from the root does not need it.
  const Finished finished = run_command("(" + enter + TUNE + " query devices --db " + path("a.db") + ")");
  EXPECT_EQ(finished.code, 0) << finished.output;
}

TEST_F(DatabaseCommands, AFileNameThatIsNoTextIsSaidAsJson) {
  // In Latin-1: the file has the name that was asked for, the line the character for what is no UTF-8.
  Finished finished = tune("db backup " + path("r\xe9seau.db") + " --json --db " + path("a.db"));
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("r\xef\xbf\xbdseau.db"));
  EXPECT_TRUE(std::filesystem::exists(path("r\xe9seau.db")));
}

}  // namespace
}  // namespace lathe::cli
