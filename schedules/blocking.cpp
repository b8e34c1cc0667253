#include "schedules/blocking.h"

#include <algorithm>

namespace lathe::schedule {

namespace {
constexpr int64_t kTasksPerCore = 4;
/// Producers computed inside a task live on its thread's stack.
constexpr int64_t kStackBytes = 512 << 10;

int64_t bytes(const tir::Buffer& buffer) {
  int64_t result = buffer->dtype.bytes();
  for (int64_t dim : tir::constant_shape(buffer)) result *= dim;
  return result;
}

class Model {
 public:
  Model(const VectorReduction& reduction, const std::vector<TiledVariable>& tiled, const Target& target)
      : reduction_(reduction), tiled_(tiled), target_(target) {
    for (const TiledVariable& each : tiled) blocking_.middle.push_back(each.tiles);
  }

  Blocking choose() {
    for (size_t i = 0; i < tiled_.size(); ++i)
      if (is_batch(i)) blocking_.middle[i] = 1;
    bool weights_fit = shrink(true, target_.l2_bytes / 2);
    if (weights_fit) shrink(false, std::min(target_.l2_bytes / 4, kStackBytes));
    while (tasks() < kTasksPerCore * target_.cores && target_.cores > 1 && split_largest()) {
    }
    blocking_.producers_inside = weights_fit;
    return blocking_;
  }

 private:
  bool used(size_t i, bool contiguous) const {
    return std::any_of(reduction_.operands.begin(), reduction_.operands.end(), [&](const Operand& operand) {
      return operand.contiguous == contiguous && operand.uses[tiled_[i].variable];
    });
  }
  bool is_column(size_t i) const { return reduction_.broadcasts() && used(i, true) && !used(i, false); }
  /// All operands use it: nothing is shared between its values.
  bool is_batch(size_t i) const {
    return std::all_of(reduction_.operands.begin(), reduction_.operands.end(),
                       [&](const Operand& operand) { return operand.uses[tiled_[i].variable]; });
  }
  bool is_weight(const Operand& operand) const { return reduction_.broadcasts() && operand.contiguous; }

  /// Bytes of the weights (of the data) that one task touches.
  double footprint(bool weights) const {
    double total = 0;
    for (const Operand& operand : reduction_.operands) {
      if (is_weight(operand) != weights) continue;
      auto part = static_cast<double>(bytes(operand.buffer));
      for (size_t i = 0; i < tiled_.size(); ++i)
        if (operand.uses[tiled_[i].variable])
          part *= static_cast<double>(blocking_.middle[i]) / static_cast<double>(tiled_[i].tiles);
      for (size_t v = 0; v < reduction_.extents.size(); ++v)
        if (is_untiled_outer(v) && operand.uses[v]) part /= static_cast<double>(reduction_.extents[v]);
      total += part;
    }
    return total;
  }

  bool is_untiled_outer(size_t v) const {
    return !reduction_.reduces[v] && v != reduction_.vector &&
           std::none_of(tiled_.begin(), tiled_.end(),
                        [&](const TiledVariable& each) { return each.variable == v; });
  }

  /// Makes tasks smaller along columns (rows), outermost variables first, until the footprint is at most
  /// `limit`. Gives whether nothing had to be cut.
  bool shrink(bool columns, int64_t limit) {
    bool whole = true;
    for (size_t i = 0; i < tiled_.size(); ++i) {
      if (is_column(i) != columns) continue;
      while (footprint(columns) > static_cast<double>(limit) && next_smaller(i)) whole = false;
    }
    return whole;
  }

  bool next_smaller(size_t i) {
    for (int64_t size = blocking_.middle[i] - 1; size >= 1; --size) {
      if (tiled_[i].tiles % size != 0) continue;
      blocking_.middle[i] = size;
      return true;
    }
    return false;
  }

  int64_t tasks() const {
    int64_t count = 1;
    for (size_t i = 0; i < tiled_.size(); ++i) count *= tiled_[i].tiles / blocking_.middle[i];
    for (size_t v = 0; v < reduction_.extents.size(); ++v)
      if (is_untiled_outer(v)) count *= reduction_.extents[v];
    return count;
  }

  /// Rows before columns: cutting rows computes a little of the producers twice, cutting columns all of them.
  bool split_largest() {
    for (bool columns : {false, true}) {
      size_t largest = tiled_.size();
      for (size_t i = 0; i < tiled_.size(); ++i)
        if (is_column(i) == columns && blocking_.middle[i] > 1 &&
            (largest == tiled_.size() || blocking_.middle[i] > blocking_.middle[largest]))
          largest = i;
      if (largest < tiled_.size()) return next_smaller(largest);
    }
    return false;
  }

  const VectorReduction& reduction_;
  const std::vector<TiledVariable>& tiled_;
  const Target& target_;
  Blocking blocking_;
};
}  // namespace

Blocking choose_blocking(const VectorReduction& reduction, const std::vector<TiledVariable>& tiled,
                         const Target& target) {
  return Model(reduction, tiled, target).choose();
}

}  // namespace lathe::schedule
