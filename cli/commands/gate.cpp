// `tune gate`: is the candidate slower than the baseline? docs/gate.md explains the verdicts.
#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/model_flags.h"
#include "cli/progress.h"
#include "cli/running_model.h"
#include "cli/shapes.h"
#include "core/runtime/plan_dims.h"
#include "core/support/disk.h"
#include "core/support/file.h"
#include "core/support/printable.h"
#include "core/support/temporary_folder.h"
#include "core/support/unfit.h"
#include "db/store.h"
#include "gate/kinds.h"
#include "gate/report.h"
#include "gate/run.h"
#include "workers/device.h"
#include "workers/doctor.h"
#include "workers/module_run.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

struct GateFlags {
  std::string baseline, candidate, database;
  std::vector<std::string> models;
  ModelFlags build;
  double margin = 0;  // 0: of the kind of device
  double alpha = gate::Rule{}.alpha;
  double seconds = worker::ModuleRun{}.seconds;
  int64_t seed = -1;  // below 0: drawn
  std::string junit, sarif, markdown, history, revision;
  bool as_json = false;

  void add_to(Flags& flags);
};

void GateFlags::add_to(Flags& flags) {
  flags.add("--baseline PATH", baseline,
            "a module (.lathe), a folder of them, or with --model a tuning database", Flags::Need::kRequired);
  flags.add("--candidate PATH", candidate,
            "what is compared with it; with --model the default database if not given");
  flags.add("--db FILE", database, "the same as --candidate, of a database");
  flags.add("--model MODEL", models,
            "build this model by the best schedules of both databases; may be repeated");
  build.add_build_to(flags);
  flags.add_share("--margin", margin, "a slowdown below this share passes (0.03; on a GPU 0.02)");
  flags.add_share("--alpha", alpha, "the chance of a false alarm, over all units");
  flags.add_duration("--time", seconds, "time the runs of each process so long");
  flags.add("--seed", seed, 0, INT64_MAX, "of the order within pairs (drawn, and printed)");
  flags.add("--json", as_json, "print one JSON object instead of the table");
  flags.add("--junit FILE", junit, "also write JUnit's XML to this file");
  flags.add("--sarif FILE", sarif, "also write SARIF to this file");
  flags.add("--markdown FILE", markdown, "also write Markdown to this file (and to $GITHUB_STEP_SUMMARY)");
  flags.add("--history FILE", history, "append a line of JSON for each measured unit, for `tune timeline`");
  flags.add("--revision TEXT", revision, "of what is measured ($GITHUB_SHA, $CI_COMMIT_SHA)");
  flags.exclude("--candidate", "--db");
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return fs::is_directory(path, unreadable);
}

bool is_there(const std::string& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

/// The modules of a folder, by name.
std::map<std::string, std::string> modules_in(const std::string& folder) {
  std::map<std::string, std::string> modules;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".lathe") modules[entry->path().stem()] = entry->path();
  if (error) fail("cannot read the folder {}: {}", folder, error.message());
  if (modules.empty()) fail("{} has no modules (.lathe)", folder);
  return modules;
}

gate::Unit unit_of_files(const std::string& name, const std::string& baseline, const std::string& candidate) {
  return gate::make_unit(name, {.file = baseline, .of = baseline}, {.file = candidate, .of = candidate});
}

/// Every module of the baseline's folder must be in the candidate's; new ones have nothing to be compared
/// with.
std::vector<gate::Unit> units_of_folders(const std::string& baseline, const std::string& candidate) {
  std::vector<gate::Unit> units;
  const std::map<std::string, std::string> baselines = modules_in(baseline),
                                           candidates = modules_in(candidate);
  for (const auto& [name, file] : baselines) {
    const auto found = candidates.find(name);
    if (found == candidates.end()) fail("{} has no {}.lathe, which {} has", candidate, name, baseline);
    units.push_back(unit_of_files(name, file, found->second));
  }
  for (const auto& [name, file] : candidates)
    if (!baselines.contains(name)) say("{} is new: it has no baseline", file);
  return units;
}

std::vector<gate::Unit> units_of_modules(const Flags& flags, const GateFlags& gate) {
  for (const char* flag : {"--db", "--open", "--target", "--precision", "--max-relative-error"})
    if (flags.given(flag))
      fail("tune gate: {} is for databases, with --model; modules are built already", flag);
  if (gate.candidate.empty()) fail("tune gate: --candidate is required; see tune gate --help");
  const bool folder = is_folder(gate.baseline);
  if (folder != is_folder(gate.candidate))
    fail("tune gate: {} is a folder, {} is not", folder ? gate.baseline : gate.candidate,
         folder ? gate.candidate : gate.baseline);
  if (folder) return units_of_folders(gate.baseline, gate.candidate);
  for (const std::string& file : {gate.baseline, gate.candidate})
    if (file.ends_with(".db")) fail("tune gate: {} is a database: which model is to be built? --model", file);
  return {unit_of_files(module_name(gate.candidate), gate.baseline, gate.candidate)};
}

/// Sets what the modules leave open, by the shapes of those inputs that they have.
void settle(std::vector<gate::Unit>& units, const Shapes& shapes) {
  std::set<std::string> unused;
  for (const auto& [name, shape] : shapes) unused.insert(name);
  for (gate::Unit& unit : units)
    for (gate::Side* side : {&unit.baseline, &unit.candidate}) {
      const runtime::Plan& plan = side->head.plan;
      if (!has_open_inputs(plan)) continue;
      Shapes its;
      for (const runtime::Port& input : plan.inputs)
        if (const auto given = shapes.find(input.name); given != shapes.end()) {
          its.insert(*given);
          unused.erase(input.name);
        }
      naming(side->of, [&] { gate::settle(*side, dims_from(plan, its)); });
    }
  if (!unused.empty())
    fail("tune gate: --shape {}: no module has such an input that is open", *unused.begin());
}

/// The model built by the best schedules of the database, in a file of the folder.
gate::Side build_side(ModelFlags flags, const std::string& database, const std::string& file) {
  if (!db::is_server(database) && !is_there(database)) fail("{}: no such database", database);
  flags.database = database;
  // The shapes are those of the run.
  if (!flags.open.empty()) flags.shapes.clear();
  runtime::write_module(file, compile(flags, {}).image);
  return {.file = file, .of = database};
}

/// What there is when `stop` says so.
std::vector<gate::Unit> units_of_databases(const GateFlags& gate, const TemporaryFolder& folder,
                                           const std::function<bool()>& stop) {
  std::string candidate = gate.candidate.empty() ? gate.database : gate.candidate;
  if (candidate.empty()) candidate = db::default_database_path();
  std::vector<gate::Unit> units;
  for (const std::string& model : gate.models) {
    if (stop()) break;
    if (model.ends_with(".lathe"))
      fail("tune gate: --model {} is built already; modules are compared by --baseline and --candidate",
           model);
    const std::string name = module_name(model), number = fmt::format("{}", units.size());
    for (const gate::Unit& unit : units)
      if (unit.name == name) fail("tune gate: --model {}: there is a unit {} already", model, name);
    ModelFlags build = gate.build;
    build.model = model;
    // Both by this compiler: what is compared are the schedules.
    gate::Side baseline = build_side(build, gate.baseline, folder / (number + ".baseline.lathe"));
    units.push_back(gate::make_unit(name, std::move(baseline),
                                    build_side(build, candidate, folder / (number + ".candidate.lathe"))));
  }
  return units;
}

std::string describe(const worker::DeviceInfo& device) {
  return fmt::format("{} ({} core{} of {})", device.host, device.cores, device.cores == 1 ? "" : "s",
                     device.model.empty() ? device.architecture : device.model);
}

std::string status_text(const gate::GateStatus& status) {
  return fmt::format("{} of {} units decided, {} pairs of at most {}", status.decided, status.units,
                     status.pairs, status.most_pairs);
}

gate::Rule rule_of(const gate::Kind& kind, const GateFlags& flags) {
  gate::Rule rule = kind.rule;
  rule.alpha = flags.alpha;
  if (flags.margin > 0) rule.margin = flags.margin;
  return rule;
}

/// This machine, and its GPU where that computes. Throws Unfit when no driver tells a clock that is needed.
std::string device_of(const gate::Kind& kind) {
  const std::string machine = describe(worker::probe_device());
  if (!kind.clock) return machine;
  const std::unique_ptr<worker::GpuClock> clock = worker::gpu_clock(*kind.clock, "", worker::kNvmlLibrary);
  if (!clock)
    throw Unfit(
        fmt::format("no driver of this machine tells the clock of a {} device, by which a gate knows "
                    "what was slowed down; `tune doctor` lists the GPUs whose clock is told",
                    kind.name));
  return fmt::format("{}, {}", clock->name(), machine);
}

gate::Report run(const std::vector<gate::Unit>& units, const GateFlags& flags,
                 const std::function<bool()>& stop) {
  const gate::Kind& kind = gate::kind_of(units);
  gate::Report report{.rule = rule_of(kind, flags),
                      // Drawn, so that no order of the pairs can be counted on; told, so that a run can be
                      // repeated.
                      .seed = flags.seed >= 0 ? static_cast<uint64_t>(flags.seed) : std::random_device()(),
                      .threads = static_cast<int>(flags.build.threads),
                      .device = device_of(kind),
                      .revision = flags.revision,
                      .findings = worker::examine("", worker::watch_load(1))};
  for (const char* name : {"GITHUB_SHA", "CI_COMMIT_SHA"})
    if (report.revision.empty()) report.revision = environment(name);
  const auto begun = std::chrono::steady_clock::now();
  ProgressLine progress(is_quiet());
  const gate::RunModule run_module = [&](const gate::Side& side, bool count) {
    // A fresh process each: addresses, pages and caches are drawn anew, which is most of a machine's noise
    // (M6).
    return worker::run_module({"/proc/self/exe", "internal-sandbox", "module"},
                              {side.file, report.threads, flags.seconds, count, kind.clock, side.dims}, stop);
  };
  report.result = gate::run_gate(units, report.rule, report.seed, run_module,
                                 [&](const gate::GateStatus& status) { progress.show(status_text(status)); });
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return report;
}

/// So that a misspelt path is told before the minutes of measuring, and no report takes the place of what is
/// compared, or of another one.
void require_places(const GateFlags& flags, const std::vector<gate::Unit>& units) {
  std::vector<std::string> read = {flags.baseline, flags.candidate, flags.database};
  for (const gate::Unit& unit : units)
    for (const gate::Side& side : {unit.baseline, unit.candidate}) read.push_back(side.file);
  const std::string reports[] = {flags.junit, flags.sarif, flags.markdown, flags.history};
  std::set<fs::path> places;
  std::error_code none;
  for (const std::string& file : reports) {
    if (file.empty()) continue;
    const std::string folder = fs::path(file).parent_path();
    if (!folder.empty() && !is_folder(folder)) fail("cannot write {}: there is no folder {}", file, folder);
    for (const std::string& other : read)
      if (fs::equivalent(file, other, none)) fail("cannot write {}: it is what is compared", file);
    // Several may go to a terminal or a pipe.
    if (!fs::is_other(file, none) && !places.insert(fs::weakly_canonical(file, none)).second)
      fail("cannot write {}: another report goes there", file);
  }
}

/// What is appended to another file, a database say, stays in it.
void require_history(const std::string& file) {
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return;
  char first = '{';
  std::ifstream(file, std::ios::binary) >> std::ws >> first;
  if (first != '{') fail("{} is no history of `tune gate`, and nothing is appended to it", file);
}

/// Whether the last line of a file has no end: whoever wrote it was killed, or the disk was full.
bool is_torn(const std::string& file) {
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable) || fs::file_size(file, unreadable) == 0) return false;
  std::ifstream stream(file, std::ios::binary);
  return stream.seekg(-1, std::ios::end) && stream.get() != '\n';
}

/// By one write, so that lines of two processes do not mix; what another one has left torn costs its line
/// alone.
void append(const std::string& file, const std::string& text) {
  const std::string whole = is_torn(file) ? "\n" + text : text;
  const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) fail_to_write(file, errno);
  const ssize_t written = write(descriptor, whole.data(), whole.size());
  int error = written < 0 ? errno : written < static_cast<ssize_t>(whole.size()) ? ENOSPC : 0;
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) fail_to_write(file, error);
}

/// What is not written is said; the exit code is that of the first of these.
ExitCode write_reports(const gate::Report& report, const GateFlags& flags) {
  ExitCode code = kSuccess;
  const auto put = [&](const std::string& file, const auto& write, const auto& text_of) {
    if (file.empty()) return;
    try {
      write(file, text_of(report));
    } catch (const Error&) {
      const auto failed = static_cast<ExitCode>(exit_code_of([]() -> int { throw; }));
      if (code == kSuccess) code = failed;
    }
  };
  const auto replace = [](const std::string& file, const std::string& text) { write_file(file, text); };
  put(flags.junit, replace, gate::junit_text);
  put(flags.sarif, replace, gate::sarif_text);
  put(flags.markdown, replace, gate::markdown_text);
  // Appended: other steps of the job write there too.
  put(environment("GITHUB_STEP_SUMMARY"), append, gate::markdown_text);
  put(flags.history, append, [](const gate::Report& each) {
    return gate::history_text(each, fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))));
  });
  return code;
}

ExitCode exit_code(gate::Answer answer) {
  switch (answer) {
    case gate::Answer::kPass:
      return kSuccess;
    case gate::Answer::kFail:
      return kNegative;
    case gate::Answer::kInconclusive:
      return kInconclusive;
    case gate::Answer::kUnfit:
      return kUnfit;
  }
  return kUnfit;
}

}  // namespace

int gate_command(Flags& flags) {
  GateFlags gate;
  gate.add_to(flags);
  if (!flags.parse()) return kSuccess;

  // Bounds go by 1 - alpha's share, which no double tells from 1 when that is small: nothing would be
  // decided.
  constexpr double kLeastAlpha = 1e-9;
  if (gate.alpha < kLeastAlpha)
    fail("tune gate: --alpha: {:g} must be {:g} at least", gate.alpha, kLeastAlpha);
  require_places(gate, {});
  require_history(gate.history);
  std::vector<gate::Unit> units;
  // Before the folder for what is built here, which would be left behind; and the reports are written after
  // an interrupt, too.
  InterruptScope interrupt;
  const auto stop = [&] { return interrupt.interrupted(); };
  const TemporaryFolder folder;
  if (gate.models.empty())
    units = units_of_modules(flags, gate);
  else
    units = units_of_databases(gate, folder, stop);
  if (stop()) {
    say("stopped before anything was measured");
    return kInterrupted;
  }
  require_places(gate, units);
  // Of a model whose dimensions are settled --shape has said what they are.
  settle(units, gate.models.empty() || !gate.build.open.empty() ? parse_shapes(gate.build.shapes) : Shapes());
  const gate::Report report = run(units, gate, stop);
  // Units are called as files are, and those of the candidate are a stranger's.
  fmt::print("{}", gate.as_json ? gate::json_text(report) : printable(gate::table_text(report)));
  // After the table: a file that cannot be written must not cost the result of minutes, nor its exit code.
  const ExitCode written = write_reports(report, gate);
  if (report.result.interrupted) return kInterrupted;
  const ExitCode code = exit_code(report.result.answer());
  return code == kSuccess ? written : code;
}

}  // namespace lathe::cli
