// The sizes that a model with open dimensions is tuned for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "schedules/family.h"
#include "tuner/dataflow.h"
#include "tuner/open_dims.h"

namespace lathe::tuner {

/// A value for each of the model's open dimensions.
struct OpenPoint {
  std::vector<int64_t> values;
  double weight = 1;  // how often runs have it; of all points together 1
  bool operator==(const OpenPoint&) const = default;
};

struct OpenPoints {
  std::vector<Var> dims;  // of the inputs of main, in the order of the plan's
  std::vector<OpenPoint> points;
  bool given = false;                // all values were, and others do not count
  std::vector<int64_t> least, most;  // that each dimension may be

  bool none() const { return points.empty(); }
  /// "batch=8, length=128".
  std::string name(size_t point) const;
};

/// All combinations of the values of the dimensions: those that `open` gives, or representative ones. Of
/// these as many are taken as make few combinations, and combinations are left out at which a kernel of the
/// model takes too long to be measured many times. Empty where main's inputs have no open dimension. Throws
/// Error for a dimension in `open` that is none of main's, and for too many combinations of values that were
/// given. REQUIRES: fused, types inferred.
OpenPoints open_points(const relay::Module& fused, const OpenDims& open);

/// What the dimensions of the call's workload, `workload`, are for these of the model's; nothing where that
/// depends on more than main's inputs, or where the function's sizes do not agree for these.
std::optional<std::vector<int64_t>> values_at(const OpenPoints& points, std::span<const int64_t> values,
                                              const KernelCall& call, const tir::Func& workload);

/// What the points make of one program of the model.
struct OpenProgram {
  tir::Func program;                               // its workload
  std::map<std::vector<int64_t>, double> weights;  // of its sizes
  bool given = false;                              // as in OpenPoints
  std::vector<int64_t> least, most;                // that its dimensions may be; empty: not known
};

/// Of the programs that have open dimensions and tasks, by the digests of their workloads. REQUIRES: as
/// open_points.
using OpenPrograms = std::map<std::string, OpenProgram>;
OpenPrograms open_programs(const relay::Module& fused, const OpenPoints& points);

schedule::KnownDims known_dims(const OpenProgram& program);
/// The family of a workload by what its program's calls are known to have; any values, where it is not among
/// the programs.
std::vector<schedule::Member> family_of_known(const OpenPrograms& programs, const tir::Func& workload);

}  // namespace lathe::tuner
