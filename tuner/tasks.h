// A fused model cut into tuning tasks: one for each distinct tensor program.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/tir/roofline.h"
#include "tuner/dataflow.h"
#include "tuner/open_points.h"

namespace lathe::tuner {

/// Where dimensions are open there is a task for each size that the model is tuned for.
struct Task {
  std::string name;    // for people: the operators of the function, "conv2d_add_relu", and its size, "@16"
  tir::Func workload;  // canonical, unscheduled; of an open one schedule::program_at() the size
  std::string text, digest;
  int64_t calls = 0;        // how often one run of the model, at its sizes, executes it
  double flops = 0;         // arithmetic operations of one call, counted on the unscheduled program
  double bytes = 0;         // of the parameters: what one call must at least move
  std::string family = "";  // tasks of the same operators have the same
  /// Of an open one: digests of the whole program, and of it with ones as numbers: tasks that agree in this
  /// can have each other's schedules, and exchange the best. And what the program's dimensions are here.
  std::string whole = "", program = "";
  std::vector<int64_t> sizes = {};
  std::vector<size_t> points = {};  // of the model's OpenPoints, those that have it; empty: all runs do
  /// Of the task in the time that the search is to make short: 1 where nothing is open. Sizes count by their
  /// weights and in proportion to their own times, as far as operations and bytes tell these: a percent of a
  /// small size is worth as much as a percent of a large one.
  double share = 1;
  double products = 1;  // how many times as many as of float32 the machine does in a cycle (product_rate)

  bool runs_at(size_t point) const {
    return points.empty() || std::find(points.begin(), points.end(), point) != points.end();
  }
  double weight() const { return static_cast<double>(calls) * share; }
};

/// How many times as many products as of float32 the target's machine does in a cycle of the operands of this
/// program: more than one where lanes, or tile registers, take several at a time.
double product_rate(const tir::Func& func, const Target& target);

/// What limits one call of the task.
Roofline limit_of(const Task& task, const MachineLimits& limits);

/// The task's name without its size.
std::string program_name(const Task& task);

/// The program that a call runs: canonical, unscheduled, with the constants among its inputs marked
/// (core/tir/prologue.h). What is tuned is what is built.
tir::Func workload_of(const KernelCall& call);

/// The tasks of the kernels that `main` calls, heaviest (weight x flops) first: of open programs those at the
/// points. What cannot be tuned at a point (values_at) has no task there. REQUIRES: fused, types inferred.
/// Throws Error for what cannot be executed yet (dataflow.h).
std::vector<Task> extract_tasks(const relay::Module& fused, const OpenPoints& points = {});

/// One that stands alone, not in a model: what is known from its program. `workload` is as workload_of makes
/// it.
Task lone_task(const std::string& name, tir::Func workload);

/// The task of a workload that a database holds, by the name that a model of it has for the task, or "".
/// Throws Error for the text of a version whose programs no longer parse.
Task task_of_text(const std::string& name, const std::string& text);

/// Tells models apart by what is tuned for them: two with equal tasks, called equally often, are one.
std::string tasks_digest(std::span<const Task> tasks);
/// The same by what counts of each: its calls and its digest.
std::string tasks_digest(std::span<const std::pair<int64_t, std::string>> tasks);

/// What a kernel does, for people: the operators of a primitive function in order, without prefixes and
/// layouts ("conv2d_add_relu"), those that dominate it where there are several ("depthwise_conv2d_conv2d");
/// the name of a tensor program.
std::string kernel_name(const relay::Expr& callee);

/// Operations on elements that one execution of the unscheduled program does: additions, multiplications,
/// divisions, comparisons of floats and integers, and intrinsics of floats, count one each. Of open
/// dimensions at the values that schedules take for them, here and in parameter_bytes().
double count_flops(const tir::Func& func);
/// Bytes of the constants in `main`: the model's weights.
double constant_bytes(const relay::Module& fused);
/// Bytes of all parameters. A schedule that transforms constants ahead (core/tir/prologue.h) may have its
/// kernel read more or less than these.
double parameter_bytes(const tir::Func& func);

}  // namespace lathe::tuner
