#include "tuner/final_build.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/codegen/program.h"
#include "core/program/stretches.h"
#include "core/runtime/cores.h"
#include "core/runtime/thread_pool.h"
#include "core/tir/dims.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/family.h"
#include "schedules/schedule.h"
#include "tuner/graph_plan.h"
#include "tuner/in_place.h"
#include "tuner/program_plan.h"
#include "tuner/prologue_kernels.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

/// One distinct program, or one member of its family where dimensions are open.
struct Program {
  std::string name;
  tir::Func workload;
  tir::Func whole;  // with all dimensions open
};

/// Programs from `first` on, one a member.
struct Family {
  size_t first = 0;
  std::vector<std::vector<schedule::DimValues>> members;
};

/// f(0) .. f(n-1) on all cores; the first exception is thrown on.
void for_each_parallel(int64_t n, FunctionRef<void(int64_t)> f) {
  // One closure for the pool's workers, which take the next index when they are done with one: programs
  // differ much in how long they take.
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
        // What was not begun stays so; what runs in other threads is waited for.
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
  // A symbol of the object file.
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

struct DistinctPrograms {
  std::vector<Program> programs;
  std::vector<Family> families;
  std::map<Callee, size_t> family_of;

  size_t of(const KernelCall& call) const { return family_of.at(callee_of(call)); }

  /// Of one member is what it was; of several each has a name of its own.
  void add(const std::string& name, const tir::Func& workload, const FamilyOf& family_of) {
    const std::vector<schedule::Member> members = family_of(workload);
    families.push_back({programs.size(), {}});
    for (size_t i = 0; i < members.size(); ++i) {
      programs.push_back(
          {members.size() == 1 ? name : fmt::format("{}_{}", name, i), members[i].program, workload});
      families.back().members.push_back(members[i].dims);
    }
  }
};

/// Lowers each callee once and joins those whose programs print alike: the text of a canonical program is the
/// key that tuning records have. Order and names follow the calls, so builds of one module agree.
DistinctPrograms distinct_programs(const relay::Module& fused, const FamilyOf& family) {
  DistinctPrograms result;
  std::vector<KernelCall> calls;
  for (KernelCall& call : kernel_calls(fused))
    if (result.family_of.try_emplace(callee_of(call)).second) calls.push_back(std::move(call));
  std::vector<tir::Func> workloads(calls.size());
  for_each_parallel(static_cast<int64_t>(calls.size()),
                    [&](int64_t i) { workloads[i] = workload_of(calls[i]); });
  // By text and not by hash: two programs that share a kernel must be the same.
  std::unordered_map<std::string, size_t> by_text;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto [known, fresh] = by_text.try_emplace(tir::print(workloads[i]), result.families.size());
    if (fresh) result.add(symbol_name(calls[i].callee, known->second), workloads[i], family);
    // Until here a callee stood for itself; now for the first of its equals.
    result.family_of[callee_of(calls[i])] = known->second;
  }
  return result;
}

/// The functions of the image's program.
codegen::Object native_program(const runtime::ModuleImage& image, const Target& target) {
  std::map<int64_t, const void*> at;
  for (const runtime::ModuleImage::Constant& each : image.constants) at[each.at] = each.data.data();
  std::vector<const void*> constants;
  for (const runtime::Value& value : image.program->constants)
    constants.push_back(value.bytes() > 0 ? at.at(value.at) : nullptr);
  return codegen::compile_program(*image.program, constants, target);
}

}  // namespace

struct ModelBuilder::Compiled {
  tir::Func scheduled;  // keeps the node, by which a build finds this, from being another program's
  tir::SplitProgram parts;
  codegen::Object object;
  GraphKernel kernel;
  // By the addresses of the constants that the prologue takes.
  std::map<std::vector<const void*>, std::vector<Tensor>> transformed = {};
};

struct ModelBuilder::Impl {
  relay::Module fused;
  Target target;
  DistinctPrograms distinct;
  // Weak: builds own what they use, and what none of them uses any more is freed.
  std::map<std::pair<size_t, const Node*>, std::weak_ptr<Compiled>> known = {};  // by program, scheduled

  std::optional<codegen::Object> native = {};  // of a program, once there was a build

  /// Touches nothing of the Impl that changes: called from several threads at once.
  std::shared_ptr<Compiled> compile(size_t program, const tir::Func& scheduled) const;
  std::vector<std::shared_ptr<Compiled>> compile_new(std::span<const size_t> built,
                                                     std::span<const tir::Func> scheduled);
  std::vector<size_t> first_equals(std::span<const tir::Func> scheduled) const;
};

std::shared_ptr<ModelBuilder::Compiled> ModelBuilder::Impl::compile(size_t program,
                                                                    const tir::Func& scheduled) const {
  const auto& [name, workload, whole] = distinct.programs[program];
  // The name is the symbol; replay keeps the workload's, which is "task" in all of them.
  tir::SplitProgram parts = tir::split_prologue(renamed(scheduled, name));
  tir::Func lowered = tir::lower(parts.main, target);
  codegen::Object object = codegen::compile_object(lowered, target);
  const std::vector<Var> dims = tir::dims_of(*whole);
  GraphKernel kernel{.name = name,
                     .workspace_bytes = object.kernel.workspace_bytes,
                     .flops = dims.empty() ? count_flops(workload) : 0,
                     .reuse = in_place_arguments(*lowered),
                     .open_workspace = object.kernel.open_workspace};
  for (const Var& dim : tir::dims_of(*lowered)) {
    auto found = std::find(dims.begin(), dims.end(), dim);
    CHECK(found != dims.end(), "{} takes a dimension that its workload does not have", name);
    kernel.dims.push_back(static_cast<size_t>(found - dims.begin()));
  }
  // What the prologue itself takes are the call's own constants; main's inputs are some of these, the
  // prologue's outputs, or the call's other arguments. Without a prologue main takes what the call gives.
  if (parts.prologue) {
    for (auto [from_prologue, number] : parts.prologue_params)
      if (!from_prologue) kernel.prologue_arguments.push_back(number);
    kernel.arguments.assign(parts.main_params.begin(), parts.main_params.end() - parts.main->outputs);
  }
  return std::make_shared<Compiled>(
      Compiled{scheduled, std::move(parts), std::move(object), std::move(kernel)});
}

/// The kernels of the programs in `built`; those that no living build has are compiled. Null for others.
std::vector<std::shared_ptr<ModelBuilder::Compiled>> ModelBuilder::Impl::compile_new(
    std::span<const size_t> built, std::span<const tir::Func> scheduled) {
  std::vector<std::shared_ptr<Compiled>> kernels(scheduled.size());
  // Addresses of scheduled programs may be used again once their build is gone.
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  for (size_t i : built)
    if (auto found = known.find({i, scheduled[i].get()}); found != known.end())
      kernels[i] = found->second.lock();
  // Writes to elements of its own; `known` is changed before and after.
  for_each_parallel(static_cast<int64_t>(built.size()), [&](int64_t number) {
    const size_t i = built[static_cast<size_t>(number)];
    if (!kernels[i]) kernels[i] = compile(i, scheduled[i]);
  });
  for (size_t i : built) known[{i, scheduled[i].get()}] = kernels[i];
  return kernels;
}

/// By program: the first member of its family that is scheduled just so. Where dimensions differ little for a
/// schedule, one kernel serves.
std::vector<size_t> ModelBuilder::Impl::first_equals(std::span<const tir::Func> scheduled) const {
  std::vector<size_t> first(scheduled.size());
  for (size_t i = 0; i < first.size(); ++i) first[i] = i;
  for (const Family& family : distinct.families) {
    if (family.members.size() == 1) continue;
    std::unordered_map<std::string, size_t> by_text;
    for (size_t i = family.first; i < family.first + family.members.size(); ++i)
      first[i] =
          by_text.try_emplace(tir::print(schedule::without_typical_dims(scheduled[i])), i).first->second;
  }
  return first;
}

ModelBuilder::ModelBuilder(const relay::Module& fused, const Target& target, const FamilyOf& family)
    : impl_(new Impl{fused, target, distinct_programs(fused, family)}) {}
ModelBuilder::~ModelBuilder() = default;

size_t ModelBuilder::size() const { return impl_->distinct.programs.size(); }
const tir::Func& ModelBuilder::workload(size_t i) const { return impl_->distinct.programs.at(i).workload; }
const std::string& ModelBuilder::kernel_name(size_t i) const { return impl_->distinct.programs.at(i).name; }

ModelBuilder::Build ModelBuilder::build(std::span<const tir::Func> given) {
  CHECK(given.size() == size(), "{} schedules for {} programs", given.size(), size());
  const std::vector<size_t> first_equal = impl_->first_equals(given);
  std::vector<size_t> built;  // programs with a kernel of their own
  for (size_t i = 0; i < given.size(); ++i)
    if (first_equal[i] == i) built.push_back(i);
  std::vector<std::shared_ptr<Compiled>> kernels = impl_->compile_new(built, given);
  // Prologues are compiled together and for this machine; those of kernels whose constants an earlier build
  // transformed need not run. All calls of a kernel are planned in one build, so `transformed` has either all
  // of its constants or none.
  std::vector<tir::Func> prologues;
  std::vector<size_t> prologue_of(kernels.size());
  std::vector<codegen::Object> objects;
  for (size_t i : built) {
    objects.push_back(kernels[i]->object);
    prologue_of[i] = prologues.size();
    if (kernels[i]->parts.prologue && kernels[i]->transformed.empty())
      prologues.push_back(kernels[i]->parts.prologue);
  }
  PrologueKernels prologue_kernels(prologues);
  auto graph_kernel = [&](size_t i) {
    GraphKernel kernel = kernels[i]->kernel;
    if (!kernels[i]->parts.prologue) return kernel;
    // Runs while plan_graph() below does: what it captures is still there. The constants belong to the
    // module, which the builder keeps, so an address names one tensor.
    kernel.prologue = [&, i](std::span<const Tensor> constants) {
      std::vector<const void*> key;
      for (const Tensor& constant : constants) key.push_back(constant.data());
      auto [found, fresh] = kernels[i]->transformed.try_emplace(std::move(key));
      if (fresh) found->second = prologue_kernels.run(prologue_of[i], constants);
      return found->second;
    };
    return kernel;
  };
  std::vector<KernelFamily> families;
  for (const Family& family : impl_->distinct.families) {
    KernelFamily& made = families.emplace_back();
    made.workload = impl_->distinct.programs[family.first].whole;
    std::map<size_t, size_t> number;  // in the family, of those built
    for (size_t m = 0; m < family.members.size(); ++m) {
      const size_t program = first_equal[family.first + m];
      auto [known, fresh] = number.try_emplace(program, made.kernels.size());
      if (fresh) made.kernels.push_back(graph_kernel(program));
      made.members.push_back({known->second, family.members[m]});
    }
  }
  auto plan = [&](const std::string& graph) {
    return plan_graph(
        impl_->fused,
        [&](const KernelCall& call) -> const KernelFamily& { return families[impl_->distinct.of(call)]; },
        graph);
  };
  Build result{program::is_outlined(impl_->fused) ? plan_program(impl_->fused, plan) : plan("main"), {}};
  // Planning runs prologues, by the numbers of programs.
  for (size_t i : built) result.kernels.push_back(kernels[i]);
  // The code between the plans is the same in all builds.
  if (result.image.program && !impl_->native) impl_->native = native_program(result.image, impl_->target);
  if (impl_->native) objects.push_back(*impl_->native);
  // Once a build: the objects of kernels are kept, so that an exchange of one schedule compiles one kernel.
  result.image.library = codegen::link(objects, impl_->target).bytes;
  for (codegen::Object& object : objects)
    result.image.objects.push_back(std::make_shared<const std::string>(std::move(object.bytes)));
  result.image.plan.target = to_text(impl_->target);
  result.image.plan.cpu_features = codegen::cpu_features(impl_->target);
  return result;
}

ScheduleWorkload default_schedules(const Target& target, schedule::Rounding rounding) {
  return [target, rounding](const tir::Func& workload) {
    return schedule::replay(schedule::default_trace(workload, target, rounding), workload);
  };
}

runtime::ModuleImage final_build(const relay::Module& fused, const Target& target,
                                 const BuildSchedules& schedules) {
  ModelBuilder builder(fused, target, schedules.family);
  std::vector<tir::Func> scheduled(builder.size());
  for_each_parallel(static_cast<int64_t>(scheduled.size()), [&](int64_t i) {
    scheduled[i] = schedules.schedule(builder.workload(static_cast<size_t>(i)));
  });
  return builder.build(scheduled).image;
}

}  // namespace lathe::tuner
