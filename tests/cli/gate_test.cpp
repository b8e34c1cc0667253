// The performance gate and its timeline, from the outside.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "db/store.h"
#include "tests/cli/tune.h"
#include "tests/runtime/test_module.h"

namespace lathe::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Slow enough that a process's start does not matter, quick enough for a test; a margin that no load of this
/// machine makes up.
constexpr char kQuick[] = " --time 0.02s --margin 0.5 --quiet";

class GateCommand : public ::testing::Test {
 protected:
  /// Writes the test's model to FOLDER/NAME, with its second step `times` times.
  void write(const std::string& name, int times, const std::string& target = "") const {
    runtime::ModuleImage image = runtime::test_image();
    image.plan.model = name;
    image.plan.target = target;
    image.plan.steps.insert(image.plan.steps.begin() + 1, static_cast<size_t>(times - 1),
                            image.plan.steps[1]);
    std::filesystem::create_directories(std::filesystem::path(folder_ + name).parent_path());
    runtime::write_module(folder_ + name, image);
  }

  Finished gate(const std::string& baseline, const std::string& candidate,
                const std::string& more = "") const {
    return tune("gate --baseline " + folder_ + baseline + " --candidate " + folder_ + candidate + kQuick +
                more);
  }

  TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() + "/";
};

TEST_F(GateCommand, EqualModulesAreTheSame) {
  write("a.lathe", 1);
  std::filesystem::copy(folder_ + "a.lathe", folder_ + "b.lathe");
  const Finished finished = gate("a.lathe", "b.lathe");
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, AllOf(HasSubstr("\nb     SAME"), EndsWith("gate: pass\n")));
}

/// Ctrl-C while the modules are built: what is built by then would stay.
TEST_F(GateCommand, AnInterruptedOneLeavesNoFolderBehind) {
  { db::Store store(folder_ + "m.db"); }
  write_file(folder_ + "m.relay", R"(#[version = "0.0.5"]
def @main(%x: Tensor[(4, 8), float32]) { nn.relu(%x) }
)");
  std::filesystem::create_directory(folder_ + "tmp");
  const Finished stopped =
      run_command("TMPDIR=" + folder_ + "tmp " TUNE " gate --baseline " + folder_ + "m.db --candidate " +
                  folder_ + "m.db --model " + folder_ + "m.relay 2>&1 & until set -- " + folder_ +
                  "tmp/lathe-*; [ -e \"$1\" ]; do :; done; kill -INT $!; wait $!");
  EXPECT_EQ(stopped.code, 130) << stopped.output;
  EXPECT_THAT(stopped.output, EndsWith("stopped before anything was measured\n"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "tmp")) << stopped.output;
}

TEST_F(GateCommand, DamagedConstantsAreNotTheSameBytes) {
  write("a.lathe", 1);
  std::string bytes = read_file(folder_ + "a.lathe");
  bytes[bytes.size() - 64] ^= 1;  // of the one constant, before its padding
  write_file(folder_ + "b.lathe", bytes);
  for (const auto& [baseline, candidate] :
       {std::pair("a.lathe", "b.lathe"), std::pair("b.lathe", "a.lathe")}) {
    const Finished finished = gate(baseline, candidate);
    EXPECT_EQ(finished.code, 2);
    EXPECT_EQ(finished.output,
              "error: " + folder_ + "b.lathe is damaged: the checksum of its constants does not match\n");
  }
}

TEST_F(GateCommand, OtherBytesOfTheSameSpeedPass) {
  write("a.lathe", 1);
  write("b.lathe", 1);
  const Finished finished = gate("a.lathe", "b.lathe");
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("\nb     PASS"));
}

TEST_F(GateCommand, ASlowerModuleIsExitCode1InEveryReport) {
  write("a.lathe", 1);
  write("b.lathe", 100);
  const std::string reports = temporary_.path() + "/gate";
  setenv("GITHUB_STEP_SUMMARY", (reports + ".summary").c_str(), 1);
  const Finished finished =
      gate("a.lathe", "b.lathe",
           " --seed 5 --junit " + reports + ".xml --sarif " + reports + ".sarif --markdown " + reports +
               ".md --history " + reports + ".jsonl --revision 3f2a91c");
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_EQ(finished.code, 1) << finished.output;
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("\nb     FAIL"), HasSubstr("seed 5"), EndsWith("gate: fail\n")));
  EXPECT_THAT(read_file(reports + ".xml"), HasSubstr("<failure type=\"slower\""));
  EXPECT_THAT(read_file(reports + ".sarif"), HasSubstr("\"ruleId\":\"slower\""));
  EXPECT_THAT(read_file(reports + ".md"), StartsWith("### Performance gate: fail\n"));
  EXPECT_EQ(read_file(reports + ".md"), read_file(reports + ".summary"));
  EXPECT_THAT(read_file(reports + ".jsonl"), HasSubstr("\"revision\":\"3f2a91c\""));
}

TEST_F(GateCommand, AReportThatCannotBeWrittenCostsNeitherTheOthersNorTheVerdict) {
  write("a.lathe", 1);
  write("b.lathe", 100);
  const std::string reports = temporary_.path() + "/gate";
  setenv("GITHUB_STEP_SUMMARY", temporary_.path().c_str(), 1);  // a folder
  const std::string flags =
      " --junit " + temporary_.path() + " --markdown " + reports + ".md --history " + reports + ".jsonl";
  Finished finished = gate("a.lathe", "b.lathe", flags);
  EXPECT_EQ(finished.code, 1) << finished.output;
  EXPECT_THAT(finished.output, AllOf(HasSubstr("\nb     FAIL"), HasSubstr("error: cannot write ")));
  EXPECT_THAT(read_file(reports + ".md"), StartsWith("### Performance gate: fail\n"));
  EXPECT_THAT(read_file(reports + ".jsonl"), HasSubstr("\"verdict\":\"FAIL\""));
  finished = gate("a.lathe", "a.lathe", flags);
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_EQ(finished.code, 2) << finished.output;
}

/// The machine's fault, as a full disk is under all else that is written.
TEST_F(GateCommand, AReportOntoAFullDiskIsExitCode4) {
  write("a.lathe", 1);
  std::filesystem::copy(folder_ + "a.lathe", folder_ + "b.lathe");
  for (const char* flag : {" --junit", " --sarif", " --markdown", " --history"}) {
    const Finished finished = gate("a.lathe", "b.lathe", std::string(flag) + " /dev/full");
    EXPECT_EQ(finished.code, 4) << flag;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("gate: pass\n"),
                                       HasSubstr("cannot write /dev/full: No space left on device")));
  }
}

TEST_F(GateCommand, ATableThatDoesNotArriveIsSaidWhateverTheVerdict) {
  write("a.lathe", 1);
  runtime::ModuleImage image = runtime::test_image();
  image.plan.steps[0].kernel = "nothing";
  runtime::write_module(folder_ + "b.lathe", image);
  const Finished finished = run_command("(" TUNE " gate --baseline " + folder_ + "a.lathe --candidate " +
                                        folder_ + "b.lathe" + kQuick + " > /dev/full)");
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.output, "error: cannot write to stdout: No space left on device\n");
}

/// A night that was killed while it wrote must not take the next one with it.
TEST_F(GateCommand, ATornHistoryCostsItsOwnLineAlone) {
  write("a.lathe", 1);
  write("b.lathe", 1);
  const std::string history = folder_ + "h.jsonl";
  write_file(history, "{\"torn");
  EXPECT_EQ(gate("a.lathe", "b.lathe", " --history " + history).code, 0);
  EXPECT_THAT(read_file(history), StartsWith("{\"torn\n{\"device\""));
  EXPECT_EQ(gate("a.lathe", "b.lathe", " --history " + history).code, 0);
  EXPECT_EQ(split_text(read_file(history), '\n').size(), 4u)
      << "no empty line after a whole one; the last is empty";
}

TEST_F(GateCommand, FoldersAreUnitsAndASameOneIsTheControl) {
  write("old/same.lathe", 1);
  std::filesystem::create_directories(folder_ + "new");
  std::filesystem::copy(folder_ + "old/same.lathe", folder_ + "new/same.lathe");
  write("old/slower.lathe", 1);
  write("new/slower.lathe", 100);
  const Finished finished = gate("old", "new", " --json");
  EXPECT_EQ(finished.code, 1) << finished.output;
  const nlohmann::json report = nlohmann::json::parse(finished.output);
  EXPECT_EQ(report["units"][0]["verdict"], "SAME");
  EXPECT_EQ(report["units"][1]["verdict"], "FAIL");
  EXPECT_EQ(report["control"]["verdict"], "PASS");
  EXPECT_GT(report["doctor"].size(), 5u);
  EXPECT_GT(report["units"][1]["counters"]["moved bytes"]["candidate"],
            report["units"][1]["counters"]["moved bytes"]["baseline"]);
  EXPECT_EQ(tune("gate --baseline " + folder_ + "new --candidate " + folder_ + "old/missing").code, 2);
}

TEST_F(GateCommand, ACandidateThatDoesNotRunIsExitCode1) {
  write("a.lathe", 1);
  runtime::ModuleImage image = runtime::test_image();
  image.plan.steps[0].kernel = "nothing";
  runtime::write_module(folder_ + "b.lathe", image);
  Finished finished = gate("a.lathe", "b.lathe");
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("b.lathe does not run: exited with status 1: "));
  EXPECT_THAT(finished.output, HasSubstr("the module has no kernel nothing"));
  finished = gate("b.lathe", "a.lathe");  // nothing to compare with
  EXPECT_EQ(finished.code, 2);
}

TEST_F(GateCommand, OpenModulesAreGatedAtGivenShapes) {
  runtime::write_module(folder_ + "a.lathe", runtime::open_image(1, 1000));
  runtime::write_module(folder_ + "b.lathe", runtime::open_image(100, 1000));
  Finished finished = gate("a.lathe", "b.lathe", " --shape x=500 --json");
  EXPECT_EQ(finished.code, 1) << finished.output;
  const nlohmann::json unit = nlohmann::json::parse(finished.output)["units"][0];
  EXPECT_EQ(unit["verdict"], "FAIL");
  EXPECT_EQ(unit["counters"]["moved bytes"]["baseline"], 2 * 500 * 4);
  // Before anything is measured, whichever side the coin would have begun with.
  for (const char* seed : {" --seed 1", " --seed 2", " --seed 3"}) {
    finished = gate("a.lathe", "b.lathe", seed);
    EXPECT_EQ(finished.code, 2);
    EXPECT_EQ(finished.output, "error: " + folder_ +
                                   "a.lathe: dimension n of input `x` is open: say what it is, as in "
                                   "--shape x=1\n");
  }
  finished = gate("a.lathe", "b.lathe", " --shape x=2000");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output,
            "error: " + folder_ + "a.lathe: dimension n is 2000, the model was compiled for 1 to 1000\n");
  finished = gate("a.lathe", "b.lathe", " --shape x=5 --shape z=5");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output, "error: tune gate: --shape z: no module has such an input that is open\n");
}

TEST_F(GateCommand, AnInterruptTellsWhatThereIs) {
  write("a.lathe", 1);
  write("b.lathe", 1);
  const Finished finished =
      // --foreground: else `timeout` interrupts its group too, and the second interrupt ends at once.
      run_command("timeout --foreground --preserve-status --signal INT 5 " TUNE
                  " gate --time 60s --baseline " +
                  folder_ + "a.lathe --candidate " + folder_ + "b.lathe");
  EXPECT_EQ(finished.code, 130);
  EXPECT_THAT(finished.output, HasSubstr("\nb     INCONCLUSIVE  -"));
}

TEST_F(GateCommand, DatabasesAreBuiltFrom) {
  for (const char* name : {"old.db", "new.db"}) db::Store store(folder_ + name);
  const Finished finished =
      tune("gate --model dqn --baseline " + folder_ + "old.db --db " + folder_ + "new.db" + kQuick);
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("\ndqn   SAME"));
}

TEST_F(GateCommand, MistakesAreOneMessageAndExitCode2) {
  write("a.lathe", 1);
  write("b.lathe", 1);
  write("folder/c.lathe", 1);
  write("other/d.lathe", 1);
  write_file(folder_ + "text.lathe", std::string(300, 'x'));
  std::filesystem::create_directories(folder_ + "empty");
  const std::string a = " --baseline " + folder_ + "a.lathe", ab = a + " --candidate " + folder_ + "b.lathe";
  const auto expect_error = [](const std::string& arguments, const std::string& message) {
    const Finished finished = tune("gate" + arguments);
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_EQ(finished.output, "error: " + message + "\n");
  };
  expect_error("", "tune gate: --baseline is required; see tune gate --help");
  expect_error(a, "tune gate: --candidate is required; see tune gate --help");
  expect_error(ab + " --margin 3",
               "tune gate: --margin: `3` must be a number above 0 and below 1; see tune gate --help");
  expect_error(ab + " --alpha 1e-10", "tune gate: --alpha: 1e-10 must be 1e-09 at least");
  expect_error(ab + " --open n",
               "tune gate: --open is for databases, with --model; modules are built already");
  expect_error(ab + " --shape x=3", "tune gate: --shape x: no module has such an input that is open");
  expect_error(ab + " --junit " + folder_ + "none/x.xml",
               "cannot write " + folder_ + "none/x.xml: there is no folder " + folder_ + "none");
  for (const char* compared : {"a.lathe", "folder/../b.lathe"})
    expect_error(ab + " --sarif " + folder_ + compared,
                 "cannot write " + folder_ + compared + ": it is what is compared");
  expect_error(ab + " --junit " + folder_ + "x --markdown " + folder_ + "folder/../x",
               "cannot write " + folder_ + "folder/../x: another report goes there");
  expect_error(ab + " --history " + folder_ + "text.lathe",
               folder_ + "text.lathe is no history of `tune gate`, and nothing is appended to it");
  expect_error(a + " --candidate " + folder_ + "none.lathe",
               "cannot read " + folder_ + "none.lathe: No such file or directory");
  expect_error(a + " --candidate " + folder_ + "text.lathe", folder_ + "text.lathe is not a module file");
  expect_error(a + " --candidate " + folder_ + "folder",
               "tune gate: " + folder_ + "folder is a folder, " + folder_ + "a.lathe is not");
  expect_error(" --baseline " + folder_ + "empty --candidate " + folder_ + "folder",
               folder_ + "empty has no modules (.lathe)");
  expect_error(" --baseline " + folder_ + "folder --candidate " + folder_ + "other",
               folder_ + "other has no c.lathe, which " + folder_ + "folder has");
  expect_error(a + " --candidate main.db",
               "tune gate: main.db is a database: which model is to be built? --model");
  expect_error(" --model dqn --baseline " + folder_ + "none.db", folder_ + "none.db: no such database");
}

TEST_F(GateCommand, BuildsOfOtherModelsAreNotCompared) {
  write("a.lathe", 1);
  runtime::ModuleImage image = runtime::test_image();
  image.plan.inputs[0].name = "z";
  runtime::write_module(folder_ + "b.lathe", image);
  const Finished finished = gate("a.lathe", "b.lathe");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output, "error: b: " + folder_ + "a.lathe and " + folder_ +
                                 "b.lathe are not builds of one model: their inputs differ\n");
}

/// Modules for a GPU whose code is this CPU's, and NVIDIA's library as tests/workers/fake_nvml.cpp has it:
/// all of the way but the kernels.
class GateOfAGpu : public GateCommand {
 protected:
  GateOfAGpu() {
    std::filesystem::create_directories(folder_ + "driver");
    std::filesystem::create_symlink(FAKE_NVML, folder_ + "driver/libnvidia-ml.so.1");
    write("a.lathe", 1, "cuda:arch=sm_90");
    write("b.lathe", 1, "cuda:arch=sm_90");
    write("slower.lathe", 100, "cuda:arch=sm_90");
  }
  /// With this in the environment.
  Finished gate_with(const std::string& environment, const std::string& candidate,
                     const std::string& more = "") const {
    return run_command("NVIDIA_FAKE_0='1980 1980 0' " + environment + " " TUNE " gate --baseline " + folder_ +
                       "a.lathe --candidate " + folder_ + candidate + " --time 0.1s --margin 0.5 --quiet" +
                       more);
  }
  std::string driver() const { return "LD_LIBRARY_PATH=" + folder_ + "driver"; }
};

TEST_F(GateOfAGpu, IsAskedInCyclesOfItsClock) {
  const Finished finished = gate_with(driver(), "slower.lathe", " --json");
  EXPECT_EQ(finished.code, 1) << finished.output;
  const nlohmann::json report = nlohmann::json::parse(finished.output);
  EXPECT_THAT(report["device"].get<std::string>(), StartsWith("Fake 0, "));
  EXPECT_EQ(report["in_cycles"], true);
  const nlohmann::json& unit = report["units"][0];
  EXPECT_EQ(unit["candidate"]["mhz"], 1980);
  EXPECT_GT(unit["cycles"]["low"], 1.5);
  EXPECT_EQ(unit["samples"]["dropped"], 0);
  // Slices of 10 ms in 0.1 s, of two processes a pair; fewer where a core was taken away.
  EXPECT_GE(unit["samples"]["taken"], 60);
  EXPECT_EQ(gate_with(driver(), "b.lathe").code, 0);
}

TEST_F(GateOfAGpu, WhoseClockFallsTooOftenIsUnfit) {
  const std::string reports = temporary_.path() + "/gate";
  const Finished finished = gate_with(driver() + " NVIDIA_FAKE_DIPS='900 5'", "slower.lathe",
                                      " --junit " + reports + ".xml --markdown " + reports + ".md");
  EXPECT_EQ(finished.code, 4) << finished.output;
  EXPECT_THAT(
      finished.output,
      AllOf(HasSubstr("\nslower  UNFIT"),
            HasSubstr(" samples dropped, at less than 75% of the median clock of 1980 MHz, and 20% are "
                      "the most that a device may lose: lock its clock, as `tune doctor` says, and "
                      "measure again"),
            EndsWith("gate: unfit\n")));
  EXPECT_THAT(read_file(reports + ".xml"), HasSubstr("<error type=\"unfit\" message=\""));
  EXPECT_THAT(read_file(reports + ".md"), HasSubstr("lock its clock"));
}

TEST_F(GateOfAGpu, WhoseClockNobodyTellsIsUnfit) {
  const std::string message =
      "error: no driver of this machine tells the clock of a cuda device, by which a gate knows what was "
      "slowed "
      "down; `tune doctor` lists the GPUs whose clock is told\n";
  const Finished finished = gate_with("NVIDIA_FAKE_0='0 0 0' " + driver(), "b.lathe");
  EXPECT_EQ(finished.code, 4);
  EXPECT_EQ(finished.output, message);
}

TEST_F(GateOfAGpu, IsNotGatedWithOtherDevices) {
  write("c.lathe", 1, "cpu:mcpu=x86-64");
  Finished finished = gate_with(driver(), "c.lathe");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output, "error: " + folder_ + "c.lathe is for a device of the kind cpu, " + folder_ +
                                 "a.lathe for one of the kind cuda: gate them apart\n");
  write("c.lathe", 1, "abacus:beads=7");
  finished = gate_with(driver(), "c.lathe");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.output,
            "error: the gate knows no devices of the kind `abacus`; it knows cpu, cuda, hip\n");
}

class TimelineCommand : public GateCommand {
 protected:
  /// Nights of a unit at these levels, in seconds.
  static std::string nights(const std::string& unit, const std::vector<std::pair<int, double>>& levels) {
    std::string text;
    int night = 0;
    for (const auto& [count, level] : levels)
      for (int i = 0; i < count; ++i, ++night)
        text += nlohmann::json{{"unit", unit},
                               {"target", "cpu"},
                               {"device", "host"},
                               {"threads", 1},
                               {"when", "night " + std::to_string(night)},
                               {"revision", "r" + std::to_string(night)},
                               {"seconds", level * (1 + 0.001 * (night % 7))}}
                    .dump() +
                "\n";
    return text;
  }
};

TEST_F(TimelineCommand, FindsTheNightOfAChange) {
  write_file(folder_ + "h.jsonl", nights("dqn", {{30, 0.002}, {30, 0.0022}}) + "{\"unit\": \"torn" + "\n" +
                                      nights("still", {{40, 1}}));
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  EXPECT_EQ(finished.code, 0);
  EXPECT_THAT(finished.output, HasSubstr("h.jsonl:61: left out: it is no JSON\n"));
  EXPECT_THAT(finished.output,
              HasSubstr("dqn, cpu, 1 thread, host\n  60 points, night 0 .. night 59, now 2.21 ms\n"
                        "  night 30 r30: 2.01 ms -> 2.21 ms, +10.0%, p "));
  EXPECT_THAT(
      finished.output,
      HasSubstr("still, cpu, 1 thread, host\n  40 points, night 0 .. night 39, now 1.0 s\n  no change\n"));
}

/// Two branches' histories, with the nights in common twice and the older ones last.
TEST_F(TimelineCommand, JoinedHistoriesAreOne) {
  std::vector<std::string> lines = split_text(nights("dqn", {{15, 0.002}, {15, 0.0022}}), '\n');
  std::erase(lines, "");
  for (size_t night = 0; night < lines.size(); ++night) {
    nlohmann::json json = nlohmann::json::parse(lines[night]);
    json["when"] = fmt::format("2026-01-{:02}T00:00:00Z", night + 1);
    lines[night] = json.dump();
  }
  std::vector<std::string> joined(lines.begin() + 10, lines.end());
  joined.insert(joined.end(), lines.begin(), lines.begin() + 20);
  write_file(folder_ + "h.jsonl", join_text(joined, "\n") + "\n");
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  EXPECT_THAT(finished.output,
              testing::MatchesRegex("dqn, cpu, 1 thread, host\n"
                                    "  30 points, 2026-01-01T00:00:00Z .. 2026-01-30T00:00:00Z, now 2.20 ms\n"
                                    "  2026-01-16T00:00:00Z r15: [^\n]*\n"));
}

TEST_F(TimelineCommand, TellsShapesApart) {
  std::string history = nights("net", {{10, 1}});
  for (const char* shapes : {"x (1, 8)", "x (2, 8)"})
    for (const std::string& line : split_text(nights("net", {{10, 1}}), '\n')) {
      if (line.empty()) continue;
      nlohmann::json json = nlohmann::json::parse(line);
      json["shapes"] = shapes;
      history += json.dump() + "\n";
    }
  write_file(folder_ + "h.jsonl", history);
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  for (const char* begin : {"net, cpu", "net of x (1, 8), cpu", "net of x (2, 8), cpu"})
    EXPECT_THAT(finished.output, HasSubstr(std::string(begin) + ", 1 thread, host\n  10 points"));
}

/// A history comes from wherever the nights ran.
TEST_F(TimelineCommand, EscapesOfAHistoryDoNotReachTheTerminal) {
  write_file(folder_ + "h.jsonl", nights("\x1b[2Jdqn", {{10, 1}}));
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  EXPECT_THAT(finished.output, testing::StartsWith("\\x1b[2Jdqn, cpu"));
}

/// What a history holds is bounded, and so is what is said of it: 20,000 points took 41 s, and each line that
/// is none a line of its own.
TEST_F(TimelineCommand, AHistoryIsAsLongAsItLikes) {
  write_file(folder_ + "h.jsonl", std::string(30000, '\n') + nights("dqn", {{100000, 1}}));
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  EXPECT_EQ(finished.code, 0);
  EXPECT_LT(finished.output.size(), 10000u);
  EXPECT_THAT(finished.output, HasSubstr("h.jsonl: left out 29980 more lines\n"));
  EXPECT_THAT(finished.output, HasSubstr("  2000 points, night 98000 .. night 99999, now 1.0 s\n"));
}

TEST_F(TimelineCommand, TimesAndThreadsAreSome) {
  const std::string begin = R"({"when":"","revision":"","unit":"u","target":"cpu","device":"d","seconds":)";
  write_file(folder_ + "h.jsonl", begin + "1e308,\"threads\":1}\n" + begin + "5e-324,\"threads\":1}\n" +
                                      begin + "1,\"threads\":9223372036854775808}\n" + begin +
                                      "1,\"threads\":1.5}\n");
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  EXPECT_EQ(finished.code, 2);
  for (const char* message : {":1: left out: seconds is 1e+308", ":2: left out: seconds is 5e-324",
                              ":3: left out: threads is", ":4: left out: threads is"})
    EXPECT_THAT(finished.output, HasSubstr(message));
}

TEST_F(TimelineCommand, LinesOfOtherShapesAreNone) {
  write_file(folder_ + "h.jsonl", "{\"unit\":\"a\"}\n[]\n1\n\"x\"\nnull\n");
  const Finished finished = tune("timeline " + folder_ + "h.jsonl");
  EXPECT_EQ(finished.code, 2);
  for (int line = 1; line <= 5; ++line)
    EXPECT_THAT(
        finished.output,
        HasSubstr(fmt::format(":{}: left out: it is no line that `tune gate --history` writes\n", line)));
}

TEST_F(TimelineCommand, GivesOneUnitAsJson) {
  write_file(folder_ + "h.jsonl", nights("dqn", {{30, 0.002}, {30, 0.0022}}) + nights("still", {{40, 1}}));
  const Finished finished = tune("timeline " + folder_ + "h.jsonl --unit dqn --json");
  const nlohmann::json series = nlohmann::json::parse(finished.output);
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series[0]["changes"][0]["at"], 30);
  EXPECT_EQ(series[0]["changes"][0]["revision"], "r30");
}

TEST_F(TimelineCommand, MistakesAreOneMessageAndExitCode2) {
  write_file(folder_ + "h.jsonl", nights("dqn", {{10, 1}}));
  EXPECT_EQ(tune("timeline " + folder_ + "h.jsonl --unit dqm").output,
            "error: " + folder_ + "h.jsonl has no unit dqm; did you mean `dqn`?\n");
  EXPECT_EQ(tune("timeline " + folder_ + "none").output,
            "error: cannot read " + folder_ + "none: No such file or directory\n");
  write_file(folder_ + "h.jsonl", "");
  EXPECT_EQ(tune("timeline " + folder_ + "h.jsonl").code, 2);
}

}  // namespace
}  // namespace lathe::cli
