// The processes of service_test: supervisors with a fake builder, workers, and jobs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "tests/tracker/service.h"
#include "tracker/store_journal.h"
#include "tracker/tracker.h"
#include "workers/device.h"
#include "workers/jobs.h"
#include "workers/measure.h"
#include "workers/sandbox.h"
#include "workers/worker.h"

namespace lathe {
namespace {

std::string kernels;  // a builder may not read them where they are
void load_kernels() { kernels = read_file(TEST_KERNELS); }

/// Stands for the compiler: the first word of the trace is the kernel of tests/workers/kernels.cpp to
/// "build".
std::string fake_build(std::string_view request, worker::Child&) {
  const worker::BuildJob job = worker::decode_build_job(request);
  const std::string kernel = job.unscheduled ? "good" : job.trace.substr(0, job.trace.find(' '));
  if (kernel == "no_build")
    return encode(worker::Reply{.outcome = Outcome::kBuildFailed, .message = "no such thing"});
  if (kernel == "compiler_crash") abort();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  worker::Artifact artifact{.object = kernels, .main = {kernel, 0, {0, 1, 2}}};
  for (int i = 0; i < 3; ++i)
    artifact.buffers.push_back({.shape = {4096}, .dtype = kFloat32, .output = i == 2});
  artifact.digest = sha256(artifact.object);
  return encode(worker::Reply{.artifact = std::move(artifact)});
}

constexpr worker::Role kRoles[] = {
    {"build", worker::Confinement::kBuild, load_kernels, fake_build},
    {"run", worker::Confinement::kRun, nullptr, worker::run_body},
};

/// `role`: "build" for runners elsewhere, "run" what others build, or "" for both.
int worker_main(const std::string& endpoint, const std::string& name, const std::string& role) {
  worker::serve({.tracker = endpoint,
                 .name = name,
                 .device = to_json(worker::probe_device()),
                 .duty = role == "build" ? worker::Duty::kBuild
                         : role == "run" ? worker::Duty::kRun
                                         : worker::Duty::kBoth,
                 .builders = 2,
                 .builds = role == "build" ? std::vector<std::string>{"cpu"} : std::vector<std::string>(),
                 .log = [&](const std::string& line) { fmt::print(stderr, "[{}] {}\n", name, line); }});
  return 0;
}

/// What `tune` does with a job: submits what is missing, waits for all results.
int job_main(const std::string& endpoint, const std::string& database) {
  tracker::Tracker tracker(
      {.endpoint = endpoint,
       .open_journal = [&] { return tracker::open_store_journal(database); },
       .log = [](const std::string& line) { fmt::print(stderr, "[tracker] {}\n", line); }});
  tracker::testing::run_job(tracker, database);
  return 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "internal-sandbox") return lathe::worker::supervise(lathe::kRoles, {argv, argv + argc});
    if (command == "worker") return lathe::worker_main(argv[2], argv[3], argv[4]);
    if (command == "job") return lathe::job_main(argv[2], argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
