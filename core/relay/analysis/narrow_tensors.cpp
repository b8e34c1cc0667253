#include "core/relay/analysis/narrow_tensors.h"

#include <algorithm>

#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"

namespace lathe::relay {
namespace {

/// A sum of two tensors of one shape, none of them constant: a residual.
bool is_sum_of_tensors(const Call& call) {
  return call.args.size() == 2 && is_real_tensor(call.args[0]) && is_real_tensor(call.args[1]) &&
         structural_equal(call.args[0]->checked_type, call.args[1]->checked_type) &&
         !call.args[0].as<Constant>() && !call.args[1].as<Constant>();
}

/// A tensor, or the tensors of a tuple that is written out; others are no one's to store.
std::vector<Expr> tensors_in(const Expr& e) {
  if (const auto* tuple = e.as<Tuple>()) return tuple->items;
  return {e};
}

}  // namespace

bool is_real_tensor(const Expr& e) {
  const auto* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  return type && type->dtype == kFloat32;
}

bool is_choice(const Call& call) {
  const Op* op = operator_of(Expr(&call));
  if (!op || op->narrow != NarrowRule::kChoice) return false;
  // A tuple that is neither written out nor chosen itself is no one's to store narrow.
  const Expr& from = call.args[0];
  if (from->checked_type && from->checked_type.as<TupleType>() && !from.as<Tuple>() &&
      (!from.as<Call>() || !is_choice(*from.as<Call>())))
    return false;
  return std::all_of(call.args.begin() + 1, call.args.end(), [](const Expr& arg) {
    const auto* constant = arg.as<Constant>();
    bool zero = constant != nullptr;
    for (int64_t i = 0; zero && i < constant->value.size(); ++i) zero = constant->value.value(i) == 0;
    return !is_real_tensor(arg) || zero;
  });
}

Expr chosen_from(const Expr& e) {
  if (!e.as<Call>() || !is_choice(*e.as<Call>()) || !is_real_tensor(e)) return {};
  const Expr& from = e.as<Call>()->args[0];
  return is_real_tensor(from) && !from.as<Constant>() ? from : Expr();
}

NarrowTensors::NarrowTensors(const Ref<Function>& function, const IsProduct& is_product) {
  post_order(function->body, [&](const NodeRef& node) {
    if (dynamic_cast<const RelayNode*>(node.get())) order_.push_back(node.cast<RelayNode>());
  });
  for (const Expr& e : order_) {
    const Op* op = operator_of(e);
    if (!op) continue;
    const auto& args = e.as<Call>()->args;
    const bool beside = op->fusion <= Fusion::kInjective &&
                        std::any_of(args.begin(), args.end(),
                                    [&](const Expr& arg) { return of_products_.count(arg.get()) > 0; });
    if (beside || (op->narrow == NarrowRule::kProduct && is_product(*e.as<Call>())))
      of_products_.insert(e.get());
  }
  do {
    // Sums are taken as willing at first. One that turns out to have a real operand is refused for good,
    // which may make other tensors real: again, until no sum is refused. Refusals only grow, so it ends.
    readers_.clear();
    readers_[function->body.get()].real = true;
    // Users before what they read.
    for (size_t i = order_.size(); i-- > 0;) read_by(order_[i], is_product);
  } while (refuse_sums());
}

NarrowTensors::Readers NarrowTensors::readers(const Expr& e) const {
  auto found = readers_.find(e.get());
  return found == readers_.end() ? Readers{} : found->second;
}

bool NarrowTensors::sums_narrow(const Call& call) const {
  return is_sum_of_tensors(call) && !refused_.count(&call);
}

std::vector<Expr> NarrowTensors::all() const {
  std::vector<Expr> narrow;
  for (const Expr& e : order_)
    if (is_narrow(e)) narrow.push_back(e);
  return narrow;
}

/// All users of `user` are known already.
void NarrowTensors::read_by(const Expr& user, const IsProduct& is_product) {
  if (const Op* op = operator_of(user)) return read_by_operator(*user.as<Call>(), *op, is_product);
  if (const auto* projection = user.as<Projection>()) {  // of a split
    Readers& of_tuple = readers_[projection->tuple.get()];
    Readers own = readers(user);
    of_tuple.data |= own.data, of_tuple.weight |= own.weight;
    of_tuple.willing |= own.willing, of_tuple.real |= own.real;
    return;
  }
  // A tuple's items are read by what reads it: a choice has said so, the others want them as they are.
  if (user.as<Tuple>() && readers_.count(user.get()) && !readers(user).real) return;
  for_each_operand(user, [&](const Expr& operand, bool) { readers_[operand.get()].real = true; });
}

void NarrowTensors::read_by_operator(const Call& call, const Op& op, const IsProduct& is_product) {
  if (is_choice(call)) return read_choice(call);
  if (op.narrow == NarrowRule::kProduct && is_product(call)) {
    readers_[call.args[0].get()].data = true;
    readers_[call.args[1].get()].weight = true;
    return;
  }
  bool willing = (op.narrow == NarrowRule::kSum && sums_narrow(call)) ||
                 (op.narrow == NarrowRule::kMean && op.mean && is_real_tensor(call.args[0]));
  for (const Expr& arg : call.args) (willing ? readers_[arg.get()].willing : readers_[arg.get()].real) = true;
}

/// What the result's readers want, its operand's do; a narrow result is widened for those that want it real.
void NarrowTensors::read_choice(const Call& call) {
  Readers own = readers(Expr(&call));
  if (own.want_narrow()) own.real = false;
  for (size_t i = 0; i < call.args.size(); ++i) {
    // Indices, borders and the like are read as they are.
    readers_[call.args[i].get()].real |= i > 0;
    if (i > 0) continue;
    if (call.args[0].as<Tuple>()) readers_[call.args[0].get()];
    for (const Expr& tensor : tensors_in(call.args[0])) {
      Readers& of_tensor = readers_[tensor.get()];
      of_tensor.data |= own.data, of_tensor.weight |= own.weight;
      of_tensor.willing |= own.willing, of_tensor.real |= own.real;
    }
  }
}

bool NarrowTensors::is_near_product(const Expr& e) const {
  const Readers by = readers(e);
  return by.data || by.weight || of_products_.count(e.get());
}

/// Refuses sums that would read one tensor narrow and one real, or two for no product; true when there were
/// any.
bool NarrowTensors::refuse_sums() {
  size_t before = refused_.size();
  for (const Expr& e : order_) {
    const Op* op = operator_of(e);
    if (!op || op->narrow != NarrowRule::kSum || !sums_narrow(*e.as<Call>())) continue;
    const auto& args = e.as<Call>()->args;
    if (!is_narrow(args[0]) || !is_narrow(args[1]) ||
        (!is_near_product(args[0]) && !is_near_product(args[1])))
      refused_.insert(e.get());
  }
  return refused_.size() > before;
}

}  // namespace lathe::relay
