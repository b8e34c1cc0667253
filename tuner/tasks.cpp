#include "tuner/tasks.h"

#include <algorithm>
#include <map>

#include "core/relay/lower.h"
#include "core/support/text.h"
#include "core/tir/dims.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/family.h"

namespace lathe::tuner {
namespace {

/// Operations in the scalar expressions of a statement, each counted once an execution.
double operations(const NodeRef& root) {
  double count = 0;
  post_order(root, [&](const NodeRef& node) {
    const auto* b = node.as<Binary>();
    // Integers of 64 bits are indices.
    if (b && (b->a.dtype().is_float() || (b->a.dtype().is_int() && b->a.dtype().bits < 64))) ++count;
    if (const auto* f = node.as<IntrinsicCall>(); f && f->dtype.is_float()) ++count;
  });
  return count;
}

/// By loops and not by blocks: the workload is unscheduled, so its loops run each operation as often as it is
/// needed. A reduction's init counts nothing.
double flops_of(const tir::Stmt& stmt) {
  if (const auto* s = stmt.as<tir::Seq>()) {
    double sum = 0;
    for (const tir::Stmt& each : s->stmts) sum += flops_of(each);
    return sum;
  }
  if (const auto* f = stmt.as<tir::For>()) {
    const int64_t* extent = as_int(f->extent);
    if (!extent)
      fail("a loop over {} runs as often as only a run can tell; it cannot be compiled yet", f->var->name);
    return static_cast<double>(*extent) * flops_of(f->body);
  }
  if (const auto* b = stmt.as<tir::Block>()) return flops_of(b->body);
  if (const auto* i = stmt.as<tir::If>()) return operations(i->condition) + flops_of(i->then_case);
  if (const auto* s = stmt.as<tir::Store>()) return operations(s->value);
  return 0;
}

/// conv2d of nn.contrib_conv2d_NCHWc: neither where it comes from nor its layout.
std::string_view short_name(std::string_view name) {
  constexpr std::string_view kContributed = "contrib_", kBlocked = "_NCHWc";
  name.remove_prefix(name.rfind('.') + 1);
  if (name.starts_with(kContributed)) name.remove_prefix(kContributed.size());
  if (name.ends_with(kBlocked)) name.remove_suffix(kBlocked.size());
  return name;
}

/// With the values for its open dimensions that schedules are made for.
tir::Func at_typical_dims(const tir::Func& func) {
  tir::Func typical = schedule::at_typical_dims(func);
  for (const tir::Buffer& param : typical->params)
    if (!tir::has_constant_shape(*param))
      fail("a dimension of {} in {} is known only when it runs; it cannot be compiled yet", param->name,
           func->name);
  return typical;
}

}  // namespace

std::string kernel_name(const relay::Expr& callee) {
  if (const auto* program = callee.as<relay::PrimFunc>()) return program->func->name;
  std::vector<const relay::OpNode*> ops, anchors;
  post_order(callee.as<relay::Function>()->body, [&](const NodeRef& node) {
    const auto* call = node.as<relay::Call>();
    const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
    if (!op) return;
    ops.push_back(op);
    if (op->row().fusion == relay::Fusion::kAnchor) anchors.push_back(op);
  });
  std::string name;
  // Of several convolutions in one function the glue between them would only hide what it is.
  for (const relay::OpNode* op : anchors.size() > 1 ? anchors : ops)
    // Cut at a whole operator; reports and symbols have room for some 60.
    if (name.size() <= 60) name += fmt::format("{}{}", name.empty() ? "" : "_", short_name(op->name));
  return name.empty() ? "copy" : name;
}

/// Canonical, so that names do not tell equal programs apart; with the mask of its constants, since a kernel
/// whose weights are known when the model is built may be scheduled otherwise.
tir::Func workload_of(const KernelCall& call) {
  const auto* program = call.callee.as<relay::PrimFunc>();
  tir::Func func =
      program ? program->func : relay::lower_function(call.callee.cast<relay::Function>(), "task");
  // Other names may stand in another order.
  return tir::with_constant_params(tir::with_simple_shapes(tir::canonical(func)), call.constants);
}

double count_flops(const tir::Func& func) { return flops_of(at_typical_dims(func)->body); }

double parameter_bytes(const tir::Func& func) {
  const tir::Func typical = at_typical_dims(func);
  double bytes = 0;
  for (const tir::Buffer& param : typical->params) bytes += static_cast<double>(tir::byte_size(param));
  return bytes;
}

double constant_bytes(const relay::Module& fused) {
  double bytes = 0;
  post_order(fused->functions.at("main")->body, [&](const NodeRef& node) {
    if (const auto* constant = node.as<relay::Constant>())
      bytes += static_cast<double>(constant->value.size() * constant->value.dtype().bytes());
  });
  return bytes;
}

std::vector<Task> extract_tasks(const relay::Module& fused) {
  // By digest, so tasks keep the order of their first call before they are sorted; and by callee, which is
  // lowered once.
  std::map<std::string, size_t> known;
  std::map<std::pair<const Node*, int64_t>, size_t> task_of;
  std::vector<Task> tasks;
  for (const KernelCall& call : kernel_calls(fused)) {
    auto [lowered, is_unseen] = task_of.try_emplace({call.callee.get(), call.constants});
    if (is_unseen) {
      tir::Func workload = workload_of(call);
      std::string text = tir::print(workload), digest = sha256(text);
      auto [found, is_new] = known.emplace(digest, tasks.size());
      if (is_new)
        tasks.push_back({kernel_name(call.callee), workload, text, digest, 0, count_flops(workload),
                         parameter_bytes(workload)});
      lowered->second = found->second;
    }
    ++tasks[lowered->second].calls;
  }
  // By work, so that the first rows of a report are those that matter.
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
    return static_cast<double>(a.calls) * a.flops > static_cast<double>(b.calls) * b.flops;
  });
  // Two shapes of one operator get a number each.
  std::map<std::string, int> names;
  for (Task& task : tasks)
    if (int n = names[task.name]++) task.name += fmt::format("_{}", n);
  return tasks;
}

std::string tasks_digest(std::span<const Task> tasks) {
  std::vector<std::pair<int64_t, std::string>> what_counts;
  for (const Task& task : tasks) what_counts.emplace_back(task.calls, task.digest);
  return tasks_digest(what_counts);
}

std::string tasks_digest(std::span<const std::pair<int64_t, std::string>> tasks) {
  // In the order of the tasks, which extract_tasks has fixed: equal models give equal lists.
  std::string digests;
  for (const auto& [calls, digest] : tasks) digests += fmt::format("{} {}\n", calls, digest);
  return sha256(digests);
}

}  // namespace lathe::tuner
