// Final builds whose schedules may round constants, checked as whole models.
#pragma once

#include <memory>

#include "core/runtime/module_file.h"
#include "tuner/final_build.h"

namespace lathe::tuner {

/// The largest difference between outputs of two builds of one model on the same random inputs, relative to
/// the largest value of the output of `b`.
double output_difference(std::shared_ptr<const runtime::Module> a, std::shared_ptr<const runtime::Module> b);

/// Results of schedules that round no constants are off by less.
inline constexpr double kExactError = 0x1p-14;

struct CheckedBuild {
  runtime::ModuleImage image;
  double difference = 0;  // of the outputs, where `best` keeps constants in half precision; infinite when the
                          // build does not run on this machine
  bool refused = false;   // it was too large: the image is by `exact`
};

/// A build by `best`. Schedules were measured with random constants, one kernel at a time: where some keep
/// constants in half precision, the model is run once against a build by default schedules, and built by
/// `exact`, whose schedules do not, when its outputs are off by more than `max_relative_error`. Throws Error
/// as final_build.
CheckedBuild checked_build(const relay::Module& fused, const Target& target, const BuildSchedules& best,
                           const BuildSchedules& exact, double max_relative_error);

}  // namespace lathe::tuner
