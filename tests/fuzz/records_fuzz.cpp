// Files of measurements that other people hand over: packs, and the logs of other tuners.
#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "db/foreign.h"
#include "db/pack.h"
#include "db/pack_files.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {
namespace {

/// Stands between the files of an input, which is one text.
constexpr std::string_view kNextFile = "\n---\n";

struct Desk {
  TemporaryFolder folder;
  std::unique_ptr<db::Store> store;
  int imports = 0;

  /// A new database now and then: what was imported is known the second time, and passed over.
  db::Store& database() {
    if (imports++ % 200 == 0) {
      store.reset();
      for (const char* end : {"", "-wal", "-shm"}) unlink((folder / "t.db" + end).c_str());
      store = std::make_unique<db::Store>(folder / "t.db");
    }
    return *store;
  }
};

Desk& desk() {
  static Desk desk;
  return desk;
}

/// What texts mean to the tuner is not tried here (fuzz_program, fuzz_trace).
db::Meaning plain_meaning() {
  return {.target =
              [](const std::string& name) {
                return db::Target{name, "x86_64", "avx2,fma"};
              },
          .workload =
              [](const std::string& text) {
                return db::Workload{sha256(text), text, 100, 10};
              },
          .model_digest =
              [](const db::TaskList& tasks) {
                std::string all;
                for (const auto& [calls, digest] : tasks) all += fmt::format("{} {}\n", calls, digest);
                return sha256(all);
              },
          .program = [](const db::Workload&, const std::string& trace) { return std::optional(trace); },
          .fastest_seconds = [](double, const std::string&, int) { return 1e-9; }};
}

std::vector<std::string> files_of(std::string_view bytes) {
  std::vector<std::string> files;
  for (size_t end; (end = bytes.find(kNextFile)) != std::string_view::npos;) {
    files.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + kNextFile.size());
  }
  files.emplace_back(bytes);
  return files;
}

constexpr std::array kPackFiles = {db::kDevicesFile, db::kWorkloadsFile, db::kModelsFile,
                                   db::kMeasurementsFile};

/// A pack of these files, with the right checksums: a wrong one would be all that is looked at.
void write_pack(const std::string& folder, const std::vector<std::string>& files) {
  nlohmann::json manifest = {{"format", db::kPackFormat}, {"version", db::kPackVersion}};
  for (size_t i = 0; i < kPackFiles.size(); ++i) {
    const std::string text = i < files.size() ? files[i] : "";
    write_file(folder + "/" + kPackFiles[i], text);
    manifest["files"][kPackFiles[i]] = {{"lines", std::count(text.begin(), text.end(), '\n')},
                                        {"sha256", sha256(text)}};
  }
  write_file(folder + "/" + db::kManifestFile, manifest.dump());
}

/// As this program writes one.
std::string exported_pack() {
  const TemporaryFolder folder;
  db::Store store(folder / "t.db");
  const db::TargetId target =
      store.add_target({.name = "cpu:x", .architecture = "x86_64", .features = "avx2,fma"});
  const db::DeviceId device =
      store.add_device({.host = "h", .model = "m", .architecture = "x86_64", .cores = 2});
  store.add_worker("w", device);
  const db::WorkloadId workload =
      store.add_workload({.digest = sha256("mm"), .text = "mm", .flops = 100, .bytes = 10});
  const db::ModelId model = store.add_model("net", sha256("2 " + sha256("mm") + "\n"));
  const std::vector<db::ModelTask> tasks = {{.workload = workload, .name = "mm", .calls = 2}};
  store.set_model_tasks(model, target, tasks);
  const db::JobId job = store.create_job({.target = target, .threads = 1, .tasks = {{.workload = workload}}});
  for (const char* trace : {"fast", "slow"}) {
    const db::NewTrial trial{.workload = workload, .trace = trace};
    const db::TrialId id = store.add_trials(job, std::span(&trial, 1)).at(0).trial;
    const db::TrialResult result{
        .lease = store.grant(id, "w", 1).value().id, .device = device, .samples = {1e-3f, 2e-3f}};
    store.record(std::span(&result, 1));
  }
  db::export_pack(store, folder / "pack", {});
  std::string text;
  for (const char* file : kPackFiles)
    text += (text.empty() ? "" : std::string(kNextFile)) + read_file(folder / "pack/" + file);
  return text;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string fixtures = FOREIGN_FIXTURES;
  return {exported_pack(), read_file(fixtures + "/autotvm.json"),
          read_file(fixtures + "/metaschedule/database_workload.json") + std::string(kNextFile) +
              read_file(fixtures + "/metaschedule/database_tuning_record.json")};
}

void run_one(std::string_view bytes) {
  const auto attempt = [&](auto import) {
    try {
      import(desk().database());
    } catch (const Error&) {  // refused as this; it may be another
    }
  };
  const std::vector<std::string> files = files_of(bytes);
  const std::string first = desk().folder / "first", second = desk().folder / "second";
  write_file(first, files[0]);
  attempt([&](db::Store& store) { db::import_autotvm(store, first); });
  if (files.size() < 2) return;
  write_file(second, files[1]);
  attempt([&](db::Store& store) { db::import_metaschedule(store, first, second); });
  write_pack(desk().folder.path(), files);
  attempt([&](db::Store& store) { db::import_pack(store, desk().folder.path(), plain_meaning()); });
}

}  // namespace lathe::fuzz
