// What products cost on a machine by the type of their operands: whether fewer bits pay, and how 8 bits lie
// in memory.
#pragma once

#include <optional>

#include "core/relay/op.h"
#include "core/tir/machine.h"

namespace lathe::relay {

/// By the target's row of the table of machines, not by what was measured of the one at hand: types are part
/// of workloads, and these are keys of the database.
class NarrowCosts {
 public:
  explicit NarrowCosts(const Target& target) : target_(target), machine_(machine_row(target).model) {}
  /// Of a machine that gains by fewer bits whatever a product is.
  static NarrowCosts none() {
    NarrowCosts costs{Target()};
    costs.always_pays_ = true;
    return costs;
  }

  /// Whether operands of `narrow` (kBFloat16, kFloat16, or kInt8 for 8 bits of any sign) save `product`, of a
  /// kProduct operator, more than making them so costs, where they are not so yet. What other operators
  /// compute is narrowed where it is stored; the function's inputs take a kernel for that.
  bool pays(const Call& product, DataType narrow) const;

  /// Whether `product`, of two 8-bit tensors, takes less time where these lie in memory as int16, for want of
  /// an instruction that multiplies bytes.
  bool widens(const Call& product) const;

 private:
  struct Size;
  static Size size_of(const Call& product);
  /// Vectors of dot products of such operands in a cycle.
  double dots(const Size& size, DataType operands) const;
  /// Of the sums, when operands are of that type.
  double cycles(const Size& size, DataType operands) const;

  Target target_;
  MachineModel machine_;
  bool always_pays_ = false;
};

/// Rows of a product's results; nothing where their number is open.
std::optional<int64_t> rows_of(const TensorType& results);

/// Whether a vector register for each row is more than there are: then weights are widened for many uses.
bool has_many_rows(const Expr& product, const Target& target);

}  // namespace lathe::relay
