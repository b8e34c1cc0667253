// What the cost model sees of a candidate: one row of numbers for each store of its scheduled program
// (Zheng et al., "Ansor", OSDI 2020, appendix B, with explicit cache-level estimates in place of its curves).
#pragma once

#include <string>
#include <vector>

#include "core/tir/stmt.h"
#include "core/tir/target.h"
#include "tuner/cost_model.h"

namespace lathe::tuner {

/// Rows of equal width for all programs. What a prologue does (core/tir/prologue.h) has no rows: it costs
/// nothing at run time. Large quantities are base-2 logarithms. Open dimensions have their typical values
/// (schedules/open_dims.h). REQUIRES: the scheduled level.
Features extract_features(const tir::Func& scheduled, const Target& target);

/// What the columns are, for people: "traffic of L1", "read 2: stride in the vector".
std::vector<std::string> feature_names();

}  // namespace lathe::tuner
