// A worker whose device is deterministic: what a candidate takes is a function of its trace, whoever measures
// it and when; and of two builds of a model the untuned one is the faster. For tests in which farms must
// agree, or that need that end: fake_device ENDPOINT NAME
#include <fmt/core.h>

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "core/support/digest.h"
#include "core/tir/target.h"
#include "workers/device.h"
#include "workers/jobs.h"
#include "workers/sandbox.h"
#include "workers/worker.h"

namespace lathe {
namespace {

/// Stands for the compiler: the "machine code" is the trace, and its digest that of the trace.
std::string fake_build(std::string_view request, worker::Child&) {
  const worker::BuildJob job = worker::decode_build_job(request);
  worker::Artifact artifact{
      .object = job.unscheduled ? "unscheduled" : job.trace,
      .main = {.symbol = "main", .params = {0, 1}},
      .buffers = {{.shape = {1}, .dtype = kFloat32}, {.shape = {1}, .dtype = kFloat32, .output = true}}};
  artifact.digest = sha256(artifact.object);
  return encode(worker::Reply{.artifact = std::move(artifact)});
}

/// Untuned 1 ms, tuned 2 ms.
std::string fake_race() {
  worker::Reply reply;
  for (int turn = 0; turn < 10; ++turn) reply.samples.insert(reply.samples.end(), {1e-3f, 2e-3f});
  return encode(reply);
}

/// 1 to 10 ms, by the digest; one candidate in twelve gives wrong outputs.
std::string fake_run(std::string_view request, worker::Child&) {
  const worker::RunJob job = worker::decode_run_job(request);
  if (job.race) return fake_race();
  if (job.reference) return encode(worker::Reply{});
  const unsigned long long hash = std::stoull(job.artifact.digest.substr(0, 8), nullptr, 16);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough to be killed in the midst of
  if (hash % 12 == 0)
    return encode(worker::Reply{.outcome = Outcome::kWrongResult, .message = "as it should"});
  const auto seconds = static_cast<float>(1e-3 + 9e-3 * static_cast<double>(hash) / 0x1p32);
  return encode(worker::Reply{.samples = {seconds, seconds, seconds}});
}

constexpr worker::Role kRoles[] = {
    {"build", worker::Confinement::kTrusted, nullptr, fake_build},
    {"run", worker::Confinement::kTrusted, nullptr, fake_run},
};

std::string fake_device() {
  const Target target = parse_target_text("cpu:triple=x86_64-pc-linux-gnu,mcpu=haswell,vector=256");
  const MachineLimits limits{1e11, 1e10};
  return worker::to_json({.host = "nowhere",
                          .model = "a function of the trace",
                          .architecture = "x86_64",
                          .cores = 2,
                          .target = to_text(target),
                          .limits_core = limits,
                          .limits = limits});
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  using namespace lathe;
  try {
    if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
      return worker::supervise(kRoles, {argv, argv + argc});
    if (argc != 3) return 2;
    worker::serve(
        {.tracker = argv[1], .name = argv[2], .device = fake_device(), .builders = 1, .canaries = false});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
