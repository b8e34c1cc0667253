// The dimensions of a model that are to stay open when it is compiled.
#pragma once

#include <map>
#include <string>

#include "core/runtime/plan.h"

namespace lathe::tuner {

/// What an open dimension may be, both included.
struct DimRange {
  int64_t min = 1, max = runtime::kMostBytes;
};

/// By the names that the model gives them; one without a name is called INPUT.AXIS, as in "x.0".
struct OpenDims {
  bool all = false;  // those not named too
  std::map<std::string, DimRange> named;

  bool none() const { return !all && named.empty(); }
  bool keeps(const std::string& name) const { return all || named.count(name) != 0; }
  DimRange range(const std::string& name) const {
    auto found = named.find(name);
    return found == named.end() ? DimRange{} : found->second;
  }
};

/// Sets the ranges of the plan's dimensions. Throws Error when one that is named is not among them.
void set_ranges(runtime::Plan& plan, const OpenDims& open);

}  // namespace lathe::tuner
