// Packs: what measurements mean, as a folder that travels between databases. docs/database.md has the format:
// manifest.json names the files, JSON lines each, with how many lines and which sha256 they have.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "db/lines.h"
#include "db/store.h"

namespace lathe::db {

struct PackFilter {
  std::string model;   // by name: its tasks and what was measured of them; "": all
  std::string target;  // canonical text; "": all
};

struct PackCounts {
  int64_t devices = 0, workloads = 0, models = 0, measurements = 0;
};

/// Writes what is not suspect into the new folder `folder`, all or nothing, as it is at one moment. The bytes
/// depend on what is known alone, not on the order in which it became known. Throws Error when the folder
/// exists, cannot be written, or the filter names what is not there.
PackCounts export_pack(Store& store, const std::string& folder, const PackFilter& filter);

/// A model's tasks in their order: calls and digest of the workload.
using TaskList = std::vector<std::pair<int64_t, std::string>>;

/// What the opaque texts of records mean is known in other rooms (tuner/record_meaning.h). Each throws Error
/// for a text that means nothing.
struct Meaning {
  /// The target of a canonical text.
  std::function<Target(const std::string& name)> target;
  /// The workload of a canonical text: its digest and work.
  std::function<Workload(const std::string& text)> workload;
  std::function<std::string(const TaskList& tasks)> model_digest;
  /// The scheduled program that the trace makes of the workload (NewTrial::program); nothing when it is a
  /// trace that does not apply: of another version of this program, say.
  std::function<std::optional<std::string>(const Workload& workload, const std::string& trace)> program;
  /// No machine of the target is faster.
  std::function<double(double flops, const std::string& target, int threads)> fastest_seconds;
};

struct ImportReport {
  PackCounts added;
  int64_t known = 0;           // measurements that were there
  int64_t not_applicable = 0;  // whose traces do not apply in this version
  int64_t bad = 0;             // lines left out
  std::vector<std::string> reasons;
};

/// Adds what the pack knows and the database does not. Nothing in it is trusted: all is parsed, bounded and
/// computed again. Bad lines are left out while they are few (Tolerance); each file must else be as the
/// manifest says. Throws Error, with the database as it was, for a pack that is damaged beyond that, is of a
/// newer program, or holds a time that no machine of its target can reach. Killed in the midst, it can be
/// said again; other writers wait for moments only.
ImportReport import_pack(Store& store, const std::string& folder, const Meaning& meaning);

}  // namespace lathe::db
