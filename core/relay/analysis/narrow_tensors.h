// Which tensors of a function lie in memory as narrower numbers, once its products multiply such.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "core/relay/op.h"

namespace lathe::relay {

/// A tensor of float32.
bool is_real_tensor(const Expr& e);
/// A call of a kChoice operator that puts no real numbers but 0 between the elements of its first argument.
bool is_choice(const Call& call);
/// Of such a call whose results are elements of one tensor: that, not its tuple or a constant; else null.
Expr chosen_from(const Expr& e);

/// A tensor is stored narrow where a product reads it, or where all who read it do as well on narrow numbers
/// (NarrowRule); what an operator that only moves or chooses elements makes of it goes by the readers of the
/// result. A sum takes both of its tensors narrow or none: none where no product computes or reads either,
/// for then they need not lie in memory at all.
class NarrowTensors {
 public:
  /// What reads a tensor.
  struct Readers {
    bool data = false;     // a product, as its first operand
    bool weight = false;   // a product, as its second
    bool willing = false;  // an operator that takes either
    bool real = false;     // one that computes on real numbers, or the function's result
    bool want_narrow() const { return data || weight || (willing && !real); }
  };
  using IsProduct = std::function<bool(const Call& product)>;

  /// `is_product`: the calls of kProduct operators that are to multiply narrow numbers.
  NarrowTensors(const Ref<Function>& function, const IsProduct& is_product);

  bool is_narrow(const Expr& e) const { return is_real_tensor(e) && readers(e).want_narrow(); }
  Readers readers(const Expr& e) const;
  /// Whether `call`, of a sum, takes its tensors narrow.
  bool sums_narrow(const Call& call) const;
  /// All that are narrow, operands first.
  std::vector<Expr> all() const;

 private:
  void read_by(const Expr& user, const IsProduct& is_product);
  void read_by_operator(const Call& call, const Op& op, const IsProduct& is_product);
  void read_choice(const Call& call);
  bool refuse_sums();
  /// A product computes it, perhaps by way of elementwise operators, or reads it.
  bool is_near_product(const Expr& e) const;

  std::vector<Expr> order_;  // operands first
  std::unordered_map<const Node*, Readers> readers_;
  std::unordered_set<const Node*> of_products_;  // what products compute, and operators beside them
  std::unordered_set<const Node*> refused_;      // sums of which one operand is real
};

}  // namespace lathe::relay
