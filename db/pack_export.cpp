#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/unfinished.h"
#include "db/conditions.h"
#include "db/lines.h"
#include "db/pack.h"
#include "db/pack_files.h"
#include "db/schema.h"

namespace lathe::db {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// ?1: a target's name or "", ?2: a model's name or "".
/// What is suspect stays here: others could not tell that it is.
constexpr std::string_view kChosen =
    "WITH chosen_task AS (SELECT model, model_task.target, position, workload FROM model_task "
    "JOIN model ON model.id = model JOIN target ON target.id = model_task.target "
    "WHERE (?1 = '' OR target.name = ?1) AND (?2 = '' OR model.name = ?2)), "
    "chosen AS (SELECT measurement.id, workload, device FROM measurement "
    "JOIN target ON target.id = target WHERE suspect = 0 AND (?1 = '' OR target.name = ?1) "
    "AND (?2 = '' OR workload IN (SELECT workload FROM chosen_task))) ";

/// Throws Error for what no import takes.
void require_within(size_t size, size_t most, const char* what, const char* unit = "bytes") {
  if (size > most)
    fail("a {} of {} {} cannot be exported: no import takes more than {}", what, size, unit, most);
}

/// One file of JSON lines.
class LineFile {
 public:
  LineFile(const fs::path& folder, const char* name)
      : name_(name), path_(folder / name), file_(fopen(path_.c_str(), "wbe")) {
    if (!file_) fail_to_write(path_, errno);
  }

  void add(const json& line) {
    // The one place where an export may differ from the rows: bytes that are no UTF-8.
    const std::string text = json_line(line) + "\n";
    require_within(text.size(), limits::kLine, "record");
    digest_.add(text);
    if (fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail_to_write(path_, errno);
    ++lines_;
  }

  /// Closes it and enters it into the manifest. Throws as fail_to_write() does when not all was written.
  int64_t finish(json& manifest) {
    // Most of a short file is still in the buffer: a full disk shows here.
    if (fclose(file_.release()) != 0) fail_to_write(path_, errno);
    manifest["files"][name_] = {{"lines", lines_}, {"sha256", digest_.digest()}};
    return lines_;
  }

 private:
  const char* name_;
  fs::path path_;
  struct Close {
    void operator()(FILE* file) const { fclose(file); }
  };
  std::unique_ptr<FILE, Close> file_;
  Sha256 digest_;
  int64_t lines_ = 0;
};

json samples_json(const std::vector<float>& samples) {
  json list = json::array();
  // A float has one text as a double, which reads back to the same bits: export, import, export is the same
  // bytes (Q4).
  for (float seconds : samples) list.push_back(static_cast<double>(seconds));
  return list;
}

/// Rows are in the order of names and digests, never of ids: the same records give the same bytes, from
/// whichever database (Q4).
class Exporter {
 public:
  Exporter(Store& store, const fs::path& folder, const PackFilter& filter)
      : database_(store.database()), folder_(folder), filter_(filter) {}

  PackCounts run() {
    // All files of one moment, so that none names what another lacks.
    // Writers go on meanwhile; the log grows until this ends (sqlite.org/wal.html).
    const Transaction snapshot = database_.snapshot();
    PackCounts counts{devices(), workloads(), models(), measurements()};
    manifest_["format"] = kPackFormat;
    manifest_["version"] = kPackVersion;
    // Last, with the digests of the others: a folder without it is no pack.
    manifest_["schema"] = database_.version();
    write_file((folder_ / kManifestFile).string(), manifest_.dump(2) + "\n");
    return counts;
  }

 private:
  /// The next column of the row as `key`.
  // Bounded before it is turned into a line, which takes ten times the memory.
  static void add_text(json& line, const char* key, Query& row, size_t most = limits::kName) {
    std::string text = row.text();
    require_within(text.size(), most, key);
    line[key] = std::move(text);
  }
  static json samples(Query& row) {
    const std::vector<float> samples = row.floats();
    require_within(samples.size(), limits::kSamples, "measurement", "samples");
    return samples_json(samples);
  }

  Query select(const std::string& sql) {
    return database_.stream(fmt::format("{}{}", kChosen, sql), {filter_.target, filter_.model});
  }

  int64_t devices() {
    LineFile file(folder_, kDevicesFile);
    for (Query row = select("SELECT fingerprint, host, model, architecture, features, cores, memory_bytes, "
                            "system, details FROM device WHERE id IN (SELECT device FROM chosen) "
                            "ORDER BY fingerprint");
         row.step();) {
      json line;
      for (const char* name : {"fingerprint", "host", "model", "architecture"}) add_text(line, name, row);
      add_text(line, "features", row, limits::kTarget);
      line["cores"] = row.integer();
      line["memory_bytes"] = row.integer();
      add_text(line, "system", row);
      add_text(line, "details", row, limits::kDetails);
      file.add(line);
    }
    return file.finish(manifest_);
  }

  int64_t workloads() {
    LineFile file(folder_, kWorkloadsFile);
    for (Query row = select("SELECT digest, text FROM workload WHERE id IN (SELECT workload FROM chosen) "
                            "OR id IN (SELECT workload FROM chosen_task) ORDER BY digest");
         row.step();) {
      json line;
      add_text(line, "digest", row);
      add_text(line, "text", row, limits::kText);
      file.add(line);
    }
    return file.finish(manifest_);
  }

  int64_t models() {
    LineFile file(folder_, kModelsFile);
    for (Query row = select("SELECT DISTINCT model.id, target.id, model.name, model.digest, target.name, "
                            "added_ms FROM chosen_task JOIN model ON model.id = model "
                            "JOIN target ON target.id = target "
                            "ORDER BY model.name, model.digest, target.name");
         row.step();) {
      // Ids order nothing: they are only for the inner query.
      const ModelId model = row.integer();
      const TargetId target = row.integer();
      json line{{"tasks", json::array()}};
      add_text(line, "name", row);
      add_text(line, "digest", row);
      add_text(line, "target", row, limits::kTarget);
      line["added_ms"] = row.integer();
      for (Query task = database_.query("SELECT workload.digest, name, calls FROM model_task "
                                        "JOIN workload ON workload.id = workload "
                                        "WHERE model = ? AND target = ? ORDER BY position",
                                        {model, target});
           task.step();) {
        json each;
        add_text(each, "workload", task);
        add_text(each, "name", task);
        each["calls"] = task.integer();
        line["tasks"].push_back(std::move(each));
      }
      file.add(line);
    }
    return file.finish(manifest_);
  }

  int64_t measurements() {
    LineFile file(folder_, kMeasurementsFile);
    // A candidate is one program; where two have one trace, the first of the others decides. Sorted by
    // SQLite, on the disk where it must be.
    for (Query row = select(
             "SELECT m.id, workload.digest, target.name, device.fingerprint, m.threads, candidate.trace, "
             "m.samples, m.relative_error, m.compiler, m.revision, m.recorded_ms, " +
             condition_columns("m.") +
             " FROM measurement m "
             "JOIN candidate ON candidate.id = m.candidate JOIN workload ON workload.id = m.workload "
             "JOIN target ON target.id = m.target JOIN device ON device.id = m.device "
             "WHERE m.id IN (SELECT id FROM chosen) ORDER BY workload.digest, target.name, "
             "device.fingerprint, m.threads, m.recorded_ms, candidate.trace");
         row.step();) {
      const MeasurementId id = row.integer();
      json line;
      add_text(line, "workload", row);
      add_text(line, "target", row, limits::kTarget);
      add_text(line, "device", row);
      line["threads"] = row.integer();
      add_text(line, "trace", row, limits::kText);
      line["samples"] = samples(row);
      line["relative_error"] = row.real();
      add_text(line, "compiler", row);
      add_text(line, "revision", row);
      line["recorded_ms"] = row.integer();
      add_conditions(line, read_conditions(row));
      line["confirmations"] = confirmations(id);
      file.add(line);
    }
    return file.finish(manifest_);
  }

  static void add_conditions(json& line, const Conditions& conditions) {
    for (const ConditionColumn& column : kConditions)
      if (const std::optional<double> value = conditions.*column.value) line[column.name] = *value;
    if (!conditions.driver.empty()) line["driver"] = conditions.driver;
  }

  json confirmations(MeasurementId id) {
    json list = json::array();
    for (Query row = database_.query(
             fmt::format("SELECT samples, recorded_ms, tells, {} FROM confirmation WHERE measurement = ? "
                         "AND suspect = 0 ORDER BY id",
                         condition_columns()),
             {id});
         row.step();) {
      json each{{"samples", samples(row)}};
      each["recorded_ms"] = row.integer();
      // Only where it does: packs of before are what they were.
      if (row.boolean()) each["tells"] = 1;
      add_conditions(each, read_conditions(row));
      list.push_back(std::move(each));
    }
    return list;
  }

  Database& database_;
  fs::path folder_;
  const PackFilter& filter_;
  json manifest_;
};

void require_known(Store& store, const PackFilter& filter) {
  if (!filter.model.empty() && !store.find_model(filter.model))
    fail("the database {} has no model `{}`{}", store.database().name(), filter.model,
         did_you_mean(filter.model, store.model_names()));
  if (!filter.target.empty() && !store.find_target(filter.target))
    fail("the database {} has nothing for the target {}", store.database().name(), filter.target);
}

/// Of a new folder, where mkdtemp(3) keeps all others out: a pack is for them.
fs::perms usual_permissions() {
  // umask(2) tells what it was by setting another, with which other threads would create their files
  // meanwhile; proc(5) tells it since Linux 4.7.
  std::ifstream status("/proc/self/status");
  unsigned mask = 0077;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Umask:")) mask = static_cast<unsigned>(std::stoul(line.substr(6), nullptr, 8));
  return static_cast<fs::perms>(0777 & ~mask);
}

}  // namespace

PackCounts export_pack(Store& store, const std::string& named, const PackFilter& filter) {
  require_known(store, filter);
  // With a slash at its end, as folders are named, what stands beside it would stand in it.
  const std::string folder = named.substr(0, named.find_last_not_of('/') + 1);
  std::error_code error;
  if (fs::exists(folder, error)) fail("{} exists; a pack is a new folder", folder);
  // A pack that was interrupted has no name of a pack.
  // Beside it, thus on the same file system: rename(2) is one step.
  Unfinished partial([&] {
    // By a name that nobody has: what is there may be the user's.
    std::string name = folder + ".partial-XXXXXX";
    if (!mkdtemp(name.data())) fail_to_write(folder, errno);
    return name;
  });
  const PackCounts counts = Exporter(store, partial.path(), filter).run();
  fs::permissions(partial.path(), usual_permissions());
  partial.finish([&] { fs::rename(partial.path(), folder); });
  return counts;
}

}  // namespace lathe::db
