// The main job as a user runs it: real tracker, real worker process, real compiler, real database.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/codegen/host_target.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/tensor.h"
#include "core/support/text.h"
#include "core/tir/machine.h"
#include "db/store.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {
using ::testing::AnyOf;
using ::testing::HasSubstr;

class TuneJobs : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string job_flags(int trials) const {
    return fmt::format("--model dqn --target cpu --threads 1 --seed 1 --trials {} --db {} --out {} --json",
                       trials, path("t.db"), path("out"));
  }
  static nlohmann::json last_line(const std::string& output) {
    std::vector<std::string> lines = split_text(output, '\n');
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines.empty() ? nlohmann::json() : nlohmann::json::parse(lines.back(), nullptr, false);
  }
  TemporaryFolder folder_;
};

TEST_F(TuneJobs, EndsWithAReportAndAModuleThatComputesTheSame) {
  Finished job = tune(job_flags(28));
  ASSERT_EQ(job.code, 0) << job.output;
  nlohmann::json report = last_line(job.output);
  ASSERT_TRUE(report.is_object()) << job.output;
  EXPECT_EQ(report["model"], "dqn");
  EXPECT_EQ(report["trials"], 28);
  EXPECT_GT(report["before_ms"].get<double>(), 0);
  EXPECT_GT(report["after_ms"].get<double>(), 0);
  nlohmann::json race = report["race"];
  ASSERT_TRUE(race.is_object()) << job.output;
  EXPECT_THAT(race["shipped"], AnyOf("tuned", "untuned"));
  EXPECT_THAT(race["verdict"], AnyOf("tuned is faster", "untuned is faster", "equal", "undecided"));
  EXPECT_GE(race["pairs"], 10);
  EXPECT_LE(race["low"].get<double>(), race["ratio"].get<double>());
  EXPECT_LE(race["ratio"].get<double>(), race["high"].get<double>());
  EXPECT_GT(report["disturbance"]["samples"], 0);
  EXPECT_LE(report["disturbance"]["disturbed"], report["disturbance"]["samples"]);
  EXPECT_GE(report["disturbance"]["canary"], 1);
  EXPECT_EQ(race[race["shipped"] == "tuned" ? "tuned_ms" : "untuned_ms"], report["after_ms"]);
  ASSERT_FALSE(report["tasks"].empty());
  for (const auto& task : report["tasks"]) {
    EXPECT_GE(task["weight"].get<int>(), 1);
    EXPECT_GE(task["trials"].get<int>(), 0);
    EXPECT_TRUE(task["failures"].is_object());
    EXPECT_GE(task["relative_error"].get<double>(), 0);
    EXPECT_LE(task["relative_error"].get<double>(), 1e-4);
    EXPECT_THAT(task["limit"], AnyOf("compute", "memory"));
    EXPECT_GT(task["limit_us"].get<double>(), 0);
    EXPECT_NEAR(task["limit_share"].get<double>() * task["after_us"].get<double>(),
                task["after_us"].get<double>() > 0 ? task["limit_us"].get<double>() : 0, 1e-3);
  }
  Finished known = tune("query best --model dqn --json --db " + path("t.db"));
  ASSERT_EQ(known.code, 0) << known.output;
  for (const auto& task : last_line(known.output)) {
    if (task["us"].is_null()) continue;
    EXPECT_THAT(task["limit"], AnyOf("compute", "memory"));
    EXPECT_GT(task["share"].get<double>(), 0);
  }
  std::string module = report["module"];
  ASSERT_EQ(tune(fmt::format("run --model {} --seed 5 --out {}", module, path("tuned"))).code, 0);
  ASSERT_EQ(
      tune(fmt::format("run --model dqn --target cpu --untuned --seed 5 --out {}", path("untuned"))).code, 0);
  EXPECT_LE(max_relative_error(load_npy(path("tuned") + "/output_0.npy"),
                               load_npy(path("untuned") + "/output_0.npy")),
            1e-4);
}

constexpr const char* kOpenLayer = R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, 24), float32]) {
  nn.relu(nn.dense(%x, multiply(ones(shape=[32, 24], dtype="float32"), 0.5f)))
})";

/// Open kernels built, checked and timed in sandboxes at each size, members chosen, builds raced.
TEST_F(TuneJobs, OfOpenDimensionsAreForAllSizes) {
  write_file(path("layer.relay"), kOpenLayer);
  const std::string model = " --model " + path("layer.relay"), db = " --db " + path("t.db"),
                    sizes = " --open n=1..256,1,16:2,256";
  const Finished job =
      tune(model + db + sizes + " --seed 1 --trials 30 --threads 1 --json --out " + path("out"));
  ASSERT_EQ(job.code, 0) << job.output;
  const nlohmann::json report = last_line(job.output);
  ASSERT_TRUE(report.is_object()) << job.output;
  EXPECT_EQ(report["trials"], 30);
  for (const auto& task : report["tasks"]) {
    EXPECT_TRUE(task["failures"].empty()) << task;
    EXPECT_GT(task["after_us"], 0) << task;
  }
  ASSERT_EQ(report["sizes"].size(), 3u);
  EXPECT_EQ(report["sizes"][1]["size"], "n=16");
  EXPECT_EQ(report["sizes"][1]["weight"], 0.5);
  ASSERT_EQ(report["families"].size(), 1u);
  const nlohmann::json& kernels = report["families"][0]["kernels"];
  size_t measured = 0;
  for (const auto& kernel : kernels)
    for (const auto& at : kernel["measured"]) {
      ++measured;
      EXPECT_GE(at["loss"], 0);
      EXPECT_LE(at["alone_us"], at["us"]);
    }
  EXPECT_EQ(measured, 3u) << "each size has its kernel";
  EXPECT_EQ(kernels[0]["serves"][0]["max"], 1) << "one row is a number";
  EXPECT_TRUE(kernels.back()["serves"][0]["max"].is_null()) << "and the last one has all";
  // What was tuned is found again, and is right at sizes that nobody measured.
  const Finished best = tune("query best" + model + db);
  for (const char* size : {"@1", "@16", "@256"}) EXPECT_THAT(best.output, HasSubstr(size));
  EXPECT_EQ(tune("query coverage" + model + db).code, 0);
  const std::string module = path("again.lathe"), untuned = path("untuned.lathe");
  const Finished again = tune("compile --json" + model + db + sizes + " --out " + module);
  ASSERT_EQ(again.code, 0) << again.output;
  if (report["race"]["shipped"] == "tuned") {
    EXPECT_EQ(last_line(again.output)["kernels_measured"], last_line(again.output)["kernels"])
        << again.output;
  }
  ASSERT_EQ(tune("compile --untuned" + model + sizes + " --out " + untuned).code, 0);
  for (int n : {1, 2, 15, 17, 100, 255, 256}) {
    std::vector<Tensor> outputs;
    for (const std::string& each : {report["module"].get<std::string>(), module, untuned}) {
      const Finished run =
          tune(fmt::format("run --model {} --seed 5 --shape x={}x24 --out {}", each, n, path("y")));
      ASSERT_EQ(run.code, 0) << run.output;
      outputs.push_back(load_npy(path("y") + "/output_0.npy"));
    }
    EXPECT_LE(max_relative_error(outputs[0], outputs[2]), 1e-5) << n;
    EXPECT_LE(max_relative_error(outputs[1], outputs[2]), 1e-5) << n;
  }
  const Finished refused = tune("run --model " + module + " --shape x=257x24");
  EXPECT_EQ(refused.code, 2) << refused.output;
}

/// What workers of a farm are told is not meant for the job's own.
/// Its kernels are tuned as others; the whole of it nobody here can run.
TEST_F(TuneJobs, AModelThatCallsLibraryFunctionsIsNotRaced) {
  write_file(path("m.relay"), R"(
    def @main(%x: Tensor[(4, 32), float32]) {
      tanh(call_dps_library("f", (nn.softmax(%x),), Tensor[(4, 32), float32]))
    })");
  const Finished job = tune(fmt::format("--model {} --trials 6 --seed 1 --db {} --out {} --json",
                                        path("m.relay"), path("t.db"), path("out")));
  ASSERT_EQ(job.code, 0) << job.output;
  const nlohmann::json report = last_line(job.output);
  EXPECT_EQ(report["not_raced"], "only its host can run a model that calls library functions");
  EXPECT_EQ(report["tasks"].size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(path("out") + "/m.lathe")) << job.output;
}

TEST_F(TuneJobs, TheWorkerBesideAJobTakesNoConfiguration) {
  setenv("LATHE_TRACKER_KEY", "of another tracker", 1);
  const Finished job = tune(job_flags(2));
  unsetenv("LATHE_TRACKER_KEY");
  EXPECT_EQ(job.code, 0) << job.output;
  EXPECT_EQ(last_line(job.output)["trials"], 2);
}

/// Builds for such a machine elsewhere decide by it.
TEST_F(TuneJobs, TheWorkerTellsWhatItsMachineCanDo) {
  ASSERT_EQ(tune(job_flags(2)).code, 0);
  db::Store store(path("t.db"), {.read_only = true});
  const auto machine = store.find_machine(to_text(codegen::host_target()));
  ASSERT_TRUE(machine);
  EXPECT_FALSE(parse_machine_numbers(machine->numbers).empty());
  EXPECT_EQ(store.devices().at(0).first, machine->device);
}

/// What is chosen inside the model lasts: later builds of the model use it.
TEST_F(TuneJobs, ChoosesOverTheWholeModel) {
  Finished job = tune(job_flags(60) + " --whole-model 10s");
  ASSERT_EQ(job.code, 0) << job.output;
  nlohmann::json report = last_line(job.output), choice = report["whole_model"];
  ASSERT_TRUE(choice.is_object()) << job.output;
  EXPECT_EQ(choice["tasks"], report["tasks"].size());
  EXPECT_GE(choice["tried"], 1);
  EXPECT_GE(choice["exchanged"], 0);
  EXPECT_GT(choice["before_ms"].get<double>(), 0);
  EXPECT_LE(choice["after_ms"].get<double>(), choice["before_ms"].get<double>());
  Finished compiled = tune(
      fmt::format("compile --model dqn --threads 1 --db {} --out {}", path("t.db"), path("again.lathe")));
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  EXPECT_EQ(read_file(path("again.lathe")), read_file(report["module"]));
}

TEST_F(TuneJobs, ATimeAloneIsTheWholeBudget) {
  Finished job = tune(fmt::format("--model dqn --target cpu --threads 1 --time 1s --db {} --out {}",
                                  path("t.db"), path("out")));
  ASSERT_EQ(job.code, 0) << job.output;
  EXPECT_THAT(tune("query jobs --json --db " + path("t.db")).output, HasSubstr("\"state\":\"done\""));
  EXPECT_THAT(job.output, ::testing::Not(HasSubstr("/512 trials")));
}

/// A target that the default schedules meet ends the search as soon as all tasks were measured.
TEST_F(TuneJobs, EndsWhenTheTargetLatencyIsReached) {
  Finished job = tune(job_flags(400) + " --target-latency 1000");
  ASSERT_EQ(job.code, 0) << job.output;
  nlohmann::json report = last_line(job.output);
  EXPECT_EQ(report["ended"], "target reached");
  EXPECT_LT(report["trials"].get<int>(), 200);
  EXPECT_EQ(report["target_latency"]["ms"], 1000);
  EXPECT_EQ(report["target_latency"]["met"], true);
  EXPECT_LE(report["target_latency"]["kernels_ms"].get<double>(), 1000);
  job = tune(
      fmt::format("--model dqn --target cpu --threads 1 --trials 8 --target-latency 0.001 --db {} --out {}",
                  path("t.db"), path("out")));
  ASSERT_EQ(job.code, 0) << job.output;
  EXPECT_THAT(job.output, HasSubstr("target 1.0 us: the model takes "));
  EXPECT_THAT(job.output, HasSubstr(", which misses it"));
}

TEST_F(TuneJobs, SaysWhichTasksAreFarBelowTheirLimits) {
  Finished job = tune(job_flags(12));
  ASSERT_EQ(job.code, 0) << job.output;
  nlohmann::json report = last_line(job.output);
  double share = 0, all = 0;
  size_t below = 0;
  for (const auto& task : report["tasks"]) {
    all += task["model_share"].get<double>();
    bool far = task["after_us"] > 0 && task["limit_share"] < 0.3;
    EXPECT_EQ(far, task["why_below_limit"] != "") << task;
    below += far;
    if (far) share += task["model_share"].get<double>();
  }
  EXPECT_NEAR(all, 1, 1e-6);
  EXPECT_NEAR(report["share_far_below_limit"].get<double>(), share, 1e-6);
  Finished known = tune("query below-limit --model dqn --json --db " + path("t.db"));
  ASSERT_EQ(known.code, 0) << known.output;
  for (const auto& task : last_line(known.output)) {
    EXPECT_LT(task["share"].get<double>(), 0.3);
    EXPECT_GT(task["model_share"].get<double>(), 0);
    EXPECT_THAT(task["limit"], AnyOf("compute", "memory"));
    EXPECT_TRUE(task["why"].is_string());
  }
}

/// The default schedule of a sum is all that a job of one trial knows: there is nothing to be better than.
TEST_F(TuneJobs, ABuildThatIsTheUntunedOneIsSaidToBe) {
  std::ofstream(path("sum.relay")) << R"(#[version = "0.0.5"]
def @main(%x: Tensor[(4, 4096), float32]) { sum(%x, axis=[1]) })";
  // Of another process that tunes there at the same time, say.
  std::filesystem::create_directory(path("out"));
  for (const char* build : {"untuned", "tuned"})
    write_file(path(fmt::format("out/sum.{}.lathe", build)), "another's");
  Finished job = tune(fmt::format("--model {} --target cpu --threads 1 --trials 1 --decide --db {} --out {}",
                                  path("sum.relay"), path("t.db"), path("out")));
  EXPECT_EQ(job.code, 0) << job.output;
  EXPECT_THAT(job.output, HasSubstr("the two builds are the same"));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path("out")))
    files += entry.path().extension() == ".lathe";
  EXPECT_EQ(files, 3) << "what lost is not left behind";
  for (const char* build : {"untuned", "tuned"})
    EXPECT_EQ(read_file(path(fmt::format("out/sum.{}.lathe", build))), "another's");
}

/// The large dense layer of dqn reads its weights from memory: in half precision in half the time.
TEST_F(TuneJobs, KeepsLargeConstantsInHalfPrecisionWhereTheAcceptedErrorAllowsIt) {
  if (!codegen::host_target().converts_half()) GTEST_SKIP() << "this machine has no instruction for it";
  Finished job = tune(job_flags(40) + " --max-relative-error 1e-3");
  ASSERT_EQ(job.code, 0) << job.output;
  nlohmann::json report = last_line(job.output);
  EXPECT_GT(report["rounding_error"].get<double>(), 1e-6) << job.output;
  EXPECT_LT(report["rounding_error"].get<double>(), 1e-3);
  // Records of schedules that round are not for those who did not ask for them.
  Finished exact = tune(
      fmt::format("compile --model dqn --threads 1 --db {} --out {}", path("t.db"), path("exact.lathe")));
  ASSERT_EQ(exact.code, 0) << exact.output;
  EXPECT_GT(read_file(path("exact.lathe")).size(), read_file(report["module"]).size() * 3 / 2);
}

/// Schedules of a sum add in another order than the program they are compared with: they are off by more than
/// 1e-12, and not by more than the default.
TEST_F(TuneJobs, ACandidateBeyondTheAcceptedErrorIsWrong) {
  std::ofstream(path("sum.relay")) << R"(#[version = "0.0.5"]
def @main(%x: Tensor[(4, 4096), float32]) { sum(%x, axis=[1]) })";
  const auto job = [&](const std::string& flags) {
    Finished finished =
        tune(fmt::format("--model {} --target cpu --threads 1 --trials 4 --db {} --out {} --json {}",
                         path("sum.relay"), path("t.db"), path("out"), flags));
    nlohmann::json task = last_line(finished.output)["tasks"][0];
    return std::tuple(finished.code, task["failures"].value("wrong_result", 0), task["after_us"] > 0);
  };
  EXPECT_EQ(job(""), std::tuple(0, 0, true));
  // On the same database: what the first job measured is too far off for the second, and never its best.
  auto [code, wrong, measured] = job("--max-relative-error 1e-12");
  EXPECT_EQ(code, 1);
  EXPECT_GE(wrong, 1);
  EXPECT_FALSE(measured);
}

/// The model has no shapes of its own: a job that is resumed knows those it was started with.
TEST_F(TuneJobs, AResumedJobKeepsItsShapes) {
  std::ofstream(path("m.relay")) << R"(#[version = "0.0.5"]
def @main(%x: Tensor[(n, 512), float32]) { nn.softmax(%x, axis=1) })";
  const std::string db = " --db " + path("t.db"), rest = db + " --json --out " + path("out");
  Finished stopped =
      tune("--model " + path("m.relay") + " --shape x=24x512 --threads 1 --trials 0 --time 2s" + rest +
           " 2>&1 & until " TUNE " query jobs --json" + db +
           " 2>/dev/null | grep -q running; do sleep 0.1; done; kill -INT $!; wait $!");
  ASSERT_EQ(stopped.code, 130) << stopped.output;
  const std::string hint = "tune resume ";
  ASSERT_THAT(stopped.output, HasSubstr(hint));
  std::string uuid = stopped.output.substr(stopped.output.find(hint) + hint.size(), 8);
  Finished resumed = tune("resume " + uuid + rest);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  Finished ran = tune("run --model " + last_line(resumed.output)["module"].get<std::string>());
  EXPECT_THAT(ran.output, HasSubstr("(24, 512)"));
}

/// As after a crash between the last answer and the job's end.
TEST_F(TuneJobs, AResumedJobWhoseTrialsAreSpentMeasuresNoMore) {
  Finished job = tune(job_flags(12));
  ASSERT_EQ(job.code, 0) << job.output;
  const std::string reopen = fmt::format(
      "python3 -c \"import sqlite3; d = sqlite3.connect('{}'); d.execute('UPDATE job SET state = ?', "
      "('running',)); d.commit()\"",
      path("t.db"));
  ASSERT_EQ(std::system(reopen.c_str()), 0);
  const std::string db = " --db " + path("t.db");
  Finished resumed =
      tune("resume " + last_line(job.output)["job"].get<std::string>() + db + " --json --out " + path("out"));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const nlohmann::json row = last_line(tune("query jobs --json" + db).output)[0];
  EXPECT_EQ(row["state"], "done");
  EXPECT_EQ(row["trials"], 12);
}

/// The columns of a job are a database's, which may come from anywhere; no flag takes such a budget.
TEST_F(TuneJobs, AResumedJobIsOneThatCouldBeAskedFor) {
  db::Store store(path("t.db"));
  const db::TargetId target =
      store.add_target({.name = to_text(codegen::host_target()), .architecture = "here"});
  const std::string request = R"({"model":"dqn"})";
  const std::pair<db::NewJob, std::string> cases[] = {
      {{.target = target, .trial_budget = int64_t{1} << 62, .options = request},
       "`trials` is 4611686018427387904, must be 0 to "},
      {{.target = target, .trial_budget = 8, .second_budget = 1e300, .options = request},
       "`seconds` is 1e+300, must be 0 to "},
      {{.target = target, .threads = 1 << 30, .trial_budget = 8, .options = request},
       "`threads` is 1073741824, must be 0 to "},
      {{.target = target, .trial_budget = 8, .options = "{}"}, "`model` is missing"},
  };
  for (const auto& [job, message] : cases) {
    const std::string uuid = store.job(store.create_job(job)).uuid;
    const Finished resumed = tune("resume " + uuid + " --db " + path("t.db") + " --out " + path("out"));
    EXPECT_EQ(resumed.code, 2) << resumed.output;
    EXPECT_THAT(resumed.output,
                HasSubstr("error: job " + uuid + " of " + path("t.db") + " cannot go on: " + message));
  }
}

/// Two machines may have one target's text. On another the untuned build has won; here nobody knows of that.
TEST_F(TuneJobs, LeavesTheChoicesOfOtherMachinesAlone) {
  std::ofstream(path("m.relay")) << R"(#[version = "0.0.5"]
def @main(%x: Tensor[(24, 512), float32]) { nn.softmax(%x, axis=1) })";
  const auto job = [&] {
    return tune(fmt::format("--model {} --threads 1 --seed 1 --trials 1 --db {} --out {}", path("m.relay"),
                            path("t.db"), path("out")));
  };
  Finished done = job();
  ASSERT_EQ(done.code, 0) << done.output;
  write_file(path("other.py"), R"py(import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
((model, target, threads),) = d.execute("SELECT model_digest, target, threads FROM model_latency")
((measurement, workload),) = d.execute("SELECT id, workload FROM measurement")
choice = d.execute("INSERT INTO choice(model_digest, target, threads, max_relative_error, device_model, device_cores, "
                   "seconds_before, seconds_after, chosen_ms) VALUES(?, ?, ?, 1e-4, 'another machine', 64, 2, 1, 1 << 60)",
                   (model, target, threads)).lastrowid
d.execute("INSERT INTO choice_task VALUES(?, ?, ?)", (choice, workload, measurement))
d.commit()
)py");
  const Finished added = run_command("python3 " + path("other.py") + " " + path("t.db"));
  ASSERT_EQ(added.code, 0) << added.output;
  done = job();
  ASSERT_EQ(done.code, 0) << done.output;
  write_file(path("count.py"), R"py(import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM choice WHERE device_cores = 64").fetchone()))py");
  EXPECT_EQ(run_command("python3 " + path("count.py") + " " + path("t.db")).output, "1\n");
}

/// As the releases did whose primitives are gone.
TEST_F(TuneJobs, RecordsThatThisReleaseCannotReadAreLeftAside) {
  ASSERT_EQ(tune(job_flags(8)).code, 0);
  const std::string rename = fmt::format(
      "python3 -c \"import sqlite3; d = sqlite3.connect('{}'); d.execute('UPDATE candidate SET trace = "
      "replace(trace, ?, ?)', ('split', 'cleave')); d.commit()\"",
      path("t.db"));
  ASSERT_EQ(std::system(rename.c_str()), 0);
  const Finished again = tune(job_flags(8));
  EXPECT_EQ(again.code, 0) << again.output;
}

/// Whatever step of the way refuses it.
TEST_F(TuneJobs, WhatIsSaidOfAModelBeginsWithItsFile) {
  const std::pair<const char*, const char*> cases[] = {
      {"(%x: Tensor[(?, 3), float32]) { nn.relu(%x) }", "the model leaves dimensions of its inputs open"},
      {"(%x: Tensor[(2, 3), float32]) { fn (%y: Tensor[(2, 3), float32]) { %y } }",
       "the value of @main is fn"},
      {"(%x: Tensor[(2, 3), float32], %y: Tensor[(5, 5), float32]) { add(%x, %y) }", "do not broadcast"},
      {"(%x: Tensor[(4294967296, 4294967296), int8]) { add(%x, %x) }", "has too many elements"},
      {"(%x: Tensor[(4294967296, 1048576), int8]) { add(%x, %x) }", "larger than any memory"}};
  for (const auto& [main, message] : cases) {
    const std::string model = path("m.relay");
    write_file(model, std::string("#[version = \"0.0.5\"]\ndef @main") + main + "\n");
    for (const std::string command : {"", "compile "}) {
      const Finished finished = tune(command + "--model " + model + " --target cpu --out " + path("out") +
                                     (command.empty() ? " --trials 1 --db " + path("t.db") : ""));
      EXPECT_EQ(finished.code, 2) << main << "\n" << finished.output;
      EXPECT_THAT(finished.output, HasSubstr("error: " + model + ":"));
      EXPECT_THAT(finished.output, HasSubstr(message));
    }
  }
}

TEST_F(TuneJobs, BadInputIsOneMessageAndExitCode2) {
  std::ofstream(path("cut.onnx")) << "\x08\x07garbage";
  std::string flags = " --db " + path("t.db") + " --out " + path("out");
  struct {
    std::string arguments, message;
  } cases[] = {
      {"--model resnet81 --target cpu", "did you mean `resnet18`?"},
      {"--model dqn --target cuup", "`cuup` is not a kind of device; use cpu"},
      {"--model " + path("cut.onnx") + " --target cpu", "not an ONNX model, or cut off"},
      {"--model " + path("none.onnx") + " --target cpu", "cannot read"},
      {"--model dqn --target cpu --trials -3", "--trials"},
      {"--model dqn --target cpu --shape data=2x4x84x84", "dimension 0 must be 1"},
      {"--model dqn --target cpu --shape data", "--shape data: must be NAME=1x3x224x224"},
      {"--model dqn --target cpu --precision double", "is not one of given, bf16, int8, float64"},
      {"--model dqn --target cpu --time soon", "--time"},
      {"--model dqn --target cpu --target-latency 0", "--target-latency: `0` must be a number above 0"},
      {"--model dqn --target cpu --target-latency 5ms", "--target-latency: `5ms` must be a number above 0"},
      {"--model dqn --target cpu --target-latency nan", "--target-latency: `nan` must be a number above 0"},
      {"--model dqn --target cpu --whole-model -1s", "--whole-model"},
      {"--model dqn --target cpu --decide=perhaps", "--decide"},
      {"--model dqn --target cpu --max-relative-error 0", "`0` must be a number above 0 and below 1"},
      {"--model dqn --target cpu --max-relative-error 1", "--max-relative-error"},
      {"--model dqn --target cpu --max-relative-error nan", "--max-relative-error"},
      {"--model dqn --target cpu --max-relative-error 1e-3x", "--max-relative-error"},
      // More than 64 bits: it was taken for 2^63 - 1.
      {"--model dqn --target cpu --seed 99999999999999999999", "--seed: Value 99999999999999999999 not in"},
  };
  for (const auto& [arguments, message] : cases) {
    Finished finished = tune(arguments + flags);
    EXPECT_EQ(finished.code, 2) << arguments << "\n" << finished.output;
    EXPECT_THAT(finished.output, HasSubstr("error: ")) << arguments;
    EXPECT_THAT(finished.output, HasSubstr(message)) << arguments;
  }
}

/// It was said after the search.
TEST_F(TuneJobs, AFolderThatCannotBeWrittenIsSaidBeforeTheSearch) {
  const std::string model = path("m.relay");
  write_file(model, R"(#[version = "0.0.5"]
def @main(%x: Tensor[(4, 8), float32]) { nn.relu(%x) }
)");
  write_file(path("file"), "");
  for (const std::string& folder : {path("file"), path("file") + "/in it", std::string("/proc/none")}) {
    const Finished finished = tune("--model " + model + " --target cpu --trials 1 --db " + path("t.db") +
                                   " --out '" + folder + "'");
    EXPECT_EQ(finished.code, 2) << finished.output;
    EXPECT_THAT(finished.output, HasSubstr("error: cannot make the folder " + folder + ": "));
    EXPECT_THAT(finished.output, Not(HasSubstr("filesystem error")));
  }
  EXPECT_FALSE(std::filesystem::exists(path("t.db"))) << "no job began";
}

TEST_F(TuneJobs, AMistakeLeavesNoDatabaseAndNoFolder) {
  for (const char* arguments :
       {"--model nosuch", "--model dqn --target cpu:mcpu=nosuch", "--model dqn --shape nosuch=1x2",
        "--model dqn --listen nowhere", "--model dqn --key nosuch", "resume abcd"}) {
    const std::string out = std::string(arguments) == "resume abcd" ? "" : " --out " + path("new/out");
    const Finished finished = tune(fmt::format("{} --db {}{}", arguments, path("t.db"), out));
    EXPECT_EQ(finished.code, 2) << finished.output;
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << arguments;
  }
}

TEST_F(TuneJobs, ADatabaseThatIsNoneIsLeftAlone) {
  write_file(path("t.db"), "this is no database, and somebody's only copy of it");
  Finished finished = tune(job_flags(1));
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.output, HasSubstr("error: "));
  EXPECT_EQ(read_file(path("t.db")), "this is no database, and somebody's only copy of it");
}

/// A bound that no sum of 960 numbers in another order keeps.
TEST_F(TuneJobs, SaysWhichTasksHaveNoMeasurement) {
  const std::string model = path("m.relay");
  write_file(model, R"(#[version = "0.0.5"]
def @main(%x: Tensor[(31, 960), float32]) { (sum(%x, axis=[1]), nn.relu(%x)) }
)");
  Finished job = tune(fmt::format(
      "--model {} --target cpu --threads 1 --trials 24 --max-relative-error 1e-12 --db {} --out {}", model,
      path("t.db"), path("out")));
  EXPECT_EQ(job.code, 0) << job.output;
  EXPECT_THAT(job.output, HasSubstr("1 of 2 tasks could not be measured, all their candidates failed"));
  EXPECT_THAT(job.output, HasSubstr("wrong_result"));
}

}  // namespace
}  // namespace lathe::cli
