// Choices: which side of a select is computed in any case, and which only where it is wanted.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/codegen/llvm/emitter.h"
#include "core/tir/regions.h"

namespace lathe::codegen {
namespace {
/// Adds what is loaded wherever `e` is computed, not only where something in it chooses so. `seen`: what
/// expressions share is looked at once.
void add_sure_loads(const Expr& e, std::vector<Expr>& loads, std::unordered_set<const Node*>& seen) {
  if (!seen.insert(e.get()).second) return;
  if (e.as<tir::Load>()) loads.push_back(e);
  const Select* select = e.as<Select>();
  const Binary* binary = e.as<Binary>();
  if (select) return add_sure_loads(select->condition, loads, seen);
  if (binary && (binary->op == BinaryOp::kAnd || binary->op == BinaryOp::kOr))
    return add_sure_loads(binary->a, loads, seen);
  e->for_each_child([&](const NodeRef& child) {
    if (dynamic_cast<const ExprNode*>(child.get())) add_sure_loads(child.cast<ExprNode>(), loads, seen);
  });
}

/// A branch of a select that may fail where `condition`, which is computed in any case, does not choose it,
/// but `other`: what both load is loaded in any case.
bool needs_guard(const Expr& branch, const Expr& condition, const Expr& other) {
  if (tir::loads_nothing_else(branch, condition)) return false;
  std::vector<Expr> sure;
  std::unordered_set<const Node*> seen;
  add_sure_loads(condition, sure, seen);
  add_sure_loads(other, sure, seen);
  bool fails = false;
  post_order(branch, [&](const NodeRef& node) {
    fails |= node.as<tir::Load>() && std::none_of(sure.begin(), sure.end(), [&](const Expr& load) {
               return structural_equal(load, node);
             });
  });
  return fails;
}
}  // namespace

/// `condition` ? emit_value() : 0, where the value is computed only if wanted.
llvm::Value* Emitter::guarded(llvm::Value* condition, llvm::Type* type,
                              FunctionRef<llvm::Value*()> emit_value) {
  llvm::BasicBlock* start = b_.GetInsertBlock();
  llvm::BasicBlock *wanted = block("wanted"), *end = block("end");
  b_.CreateCondBr(condition, wanted, end);
  b_.SetInsertPoint(wanted);
  // What is computed here is there for nothing behind.
  const bool keeps = std::exchange(keeps_known_, false);
  llvm::Value* v = emit_value();
  keeps_known_ = keeps;
  // Emitting the value may have opened blocks of its own.
  llvm::BasicBlock* from = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* phi = b_.CreatePHI(type, 2);
  phi->addIncoming(v, from);
  phi->addIncoming(llvm::Constant::getNullValue(type), start);
  return phi;
}

/// One condition for all lanes. A side that may fail where it is not chosen goes behind a branch; the other
/// is computed in any case.
llvm::Value* Emitter::select(const Select& e) {
  if (e.condition.dtype().lanes > 1) return vector_select(e);
  llvm::Value* condition = value(e.condition);
  bool guard_true = needs_guard(e.if_true, e.condition, e.if_false),
       guard_false = needs_guard(e.if_false, e.condition, e.if_true);
  // Without a branch where nothing can fail.
  if (!guard_true && !guard_false) return b_.CreateSelect(condition, value(e.if_true), value(e.if_false));
  llvm::Type* type = value_type(e.dtype);
  llvm::Value* a = guard_true ? guarded(condition, type, [&] { return value(e.if_true); }) : value(e.if_true);
  llvm::Value* b = guard_false ? guarded(b_.CreateNot(condition), type, [&] { return value(e.if_false); })
                               : value(e.if_false);
  return b_.CreateSelect(condition, a, b);
}

/// What the condition of a select around has computed, for all lanes it might be wanted in: computed anew, by
/// loads under other masks, it would be another value, and so would all that is made of it.
llvm::Value* Emitter::known_or(const Expr& e, FunctionRef<llvm::Value*()> emit_value) {
  // Without a mask all lanes are wanted.
  for (const Known& known : known_)
    if ((mask_ || !known.mask) && structural_equal(known.expr, e)) return known.value;
  llvm::Value* v = emit_value();
  if (keeps_known_) known_.push_back({e, v, mask_});
  return v;
}

/// Both sides are computed, loads only in the lanes that want them. Where either side may fail, of two
/// tensors that are joined for one, a side that no lane wants is passed by: what it would load is as far from
/// its tensor as the other is long, and to find that no lane wants it takes a processor 140 ns where there is
/// no memory (decision 094).
llvm::Value* Emitter::vector_select(const Select& e) {
  const size_t known = known_.size();
  const bool keeps = std::exchange(keeps_known_, true);
  llvm::Value* condition = early_mask(e.condition);
  keeps_known_ = keeps;
  llvm::Value* outer = mask_;
  const bool masks_true = needs_guard(e.if_true, e.condition, e.if_false),
             masks_false = needs_guard(e.if_false, e.condition, e.if_true);
  auto side = [&](const Expr& v, bool if_true) {
    const bool masks = if_true ? masks_true : masks_false;
    if (masks) {
      llvm::Value* lanes = if_true ? condition : b_.CreateNot(condition);
      // Loads inside look at the mask.
      mask_ = outer ? b_.CreateAnd(outer, lanes) : lanes;
    }
    keeps_known_ = keeps && !masks;
    const auto emit_side = [&] { return value(v); };
    llvm::Value* result = masks_true && masks_false
                              ? guarded(b_.CreateOrReduce(mask_), value_type(e.dtype), emit_side)
                              : emit_side();
    keeps_known_ = keeps;
    mask_ = outer;
    return result;
  };
  llvm::Value* if_true = side(e.if_true, true);
  llvm::Value* if_false = side(e.if_false, false);
  known_.resize(known);
  const auto* zeros = llvm::dyn_cast<llvm::Constant>(if_false);
  if (zeros && zeros->isNullValue() && is_zero_beyond(if_true, condition)) return if_true;
  return b_.CreateSelect(condition, if_true, if_false);
}

}  // namespace lathe::codegen
