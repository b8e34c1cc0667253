#include "db/foreign.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/printable.h"
#include "db/fields.h"

namespace lathe::db {
namespace {

using nlohmann::json;

/// A trace of MetaSchedule is lists in lists; the arguments of a task of AutoTVM are tuples in tuples.
constexpr int kDepth = 32;
/// Both write a time like this for a candidate that failed.
constexpr double kFailedSeconds = 1e9;

json parse_line(const std::string& line) {
  json value = parse_bounded_json(line, kDepth, "the line");
  // Logs of a tuner that was killed end in half a line.
  if (value.is_discarded()) fail("is no JSON; is it cut off?");
  return value;
}

/// Element `index` of a list.
const json& at(const json& list, size_t index, const char* what) {
  if (!list.is_array() || index >= list.size()) fail("{} is missing", what);
  return list[index];
}

const json& field(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) fail("`{}` is missing", key);
  return *found;
}

std::string text_of(const json& value, const char* what) {
  if (!value.is_string()) fail("{} must be a string", what);
  std::string text = value.get<std::string>();
  if (has_control_characters(text)) fail("{} has characters that cannot be shown", what);
  return text;
}

/// The mean, by which both rank; nothing when the candidate failed.
std::optional<double> mean_seconds(const json& list) {
  if (!list.is_array() || list.empty()) fail("the times must be a list of numbers");
  // In the order of the file, in double: the same log gives the same number.
  double sum = 0;
  for (const json& each : list) {
    if (!each.is_number()) fail("the times must be a list of numbers");
    sum += each.get<double>();
  }
  const double mean = sum / static_cast<double>(list.size());
  // NaN too.
  if (!(mean > 0)) fail("a time of {} s was not measured", mean);
  return mean < kFailedSeconds ? std::optional(mean) : std::nullopt;
}

/// {"input": [target, task, [arguments], {}], "config": {...}, "result": [[seconds], error, _, when],
/// "version": 0.2}
ForeignRecord read_autotvm(const std::string& line) {
  const json row = parse_line(line);
  const json& version = field(row, "version");
  // The one that AutoTVM has written for years; another may order its fields otherwise.
  if (version != 0.2) fail("is of version `{}`, 0.2 is read", version.dump());
  const json &input = field(row, "input"), &result = field(row, "result");
  const json& error = at(result, 1, "the error number");
  if (!error.is_number_integer()) fail("the error number must be an integer");
  // Of the parsed line, so that spaces and the order of keys make no second record.
  ForeignRecord record{.digest = sha256(row.dump()),
                       .format = "autotvm",
                       .workload = text_of(at(input, 1, "the task"), "the task"),
                       .arguments = at(input, 2, "the task's arguments").dump(),
                       .target = text_of(at(input, 0, "the target"), "the target"),
                       .schedule = field(row, "config").dump()};
  // Of one that failed the times are a filling.
  if (error == 0) record.seconds = mean_seconds(at(result, 0, "the times"));
  record.n = record.seconds ? static_cast<int64_t>(result[0].size()) : 0;
  const json& when = at(result, 3, "the time stamp");
  // In seconds; what does not fit the calendar is left out.
  if (when.is_number() && std::abs(when.get<double>()) < 1e11)
    record.measured_ms = static_cast<int64_t>(when.get<double>() * 1e3);
  return record;
}

/// ["structural hash", "the module in base64"]
std::string read_metaschedule_workload(const std::string& line) {
  const json row = parse_line(line);
  at(row, 1, "the workload's module");
  return text_of(at(row, 0, "the workload's hash"), "the workload's hash");
}

/// What the first block but the root is called: all functions there are named main.
std::string block_name(const json& instructions) {
  for (const json& each : instructions) {
    if (!each.is_array() || each.size() < 3 || each[0] != "GetBlock") continue;
    const json& name = at(each[2], 0, "a block's name");
    if (name != "root") return text_of(name, "a block's name");
  }
  return "main";
}

/// [workload, [[instructions, decisions], seconds or null, {target} or null, [arguments] or null]]
ForeignRecord read_metaschedule(const std::string& line, const std::vector<std::string>& workloads) {
  const json row = parse_line(line);
  const json &index = at(row, 0, "the workload's number"), &body = at(row, 1, "the record");
  // An index into a list of ours, out of a stranger's file.
  if (!index.is_number_unsigned() || index.get<uint64_t>() >= workloads.size())
    fail("workload `{}` is not among the {} of the database", index.dump(), workloads.size());
  // A record names its workload by the number of a line in another file.
  const std::string& workload = workloads[index.get<size_t>()];
  if (workload.empty()) fail("the line of its workload {} is bad", index.dump());
  const json &trace = at(body, 0, "the trace"), &seconds = at(body, 1, "the times");
  ForeignRecord record{.digest = sha256(workload + "\n" + body.dump()),
                       .format = "metaschedule",
                       .workload = block_name(at(trace, 0, "the trace's instructions")),
                       .workload_key = workload,
                       .arguments = at(body, 3, "the arguments").dump(),
                       .target = at(body, 2, "the target").dump(),
                       .schedule = trace.dump()};
  if (!seconds.is_null()) record.seconds = mean_seconds(seconds);
  record.n = record.seconds ? static_cast<int64_t>(seconds.size()) : 0;
  return record;
}

/// Calls `use` with what `read` makes of each line, and `refuse` where it throws Error.
template <typename Read, typename Use, typename Refuse>
void for_each_record(const std::string& path, Read read, Use use, Refuse refuse) {
  Lines lines(path);
  for (std::string line; lines.next(line);) {
    if (line.empty() || line[0] == '#') continue;
    std::optional<ForeignRecord> record;
    try {
      record = read(line);
    } catch (const Error& error) {
      refuse(lines.place(), error.what());
    }
    if (record) use(*record);
  }
}

/// Reads the file twice: nothing is added before it is known to be a log, and then a group at a time, so that
/// another writer waits for moments only.
template <typename Read>
ForeignReport import_records(Store& store, const std::string& path, Tolerance tolerance, Read read) {
  constexpr int64_t kGroup = 500;
  // Told once; the second time the same lines are left out in silence.
  for_each_record(
      path, read, [&](const ForeignRecord&) { tolerance.good(); },
      [&](const std::string& place, const std::string& why) { tolerance.bad(place, why); });
  tolerance.settle(path);
  ForeignReport report{.bad = tolerance.bad(), .reasons = tolerance.reasons()};
  std::optional<Transaction> group;
  for_each_record(
      path, read,
      // A file that changes in between gives other records, each of which is checked again.
      [&](const ForeignRecord& record) {
        if (!group) group.emplace(store.begin());
        ++(store.add_foreign(record) ? report.added : report.known);
        // Both counts, as a row that is known was looked for all the same.
        if ((report.added + report.known) % kGroup != 0) return;
        group->commit();
        group.reset();
      },
      [](const std::string&, const std::string&) {});
  if (group) group->commit();
  return report;
}

}  // namespace

ForeignReport import_autotvm(Store& store, const std::string& path) {
  return import_records(store, path, {}, read_autotvm);
}

ForeignReport import_metaschedule(Store& store, const std::string& workloads, const std::string& records) {
  Tolerance tolerance;
  std::vector<std::string> hashes;  // "" for a bad line: numbers stay what they are
  Lines lines(workloads);
  for (std::string line; lines.next(line);) {
    hashes.emplace_back();
    try {
      hashes.back() = read_metaschedule_workload(line);
      tolerance.good();
    } catch (const Error& error) {
      tolerance.bad(lines.place(), error.what());
    }
  }
  return import_records(store, records, std::move(tolerance),
                        [&](const std::string& line) { return read_metaschedule(line, hashes); });
}

}  // namespace lathe::db
