#include "workers/pipeline.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/defaults.h"
#include "workers/disturbance.h"
#include "workers/packets.h"
#include "workers/quiet.h"

namespace lathe::worker {
namespace {

// Inputs and reference results, in memory files, which count as this machine's memory.
constexpr int64_t kCaseBytes = int64_t{2} << 30;
constexpr size_t kArtifactBytes = 128 << 20;
constexpr uint64_t kBuildMemory = uint64_t{8} << 30;
constexpr uint64_t kRunMemory = uint64_t{2} << 30;    // beyond the buffers
constexpr uint64_t kRaceMemory = uint64_t{8} << 30;   // beyond the modules' files
constexpr uint64_t kCodeBytes = uint64_t{256} << 20;  // of a module
constexpr double kReferenceRunSeconds = 120;          // the unscheduled program is slow
constexpr double kCanarySeconds = 10;                 // limit; they take 15 ms
constexpr double kMostStolen = 0.05;                  // of the time of the cores; else it is measured again
constexpr double kCanaryAges =
    1.001;  // a measurement: a clock that became lower for good is not load for ever

const std::string kUnscheduled = "the unscheduled program: ";

// The same program, told what to be (internal_sandbox_main).
std::vector<std::string> with_role(std::vector<std::string> command, const char* role) {
  command.push_back(role);
  return command;
}

/// What a failed child leaves to say: how it ended and the end of its stderr.
std::string last_words(const Report& report) {
  std::string words = describe(report);
  if (!report.stderr_tail.empty()) words += (words.empty() ? "" : ": ") + report.stderr_tail;
  // The tracker would refuse a longer one, and the result with it.
  return words.substr(0, defaults::kMessageLimit);
}

/// The child's reply, or the outcome that its end stands for.
Reply reply_of(const Report& report, bool build) {
  // Still not believed: run children reply out of the process that the candidate ran in
  // (decode_reply checks).
  if (report.end == Report::End::kReplied) {
    try {
      return decode_reply(report.reply);
    } catch (const Error& error) {
      return {.outcome = build ? Outcome::kBuildFailed : Outcome::kCrashed, .message = error.what()};
    }
  }
  const Outcome outcome = build                                  ? Outcome::kBuildFailed
                          : report.end == Report::End::kTimedOut ? Outcome::kTimeout
                                                                 : Outcome::kCrashed;
  return {.outcome = outcome, .message = last_words(report)};
}

int signal_of(const Report& report) { return report.end == Report::End::kSignalled ? report.code : 0; }

/// Killed by somebody else, as far as one can tell: the system short of memory, or a person.
bool killed_from_outside(const Report& report) {
  // No limit of ours ends a child with SIGKILL alone: see Supervision::classify.
  return report.end == Report::End::kLost ||
         (report.end == Report::End::kSignalled && report.code == SIGKILL);
}

uint64_t memory_for(const Artifact& artifact) {
  int64_t bytes = artifact.main.workspace_bytes;
  if (artifact.prologue) bytes += artifact.prologue->workspace_bytes;
  for (const auto& buffers : {artifact.all_buffers(), artifact.made})
    for (const BufferSpec& buffer : buffers) bytes += 3 * buffer.bytes();
  for (const Sizes& sizes : artifact.checked) bytes += sizes.workspace_bytes;
  return kRunMemory + static_cast<uint64_t>(bytes);
}

/// What others have built asks for no more than this machine has.
void check_memory(const Artifact& artifact) {
  struct sysinfo memory {};
  if (sysinfo(&memory) != 0) return;
  const uint64_t has = memory.totalram * memory.mem_unit;
  if (const uint64_t wants = memory_for(artifact) - kRunMemory; wants > has)
    fail("it takes {} bytes of memory, and this machine has {}", wants, has);
}

wire::Disturbance together(const wire::Disturbance& last, const wire::Disturbance& first) {
  return {last.taken + first.taken, last.disturbed + first.disturbed, std::max(last.canary, first.canary),
          // Of the samples that are kept.
          last.clock_hz};
}

}  // namespace

/// A lease from its build to the end of its run.
struct Pipeline::Job {
  wire::Lease lease;
  Artifact artifact;   // without its object, once it may run here
  int object = -1;     // memory file of the shared object
  Artifact reference;  // where the lease is of one part
  double build_seconds = 0;

  ~Job() {
    if (object >= 0) close(object);
  }
  void keep(Artifact built) {
    object = memory_file("object", std::exchange(built.object, ""));
    seal(object);
    artifact = std::move(built);
  }
};

Pipeline::Pipeline(std::vector<std::string> command, int builders)
    : reference_builder_(with_role(command, "build")),
      runner_(with_role(command, "run")),
      cases_(kCaseBytes),
      artifacts_(kArtifactBytes) {
  for (int i = 0; i < builders; ++i)
    // Supervisors start with their first task, so idle builders cost nothing.
    builders_.push_back(std::make_unique<Sandbox>(with_role(command, "build")));
}

Pipeline::~Pipeline() {
  if (reference_case_ >= 0) close(reference_case_);
}

// --- build

// REQUIRES: fewer builds under way than builders, which the agent counts (start_stages).
void Pipeline::build(const wire::Lease& lease) {
  jobs_[lease.lease] = std::make_unique<Job>();
  jobs_[lease.lease]->lease = lease;
  next_build(lease.lease);
}

/// Builds what the lease lacks: the candidate, and for a runner elsewhere the unscheduled program.
void Pipeline::next_build(uint64_t id) {
  Job& job = *jobs_.at(id);
  const bool for_another = job.lease.part == wire::Part::kBuild;
  for (const bool unscheduled : {false, true}) {
    if (unscheduled && !for_another) break;
    Artifact& wanted = unscheduled ? job.reference : job.artifact;
    // Built by an earlier step of this lease.
    if (!wanted.object.empty()) continue;
    const Artifact* known = artifacts_.find(ArtifactCache::key_of(job.lease, unscheduled));
    if (!known) return start_build(job.lease, unscheduled);
    wanted = *known;
  }
  // Found in the cache or built just now: the same from here on.
  Ended ended{id, true, {.build_seconds = job.build_seconds, .artifact = job.artifact.digest}};
  if (for_another) {
    ended.artifact = encode(job.artifact);
    ended.reference = encode(job.reference);
    jobs_.erase(id);
  } else {
    job.keep(std::move(job.artifact));
  }
  ended_.push_back(std::move(ended));
}

void Pipeline::start_build(const wire::Lease& lease, bool unscheduled) {
  const auto idle =
      std::find_if(builders_.begin(), builders_.end(), [](const auto& b) { return !b->busy(); });
  CHECK(idle != builders_.end(), "no builder is idle");
  try {
    // The machine that runs it may have more cores.
    const bool here = lease.part == wire::Part::kWhole;
    // Not on the cores that measure, where there are enough.
    const CorePlan cores = plan_cores(here ? static_cast<int>(lease.evaluation.threads) : 1);
    const double limit = lease.evaluation.build_limit_seconds;
    (*idle)->start({.request = encode(BuildJob{lease.workload, lease.trace, lease.target, unscheduled}),
                    .limits = {.wall_seconds = limit,
                               // A linker runs beside the compiler.
                               .cpu_seconds = 2 * limit,
                               .memory_bytes = kBuildMemory,
                               .file_bytes = 256u << 20,
                               .cpus = cores.build}});
    // By builder: its report says nothing of a lease.
    building_[idle->get()] = {lease.lease, unscheduled};
  } catch (const Error& error) {  // more threads than cores, say
    ended_.push_back({lease.lease, true, {.outcome = Outcome::kBuildFailed, .message = error.what()}});
    jobs_.erase(lease.lease);
  }
}

void Pipeline::built(uint64_t lease, bool unscheduled, const Report& report) {
  Job& job = *jobs_.at(lease);
  Reply reply = reply_of(report, /*build=*/true);
  if (reply.outcome == Outcome::kOk) {
    // Builds that fail are not kept: the next worker or release may do better.
    artifacts_.add(ArtifactCache::key_of(job.lease, unscheduled), reply.artifact);
    (unscheduled ? job.reference : job.artifact) = std::move(reply.artifact);
    job.build_seconds += report.wall_seconds;
    return next_build(lease);
  }
  if (unscheduled) reply.message = kUnscheduled + reply.message;
  ended_.push_back({lease,
                    true,
                    {.outcome = reply.outcome,
                     .message = std::move(reply.message),
                     .signal = signal_of(report),
                     .build_seconds = job.build_seconds + report.wall_seconds}});
  jobs_.erase(lease);
}

// --- run

// For a runner by the reference's code, since it has no workload's text.
std::string Pipeline::case_key(const wire::Lease& lease) const {
  if (lease.part == wire::Part::kRun) return fmt::format("{} {}", lease.reference.digest, lease.seed);
  return fmt::format("{} {} {}", sha256(lease.workload), lease.target, lease.seed);
}

void Pipeline::run(const wire::Lease& lease) {
  CHECK(running_ == 0 && jobs_.contains(lease.lease), "lease {} cannot run now", lease.lease);
  running_ = lease.lease;
  jobs_.at(running_)->lease.evaluation = lease.evaluation;
  again_ = false;
  first_ = {};
  attempt([&] { next_step(); });
}

void Pipeline::run(const wire::Lease& lease, const std::string& artifact, const std::string& reference) {
  CHECK(running_ == 0, "lease {} cannot run now", lease.lease);
  auto job = std::make_unique<Job>();
  job->lease = lease;
  try {
    Artifact candidate = decode_artifact(artifact);
    // Throws for what its sizes or indices cannot be (jobs.cpp); the code itself runs confined.
    job->reference = decode_artifact(reference);
    // It came over the network: its sizes are not yet believed.
    check_memory(candidate);
    check_memory(job->reference);
    job->keep(std::move(candidate));
  } catch (const Error& error) {
    ended_.push_back({lease.lease, false, {.outcome = Outcome::kCrashed, .message = error.what()}});
    return;
  }
  jobs_[lease.lease] = std::move(job);
  run(lease);
}

void Pipeline::next_step() {
  // Inputs and what the unscheduled program makes of them: once for all candidates of a workload.
  // The least recently used cases go, so it may be made again.
  const CaseStore::Case* made = cases_.find(case_key(jobs_.at(running_)->lease));
  if (!made) return start_reference();
  // A workload whose reference fails is not tried again with every candidate, which takes minutes.
  if (!made->failure.empty())
    return end_run({.outcome = Outcome::kBuildFailed, .message = kUnscheduled + made->failure});
  start_measuring();
}

/// A step that this machine has no memory or process for ends the run, not the worker.
void Pipeline::attempt(const std::function<void()>& step) {
  try {
    step();
  } catch (const Error& error) {
    if (running_) end_run({.outcome = Outcome::kCrashed, .message = error.what()});
  }
}

void Pipeline::start_reference() {
  const wire::Lease& lease = jobs_.at(running_)->lease;
  if (lease.part == wire::Part::kRun) {
    reference_ = jobs_.at(running_)->reference;
    return start_reference_run();
  }
  step_ = Step::kReferenceBuild;
  // A builder of its own: all others may be busy with candidates, which wait for nothing.
  reference_builder_.start(
      {.request = encode(BuildJob{lease.workload, "", lease.target, /*unscheduled=*/true}),
       .limits = {
           .wall_seconds = 60, .cpu_seconds = 120, .memory_bytes = kBuildMemory, .file_bytes = 256u << 20}});
}

void Pipeline::reference_built(const Report& report) {
  Reply reply = reply_of(report, /*build=*/true);
  if (reply.outcome != Outcome::kOk) return case_failed(reply.message);
  reference_ = std::move(reply.artifact);
  start_reference_run();
}

void Pipeline::start_reference_run() {
  const wire::Lease& lease = jobs_.at(running_)->lease;
  step_ = Step::kReferenceRun;
  // One that a run has left unfinished is used again: it is cut to its size, and written anew.
  if (reference_case_ < 0) reference_case_ = memory_file("case", "");
  const int object = memory_file("object", reference_.object);
  seal(object);
  // The object goes by descriptor: sealed, so that what is run is what was built.
  RunJob job{.artifact = reference_, .seed = lease.seed, .reference = true};
  job.artifact.object.clear();
  const uint64_t file_bytes =
      static_cast<uint64_t>(case_layout(reference_.all_buffers()).back()) + (64u << 20);
  runner_.start({.request = encode(job),
                 .descriptors = {object, reference_case_},
                 // No CPU limit: the wall limit is enough where nobody is timed.
                 .limits = {.wall_seconds = kReferenceRunSeconds,
                            .memory_bytes = memory_for(reference_),
                            .file_bytes = file_bytes,
                            .cpus = plan_cores(static_cast<int>(lease.evaluation.threads)).run}});
  close(object);
}

void Pipeline::reference_ran(const Report& report) {
  // Once: a reference that takes all memory is killed each time.
  if (killed_from_outside(report) && !std::exchange(again_, true)) return start_reference_run();
  again_ = false;
  const Reply reply = reply_of(report, /*build=*/false);
  if (reply.outcome != Outcome::kOk) return case_failed(reply.message);
  // So that no candidate can make its wrong outputs right.
  seal(reference_case_);  // candidates get it
  cases_.add({.key = case_key(jobs_.at(running_)->lease),
              .descriptor = std::exchange(reference_case_, -1),
              .bytes = case_layout(reference_.all_buffers()).back()});
  next_step();
}

void Pipeline::case_failed(const std::string& why) {
  // Failures too, with no bytes: see next_step.
  cases_.add({.key = case_key(jobs_.at(running_)->lease), .failure = why});
  next_step();
}

void Pipeline::start_measuring() {
  Job& job = *jobs_.at(running_);
  step_ = Step::kMeasure;
  const wire::Evaluation& evaluation = job.lease.evaluation;
  const CorePlan cores = plan_cores(static_cast<int>(evaluation.threads));
  const RunJob request{
      .artifact = job.artifact, .evaluation = evaluation, .seed = job.lease.seed, .canary_seconds = canary_};
  cpus_ = cores.run;
  // A host that gives the cores to another guest slows them without a switch that this system could count.
  stolen_ = stolen_seconds(cpus_);
  runner_.start({.request = encode(request),
                 .descriptors = {job.object, cases_.find(case_key(job.lease))->descriptor},
                 .limits = {.wall_seconds = evaluation.run_limit_seconds,
                            // Of all threads together: each may compute for as long as the wall limit.
                            .cpu_seconds = (evaluation.run_limit_seconds + 1) * evaluation.threads,
                            .memory_bytes = memory_for(job.artifact),
                            .cpus = cores.run},
                 .stop_builders = cores.stop_builders});
}

/// Whether the host of this virtual machine took much of the cores while the child ran on them.
bool Pipeline::was_stolen_from(const Report& report) const {
  const double had = report.wall_seconds * static_cast<double>(cpus_.size());
  return stolen_seconds(cpus_) - stolen_ > kMostStolen * had;
}

void Pipeline::measured(const Report& report) {
  // Once more: it may have been the kernel, short of memory, and a blameless candidate.
  if (killed_from_outside(report) && !std::exchange(again_, true)) return start_measuring();
  Reply reply = reply_of(report, /*build=*/false);
  // The best that a child has ever seen here is what the next ones compare with.
  if (reply.canary_seconds > 0) canary_ = kCanaryAges * reply.canary_seconds;
  if (reply.outcome == Outcome::kOk && was_stolen_from(report) && !std::exchange(again_, true)) {
    first_ = reply.disturbance;
    // Its samples are not used, but the job's report counts them.
    first_.disturbed = first_.taken;
    return start_measuring();
  }
  // The tracker refuses such a result (wire.cpp), so its lease would end by its time alone.
  if (reply.outcome == Outcome::kOk && reply.samples.empty())
    reply = {.outcome = Outcome::kCrashed, .message = "the child reported no samples"};
  end_run({.outcome = reply.outcome,
           .samples = std::move(reply.samples),
           .message = std::move(reply.message),
           .signal = signal_of(report),
           .relative_error = reply.relative_error,
           .run_seconds = report.wall_seconds,
           .disturbance = together(reply.disturbance, std::exchange(first_, {})),
           // Here and not in the child, which is kept from the files of the system.
           .celsius = sensors_.celsius(),
           .timer_seconds = timer_seconds_});
}

void Pipeline::end_run(wire::Result report) {
  const uint64_t lease = std::exchange(running_, 0);
  report.artifact = jobs_.at(lease)->artifact.digest;
  jobs_.erase(lease);
  ended_.push_back({lease, false, std::move(report)});
}

// --- races

void Pipeline::race(const wire::Lease& lease, const std::string& incumbent, const std::string& challenger) {
  // By then both modules are here: the agent has fetched them.
  CHECK(running_ == 0, "lease {} cannot run now", lease.lease);
  running_ = lease.lease;
  step_ = Step::kRace;
  jobs_[running_] = std::make_unique<Job>();
  jobs_[running_]->lease = lease;
  std::vector<int> files;
  try {
    const wire::Evaluation& evaluation = lease.evaluation;
    const CorePlan cores = plan_cores(static_cast<int>(evaluation.threads));
    for (const std::string* module : {&incumbent, &challenger}) {
      files.push_back(memory_file("module", *module));
      seal(files.back());
    }
    for (int i = 0; i < 2; ++i) files.push_back(memory_file("code", ""));
    // Descriptors in this order: two modules, two empty files for their code (module_race.cpp).
    runner_.start({.request = encode(RunJob{.evaluation = evaluation, .race = true}),
                   .descriptors = files,
                   .limits = {.wall_seconds = evaluation.run_limit_seconds,
                              .cpu_seconds = (evaluation.run_limit_seconds + 1) * evaluation.threads,
                              .memory_bytes = kRaceMemory + incumbent.size() + challenger.size(),
                              .file_bytes = kCodeBytes,
                              .cpus = cores.run},
                   .stop_builders = cores.stop_builders});
  } catch (const Error& error) {
    end_run({.outcome = Outcome::kBuildFailed, .message = error.what()});
  }
  for (int file : files) close(file);  // the child has them
}

/// What this machine could not do says nothing of the modules: that is no crash of theirs.
void Pipeline::raced(const Report& report) {
  Reply reply = reply_of(report, /*build=*/killed_from_outside(report));
  if (reply.outcome == Outcome::kOk && (reply.samples.empty() || reply.samples.size() % 2 != 0))
    reply = {.outcome = Outcome::kCrashed, .message = "the child reported no turns"};
  end_run({.outcome = reply.outcome,
           .samples = std::move(reply.samples),
           .message = std::move(reply.message),
           .signal = signal_of(report),
           .run_seconds = report.wall_seconds});
}

// --- canaries

void Pipeline::run_canaries() {
  CHECK(running_ == 0, "canaries cannot run now");
  step_ = Step::kCanaries;
  try {
    const CorePlan cores = plan_cores(1);
    // A window of its own: open_window in run_body.
    runner_.start({.request = encode(RunJob{.canary = true}),
                   .limits = {.wall_seconds = kCanarySeconds, .memory_bytes = kRunMemory, .cpus = cores.run},
                   .stop_builders = cores.stop_builders});
  } catch (const Error&) {
    ended_.push_back({.canary = wire::Canary()});
  }
}

/// A machine that cannot even do that says so with times of 0.
void Pipeline::canaries_ran(const Report& report) {
  const Reply reply = reply_of(report, /*build=*/false);
  ended_.push_back({.canary = reply.outcome == Outcome::kOk ? reply.canary : wire::Canary()});
}

// --- both

void Pipeline::discard(uint64_t lease) {
  for (auto it = building_.begin(); it != building_.end(); ++it) {
    if (it->second.lease != lease) continue;
    // A new one is started for the next task, and its libraries load again: some tenths of a second.
    // Its supervisor dies with it: a task that is given up sends no report that might be taken for the next
    // one's.
    it->first->abort();
    building_.erase(it);
    break;
  }
  // A canary that runs is nobody's lease, and goes on.
  if (running_ == lease) {
    reference_builder_.abort();
    runner_.abort();
    running_ = 0;
  }
  jobs_.erase(lease);
}

// Called whenever one of descriptors() is readable; all transitions happen here, on the worker's one thread.
std::vector<Pipeline::Ended> Pipeline::collect() {
  for (const auto& builder : builders_) {
    if (!builder->busy()) continue;
    // Not ended yet.
    const std::optional<Report> report = builder->finish();
    if (!report) continue;
    const Building building = building_.extract(builder.get()).mapped();
    built(building.lease, building.unscheduled, *report);
  }
  if (reference_builder_.busy())
    if (const auto report = reference_builder_.finish()) attempt([&] { reference_built(*report); });
  if (runner_.busy())
    if (const auto report = runner_.finish()) {
      switch (step_) {
        case Step::kCanaries:
          canaries_ran(*report);
          break;
        case Step::kRace:
          raced(*report);
          break;
        case Step::kReferenceRun:
          attempt([&] { reference_ran(*report); });
          break;
        default:
          attempt([&] { measured(*report); });
      }
    }
  return std::exchange(ended_, {});
}

std::vector<int> Pipeline::descriptors() const {
  std::vector<int> result;
  for (const auto& builder : builders_)
    if (builder->busy()) result.push_back(builder->descriptor());
  for (const Sandbox* sandbox : {&reference_builder_, &runner_})
    if (sandbox->busy()) result.push_back(sandbox->descriptor());
  return result;
}

}  // namespace lathe::worker
