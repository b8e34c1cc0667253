#include "workers/build.h"

#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/schedule.h"
#include "workers/jobs.h"
#include "workers/measure.h"

namespace lathe::worker {
namespace {

std::vector<BufferSpec> buffers_of(const tir::Func& func) {
  std::vector<BufferSpec> buffers;
  const size_t inputs = func->params.size() - static_cast<size_t>(func->outputs);
  for (const tir::Buffer& param : func->params)
    buffers.push_back(
        {.shape = tir::constant_shape(param), .dtype = param->dtype, .output = buffers.size() >= inputs});
  return buffers;
}

Artifact compile(const tir::Func& scheduled, const Target& target) {
  const tir::Func lowered = tir::lower(scheduled, target);
  codegen::Artifact compiled = codegen::compile({&lowered, 1}, target);
  CHECK(compiled.kernels.size() == 1);
  return {.object = std::move(compiled.bytes),
          .digest = std::move(compiled.sha256),
          .kernel = compiled.kernels[0].name,
          .workspace_bytes = compiled.kernels[0].workspace_bytes,
          .buffers = buffers_of(scheduled)};
}

}  // namespace

std::string build_body(std::string_view request, Child&) {
  const BuildJob job = decode_build_job(request);
  const auto failed = [](Outcome outcome, const Error& error) {
    return encode(Reply{.outcome = outcome, .message = error.what()});
  };
  Target target;
  tir::Func func;
  try {
    target = codegen::resolve_target(job.target);
    func = tir::parse_func(job.workload, "workload");
    tir::verify(func);  // it came over the wire
  } catch (const Error& error) {
    return failed(Outcome::kBuildFailed, error);
  }
  if (!job.unscheduled) {
    try {
      func = schedule::replay(schedule::parse_trace(job.trace), func);
    } catch (const Error& error) {
      return failed(Outcome::kInvalidTrace, error);
    }
  }
  try {
    return encode(Reply{.artifact = compile(func, target)});
  } catch (const Error& error) {
    return failed(Outcome::kBuildFailed, error);
  }
}

void warm_up_compiler() { codegen::resolve_target("cpu"); }

int internal_sandbox_main(int argc, char** argv) {
  static constexpr Role kRoles[] = {
      {"build", Confinement::kBuild, warm_up_compiler, build_body},
      {"run", Confinement::kRun, nullptr, run_body},
  };
  try {
    return supervise(kRoles, {argv, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}

}  // namespace lathe::worker
