// `tune device`, from the outside.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/codegen/host_target.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "db/store.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;

/// A CPU of this kind that this machine is not.
std::string other_target() {
  return codegen::host_target().triple.starts_with("x86_64")
             ? (codegen::host_target().cpu == "nehalem" ? "cpu:mcpu=haswell" : "cpu:mcpu=nehalem")
             : "cpu:triple=x86_64-pc-linux-gnu,mcpu=nehalem";
}

nlohmann::json numbers_of(const std::string& arguments) {
  const Finished finished = tune("device --json " + arguments);
  EXPECT_EQ(finished.code, 0) << finished.output;
  return nlohmann::json::parse(finished.output)["numbers"];
}

TEST(DeviceCommand, GivenNumbersCountBeforeAllOthers) {
  const nlohmann::json numbers = numbers_of("--target cpu:latency=9");
  EXPECT_EQ(numbers["latency"]["from"], "given");
  EXPECT_EQ(numbers["latency"]["used"], 9);
  EXPECT_EQ(numbers["task_cycles"]["from"], "row") << "it is not measured";
  EXPECT_TRUE(numbers["task_cycles"]["measured"].is_null());
}

TEST(DeviceCommand, ShowsMeasuredNumbersBesideTheRow) {
  const Finished finished = tune("device");
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.output, HasSubstr("\nmeasured here "));
  EXPECT_THAT(finished.output, HasSubstr("\nmultiply_adds_128 "));
}

TEST(DeviceCommand, OtherMachinesAreTheirRowOrWhatTheirWorkersTold) {
  const std::string other = other_target();
  TemporaryFolder folder;
  const std::string database = folder / "t.db";
  {
    db::Store store(database);
    const db::DeviceId device = store.add_device({.host = "far"});
    store.set_machine({device, to_text(codegen::resolve_target(other)), "latency=7"});
  }
  EXPECT_EQ(numbers_of("--target " + other + ",l2=4096 --db " + database)["latency"]["from"], "row")
      << "other caches, another target";
  EXPECT_EQ(numbers_of("--target " + other + " --db " + database)["latency"]["used"], 7);
  {
    db::Store store(database);
    const db::DeviceId device = store.add_device({.host = "far"});
    store.set_machine({device, to_text(codegen::resolve_target(other)), "what is this?"});
  }
  EXPECT_EQ(numbers_of("--target " + other + " --db " + database)["latency"]["from"], "row");
}

TEST(DeviceCommand, BadUseIsOneMessageAndExitCode2) {
  const std::string other = other_target();
  const TemporaryFolder folder;
  write_file(folder / "none.db", "words, and no database");
  for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"--target cpu:latency=0", "target: latency=0 must be a number above 0"},
           {"--target cpu:latencies=1", "target: no property is called `latencies`; did you mean `latency`?"},
           {"--target " + other + " --measure",
            "only this machine can be measured, and " + other + " is another"},
           {"--target " + other + " --db /nowhere/t.db",
            "there is no database /nowhere/t.db; `tune` makes one"},
           // Of this machine nothing is looked up there.
           {"--db /nowhere/t.db", "there is no database /nowhere/t.db; `tune` makes one"},
           {"--db " + folder / "none.db",
            folder / "none.db" + " is not a database of lathe; name another file"},
           {"now", "tune device: unexpected argument `now`; see tune device --help"}}) {
    const Finished finished = tune("device " + arguments);
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_EQ(finished.output, "error: " + message + "\n");
  }
}

}  // namespace
}  // namespace lathe::cli
