// Packs between databases. What texts mean stands in for the real thing here:
// tests/tuner/record_meaning_test.cpp has that.
#include "db/pack.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/support/digest.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kFastest = 1e-6;

Meaning plain_meaning() {
  return {.target =
              [](const std::string& name) {
                if (!name.starts_with("cpu:")) fail("`{}` is no target", name);
                return Target{name, "x86_64", "avx2,fma"};
              },
          .workload =
              [](const std::string& text) {
                if (text == "nonsense") fail("the text is no program");
                return Workload{sha256(text), text, 100, 10};
              },
          .model_digest =
              [](const TaskList& tasks) {
                std::string all;
                for (const auto& [calls, digest] : tasks) all += fmt::format("{} {}\n", calls, digest);
                return sha256(all);
              },
          .program = [](const Workload&, const std::string& trace) -> std::optional<std::string> {
            if (trace == "broken") fail("the trace cannot be read");
            if (trace == "of another version") return std::nullopt;
            return "program of " + trace;
          },
          .fastest_seconds = [](double, const std::string&, int) { return kFastest; }};
}

class PackTest : public ::testing::Test {
 protected:
  PackTest() {
    farm_.measured("slow", {3e-3f, 3.1e-3f, 2.9e-3f});
    farm_.measured("fast", {1.1e-3f, 1e-3f});
    store_.confirm(store_.history(farm_.workload, farm_.target).back().id,
                   std::vector<float>{1.2e-3f, 1.3e-3f});
    store_.confirm(store_.history(farm_.workload, farm_.target).back().id, std::vector<float>{1.5e-3f}, {},
                   /*tells=*/true);
    const std::vector<ModelTask> tasks = {{.workload = farm_.workload, .name = "mm", .calls = 2}};
    const ModelId model = store_.add_model("net", sha256("2 " + sha256("mm") + "\n"));
    store_.set_model_tasks(model, farm_.target, tasks);
  }

  void measure_many(int count) {
    Transaction group = store_.begin();
    for (int i = 0; i < count; ++i) farm_.measured(std::to_string(i), {1e-3f});
    group.commit();
  }
  std::string exported(const std::string& name, const PackFilter& filter = {}) {
    export_pack(store_, folder_ / name, filter);
    return folder_ / name;
  }
  ImportReport import(const std::string& pack) { return import_pack(other_, pack, plain_meaning()); }
  std::string refusal(const std::string& pack) {
    return thrown_by([&] { import(pack); });
  }
  /// Replaces a file of a pack, with the manifest's checksum when `honest`.
  void rewrite(const std::string& pack, const std::string& file, const std::string& text, bool honest) {
    write_file(pack + "/" + file, text);
    if (!honest) return;
    auto manifest = nlohmann::json::parse(read_file(pack + "/manifest.json"));
    manifest["files"][file] = {{"lines", std::count(text.begin(), text.end(), '\n')},
                               {"sha256", sha256(text)}};
    write_file(pack + "/manifest.json", manifest.dump());
  }
  /// Changes each line of a file of the pack.
  void edit(const std::string& pack, const std::string& file,
            const std::function<void(nlohmann::json&)>& change) {
    std::string text;
    for (const std::string& line : split_text(read_file(pack + "/" + file), '\n')) {
      if (line.empty()) continue;
      auto row = nlohmann::json::parse(line);
      change(row);
      text += row.dump() + "\n";
    }
    rewrite(pack, file, text, true);
  }
  int64_t count(const std::string& table) {
    Query row = other_.database().query("SELECT count(*) FROM " + table);
    row.step();
    return row.integer();
  }
  static std::map<std::string, std::string> bytes_of(const std::string& pack) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(pack))
      files[entry.path().filename()] = read_file(entry.path());
    return files;
  }

  TemporaryFolder folder_;
  Farm farm_{database_in(folder_, "lathe.db")};
  Store& store_ = farm_.store;
  Store other_{database_in(folder_, "other.db")};
};

/// Lines wait in a temporary file between their check and the database: none is lost in between.
TEST_F(PackTest, AFullDiskIsNoSmallerPack) {
  const std::string pack = exported("a.pack");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit full{0, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const std::string message = refusal(pack);
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(message, "cannot write a temporary file; is the disk full?");
}

TEST_F(PackTest, ExportImportExportIsTheSameBytes) {
  const std::string pack = exported("a.pack");
  const ImportReport report = import(pack);
  EXPECT_EQ(report.added.measurements, 2);
  EXPECT_EQ(report.added.devices, 1);
  EXPECT_EQ(report.added.workloads, 1);
  EXPECT_EQ(report.added.models, 1);
  EXPECT_EQ(report.bad, 0);
  export_pack(other_, folder_ / "b.pack/", {});
  EXPECT_EQ(bytes_of(pack), bytes_of(folder_ / "b.pack"));
  EXPECT_TRUE(other_.problems().empty());
}

TEST_F(PackTest, ImportedTwiceItAddsNothing) {
  const std::string pack = exported("a.pack");
  import(pack);
  std::map<std::string, int64_t> before;
  for (const char* table :
       {"measurement", "confirmation", "candidate", "workload", "device", "target", "model", "model_task"})
    before[table] = count(table);
  const ImportReport report = import(pack);
  EXPECT_EQ(report.known, 2);
  EXPECT_EQ(report.added.measurements + report.added.devices + report.added.workloads + report.added.models,
            0);
  for (const auto& [table, rows] : before) EXPECT_EQ(count(table), rows) << table;
}

TEST_F(PackTest, WhatIsImportedRanksAsItDid) {
  import(exported("a.pack"));
  const WorkloadId workload = other_.find_workload(sha256("mm")).value();
  const TargetId target = other_.find_target("cpu:x").value();
  const Best best = other_.best({.workload = workload, .target = target}).value();
  const Best there = farm_.best().value();
  EXPECT_EQ(best.measurement.trace, "fast");
  EXPECT_EQ(best.measurement.seconds, there.measurement.seconds);
  EXPECT_FLOAT_EQ(best.measurement.told_seconds, 1.5e-3f) << "by a confirmation that does not rank it";
  EXPECT_EQ(best.measurement.samples, there.measurement.samples);
  EXPECT_EQ(best.measurement.recorded_ms, there.measurement.recorded_ms);
  EXPECT_TRUE(best.measurement.confirmed);
  EXPECT_EQ(best.measurement.program, "program of fast") << "computed, not read";
  EXPECT_EQ(other_.workload(workload).flops, 100);
  EXPECT_EQ(other_.model_tasks(other_.find_model("net").value(), target).at(0).calls, 2);
}

TEST_F(PackTest, WhatItWasMeasuredUnderGoesAlong) {
  const Conditions known{.clock_hz = 3.1e9,
                         .disturbed = 0.25,
                         .canary = 1.07,
                         .celsius = -3.5,
                         .timer_seconds = 24.1e-9,
                         .driver = "Linux 6.1.0"};
  TrialResult result{
      .lease = farm_.leased("told").id, .device = farm_.device, .samples = {1e-3f}, .conditions = known};
  store_.record(std::span(&result, 1));
  NewTrial again{.workload = farm_.workload, .trace = "told", .purpose = Purpose::kConfirm};
  const TrialId trial = store_.add_trials(farm_.job, std::span(&again, 1)).at(0).trial;
  result.lease = store_.grant(trial, "w", 1)->id;
  result.conditions.celsius = 60;
  store_.record(std::span(&result, 1));
  const std::string pack = exported("a.pack");
  const std::string lines = read_file(pack + "/measurements.jsonl");
  EXPECT_THAT(lines, ::testing::HasSubstr(R"("celsius":-3.5)"));
  EXPECT_THAT(lines, ::testing::HasSubstr(R"("celsius":60.0)")) << "of the confirmation";
  import(pack);
  export_pack(other_, folder_ / "b.pack", {});
  EXPECT_EQ(read_file(folder_ / "b.pack/measurements.jsonl"), lines);
  // No worker measures at such a temperature.
  std::string hot = lines;
  hot.replace(hot.find("-3.5"), 4, "1e99");
  rewrite(pack, "measurements.jsonl", hot, /*honest=*/true);
  Farm third(database_in(folder_, "third.db"));
  const ImportReport report = import_pack(third.store, pack, plain_meaning());
  EXPECT_EQ(report.added.measurements, 2) << "the line is left out";
}

TEST_F(PackTest, AnImportEndsAChoiceMadeBefore) {
  farm_.now_ms = 5;  // long before the choice
  farm_.measured("faster", {0.5e-3f});
  store_.confirm(store_.history(farm_.workload, farm_.target).back().id, std::vector<float>{0.5e-3f});
  const std::string pack = exported("a.pack");
  Farm farm(database_in(folder_, "third.db"));
  farm.measured("fast", {1e-3f});
  farm.measured("lean", {2e-3f});
  const MeasurementId lean = farm.store.history(farm.workload, farm.target).back().id;
  farm.now_ms += 1000;
  farm.store.set_choice({.key = {"d", farm.target, 1, 1}, .tasks = {{farm.workload, lean}}});
  const Choice choice = farm.store.find_choice({"d", farm.target, 1, 1}).value();
  const BestQuery query{.workload = farm.workload, .target = farm.target, .accept_unconfirmed = true};
  ASSERT_TRUE(farm.store.chosen(choice, query));
  farm.now_ms += 1000;
  import_pack(farm.store, pack, plain_meaning());
  EXPECT_FALSE(farm.store.chosen(choice, query));
}

TEST_F(PackTest, SuspectResultsStayAtHome) {
  store_.set_suspect(farm_.worker, 0);
  export_pack(store_, folder_ / "a.pack", {});
  EXPECT_EQ(import(folder_ / "a.pack").added.measurements, 0);
}

TEST_F(PackTest, FiltersTakeAModelOrATarget) {
  farm_.workload = store_.add_workload({.digest = sha256("other"), .text = "other"});
  farm_.job = farm_.add_job(farm_.target, 1);
  farm_.measured("t", {1e-3f});
  farm_.job = farm_.add_job(store_.add_target({.name = "cpu:y", .architecture = "x86_64"}), 1);
  farm_.measured("u", {1e-3f});
  EXPECT_EQ(export_pack(store_, folder_ / "all", {}).measurements, 4);
  EXPECT_EQ(export_pack(store_, folder_ / "net", {.model = "net"}).measurements, 2);
  EXPECT_EQ(export_pack(store_, folder_ / "y", {.target = "cpu:y"}).measurements, 1);
  EXPECT_EQ(export_pack(store_, folder_ / "none", {.model = "net", .target = "cpu:y"}).measurements, 0);
  EXPECT_THAT(thrown_by([&] { exported("x", {.model = "nett"}); }), HasSubstr("did you mean `net`?"));
  EXPECT_THAT(thrown_by([&] { exported("x", {.target = "cpu:z"}); }),
              HasSubstr("nothing for the target cpu:z"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x"));
}

TEST_F(PackTest, ATornLineIsLeftOutAndNamed) {
  measure_many(150);
  const std::string pack = exported("a.pack"), file = pack + "/measurements.jsonl";
  std::string text = read_file(file);
  write_file(file, text.substr(0, text.size() - 40));
  const ImportReport report = import(pack);
  EXPECT_EQ(report.bad, 1);
  EXPECT_EQ(report.added.measurements, 151);
  EXPECT_THAT(report.reasons, ElementsAre(HasSubstr("measurements.jsonl:152: must be a JSON object")));
}

TEST_F(PackTest, MoreThanAHundredthTornIsRefused) {
  measure_many(150);
  const std::string pack = exported("a.pack"), file = pack + "/measurements.jsonl";
  std::string text = read_file(file);
  write_file(file, text.substr(0, text.size() * 9 / 10));
  EXPECT_THAT(refusal(pack), HasSubstr("of 155 lines are no records of it; nothing was imported"));
  EXPECT_EQ(count("measurement") + count("device") + count("workload"), 0);
}

TEST_F(PackTest, WhatWasChangedQuietlyIsRefused) {
  const std::string pack = exported("a.pack");
  std::string text = read_file(pack + "/measurements.jsonl");
  const size_t at = text.find("\"threads\":1");
  rewrite(pack, "measurements.jsonl", text.replace(at, 11, "\"threads\":2"), false);
  EXPECT_THAT(refusal(pack), HasSubstr("measurements.jsonl was changed after the pack was written"));
  EXPECT_EQ(count("measurement"), 0);
}

TEST_F(PackTest, ATimeThatNoMachineReachesRefusesAll) {
  const std::string pack = exported("a.pack");
  edit(pack, "measurements.jsonl", [](nlohmann::json& row) {
    if (row["trace"] == "fast") row["confirmations"][0]["samples"][1] = kFastest / 2;
  });
  EXPECT_THAT(refusal(pack), HasSubstr("less than the 1e-06 s that any machine of the target takes"));
  EXPECT_EQ(count("measurement"), 0);
}

/// With checksums that fit: whoever wrote it meant it.
TEST_F(PackTest, NothingInALineIsTrusted) {
  const struct {
    const char* file;
    std::function<void(nlohmann::json&)> change;
    const char* message;
  } cases[] = {
      {"measurements.jsonl", [](auto& row) { row["samples"] = {-1.0}; }, "`samples` must be seconds above 0"},
      {"measurements.jsonl", [](auto& row) { row["samples"] = {1e39}; }, "`samples` must be seconds above 0"},
      {"measurements.jsonl", [](auto& row) { row["samples"] = nlohmann::json::array(); },
       "`samples` must be 1"},
      {"measurements.jsonl", [](auto& row) { row["threads"] = 0; },
       "`threads` must be an integer in 1 .. 1024"},
      {"measurements.jsonl", [](auto& row) { row["threads"] = 1.5; }, "`threads` must be an integer"},
      {"measurements.jsonl", [](auto& row) { row["relative_error"] = nullptr; }, "`relative_error` must be"},
      {"measurements.jsonl", [](auto& row) { row["relative_error"] = -1; }, "`relative_error` must be"},
      {"measurements.jsonl", [](auto& row) { row["recorded_ms"] = 4102444800000; }, "is in the future"},
      {"measurements.jsonl", [](auto& row) { row["recorded_ms"] = 1.8e19; }, "`recorded_ms` must be"},
      {"measurements.jsonl", [](auto& row) { row["device"] = std::string(64, '0'); }, "has no device 000"},
      {"measurements.jsonl", [](auto& row) { row["workload"] = "mm"; }, "`workload` must be 64 hexadecimal"},
      {"measurements.jsonl", [](auto& row) { row["target"] = "gpu"; }, "`gpu` is no target"},
      {"measurements.jsonl", [](auto& row) { row["trace"] = "broken"; }, "the trace cannot be read"},
      {"measurements.jsonl", [](auto& row) { row["trace"] = std::string(9 << 20, 'x'); },
       "more than the limit"},
      {"measurements.jsonl", [](auto& row) { row["compiler"] = "\x1b[2J"; }, "`compiler` has characters"},
      {"measurements.jsonl", [](auto& row) { row["compiler"] = "\u202e12 ++g"; },
       "`compiler` has characters"},
      {"measurements.jsonl", [](auto& row) { row.erase("revision"); }, "`revision` is missing"},
      {"measurements.jsonl", [](auto& row) { row["confirmations"] = "none"; },
       "`confirmations` must be a list"},
      {"measurements.jsonl", [](auto& row) { row["celsius"] = -300; }, "`celsius` must be"},
      {"measurements.jsonl", [](auto& row) { row["celsius"] = 1e9; }, "`celsius` is more than 10000"},
      {"measurements.jsonl", [](auto& row) { row["celsius"] = "hot"; }, "`celsius` must be"},
      {"measurements.jsonl", [](auto& row) { row["clock_hz"] = 0; }, "`clock_hz` must be"},
      {"measurements.jsonl", [](auto& row) { row["disturbed"] = 1.5; }, "`disturbed` is more than 1"},
      {"measurements.jsonl", [](auto& row) { row["canary"] = nullptr; }, "`canary` must be"},
      {"measurements.jsonl", [](auto& row) { row["timer_seconds"] = -1e-9; }, "`timer_seconds` must be"},
      {"measurements.jsonl", [](auto& row) { row["driver"] = "\x1b]0;owned\x07"; },
       "`driver` has characters"},
      {"measurements.jsonl", [](auto& row) { row["driver"] = std::string(2000, '6'); },
       "more than the limit"},
      {"measurements.jsonl",
       [](auto& row) {
         row["driver"] = {{"a", 1}};
       },
       "`driver` must be a string"},
      {"measurements.jsonl",
       [](auto& row) {
         row["confirmations"] = {{{"samples", {1e-3}}, {"recorded_ms", 1000}, {"celsius", true}}};
       },
       "`celsius` must be"},
      {"measurements.jsonl",
       [](auto& row) {
         row["confirmations"] = {{{"samples", {1e-3}}, {"recorded_ms", 1000}, {"tells", 2}}};
       },
       "`tells` must be"},
      {"devices.jsonl", [](auto& row) { row["cores"] = 64; }, "`fingerprint` is not the device's"},
      {"devices.jsonl", [](auto& row) { row["details"] = "[]"; }, "`details` must be an object"},
      {"devices.jsonl", [](auto& row) { row["details"] = std::string(9999, '['); },
       "nested more than 8 deep"},
      {"workloads.jsonl", [](auto& row) { row["text"] = "other"; }, "`digest` is not the text's"},
      {"workloads.jsonl", [](auto& row) { row["text"] = "nonsense"; }, "the text is no program"},
      {"models.jsonl", [](auto& row) { row["tasks"][0]["calls"] = 3; }, "`digest` is not that of the tasks"},
      {"models.jsonl", [](auto& row) { row["tasks"][0]["calls"] = 0; }, "`calls` must be"},
      {"models.jsonl", [](auto& row) { row["tasks"].push_back(row["tasks"][0]); }, "stands twice"},
      {"models.jsonl", [](auto& row) { row["name"] = "a\nb"; }, "`name` has characters"},
  };
  int number = 0;
  for (const auto& [file, change, message] : cases) {
    const std::string pack = exported(fmt::format("{}.pack", number++));
    edit(pack, file, change);
    // Two bad lines, or one on which others rest.
    if (std::string_view(file) == "models.jsonl")
      rewrite(pack, file, read_file(pack + "/" + file) + "{}\n", true);
    EXPECT_THAT(refusal(pack), HasSubstr(message)) << file;
    EXPECT_EQ(count("measurement") + count("model"), 0) << message;
  }
}

TEST_F(PackTest, SchedulesOfAnotherVersionAreCounted) {
  farm_.measured("of another version", {1e-3f});
  const ImportReport report = import(exported("a.pack"));
  EXPECT_EQ(report.not_applicable, 1);
  EXPECT_EQ(report.added.measurements, 2);
}

TEST_F(PackTest, PacksOfNewerProgramsAndFilesThatAreNoneAreRefused) {
  const std::string pack = exported("a.pack"), manifest = pack + "/manifest.json",
                    sound = read_file(manifest);
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto changed = nlohmann::json::parse(sound);
    changed[key] = value;
    write_file(manifest, changed.dump());
    return refusal(pack);
  };
  EXPECT_THAT(with("version", 2), HasSubstr("it is of a newer program"));
  EXPECT_THAT(with("schema", 999), HasSubstr("it is of a newer program"));
  EXPECT_THAT(with("format", "zip"), HasSubstr("`format` must be \"lathe pack\""));
  EXPECT_THAT(with("files", nlohmann::json::object()), HasSubstr("does not name devices.jsonl"));
  auto cut = nlohmann::json::parse(sound);
  cut["files"]["models.jsonl"]["lines"] = int64_t{1} << 40;
  write_file(manifest, cut.dump());
  EXPECT_THAT(refusal(pack), HasSubstr("models.jsonl:1: the file is cut off here"));
  write_file(manifest, "");
  EXPECT_THAT(refusal(pack), HasSubstr("manifest.json: must be a JSON object"));
  write_file(manifest, sound);
  std::filesystem::remove(pack + "/models.jsonl");
  EXPECT_THAT(refusal(pack), HasSubstr("models.jsonl: there is no such file"));
  std::filesystem::create_symlink("/dev/zero", pack + "/models.jsonl");
  EXPECT_THAT(refusal(pack), HasSubstr("models.jsonl: it is not a regular file"));
}

/// One of 400 MB took 6 GB of memory, and no import would have taken it.
TEST_F(PackTest, ARecordThatNoImportTakesIsNotExported) {
  for (const bool samples : {true, false}) {
    farm_.measured(std::string(samples ? 3 : limits::kText + 1, 'a'),
                   std::vector<float>(samples ? limits::kSamples + 1 : 3, 1e-3f));
    EXPECT_EQ(thrown_by([&] { exported("large"); }),
              samples ? "a measurement of 100001 samples cannot be exported: no import takes more than 100000"
                      : "a trace of 8388609 bytes cannot be exported: no import takes more than 8388608");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "large"));
    farm_.store.database().run_script("UPDATE measurement SET suspect = 1");
  }
}

/// The largest record that a worker's messages let in, in characters that JSON writes as two.
TEST_F(PackTest, WhatMayBeMeasuredTravels) {
  const std::string text(limits::kText, '\n'), details = "{\"a\":\"" + std::string(16'000, 'a') + "\"}";
  const WorkloadId large =
      store_.add_workload({.digest = sha256(text), .text = text, .flops = 100, .bytes = 10});
  const DeviceId device = store_.add_device(
      {.host = std::string(limits::kName, 'h'), .architecture = "x86_64", .cores = 2, .details = details});
  const JobId job = store_.create_job({.target = farm_.target, .threads = 1, .tasks = {{.workload = large}}});
  const NewTrial trial{.workload = large, .trace = std::string(limits::kText, '"')};
  const TrialId id = store_.add_trials(job, std::span(&trial, 1)).at(0).trial;
  TrialResult result{.lease = store_.grant(id, "w", 1)->id, .device = device};
  result.samples = std::vector<float>(limits::kSamples, 1.2345678e-3f);
  store_.record(std::span(&result, 1));
  const PackCounts counts = export_pack(store_, folder_ / "large.pack", {});
  const ImportReport report = import(folder_ / "large.pack");
  EXPECT_THAT(report.reasons, IsEmpty());
  EXPECT_EQ(report.added.measurements, counts.measurements);
  EXPECT_EQ(report.added.workloads, counts.workloads);
}

TEST_F(PackTest, AnExportIsAllOrNothing) {
  exported("a.pack");
  EXPECT_THAT(thrown_by([&] { exported("a.pack"); }), HasSubstr("a.pack exists; a pack is a new folder"));
  EXPECT_THAT(thrown_by([&] { exported("none/a.pack"); }), HasSubstr("cannot write"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.pack.partial"));
  const mode_t before = umask(027);
  exported("b.pack");
  EXPECT_EQ(umask(before), 027u);
  EXPECT_EQ(std::filesystem::status(folder_ / "b.pack").permissions(), std::filesystem::perms(0750));
}

/// While the export runs others write: it holds what there was at one moment.
TEST_F(PackTest, WritersGoOnAroundAnExport) {
  Store reader(database_in(folder_, "lathe.db"), {.read_only = true});
  const Transaction snapshot = reader.database().snapshot();
  EXPECT_EQ(reader.history(farm_.workload, farm_.target).size(), 2u);
  farm_.measured("meanwhile", {1e-3f});
  EXPECT_EQ(export_pack(reader, folder_ / "a.pack", {}).measurements, 2);
}

}  // namespace
}  // namespace lathe::db
