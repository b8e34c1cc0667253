#include "workers/run_stage.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/unfit.h"
#include "workers/child_reply.h"
#include "workers/disturbance.h"
#include "workers/packets.h"
#include "workers/quiet.h"

namespace lathe::worker {
namespace {

// Inputs and reference results, in memory files, which count as this machine's memory.
constexpr int64_t kCaseBytes = int64_t{2} << 30;
constexpr uint64_t kRunMemory = uint64_t{2} << 30;    // beyond the buffers
constexpr uint64_t kRaceMemory = uint64_t{8} << 30;   // beyond the modules' files
constexpr uint64_t kCodeBytes = uint64_t{256} << 20;  // of a module
constexpr double kReferenceRunSeconds = 120;          // the unscheduled program is slow
constexpr double kCanarySeconds = 10;                 // limit; they take 15 ms
constexpr double kMostStolen = 0.05;                  // of the time of the cores; else it is measured again
constexpr double kCanaryAges =
    1.02;  // from one to the next: a clock that became lower for good is not load for ever

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

RunStage::RunStage(const std::vector<std::string>& command)
    : reference_builder_(with_role(command, "build")),
      runner_(with_role(command, "run")),
      cases_(kCaseBytes) {}

RunStage::~RunStage() {
  if (reference_case_ >= 0) close(reference_case_);
}

// For a runner by the reference's code, since it has no workload's text.
std::string RunStage::case_key(const wire::Lease& lease) const {
  if (lease.part == wire::Part::kRun) return fmt::format("{} {}", lease.reference.digest, lease.seed);
  return fmt::format("{} {} {}", sha256(lease.workload), lease.target, lease.seed);
}

void RunStage::start(std::unique_ptr<Candidate> candidate) {
  CHECK(!busy(), "lease {} cannot run now", candidate->lease.lease);
  running_ = std::move(candidate);
  attempts_ = {};
  first_ = {};
  attempt([&] { next_step(); });
}

void RunStage::start(const wire::Lease& lease, const std::string& artifact, const std::string& reference) {
  auto candidate = std::make_unique<Candidate>(lease);
  try {
    Artifact built = decode_artifact(artifact);
    // Throws for what its sizes or indices cannot be (jobs.cpp); the code itself runs confined.
    candidate->reference = decode_artifact(reference);
    // It came over the network: its sizes are not yet believed.
    check_memory(built);
    check_memory(candidate->reference);
    candidate->keep(std::move(built));
  } catch (const Error& error) {
    ended_.push_back({lease.lease, false, {.outcome = Outcome::kCrashed, .message = error.what()}});
    return;
  }
  start(std::move(candidate));
}

void RunStage::next_step() {
  // Inputs and what the unscheduled program makes of them: once for all candidates of a workload.
  // The least recently used cases go, so it may be made again.
  const CaseStore::Case* made = cases_.find(case_key(running_->lease));
  if (!made) return start_reference();
  // A workload whose reference fails is not tried again with every candidate, which takes minutes.
  if (!made->failure.empty())
    return end_run({.outcome = Outcome::kBuildFailed, .message = std::string(kUnscheduled) + made->failure});
  start_measuring();
}

/// A step that this machine has no memory or process for ends the run, not the worker.
void RunStage::attempt(const std::function<void()>& step) {
  try {
    step();
  } catch (const Unfit& error) {  // no supervisor either: see Sandbox::start
    if (running_) lose_run(error.what());
  } catch (const Error& error) {
    if (running_) end_run({.outcome = Outcome::kCrashed, .message = error.what()});
  }
}

void RunStage::start_reference() {
  const wire::Lease& lease = running_->lease;
  if (lease.part == wire::Part::kRun) {
    reference_ = running_->reference;
    return start_reference_run();
  }
  step_ = Step::kReferenceBuild;
  // A builder of its own: all others may be busy with candidates, which wait for nothing.
  reference_builder_.start(
      {.request = encode(BuildJob{lease.workload, "", lease.target, /*unscheduled=*/true}),
       .limits = {
           .wall_seconds = 60, .cpu_seconds = 120, .memory_bytes = kBuildMemory, .file_bytes = 256u << 20}});
}

void RunStage::reference_built(const Report& report) {
  if (attempts_.again(report)) return start_reference();
  if (report.end == Report::End::kLost) return lose_run(describe(report));
  Reply reply = reply_of(report, /*build=*/true);
  if (const std::string unfit = why_build_says_nothing(reply); !unfit.empty())
    return attempts_.again({.end = Report::End::kLost}) ? start_reference() : lose_run(unfit);
  attempts_ = {};
  if (reply.outcome != Outcome::kOk) return case_failed(reply.message);
  reference_ = std::move(reply.artifact);
  start_reference_run();
}

void RunStage::start_reference_run() {
  const wire::Lease& lease = running_->lease;
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

void RunStage::reference_ran(const Report& report) {
  if (attempts_.again(report)) return start_reference_run();
  attempts_ = {};
  if (report.end == Report::End::kLost) return lose_run(describe(report));
  const Reply reply = reply_of(report, /*build=*/false);
  if (reply.outcome != Outcome::kOk) return case_failed(reply.message);
  // So that no candidate can make its wrong outputs right.
  seal(reference_case_);  // candidates get it
  cases_.add({.key = case_key(running_->lease),
              .descriptor = std::exchange(reference_case_, -1),
              .bytes = case_layout(reference_.all_buffers()).back()});
  next_step();
}

void RunStage::case_failed(const std::string& why) {
  // Failures too, with no bytes: see next_step.
  cases_.add({.key = case_key(running_->lease), .failure = why});
  next_step();
}

void RunStage::start_measuring() {
  Candidate& candidate = *running_;
  step_ = Step::kMeasure;
  const wire::Evaluation& evaluation = candidate.lease.evaluation;
  const CorePlan cores = plan_cores(static_cast<int>(evaluation.threads));
  const RunJob request{.artifact = candidate.artifact,
                       .evaluation = evaluation,
                       .seed = candidate.lease.seed,
                       .canary_seconds = canary_};
  cpus_ = cores.run;
  // A host that gives the cores to another guest slows them without a switch that this system could count.
  stolen_ = stolen_seconds(cpus_);
  runner_.start({.request = encode(request),
                 .descriptors = {candidate.object, cases_.find(case_key(candidate.lease))->descriptor},
                 .limits = {.wall_seconds = evaluation.run_limit_seconds,
                            // Of all threads together: each may compute for as long as the wall limit.
                            .cpu_seconds = (evaluation.run_limit_seconds + 1) * evaluation.threads,
                            .memory_bytes = memory_for(candidate.artifact),
                            .cpus = cores.run},
                 .stop_builders = cores.stop_builders});
}

/// Whether the host of this virtual machine took much of the cores while the child ran on them.
bool RunStage::was_stolen_from(const Report& report) const {
  const double had = report.wall_seconds * static_cast<double>(cpus_.size());
  return stolen_seconds(cpus_) - stolen_ > kMostStolen * had;
}

void RunStage::measured(const Report& report) {
  if (attempts_.again(report)) return start_measuring();
  if (report.end == Report::End::kLost) return lose_run(describe(report));
  Reply reply = reply_of(report, /*build=*/false);
  if (reply.outcome == Outcome::kOk && was_stolen_from(report) && attempts_.second()) {
    first_ = reply.disturbance;
    // Its samples are not used, but the job's report counts them.
    first_.disturbed = first_.taken;
    return start_measuring();
  }
  // The child is the candidate's: what is kept of it is bounded, and so is what a job adds up of it.
  const wire::Evaluation& asked = running_->lease.evaluation;
  const uint32_t most = std::max({asked.min_samples, asked.max_samples, 1u});
  if (reply.samples.size() > most)
    reply = {.outcome = Outcome::kCrashed,
             .message = fmt::format("the child reported {} samples of {}", reply.samples.size(), most)};
  reply.disturbance.taken = std::min(reply.disturbance.taken, 2 * most);
  reply.disturbance.disturbed = std::min(reply.disturbance.disturbed, reply.disturbance.taken);
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

void RunStage::end_run(wire::Result report) {
  const std::unique_ptr<Candidate> ended = std::move(running_);
  report.artifact = ended->artifact.digest;
  ended_.push_back({ended->lease.lease, false, std::move(report)});
}

/// Of the candidate nothing is known, and neither of its workload: another machine may do better.
void RunStage::lose_run(std::string why) {
  const std::unique_ptr<Candidate> lost = std::move(running_);
  ended_.push_back({.lease = lost->lease.lease, .report = {.message = std::move(why)}, .lost = true});
}

// --- races

void RunStage::race(const wire::Lease& lease, const std::string& incumbent, const std::string& challenger) {
  // By then both modules are here: the agent has fetched them.
  CHECK(!busy(), "lease {} cannot run now", lease.lease);
  running_ = std::make_unique<Candidate>(lease);
  step_ = Step::kRace;
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
  } catch (const Unfit& error) {  // another worker may race them
    lose_run(error.what());
  } catch (const Error& error) {
    end_run({.outcome = Outcome::kBuildFailed, .message = error.what()});
  }
  for (int file : files) close(file);  // the child has them
}

/// What this machine could not do says nothing of the modules: that is no crash of theirs.
void RunStage::raced(const Report& report) {
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

void RunStage::run_canaries() {
  CHECK(!busy(), "canaries cannot run now");
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
void RunStage::canaries_ran(const Report& report) {
  const Reply reply = reply_of(report, /*build=*/false);
  // What measurements compare the machine's load with; not by their own word, which is the candidates'.
  if (reply.outcome == Outcome::kOk && reply.canary_seconds > 0)
    canary_ = canary_ > 0 ? std::min(kCanaryAges * canary_, reply.canary_seconds) : reply.canary_seconds;
  ended_.push_back({.canary = reply.outcome == Outcome::kOk ? reply.canary : wire::Canary()});
}

void RunStage::discard(uint64_t lease) {
  // A canary that runs is nobody's lease, and goes on.
  if (!running_ || running_->lease.lease != lease) return;
  reference_builder_.abort();
  runner_.abort();
  running_ = nullptr;
}

std::vector<Ended> RunStage::collect() {
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

std::vector<int> RunStage::descriptors() const {
  std::vector<int> result;
  for (const Sandbox* sandbox : {&reference_builder_, &runner_})
    if (sandbox->busy()) result.push_back(sandbox->descriptor());
  return result;
}

}  // namespace lathe::worker
