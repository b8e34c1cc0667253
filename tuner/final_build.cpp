#include "tuner/final_build.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <exception>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/codegen/compile.h"
#include "core/runtime/cores.h"
#include "core/runtime/thread_pool.h"
#include "core/support/text.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/graph_plan.h"
#include "tuner/in_place.h"
#include "tuner/prologue_kernels.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

/// One distinct program.
struct Kernel {
  std::string name;
  tir::Func workload;
  tir::SplitProgram parts = {};
  tir::Func lowered = {};  // of parts.main
};

/// f(0) .. f(n-1) on all cores; the first exception is thrown on.
void for_each_parallel(int64_t n, FunctionRef<void(int64_t)> f) {
  struct Shared {
    FunctionRef<void(int64_t)> f;
    int64_t n;
    std::atomic<int64_t> next = 0;
    std::mutex mutex = {};
    std::exception_ptr failure = {};
  } shared{f, n};
  int threads = static_cast<int>(std::clamp<int64_t>(n, 1, runtime::available_cores()));
  runtime::ThreadPool pool(threads);
  auto work = [](void* closure, int64_t, int64_t) {
    Shared& shared = *static_cast<Shared*>(closure);
    for (int64_t i; (i = shared.next++) < shared.n;) {
      try {
        shared.f(i);
      } catch (...) {
        std::lock_guard lock(shared.mutex);
        if (!shared.failure) shared.failure = std::current_exception();
        shared.next = shared.n;
      }
    }
  };
  pool.parallel()->launch(pool.parallel()->pool, work, &shared, threads);
  if (shared.failure) std::rethrow_exception(shared.failure);
}

/// A symbol that tells a person what the kernel does: conv2d_add_relu_12.
std::string symbol_name(const relay::Expr& callee, size_t number) {
  std::string name = kernel_name(callee);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return fmt::format("{}_{}", name, number);
}

tir::Func renamed(const tir::Func& func, const std::string& name) {
  auto copy = mutate(*func);
  copy->name = name;
  return seal(std::move(copy));
}

/// Which program a call runs, before equal ones are known: a callee is lowered once for each set of
/// constants.
using Callee = std::pair<const Node*, int64_t>;
Callee callee_of(const KernelCall& call) { return {call.callee.get(), call.constants}; }

struct DistinctKernels {
  std::vector<Kernel> kernels;
  std::map<Callee, size_t> kernel_of;

  size_t of(const KernelCall& call) const { return kernel_of.at(callee_of(call)); }
};

DistinctKernels distinct_kernels(const relay::Module& fused) {
  DistinctKernels result;
  std::vector<KernelCall> calls;
  for (KernelCall& call : kernel_calls(fused))
    if (result.kernel_of.try_emplace(callee_of(call)).second) calls.push_back(std::move(call));
  std::vector<tir::Func> workloads(calls.size());
  for_each_parallel(static_cast<int64_t>(calls.size()),
                    [&](int64_t i) { workloads[i] = workload_of(calls[i]); });
  std::unordered_map<std::string, size_t> by_text;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto [known, fresh] = by_text.try_emplace(tir::print(workloads[i]), result.kernels.size());
    if (fresh) result.kernels.push_back({symbol_name(calls[i].callee, known->second), workloads[i]});
    result.kernel_of[callee_of(calls[i])] = known->second;
  }
  return result;
}

/// Has prologue number `index` run for each call of `kernel`.
void add_prologue(GraphKernel& kernel, const tir::SplitProgram& parts, const PrologueKernels& prologues,
                  size_t index) {
  kernel.prologue = [&prologues, index](std::span<const Tensor> constants) {
    return prologues.run(index, constants);
  };
  for (auto [from_prologue, number] : parts.prologue_params)
    if (!from_prologue) kernel.prologue_arguments.push_back(number);
  kernel.arguments.assign(parts.main_params.begin(), parts.main_params.end() - parts.main->outputs);
}

/// CPU features as LLVM and as /proc/cpuinfo name them. Those of `target` outside this table are implied by
/// others, or nothing that generated code uses.
std::vector<std::string> cpu_features(const Target& target) {
  static constexpr std::pair<std::string_view, const char*> kFeatures[] = {
      {"+avx", "avx"},           {"+avx2", "avx2"},         {"+fma", "fma"},
      {"+f16c", "f16c"},         {"+avx512f", "avx512f"},   {"+avx512vl", "avx512vl"},
      {"+avx512bw", "avx512bw"}, {"+avx512dq", "avx512dq"}, {"+avx512cd", "avx512cd"},
      {"+sse4.2", "sse4_2"},     {"+bmi2", "bmi2"},
  };
  std::vector<std::string> needed;
  for (const std::string& feature : split_text(target.features, ','))
    for (const auto& [llvm, cpuinfo] : kFeatures)
      if (feature == llvm) needed.emplace_back(cpuinfo);
  return needed;
}

}  // namespace

ScheduleWorkload default_schedules(const Target& target) {
  return [target](const tir::Func& workload) {
    return schedule::replay(schedule::default_trace(workload, target), workload);
  };
}

runtime::ModuleImage final_build(const relay::Module& fused, const Target& target,
                                 const ScheduleWorkload& schedule) {
  DistinctKernels distinct = distinct_kernels(fused);
  std::vector<Kernel>& kernels = distinct.kernels;
  for_each_parallel(static_cast<int64_t>(kernels.size()), [&](int64_t i) {
    Kernel& kernel = kernels[i];
    kernel.parts = tir::split_prologue(renamed(schedule(kernel.workload), kernel.name));
    kernel.lowered = tir::lower(kernel.parts.main, target);
  });

  std::vector<tir::Func> lowered, prologues;
  for (const Kernel& kernel : kernels) lowered.push_back(kernel.lowered);
  codegen::Artifact artifact = codegen::compile(lowered, target);
  for (const Kernel& kernel : kernels)
    if (kernel.parts.prologue) prologues.push_back(kernel.parts.prologue);
  PrologueKernels prologue_kernels(prologues);
  std::vector<GraphKernel> compiled;
  size_t prologue = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    compiled.push_back({kernels[i].name, artifact.kernels[i].workspace_bytes,
                        count_flops(kernels[i].workload), in_place_arguments(*kernels[i].lowered)});
    if (kernels[i].parts.prologue)
      add_prologue(compiled.back(), kernels[i].parts, prologue_kernels, prologue++);
  }
  runtime::ModuleImage image = plan_graph(
      fused, [&](const KernelCall& call) -> const GraphKernel& { return compiled[distinct.of(call)]; });
  image.library = std::move(artifact.bytes);
  image.plan.target = to_text(target);
  image.plan.cpu_features = cpu_features(target);
  return image;
}

}  // namespace lathe::tuner
