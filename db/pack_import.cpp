#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "db/conditions.h"
#include "db/fields.h"
#include "db/pack.h"
#include "db/pack_files.h"
#include "db/schema.h"

namespace lathe::db {
namespace {

constexpr int64_t kDay = 24 * 3600 * 1000;
constexpr int64_t kMostLines = int64_t{1} << 40;
/// Rows a transaction: another writer waits for milliseconds.
/// Each commit waits for the disk, so not one a row either.
constexpr int kGroup = 500;

/// Refuses the whole pack; what else is wrong with a line leaves out the line.
struct Refusal : Error {
  using Error::Error;
};

struct PackModel {
  std::string name, digest, target;
  int64_t added_ms = 0;
  std::vector<ModelTask> tasks;      // their workloads are settled when it is added
  std::vector<std::string> digests;  // of those
};

/// A measurement with the names of what it refers to in place of ids.
struct PackMeasurement {
  std::string workload, target, device;
  Adopted record;
};

Conditions read_conditions(const Fields& line) {
  Conditions conditions;
  for (const ConditionColumn& column : kConditions) {
    if (!line.has(column.name)) continue;
    const double value = line.number(column.name, column.least);
    if (!is_possible(column, value)) fail("`{}` is more than {}", column.name, column.most);
    conditions.*column.value = value;
  }
  if (line.has("driver")) conditions.driver = line.name("driver");
  return conditions;
}

PackMeasurement read_measurement(const Fields& line) {
  // By the digest of its text, the target's name, the device's fingerprint: what is the same
  // in every database.
  PackMeasurement read{
      line.digest("workload"), line.name("target", limits::kTarget), line.digest("device"), {}};
  Measurement& m = read.record.measurement;
  m.threads = static_cast<int>(line.integer("threads", 1, kMostThreads));
  m.trace = line.text("trace", limits::kText);
  m.samples = line.samples("samples");
  m.relative_error = line.number("relative_error", 0);
  m.compiler = line.name("compiler");
  m.revision = line.name("revision");
  m.recorded_ms = line.integer("recorded_ms", 0, INT64_MAX);
  read.record.conditions = read_conditions(line);
  for (const Fields& each : line.objects("confirmations"))
    read.record.confirmations.push_back({each.samples("samples"), each.integer("recorded_ms", 0, INT64_MAX),
                                         each.has("tells") && each.integer("tells", 0, 1) == 1, std::nullopt,
                                         read_conditions(each)});
  return read;
}

/// Lines that were found good, with what was computed of them, in a file without a name: what is added is
/// what was checked, whatever becomes of the pack meanwhile.
class Spool {
 public:
  // Of any size: a pack of a million measurements is not held in memory.
  Spool() : file_(std::tmpfile(), &std::fclose) {
    if (!file_) fail("cannot make a temporary file in {}", std::filesystem::temp_directory_path().string());
  }

  void add(const std::string& line, const std::string& program) {
    // A line holds no raw tab or end of line, as JSON escapes both in strings; a program's
    // fingerprint is of hex digits.
    const std::string row = fmt::format("{}\t{}\n", program, line);
    if (std::fwrite(row.data(), 1, row.size(), file_.get()) != row.size())
      fail("cannot write a temporary file; is the disk full?");
  }

  /// What was added is read next.
  void rewind() {
    if (std::fflush(file_.get()) != 0) fail("cannot write a temporary file; is the disk full?");
    std::rewind(file_.get());
  }

  bool next(PackMeasurement& measurement) {
    char* row = nullptr;
    size_t capacity = 0;
    const ssize_t size = getline(&row, &capacity, file_.get());
    const std::unique_ptr<char, decltype(&std::free)> owned(row, &std::free);
    if (size <= 0) return false;
    const std::string_view text(row, static_cast<size_t>(size));
    const size_t tab = text.find('\t');
    // Parsed a second time, which costs less than to keep a binary form of it in step.
    measurement = read_measurement(Fields(std::string(text.substr(tab + 1))));
    measurement.record.measurement.program = text.substr(0, tab);
    return true;
  }

 private:
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

/// Reads and checks a pack; nothing is written.
class Checker {
 public:
  Checker(std::string folder, const Meaning& meaning, int64_t now_ms)
      // A day, for the clocks of machines differ.
      : folder_(std::move(folder)), meaning_(meaning), latest_ms_(now_ms + kDay) {}

  void run() {
    read_manifest();
    // In this order: each refers to those before.
    each_line(kDevicesFile, [&](const Fields& line, const std::string&) { device(line); });
    each_line(kWorkloadsFile, [&](const Fields& line, const std::string&) { workload(line); });
    each_line(kModelsFile, [&](const Fields& line, const std::string&) { model(line); });
    // Last, as it is by far the longest: what is wrong with the others is said within seconds.
    each_line(kMeasurementsFile,
              [&](const Fields& line, const std::string& text) { measurement(line, text); });
    tolerance.settle(fmt::format("pack {}", folder_));
    spool.rewind();
  }

  std::map<std::string, Device> devices;      // by fingerprint
  std::map<std::string, Workload> workloads;  // by digest
  std::map<std::string, Target> targets;      // by name
  std::vector<PackModel> models;
  Spool spool;
  int64_t not_applicable = 0;
  Tolerance tolerance;

 private:
  std::string path(const char* file) const { return fmt::format("{}/{}", folder_, file); }

  void read_manifest() {
    const std::string path = this->path(kManifestFile);
    std::string text, line;
    // A manifest of any length would be read to its end: it is cut off at the bound, and then is no JSON.
    for (Lines lines(path); lines.next(line) && text.size() < Lines::kLongest;) text += line + "\n";
    try {
      const Fields manifest(text);
      if (manifest.text("format", 64) != kPackFormat) fail("`format` must be \"{}\"", kPackFormat);
      const int64_t version = manifest.integer("version", 1, INT64_MAX),
                    schema = manifest.integer("schema", 1, INT64_MAX);
      // What a newer one means by a known word this one cannot know.
      if (version > kPackVersion || schema > kSchemaVersion)
        fail("it is of a newer program (format {}, schema {}; this one reads {} and {})", version, schema,
             kPackVersion, kSchemaVersion);
      for (const std::string& file : manifest.object("files").keys()) {
        const Fields entry = manifest.object("files").object(file.c_str());
        manifest_[file] = {entry.integer("lines", 0, kMostLines), entry.digest("sha256")};
      }
    } catch (const Error& error) {
      fail("{}: {}", path, error.what());
    }
  }

  template <typename Read>
  void each_line(const char* file, Read read) {
    const auto entry = manifest_.find(file);
    if (entry == manifest_.end()) fail("{} does not name {}", path(kManifestFile), file);
    const auto& [expected, digest] = entry->second;
    // `file` is one of our four names, never one from the manifest.
    Lines lines(path(file));
    const int64_t bad_before = tolerance.bad();
    int64_t count = 0;
    for (std::string line; lines.next(line); ++count) {
      try {
        read(Fields(line), line);
        tolerance.good();
      } catch (const Refusal& refusal) {
        fail("{}: {}; nothing was imported", lines.place(), refusal.what());
      } catch (const Error& error) {
        tolerance.bad(lines.place(), error.what());
      }
    }
    // A pack that was cut off within a transfer is imported as far as it goes, within the
    // tolerance for bad lines.
    if (count < expected) tolerance.bad(lines.place(), "the file is cut off here", expected - count);
    // Bad lines are told one by one; a file with none of them that is another was changed by somebody.
    // Not against forgery, for the manifest may be changed as well; against an edit that forgot it.
    if (lines.digest() != digest && tolerance.bad() == bad_before)
      fail("{} was changed after the pack was written: its sha256 is not the manifest's", path(file));
  }

  void device(const Fields& line) {
    Device device{.host = line.name("host"),
                  .model = line.name("model"),
                  .architecture = line.name("architecture"),
                  .features = line.name("features", limits::kTarget),
                  .cores = static_cast<int>(line.integer("cores", 1, 1 << 20)),
                  .memory_bytes = line.integer("memory_bytes", 0, INT64_MAX),
                  .system = line.name("system"),
                  .details = line.text("details", limits::kDetails)};
    // It is kept as text and parsed by others, who count on its depth.
    if (!parse_bounded_json(device.details, limits::kDetailsDepth, "`details`").is_object())
      fail("`details` must be an object");
    const std::string print = fingerprint(device);
    // So that no pack enters times under another machine's name by a slip; whoever forges can compute it too.
    if (print != line.digest("fingerprint")) fail("`fingerprint` is not the device's");
    devices[print] = std::move(device);
  }

  void workload(const Fields& line) {
    // The digest, the work and the bytes are computed here: what the pack says of them is compared.
    // Reads and checks the program: what cannot be parsed here will never be compiled.
    Workload workload = meaning_.workload(line.text("text", limits::kText));
    if (workload.digest != line.digest("digest")) fail("`digest` is not the text's");
    // The key is taken from what is moved.
    std::string digest = workload.digest;
    workloads[std::move(digest)] = std::move(workload);
  }

  const Workload& known_workload(const std::string& digest) const {
    const auto found = workloads.find(digest);
    if (found == workloads.end()) fail("the pack has no workload {}", digest);
    return found->second;
  }

  void know_target(const std::string& name) {
    if (!targets.contains(name)) targets[name] = meaning_.target(name);
  }

  void model(const Fields& line) {
    PackModel model{.name = line.name("name"),
                    .digest = line.digest("digest"),
                    .target = line.name("target", limits::kTarget),
                    .added_ms = line.integer("added_ms", 0, latest_ms_)};
    know_target(model.target);
    TaskList list;
    for (const Fields& task : line.objects("tasks")) {
      std::string digest = task.digest("workload");
      known_workload(digest);
      // The database has each once a model.
      if (std::find(model.digests.begin(), model.digests.end(), digest) != model.digests.end())
        fail("a workload stands twice among the tasks");
      model.tasks.push_back({.name = task.name("name"), .calls = task.integer("calls", 1, 1 << 30)});
      list.emplace_back(model.tasks.back().calls, digest);
      model.digests.push_back(std::move(digest));
    }
    if (meaning_.model_digest(list) != model.digest) fail("`digest` is not that of the tasks");
    models.push_back(std::move(model));
  }

  void measurement(const Fields& line, const std::string& text) {
    const PackMeasurement read = read_measurement(line);
    const Measurement& m = read.record.measurement;
    const Workload& workload = known_workload(read.workload);
    // Not looked for in the database: a pack stands for itself.
    if (!devices.contains(read.device)) fail("the pack has no device {}", read.device);
    know_target(read.target);
    // As a tracker does with a worker's result (Farm::impossible_time).
    require_believable(read, meaning_.fastest_seconds(workload.flops, read.target, m.threads));
    if (const auto program = meaning_.program(workload, m.trace))
      spool.add(text, *program);
    else
      // The trace names a primitive or a loop that this release does not have: no fault of the pack.
      ++not_applicable;
  }

  void require_believable(const PackMeasurement& read, double fastest) const {
    const auto require = [&](const std::vector<float>& samples, int64_t recorded_ms) {
      if (recorded_ms > latest_ms_) fail("`recorded_ms` is in the future");
      const double least = *std::min_element(samples.begin(), samples.end());
      if (least < fastest)
        // Not one bad line among good ones: who writes such times writes others too.
        throw Refusal(fmt::format(
            "a sample of {} s is less than the {} s that any machine of the target takes", least, fastest));
    };
    require(read.record.measurement.samples, read.record.measurement.recorded_ms);
    for (const Confirmation& each : read.record.confirmations) require(each.samples, each.recorded_ms);
  }

  const std::string folder_;
  const Meaning& meaning_;
  const int64_t latest_ms_;
  std::map<std::string, std::pair<int64_t, std::string>> manifest_;  // lines and sha256 by file
};

/// Adds what was checked.
class Adder {
 public:
  Adder(Store& store, Checker& pack) : store_(store), pack_(pack) {}

  ImportReport run() {
    {
      Transaction transaction = store_.begin();
      // All of these in one transaction: at most some thousand rows.
      for (const auto& [name, target] : pack_.targets) targets_[name] = store_.add_target(target);
      for (const auto& [print, device] : pack_.devices) {
        const auto [id, added] = store_.adopt_device(device);
        devices_[print] = id;
        report_.added.devices += added;
      }
      for (const auto& [digest, workload] : pack_.workloads) {
        report_.added.workloads += !store_.find_workload(digest);
        workloads_[digest] = store_.add_workload(workload);
      }
      for (PackModel& model : pack_.models) add(model);
      transaction.commit();
    }
    PackMeasurement next;
    for (bool more = true; more;) {
      Transaction transaction = store_.begin();
      // A crash in between leaves whole groups; to import again adds the rest (adopt).
      for (int i = 0; i < kGroup && (more = pack_.spool.next(next)); ++i) add(next);
      transaction.commit();
    }
    report_.not_applicable = pack_.not_applicable;
    report_.bad = pack_.tolerance.bad();
    report_.reasons = pack_.tolerance.reasons();
    return report_;
  }

 private:
  void add(PackModel& model) {
    for (size_t i = 0; i < model.tasks.size(); ++i) model.tasks[i].workload = workloads_[model.digests[i]];
    report_.added.models += store_.adopt_model({.name = model.name,
                                                .digest = model.digest,
                                                .added_ms = model.added_ms,
                                                .target = targets_[model.target],
                                                .tasks = model.tasks});
  }

  void add(PackMeasurement& next) {
    Measurement& measurement = next.record.measurement;
    measurement.workload = workloads_[next.workload];
    measurement.target = targets_[next.target];
    measurement.device = devices_[next.device];
    ++(store_.adopt(next.record) ? report_.added.measurements : report_.known);
  }

  Store& store_;
  Checker& pack_;
  std::map<std::string, TargetId> targets_;
  std::map<std::string, DeviceId> devices_;
  std::map<std::string, WorkloadId> workloads_;
  ImportReport report_;
};

}  // namespace

ImportReport import_pack(Store& store, const std::string& folder, const Meaning& meaning) {
  Checker checker(folder, meaning, store.now_ms());
  checker.run();
  return Adder(store, checker).run();
}

}  // namespace lathe::db
