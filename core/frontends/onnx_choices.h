// Branches that lead on by one of their sides alone.
//
// PyTorch writes squeeze(x) as If(x.shape[-1] == 1, Squeeze, Identity), whose sides differ in rank: what
// follows is written for one of them. Of a dimension that is open nothing tells which, so the import tries.
#pragma once

#include <vector>

#include "core/support/node.h"

namespace lathe::onnx {

class Choices {
 public:
  /// The side of the next such branch: whether its condition is taken to hold.
  bool next();

  /// Runs `attempt` until the choices lead through it, each choice false at first; then whether one of them
  /// could as well be another. Throws the first attempt's Error where none leads through, and one that says
  /// so where more than one does.
  void lead_through(FunctionRef<void()> attempt);

 private:
  bool leads_through(FunctionRef<void()> attempt);
  bool advance(size_t fixed);

  std::vector<bool> made_;
  size_t asked_ = 0;
};

}  // namespace lathe::onnx
