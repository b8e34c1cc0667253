// A fused model cut into tuning tasks: one for each distinct tensor program.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tuner/dataflow.h"

namespace lathe::tuner {

struct Task {
  std::string name;    // for people: the operators of the function, "conv2d_add_relu"
  tir::Func workload;  // canonical, unscheduled
  std::string text, digest;
  int64_t calls = 0;  // how often one run of the model executes it: the task's weight
  double flops = 0;   // arithmetic operations of one call, counted on the unscheduled program
  double bytes = 0;   // of the parameters: what one call must at least move
};

/// The program that a call runs: canonical, unscheduled, with the constants among its inputs marked
/// (core/tir/prologue.h). What is tuned is what is built.
tir::Func workload_of(const KernelCall& call);

/// The tasks of the kernels that `main` calls, heaviest (calls x flops) first. REQUIRES: fused, types
/// inferred. Throws Error for what cannot be executed yet (dataflow.h).
std::vector<Task> extract_tasks(const relay::Module& fused);

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
