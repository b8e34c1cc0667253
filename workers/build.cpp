#include "workers/build.h"

#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/schedule.h"
#include "workers/jobs.h"
#include "workers/measure.h"
#include "workers/module_run.h"

namespace lathe::worker {
namespace {

size_t inputs_of(const tir::Func& func) { return func->params.size() - static_cast<size_t>(func->outputs); }

std::vector<BufferSpec> buffers_of(const tir::Func& func) {
  std::vector<BufferSpec> buffers;
  for (const tir::Buffer& param : func->params)
    buffers.push_back({.shape = tir::constant_shape(param),
                       .dtype = param->dtype,
                       .output = buffers.size() >= inputs_of(func),
                       .constant = tir::is_constant_param(func, buffers.size())});
  return buffers;
}

KernelSpec kernel_spec(const codegen::Kernel& kernel, const std::vector<tir::PartParam>& params,
                       size_t buffers) {
  KernelSpec spec{.symbol = kernel.name, .workspace_bytes = kernel.workspace_bytes};
  for (auto [from_prologue, number] : params)
    // Numbers of buffers first, then of what the prologue makes: jobs.h has them in that order.
    spec.params.push_back(static_cast<uint32_t>(from_prologue ? buffers + number : number));
  return spec;
}

Artifact compile(const tir::Func& scheduled, const Target& target) {
  // As the final build does it: what depends on constants alone runs once, ahead of what is timed.
  const tir::SplitProgram parts = tir::split_prologue(scheduled);
  std::vector<tir::Func> lowered = {tir::lower(parts.main, target)};
  if (parts.prologue) lowered.push_back(tir::lower(parts.prologue, target));
  codegen::Artifact compiled = codegen::compile(lowered, target);
  // In the order they were given.
  CHECK(compiled.kernels.size() == lowered.size());
  const size_t buffers = scheduled->params.size();
  Artifact artifact{.object = std::move(compiled.bytes),
                    .digest = std::move(compiled.sha256),
                    .main = kernel_spec(compiled.kernels[0], parts.main_params, buffers),
                    .buffers = buffers_of(scheduled)};
  if (!parts.prologue) return artifact;
  artifact.prologue = kernel_spec(compiled.kernels[1], parts.prologue_params, buffers);
  for (size_t p = inputs_of(parts.prologue); p < parts.prologue->params.size(); ++p) {
    const tir::Buffer& made = parts.prologue->params[p];
    artifact.made.push_back({.shape = tir::constant_shape(made), .dtype = made->dtype, .constant = true});
  }
  return artifact;
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
  if (job.unscheduled) {
    func = tir::with_constant_params(func, 0);  // the reference computes everything
  } else {
    try {
      // A trace that does not apply is the candidate's fault, and no failure of this machine.
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

/// In the supervisor: LLVM sets up its tables once, and every child that is forked from there has them.
void warm_up_compiler() { codegen::resolve_target("cpu"); }

int internal_sandbox_main(int argc, char** argv) {
  static constexpr Role kRoles[] = {
      {"build", Confinement::kBuild, warm_up_compiler, build_body},
      {"run", Confinement::kRun, nullptr, run_body},
      {"module", Confinement::kTrusted, nullptr, module_run_body},
  };
  try {
    return supervise(kRoles, {argv, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}

}  // namespace lathe::worker
