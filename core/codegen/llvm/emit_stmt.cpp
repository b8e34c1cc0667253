// Statements: loops, conditions, allocations.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/codegen/llvm/emitter.h"
#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/lower.h"

namespace lathe::codegen {

void Emitter::emit(const tir::Stmt& stmt) {
  if (apart_ && stmt == state_.leading_copy->copy) return emit_leading_copy();
  switch (stmt->kind()) {
    case tir::StmtKind::kSeq:
      for (std::span<const tir::Stmt> rest = stmt.as<tir::Seq>()->stmts; !rest.empty();) {
        if (const auto rows = stored_rows(rest)) {
          store_short_rows(rest.first(static_cast<size_t>(rows->length)), *rows);
          rest = rest.subspan(static_cast<size_t>(rows->length));
          continue;
        }
        transpose_before(rest[0]);
        emit(rest[0]);
        rest = rest.subspan(1);
      }
      return;
    case tir::StmtKind::kFor:
      return emit_for(*stmt.as<tir::For>());
    case tir::StmtKind::kIf:
      return emit_if(*stmt.as<tir::If>());
    case tir::StmtKind::kStore:
      return emit_store(*stmt.as<tir::Store>());
    case tir::StmtKind::kAlloc:
      return emit_alloc(*stmt.as<tir::Alloc>());
    case tir::StmtKind::kBlock:
      break;
  }
  CHECK(false, "code generation takes the lowered level: no {}", stmt->type().name);
}

void Emitter::emit_for(const tir::For& loop) {
  if (loop.iteration >= tir::Iteration::kBlockX)
    fail("loop `{}` runs on {} of a GPU, which this target has not", loop.var->name,
         spelling(loop.iteration));
  const int64_t* extent = as_int(loop.extent);
  if (extent && *extent <= 0) return;
  // No loop, and no function for a parallel one.
  if (extent && *extent == 1) {
    vars_[loop.var.get()] = b_.getInt64(0);
    return emit(loop.body);
  }
  // Inside of a parallel loop another one runs serially: all cores are busy.
  if (loop.iteration == tir::Iteration::kParallel && !in_parallel_) return emit_parallel(loop);
  if (emit_tiles(loop)) return;
  llvm::Value* end = value(loop.extent);
  emit_serial(loop.var, b_.getInt64(0), end, [&] {
    if (auto ahead = loop.annotations.find(tir::kPrefetch); ahead != loop.annotations.end())
      loops_.back().prefetch = ahead->second;
    mark_next(loop);
    emit(loop.body);
  });
}

void Emitter::mark_next(const tir::For& loop) {
  auto lines = loop.annotations.find(tir::kPrefetchNext);
  if (lines != loop.annotations.end()) loops_.back().lines_of_next = lines->second;
}

/// A loop that tests at its end, behind a guard unless it surely runs. Extents of 1 and less have been dealt
/// with.
void Emitter::emit_serial(const Var& var, llvm::Value* begin, llvm::Value* end, FunctionRef<void()> body) {
  const std::string& name = var->name;
  llvm::BasicBlock *entry = b_.GetInsertBlock(), *exit = nullptr;
  open_loop(name);
  llvm::BasicBlock* head = loops_.back().head;
  llvm::IRBuilder<> before(entry);
  if (llvm::isa<llvm::ConstantInt>(end)) {
    before.CreateBr(head);
  } else {
    exit = block(name + ".exit");
    before.CreateCondBr(before.CreateICmpSLT(begin, end), head, exit);
  }
  llvm::PHINode* index = llvm::IRBuilder<>(head, head->begin()).CreatePHI(b_.getInt64Ty(), 2, name);
  index->addIncoming(begin, entry);
  vars_[var.get()] = index;
  depth_[var.get()] = loops_.size() - 1;
  loops_.back().var = var.get(), loops_.back().index = index, loops_.back().end = end;
  body();
  loops_.pop_back();
  llvm::Value* next = b_.CreateAdd(index, b_.getInt64(1), "", true, true);
  index->addIncoming(next, b_.GetInsertBlock());
  if (!exit) exit = block(name + ".exit");
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), head, exit);
  // Blocks stay in the order of the program.
  exit->moveAfter(b_.GetInsertBlock());
  b_.SetInsertPoint(exit);
}

/// One loop over the iterations of all of `nest`, of which each is all that the one before does. The
/// innermost is the last digit of an iteration's number.
void Emitter::emit_joined(std::span<const tir::For* const> nest, llvm::Value* begin, llvm::Value* end) {
  std::vector<llvm::Value*> extents;
  for (const tir::For* each : nest.subspan(1)) extents.push_back(value(each->extent));
  emit_serial(nest[0]->var, begin, end, [&] {
    // In the head, where pointers need them.
    llvm::IRBuilder<> at_head(loops_.back().head->getTerminator());
    llvm::Value* number = vars_[nest[0]->var.get()];
    for (size_t i = nest.size(); i-- > 0;) {
      const VarNode* var = nest[i]->var.get();
      vars_[var] = i == 0 ? number : at_head.CreateURem(number, extents[i - 1], var->name);
      if (i > 0) number = at_head.CreateUDiv(number, extents[i - 1]);
      depth_[var] = loops_.size() - 1;
    }
    if (nest.size() == 1) mark_next(*nest[0]);
    emit(nest.back()->body);
  });
}

void Emitter::emit_if(const tir::If& branch) {
  llvm::Value* condition = value(branch.condition);
  if (condition->getType()->isVectorTy()) return emit_masked(branch.condition, condition, branch.then_case);
  llvm::BasicBlock *then_block = block("then"), *end = block("endif");
  llvm::BasicBlock* else_block = branch.else_case ? block("else") : end;
  b_.CreateCondBr(condition, then_block, else_block);
  // A case may open blocks of its own; the branch comes from the one that it ends in.
  auto emit_case = [&](llvm::BasicBlock* at, const tir::Stmt& stmt) {
    b_.SetInsertPoint(at);
    emit(stmt);
    b_.CreateBr(end);
  };
  const size_t around = facts_.size();
  for (const Expr& fact : conjuncts(branch.condition)) facts_.push_back(fact);
  emit_case(then_block, branch.then_case);
  facts_.resize(around);
  if (branch.else_case) emit_case(else_block, branch.else_case);
  b_.SetInsertPoint(end);
}

/// Where both are one memory, each element would be stored where it is.
void Emitter::emit_leading_copy() {
  llvm::BasicBlock *copy = block("copy"), *end = block("copied");
  b_.CreateCondBr(std::exchange(apart_, nullptr), copy, end);
  b_.SetInsertPoint(copy);
  emit(state_.leading_copy->copy);
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
}

/// A condition around says of the first lane what `condition` asks of all: place + lane < end.
bool Emitter::wants_some(const Expr& condition) const {
  const Binary* less = condition.as<Binary>();
  const Ramp* places = less && less->op == BinaryOp::kLt ? less->a.as<Ramp>() : nullptr;
  const Broadcast* end = places ? less->b.as<Broadcast>() : nullptr;
  return end && std::any_of(facts_.begin(), facts_.end(), [&](const Expr& fact) {
           const Binary* known = fact.as<Binary>();
           return known && known->op == BinaryOp::kLt && structural_equal(known->a, places->base) &&
                  structural_equal(known->b, end->value);
         });
}

/// Stores and vector loads of the lanes in `condition`, if there are any: scalars need no mask then. Where
/// some are known to be, without a branch: what such statements hand on to each other stays in registers.
void Emitter::emit_masked(const Expr& condition, llvm::Value* lanes, const tir::Stmt& stmt) {
  llvm::Value *outer = mask_, *outer_statement = statement_mask_;
  mask_ = statement_mask_ = outer ? b_.CreateAnd(outer, lanes) : lanes;
  if (!outer && wants_some(condition)) {
    emit(stmt);
    mask_ = outer;
    statement_mask_ = outer_statement;
    return;
  }
  llvm::BasicBlock *then_block = block("lanes"), *end = block("endlanes");
  b_.CreateCondBr(b_.CreateOrReduce(mask_), then_block, end);
  b_.SetInsertPoint(then_block);
  emit(stmt);
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  mask_ = outer;
  statement_mask_ = outer_statement;
}

/// At least so many bytes: the smallest place that an intermediate had which is dead by now, or a new one.
/// LLVM is not told when they live, and would not overlay them.
Emitter::StackPlace Emitter::take_stack(int64_t bytes, const std::string& name) {
  if (auto place = free_stack_.lower_bound(bytes); place != free_stack_.end()) {
    StackPlace taken = *place;
    free_stack_.erase(place);
    return taken;
  }
  stack_bytes_ += bytes;
  if (stack_bytes_ > kStackLimit)
    fail(
        "{}: intermediates of one thread need {} bytes of stack, the limit is {}; compute them in smaller "
        "tiles",
        state_.func->name, stack_bytes_, kStackLimit);
  return {bytes, stack_slot(llvm::ArrayType::get(b_.getInt8Ty(), bytes), llvm::Align(64), name)};
}

void Emitter::emit_alloc(const tir::Alloc& alloc) {
  const tir::Buffer& buffer = alloc.buffer;
  if (buffers_.count(buffer.get())) return emit(alloc.body);  // in the workspace
  Storage place;
  std::optional<StackPlace> taken;
  // In registers where that is possible, else on the stack.
  auto planned = state_.registers.find(buffer.get());
  if (planned != state_.registers.end()) {
    // A slot for each place: all accesses are whole slots, so LLVM's SROA makes each a value without memory.
    for (const auto& [first, lanes] : planned->second.places) {
      llvm::Type* type = memory_type(buffer->dtype.with_lanes(lanes));
      auto* slot = llvm::cast<llvm::AllocaInst>(stack_slot(type, llvm::Align(64), buffer->name));
      // Lanes that masks leave out are computed with all the same. What happens to be on the stack may be
      // denormal numbers there, each of which costs a hundred cycles, and what the iteration before had would
      // be kept for nothing. Other lanes are stored to first: this vanishes.
      if (lanes > 1) b_.CreateStore(llvm::Constant::getNullValue(type), slot);
      place.slots[first] = slot;
    }
    allocate_columns(buffer, place);
  } else {
    if (!tir::has_constant_shape(*buffer))
      fail("{}: an intermediate of one thread has a size that is not known when it is compiled: {}",
           state_.func->name, buffer->name);
    taken.emplace(take_stack((tir::byte_size(buffer) + 63) / 64 * 64, buffer->name));
    place.pointer = taken->second;
  }
  buffers_[buffer.get()] = std::move(place);
  emit(alloc.body);
  if (taken) free_stack_.insert(*taken);
}

}  // namespace lathe::codegen
