#include "tuner/tasks.h"

#include <algorithm>
#include <map>

#include "core/arith/simplify.h"
#include "core/relay/lower.h"
#include "core/support/digest.h"
#include "core/tir/dims.h"
#include "core/tir/join_dims.h"
#include "core/tir/own_dims.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/anatomy.h"
#include "schedules/family.h"
#include "tuner/plan_sizes.h"

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

double flops_of(const tir::Stmt& stmt);

bool has_extent_of(const Var& var, const tir::Stmt& body) {
  bool found = false;
  post_order(body, [&](const NodeRef& node) {
    const auto* loop = node.as<tir::For>();
    if (loop && !found) post_order(loop->extent, [&](const NodeRef& in) { found |= in.get() == var.get(); });
  });
  return found;
}

/// Of a loop whose inner loops are as long as its variable says (the passes of a merge sort), by some of its
/// values at equal distances.
double flops_of_uneven(const tir::For& loop, int64_t extent) {
  constexpr int64_t kMostValues = 32;
  const int64_t values = std::min(extent, kMostValues);
  double sum = 0;
  for (int64_t i = 0; i < values; ++i)
    sum += flops_of(tir::substitute(loop.body, {{loop.var.get(), Expr(i * extent / values)}}));
  return sum * static_cast<double>(extent) / static_cast<double>(values);
}

/// By loops and not by blocks: the workload is unscheduled, so its loops run each operation as often as it is
/// needed. A reduction's init counts nothing, and what runs as often as only a run can tell (an extent that
/// is read from memory) counts once.
double flops_of(const tir::Stmt& stmt) {
  if (const auto* s = stmt.as<tir::Seq>()) {
    double sum = 0;
    for (const tir::Stmt& each : s->stmts) sum += flops_of(each);
    return sum;
  }
  if (const auto* f = stmt.as<tir::For>()) {
    const Expr known = simplify(f->extent);
    const int64_t* extent = as_int(known);
    if (!extent) return flops_of(f->body);
    if (has_extent_of(f->var, f->body)) return flops_of_uneven(*f, *extent);
    return static_cast<double>(*extent) * flops_of(f->body);
  }
  if (const auto* a = stmt.as<tir::Alloc>()) return flops_of(a->body);
  if (const auto* b = stmt.as<tir::Block>()) return flops_of(b->body);
  if (const auto* i = stmt.as<tir::If>()) {
    const Expr condition = simplify(i->condition);
    if (const int64_t* known = as_int(condition)) return *known ? flops_of(i->then_case) : 0;
    return operations(condition) + flops_of(i->then_case);
  }
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

namespace {
/// A tensor program of any sizes with those that are numbers in the call.
tir::Func with_dims_of_call(const tir::Func& func, const KernelCall& call) {
  if (tir::dims_of(*func).empty()) return func;
  std::vector<int64_t> numbers;
  for (const Expr& dim : dims_of_call(call, func))
    numbers.push_back(as_int(dim) ? int_value(dim) : tir::kStaysOpen);
  return tir::with_dims(func, numbers);
}

/// Rows that a product of matrices goes through as one, as those of all texts of a batch, are one dimension:
/// it has kernels for few and for many of them, and not for each pair of numbers.
tir::Func with_joined_rows(const tir::Func& func) {
  const tir::Func joined = tir::join_open_dims(func);
  if (joined == func) return func;
  const tir::Func own = tir::with_own_dims(joined);
  std::vector<std::vector<Expr>> shapes;
  for (const tir::Buffer& param : func->params) shapes.push_back(param->shape);
  const bool is_less = tir::dims_of(*own).size() < tir::dims_of(*func).size();
  return is_less && tir::told_dims(*own, shapes) ? own : func;
}
}  // namespace

/// Canonical, so that names do not tell equal programs apart; with the mask of its constants, since a kernel
/// whose weights are known when the model is built may be scheduled otherwise.
tir::Func workload_of(const KernelCall& call) {
  const auto* program = call.callee.as<relay::PrimFunc>();
  tir::Func func = program ? with_dims_of_call(program->func, call)
                           : relay::lower_function(call.callee.cast<relay::Function>(), "task");
  // Other names may stand in another order.
  func = tir::canonical(func);
  if (!tir::dims_of(*func).empty()) {
    if (schedule::is_product(func))
      func = tir::with_dims_of_operands(with_joined_rows(tir::with_own_dims(func)));
    func = tir::canonical(tir::with_dims_of_results(func));
  }
  return tir::with_constant_params(tir::with_simple_shapes(func), call.constants);
}

double product_rate(const tir::Func& func, const Target& target) {
  const Ref<tir::Block> block = schedule::dominant_reduction(func);
  const int64_t length = block ? schedule::products_at_once(*block) : 1;
  if (length == 1) return 1;
  const DataType type = schedule::operand_type(*block);
  const MachineModel& machine = machine_of(target);
  const double dots = std::max(products_of(machine, type, true).at(target.vector_bits),
                               tile_rate(machine, target, type, kTileRows));
  return std::max(1.0, dots * static_cast<double>(length) / machine.multiply_adds.at(target.vector_bits));
}

Roofline limit_of(const Task& task, const MachineLimits& limits) {
  return roofline(task.flops / task.products, task.bytes, limits);
}

Task lone_task(const std::string& name, tir::Func workload) {
  std::string text = tir::print(workload), digest = sha256(text);
  Task task{.name = name,
            .workload = workload,
            .text = std::move(text),
            .digest = std::move(digest),
            .flops = count_flops(workload),
            .bytes = parameter_bytes(workload),
            .family = name};
  if (!tir::dims_of(*workload).empty())
    task.program = tir::workload_digest(schedule::without_typical_dims(workload));
  return task;
}

Task task_of_text(const std::string& name, const std::string& text) {
  tir::Func workload = tir::parse_func(text);
  Task task = lone_task(name, std::move(workload));
  if (task.text != text) fail("a workload of another version, whose programs are printed otherwise");
  // What set_names() has added: tasks of other sizes are of the family.
  task.family.resize(std::min(task.family.size(), task.family.find('@')));
  if (const size_t bar = task.family.rfind('_');
      bar != std::string::npos && bar + 1 < task.family.size() &&
      task.family.find_first_not_of("0123456789", bar + 1) == std::string::npos)
    task.family.resize(bar);
  return task;
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

namespace {
/// Joins equal programs as calls bring them.
class TaskList {
 public:
  /// One more call; where dimensions are open, one at each point that tells them.
  void add(const KernelCall& call, const OpenPoints& points) {
    Program& program = programs_[{call.callee.get(), call.constants}];
    if (!program.workload) program = made_of(call);
    if (program.whole.empty()) {
      ++always_[task_of(program, {})];
      return;
    }
    for (size_t point = 0; point < points.points.size(); ++point)
      if (const auto values = values_at(points, points.points[point].values, call, program.workload))
        ++at_[task_of(program, *values)][point];
  }

  std::vector<Task> take() {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      // Where sizes coincide at some points only, the most calls of any run.
      for (const auto& [point, calls] : at_[i]) tasks_[i].calls = std::max(tasks_[i].calls, calls);
      tasks_[i].calls += always_[i];
      if (always_[i] == 0)
        for (const auto& [point, calls] : at_[i]) tasks_[i].points.push_back(point);
    }
    return std::move(tasks_);
  }

 private:
  /// What calls of one callee run. A model may have 100,000 calls of few callees: printing and hashing are
  /// done once for each of these.
  struct Program {
    tir::Func workload;
    std::string name, whole;                       // the digest with all dimensions open; empty where none is
    std::map<std::vector<int64_t>, size_t> tasks;  // by the values of open dimensions
  };

  static Program made_of(const KernelCall& call) {
    Program program{workload_of(call), kernel_name(call.callee), "", {}};
    if (!tir::dims_of(*program.workload).empty()) program.whole = tir::workload_digest(program.workload);
    return program;
  }

  size_t task_of(Program& program, const std::vector<int64_t>& values) {
    auto [known, fresh] = program.tasks.try_emplace(values);
    if (!fresh) return known->second;
    const bool open = !program.whole.empty();
    const size_t task =
        find(program.name, open ? schedule::program_at(program.workload, values) : program.workload);
    if (open && tasks_[task].whole.empty()) {
      tasks_[task].whole = program.whole;
      tasks_[task].sizes = values;
    }
    return known->second = task;
  }

  size_t find(const std::string& name, const tir::Func& workload) {
    auto [found, fresh] = known_.emplace(sha256(tir::print(workload)), tasks_.size());
    if (!fresh) return found->second;
    tasks_.push_back(lone_task(name, workload));
    always_.push_back(0);
    at_.emplace_back();
    return found->second;
  }

  std::map<std::pair<const Node*, int64_t>, Program> programs_;  // by callee and constants
  std::map<std::string, size_t> known_;  // by digest: tasks keep the order of their first call
  std::vector<Task> tasks_;
  // By task, calls of a run: of all runs, and of those at a point.
  std::vector<int64_t> always_;
  std::vector<std::map<size_t, int64_t>> at_;
};

/// See Task::share.
void set_shares(std::vector<Task>& tasks, const OpenPoints& points) {
  std::vector<double> work(points.points.size());
  double all = 0;
  for (size_t p = 0; p < work.size(); ++p) {
    for (const Task& task : tasks)
      if (task.runs_at(p)) work[p] += static_cast<double>(task.calls) * (task.flops + task.bytes);
    work[p] = std::max(work[p], 1.0);
    all += points.points[p].weight * work[p];
  }
  if (work.empty()) return;
  for (Task& task : tasks) {
    task.share = 0;
    for (size_t p = 0; p < work.size(); ++p)
      if (task.runs_at(p)) task.share += points.points[p].weight * all / work[p];
  }
}

/// Two programs of the same operators get a number each: two shapes, say. Sizes of one program have its
/// number.
void set_names(std::vector<Task>& tasks) {
  std::map<std::string, std::map<std::string, size_t>> programs;  // by name, then digest
  for (Task& task : tasks) {
    auto& of_name = programs[task.name];
    const size_t number =
        of_name.try_emplace(task.whole.empty() ? task.digest : task.whole, of_name.size()).first->second;
    if (number > 0) task.name += fmt::format("_{}", number);
    for (size_t i = 0; i < task.sizes.size(); ++i)
      task.name += fmt::format("{}{}", i == 0 ? "@" : "x", task.sizes[i]);
  }
}
}  // namespace

std::string program_name(const Task& task) {
  return task.sizes.empty() ? task.name : task.name.substr(0, task.name.rfind('@'));
}

std::vector<Task> extract_tasks(const relay::Module& fused, const OpenPoints& points) {
  TaskList list;
  for (const KernelCall& call : kernel_calls(fused)) list.add(call, points);
  std::vector<Task> tasks = list.take();
  set_shares(tasks, points);
  // By work, so that the first rows of a report are those that matter.
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.weight() * a.flops > b.weight() * b.flops; });
  set_names(tasks);
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
