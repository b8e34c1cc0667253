// A machine whose latencies are a function of the program: nothing is built or run.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/tir/text.h"
#include "tests/schedules/programs.h"
#include "tuner/features.h"
#include "tuner/tasks.h"

namespace lathe::tuner {

inline Task task_of(const std::string& name, const tir::Func& func, int64_t calls) {
  tir::Func workload = tir::canonical(func);
  return {.name = name,
          .workload = workload,
          .text = tir::print(workload),
          .digest = tir::workload_digest(workload),
          .calls = calls,
          .flops = 1e6,
          .bytes = 1e4,
          .family = name};
}

inline std::vector<Task> two_tasks() {
  return {task_of("conv2d_0", schedule::conv2d({.height = 14, .width = 14}, kFloat32), 3),
          task_of("dense_0", schedule::dense(1, 64, 256, kFloat32), 1)};
}

/// Seconds of a program: smooth in what the cost model sees, so that it can be learnt.
inline double latency(const tir::Func& program) {
  Features features = extract_features(program, schedule::avx512_target());
  double sum = 0;
  for (size_t i = 0; i < features.values.size(); ++i)
    sum += std::abs(features.values[i]) * static_cast<double>(1 + i % features.width % 7);
  return 1e-3 * (1 + sum / static_cast<double>(features.values.size()));
}

}  // namespace lathe::tuner
