// The families of kernels that measurements make of programs with open dimensions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/tir/target.h"
#include "db/reader.h"
#include "schedules/family.h"
#include "tuner/open_points.h"

namespace lathe::tuner {

/// A kernel of a family, and what is known of it.
struct TunedMember {
  schedule::Member member;
  std::string trace, print;  // its schedule, as JSON, and the fingerprint of what it makes
  struct At {
    std::vector<int64_t> sizes;  // of the whole program's dimensions
    db::WorkloadId workload = 0;
    double seconds = 0, alone = 0;  // of this kernel, of the fastest that was tuned for these sizes
  };
  std::vector<At> at;  // the sizes that it serves, of those measured
};

/// Reads what was measured of open programs, at any sizes, by any jobs. Not thread-safe.
class OpenFamilies {
 public:
  /// What counts is `target`, with the query's threads and error. REQUIRES: `records` outlives it.
  OpenFamilies(db::Reader& records, db::TargetId target, int threads, double max_relative_error);

  /// The family of a program by what was measured of it, of the sizes that `wanted` weighs or allows; the
  /// last member is for all values. Empty where nothing was measured.
  /// REQUIRES: `program` is a workload with open dimensions.
  std::vector<TunedMember> family(const tir::Func& program, const OpenProgram& wanted);

 private:
  struct Size {
    std::vector<int64_t> values;  // of the dimensions that are no ones
    db::WorkloadId workload = 0;
  };
  const std::vector<Size>& sizes_of(const std::string& program);
  void add_members(const tir::Func& program, const std::vector<bool>& ones, const OpenProgram& wanted,
                   std::vector<TunedMember>& family);

  db::Reader& records_;
  const db::TargetId target_;
  const int threads_;
  const double max_relative_error_;
  std::optional<std::map<std::string, std::vector<Size>>> measured_;  // by the digest of the open program
};

}  // namespace lathe::tuner
