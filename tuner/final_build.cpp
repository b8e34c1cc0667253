#include "tuner/final_build.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "core/codegen/compile.h"
#include "core/relay/lower.h"
#include "core/runtime/cores.h"
#include "core/runtime/thread_pool.h"
#include "core/support/text.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/graph_plan.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

using relay::Expr;

/// One distinct program and the callees that mean it.
struct Kernel {
  std::string name;
  tir::Func workload;
  tir::Func lowered;
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
std::string kernel_name(const Expr& callee, size_t number) {
  const auto* function = callee.as<relay::Function>();
  std::string name = function ? operator_names(*function) : callee.as<relay::PrimFunc>()->func->name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return fmt::format("{}_{}", name, number);
}

tir::Func renamed(const tir::Func& func, const std::string& name) {
  auto copy = mutate(*func);
  copy->name = name;
  return seal(std::move(copy));
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
  std::vector<Expr> callees = kernel_callees(fused);
  std::vector<tir::Func> workloads(callees.size());
  for_each_parallel(static_cast<int64_t>(callees.size()), [&](int64_t i) {
    const auto* program = callees[i].as<relay::PrimFunc>();
    tir::Func func =
        program ? program->func : relay::lower_function(callees[i].cast<relay::Function>(), "kernel");
    workloads[i] = tir::canonical(func);
  });

  std::vector<Kernel> kernels;
  std::unordered_map<std::string, size_t> by_text;
  std::unordered_map<const Node*, size_t> kernel_of;
  for (size_t i = 0; i < callees.size(); ++i) {
    auto [known, fresh] = by_text.try_emplace(tir::print(workloads[i]), kernels.size());
    if (fresh) kernels.push_back({kernel_name(callees[i], kernels.size()), workloads[i], {}});
    kernel_of[callees[i].get()] = known->second;
  }
  for_each_parallel(static_cast<int64_t>(kernels.size()), [&](int64_t i) {
    Kernel& kernel = kernels[i];
    kernel.lowered = renamed(tir::lower(schedule(kernel.workload), target), kernel.name);
  });

  std::vector<tir::Func> lowered;
  for (const Kernel& kernel : kernels) lowered.push_back(kernel.lowered);
  codegen::Artifact artifact = codegen::compile(lowered, target);
  std::vector<GraphKernel> compiled;
  for (size_t i = 0; i < kernels.size(); ++i)
    compiled.push_back(
        {kernels[i].name, artifact.kernels[i].workspace_bytes, count_flops(kernels[i].workload)});
  runtime::ModuleImage image = plan_graph(
      fused, [&](const Expr& callee) -> const GraphKernel& { return compiled[kernel_of.at(callee.get())]; });
  image.library = std::move(artifact.bytes);
  image.plan.target = to_text(target);
  image.plan.cpu_features = cpu_features(target);
  return image;
}

}  // namespace lathe::tuner
