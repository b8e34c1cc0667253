// Branches, and results of several ranks, of which one alone leads on.
//
// PyTorch writes squeeze(x) as If(x.shape[-1] == 1, Squeeze, Identity), whose sides differ in rank: what
// follows is written for one of them. Of a dimension that is open nothing tells which, so the import tries.
// So it does with a squeeze of whatever is 1, and with indices that name any number of axes.
// And a model that switches by a value, 16 kHz or 8 kHz, may have a side that the sizes it is compiled for
// do not fit: where nothing else leads on, such a side is left out, and a run that takes it is refused.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "core/support/node.h"

namespace lathe::onnx {

class Choices {
 public:
  /// The side of the next such branch: whether its condition is taken to hold. `unclear`: what is wrong where
  /// both lead on.
  bool next(std::string unclear = kBranch);
  /// So many have been made.
  size_t made() const { return asked_; }
  /// Whether a side that cannot be imported may be left out.
  bool leaves_out() const { return leaves_out_; }

  /// Runs `attempt` until the choices lead through it, each choice false at first; then whether one of them
  /// could as well be another. Throws the first attempt's Error where none leads through, and one that says
  /// so where more than one does.
  void lead_through(FunctionRef<void()> attempt);

 private:
  static constexpr const char* kBranch =
      "a branch gives tensors of different ranks, by a dimension that is open, and the model goes on with "
      "both; give the dimension's size";

  std::exception_ptr find_way(FunctionRef<void()> attempt);
  bool leads_through(FunctionRef<void()> attempt);
  bool advance(size_t fixed);

  std::vector<bool> made_;
  std::vector<std::string> unclear_;  // of each that is made
  size_t asked_ = 0;
  bool leaves_out_ = false;
};

}  // namespace lathe::onnx
