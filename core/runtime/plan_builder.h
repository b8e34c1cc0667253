// Builds a plan call by call, then places every tensor.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/runtime/memory_plan.h"
#include "core/runtime/module_file.h"

namespace lathe::runtime {

struct TensorType {
  std::vector<Size> shape;
  DataType dtype;
};

/// A kernel call as the builder takes it. Values are named by the numbers that the builder gave out.
struct Call {
  std::string kernel;
  std::vector<int64_t> args;
  std::vector<TensorType> results;
  Size workspace_bytes = 0;
  double flops = 0;
  std::vector<Size> dims = {};  // of the kernel
  // results[0] may take over the memory of one of these arguments (numbers of args) when nobody else needs
  // it: the kernel reads each element of that argument only before it writes the element at the same place.
  // So may an output whose last call it is, of an input.
  std::vector<int64_t> reuse;
  Size when = 1;  // 0: not made
};

/// Usage: input(), constant(), call() and view() in execution order, output(), then finish(). For a model
/// with open dimensions dimension() comes first, for each of them, and sizes of size() may stand in shapes.
class PlanBuilder {
 public:
  /// `typical`: the value for which memory is packed best.
  Size dimension(Dimension dim, int64_t typical);
  Size size(SizeOp op, Size a, Size b) { return sizes_.add(op, a, b); }
  /// Nothing where the requirement surely holds.
  void require(Size holds, std::string text);

  int64_t input(std::string name, TensorType type);
  /// Equal bytes are kept once: a weight of several names, or packed for each step of a recurrence.
  int64_t constant(Tensor data);
  /// `value` under another shape of the same size; or a part of it, from `offset` on, in bytes. REQUIRES: of
  /// a part: a call has made `value`, it has as many bytes there, and `offset` is a multiple of kAlignment.
  int64_t view(int64_t value, std::vector<Size> shape, int64_t offset = 0);
  /// The values that the call makes, one for each of call.results.
  std::vector<int64_t> call(Call call);
  /// The same where there are several ways to make them, of which `when` says that one is gone in each run.
  /// REQUIRES: the same types of results.
  std::vector<int64_t> call_one_of(std::vector<Call> ways);
  /// A tensor of the arena that no call makes: a program does, which runs in place of all.
  int64_t result(TensorType type);
  void output(std::string name, int64_t value);

  /// The image without its library: lifetimes are taken from the order of the calls, and offsets assigned.
  /// Leaves the builder empty.
  ModuleImage finish();

 private:
  int64_t add_value(TensorType type, Place place, int64_t at, int64_t inside = 0);
  std::vector<Block> live_blocks() const;
  std::vector<size_t> merge_reused(std::vector<Block>& blocks);
  Size bytes_of(const Value& value);
  bool may_reuse(size_t step, int64_t source_value, const std::vector<size_t>& home) const;
  std::optional<size_t> last_writer(int64_t output, const std::vector<size_t>& home) const;
  int64_t input_under(int64_t output, const std::vector<size_t>& home) const;
  void let_outputs_take_over(const std::vector<size_t>& home);
  std::vector<int64_t> typical_sizes() const;
  void place(const std::vector<Block>& blocks, std::vector<Size>& offsets);

  std::unordered_multimap<int64_t, size_t> constants_of_size_;  // in bytes; places in image_.constants
  ModuleImage image_;              // until finish(), `at` of a value in the arena is the number of its block
  std::vector<int64_t> inside_;    // one a value: where it begins in its block, in bytes
  std::vector<Size> block_bytes_;  // one a block: a result of a call, with all its views
  std::vector<std::vector<int64_t>> reuse_;  // one a step
  std::vector<int64_t> time_;                // one a step: the number of the first of those of which one runs
  SizeTable sizes_;
  std::vector<int64_t> typical_;  // of the dimensions
};

}  // namespace lathe::runtime
