#include "workers/build.h"

#include "core/arith/simplify.h"
#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/family.h"
#include "schedules/schedule.h"
#include "workers/jobs.h"
#include "workers/measure.h"
#include "workers/module_run.h"

namespace lathe::worker {
namespace {

size_t inputs_of(const tir::Func& func) { return func->params.size() - static_cast<size_t>(func->outputs); }

/// What `expr` is with these values for the dimensions.
int64_t at_dims(const Expr& expr, std::span<const Var> dims, std::span<const int64_t> values) {
  VarMap numbers;
  for (size_t i = 0; i < dims.size(); ++i) numbers[dims[i].get()] = Expr(values[i]);
  const Expr bound = simplify(substitute(expr, numbers));
  const int64_t* number = as_int(bound);
  if (!number) fail("{} is no number once all dimensions are", tir::print(expr));
  return *number;
}

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

/// The sizes of `scheduled` at these values of its dimensions.
Sizes sizes_at(const tir::Func& scheduled, const codegen::Kernel& main, std::span<const Var> taken,
               std::span<const int64_t> values) {
  const std::vector<Var> dims = tir::dims_of(*scheduled);
  Sizes sizes{.workspace_bytes =
                  main.open_workspace ? at_dims(main.open_workspace, dims, values) : main.workspace_bytes,
              .buffers = buffers_of(tir::with_dims(scheduled, values))};
  for (const Var& dim : taken) sizes.dims.push_back(at_dims(dim, dims, values));
  return sizes;
}

/// `checked`: values of its dimensions, besides the typical ones.
Artifact compile(const tir::Func& scheduled, const Target& target,
                 std::span<const std::vector<int64_t>> checked) {
  // As the final build does it: what depends on constants alone runs once, ahead of what is timed.
  const tir::SplitProgram parts = tir::split_prologue(scheduled);
  std::vector<tir::Func> lowered = {tir::lower(parts.main, target)};
  if (parts.prologue) lowered.push_back(tir::lower(parts.prologue, target));
  codegen::Artifact compiled = codegen::compile(lowered, target);
  // In the order they were given.
  CHECK(compiled.kernels.size() == lowered.size());
  const size_t buffers = scheduled->params.size();
  const auto at = [&, taken = tir::dims_of(*lowered[0])](std::span<const int64_t> values) {
    return sizes_at(scheduled, compiled.kernels[0], taken, values);
  };
  Sizes timed = at(schedule::typical_dims(scheduled));
  Artifact artifact{.object = std::move(compiled.bytes),
                    .digest = std::move(compiled.sha256),
                    .main = kernel_spec(compiled.kernels[0], parts.main_params, buffers),
                    .buffers = std::move(timed.buffers),
                    .dims = std::move(timed.dims)};
  artifact.main.workspace_bytes = timed.workspace_bytes;
  for (const std::vector<int64_t>& values : checked) artifact.checked.push_back(at(values));
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
  // Of the workload: a candidate and its reference are compared at the same.
  const std::vector<std::vector<int64_t>> checked = schedule::checked_dims(func);
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
    return encode(Reply{.artifact = compile(func, target, checked)});
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
