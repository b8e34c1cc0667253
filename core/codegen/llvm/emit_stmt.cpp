// Statements: loops, conditions, allocations.
#include "core/codegen/llvm/emitter.h"
#include "core/support/error.h"

namespace lathe::codegen {

void Emitter::emit(const tir::Stmt& stmt) {
  switch (stmt->kind()) {
    case tir::StmtKind::kSeq:
      for (const tir::Stmt& s : stmt.as<tir::Seq>()->stmts) emit(s);
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
  const int64_t* extent = as_int(loop.extent);
  if (extent && *extent <= 0) return;
  if (extent && *extent == 1) {
    vars_[loop.var.get()] = b_.getInt64(0);
    return emit(loop.body);
  }
  if (loop.iteration == tir::Iteration::kParallel && !in_parallel_) return emit_parallel(loop);
  emit_serial(loop, b_.getInt64(0), value(loop.extent));
}

/// A loop that tests at its end, behind a guard unless it surely runs.
void Emitter::emit_serial(const tir::For& loop, llvm::Value* begin, llvm::Value* end) {
  auto block = [&](const char* part) {
    return llvm::BasicBlock::Create(b_.getContext(), loop.var->name + part, function_);
  };
  llvm::BasicBlock *entry = b_.GetInsertBlock(), *body = block(".body"), *exit = nullptr;
  if (llvm::isa<llvm::ConstantInt>(end)) {
    b_.CreateBr(body);
  } else {
    exit = block(".exit");
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), body, exit);
  }
  b_.SetInsertPoint(body);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2, loop.var->name);
  index->addIncoming(begin, entry);
  vars_[loop.var.get()] = index;
  pointers_.emplace_back();
  emit(loop.body);
  pointers_.pop_back();
  llvm::Value* next = b_.CreateAdd(index, b_.getInt64(1), "", true, true);
  index->addIncoming(next, b_.GetInsertBlock());
  if (!exit) exit = block(".exit");
  exit->moveAfter(b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, exit);
  b_.SetInsertPoint(exit);
}

void Emitter::emit_if(const tir::If& branch) {
  llvm::Value* condition = value(branch.condition);
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, function_); };
  llvm::BasicBlock *then_block = block("then"), *end = block("endif");
  llvm::BasicBlock* else_block = branch.else_case ? block("else") : end;
  b_.CreateCondBr(condition, then_block, else_block);
  auto emit_case = [&](llvm::BasicBlock* at, const tir::Stmt& stmt) {
    b_.SetInsertPoint(at);
    pointers_.emplace_back();
    emit(stmt);
    pointers_.pop_back();
    b_.CreateBr(end);
  };
  emit_case(then_block, branch.then_case);
  if (branch.else_case) emit_case(else_block, branch.else_case);
  b_.SetInsertPoint(end);
}

void Emitter::emit_alloc(const tir::Alloc& alloc) {
  const tir::Buffer& buffer = alloc.buffer;
  Storage place;
  auto planned = state_.registers.find(buffer.get());
  int64_t bytes = buffer->dtype.bytes();
  for (int64_t dim : tir::constant_shape(buffer)) bytes *= dim;
  if (planned != state_.registers.end()) {
    for (const auto& [first, lanes] : planned->second) {
      llvm::Type* type = memory_type(buffer->dtype.with_lanes(lanes));
      place.slots[first] = llvm::cast<llvm::AllocaInst>(stack_slot(type, llvm::Align(64), buffer->name));
    }
  } else if (buffer->scope == tir::Scope::kGlobal && !in_parallel_) {
    place.pointer =
        b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), workspace_, state_.workspace_bytes, buffer->name);
    state_.workspace_bytes += (bytes + 63) / 64 * 64;
  } else {
    stack_bytes_ += (bytes + 63) / 64 * 64;
    if (stack_bytes_ > kStackLimit)
      fail(
          "{}: intermediates inside a parallel loop need {} bytes of stack, the limit is {}; compute them in "
          "smaller tiles",
          state_.func->name, stack_bytes_, kStackLimit);
    llvm::Type* type = llvm::ArrayType::get(b_.getInt8Ty(), bytes);
    place.pointer = stack_slot(type, llvm::Align(64), buffer->name);
  }
  buffers_[buffer.get()] = std::move(place);
  emit(alloc.body);
}

}  // namespace lathe::codegen
