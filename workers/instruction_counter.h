// A measure of work that no other program's load changes.
#pragma once

#include <cstdint>
#include <string>

#include "core/support/node.h"

namespace lathe::worker {

/// Counts the instructions of user code that the calling thread executes.
class InstructionCounter {
 public:
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  /// Why nothing can be counted (the system keeps its counters from users, or a virtual machine has none); ""
  /// when it can.
  const std::string& missing() const { return missing_; }
  /// While `work` runs. REQUIRES: nothing is missing.
  int64_t count(FunctionRef<void()> work);

 private:
  int descriptor_ = -1;
  std::string missing_;
};

}  // namespace lathe::worker
