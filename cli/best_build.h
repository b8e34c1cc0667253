// The final build of a model by what a tuning database knows.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/relay/expr.h"
#include "core/runtime/module_file.h"
#include "core/tir/target.h"
#include "db/reader.h"
#include "tuner/open_dims.h"

namespace lathe::cli {

/// Opens the records that a build follows; empty: default schedules.
using OpenRecords = std::function<std::unique_ptr<db::Reader>()>;

/// Those of a database file; of none ("") empty.
OpenRecords records_of(const std::string& database);

struct BuildSource {
  OpenRecords open;
  int threads = 1;
  double max_relative_error = 0;   // of the schedules used, each as measured, and of the model's outputs
  tuner::OpenDims open_dims = {};  // what is asked of them; others may be open too
};

struct BestBuild {
  runtime::ModuleImage image;
  int measured = 0;       // kernels whose schedule rests on measurements
  double difference = 0;  // of the outputs, where constants are kept in half precision
};

/// Builds a fused module. Says on stderr when constants are kept in full precision because the outputs would
/// be off by more than was allowed. Throws Error as tuner::final_build.
BestBuild best_build(const relay::Module& fused, const Target& target, const BuildSource& source);

}  // namespace lathe::cli
