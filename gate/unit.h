// What a gate compares: two builds of one model for one target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/module_file.h"

namespace lathe::gate {

struct Side {
  std::string file;  // the module
  std::string of;    // the file that it comes from, for people: itself, or a database
  runtime::ModuleHead head;
  std::vector<int64_t> dims;  // that the module leaves open, in the order of its plan
  std::string shapes;         // "x (1, 128), y (1,)": of its inputs, where it leaves some open
};

struct Unit {
  std::string name;
  Side baseline, candidate;

  bool same() const { return baseline.head.digest == candidate.head.digest; }
  const std::string& target() const { return candidate.head.plan.target; }
};

/// Throws Error when a file is no module, the two take or give different tensors, or they are the same by
/// digests that their constants do not have; Unfit when this machine cannot run them.
Unit make_unit(std::string name, Side baseline, Side candidate);

/// Sets what the module leaves open: its plan is of these numbers from here on. Throws Error when it was not
/// compiled for them.
void settle(Side& side, std::vector<int64_t> dims);

/// A number that is the same in each run.
struct Counter {
  std::string name;
  int64_t baseline = 0, candidate = 0;
};

/// Of the files: the size of the code, bytes of constants, of the arena, and that the steps at least move.
std::vector<Counter> counters_of(const Unit& unit);

}  // namespace lathe::gate
