// Calls of programs are jumps: what is left in frames, and how functions go on.
#include "core/codegen/llvm/program_emitter.h"

namespace lathe::codegen {

using runtime::Fault;
using runtime::Instruction;
using runtime::Kind;
using runtime::Opcode;

/// Leaves this function for good, or until it is called back.
void ProgramEmitter::jump_to(llvm::Value* code, llvm::Value* frame, llvm::Value* state, const Word* first) {
  llvm::Value *word = first ? first->word : i64(0), *payload = first ? first->payload : i64(0);
  llvm::CallInst* call = b_.CreateCall(state_.type, code, {machine(), frame, state, word, payload});
  call->setTailCallKind(llvm::CallInst::TCK_MustTail);
  b_.CreateRet(call);
}

/// Of the closure that is called.
llvm::Value* ProgramEmitter::closure_code(const Instruction& i) {
  require_kind(i.args[0], Kind::kClosure, Fault::kNoFunction);
  llvm::Value* number = b_.CreateLShr(peek(i.args[0]).word, i64(32));
  llvm::Value* row =
      b_.CreateGEP(b_.getInt8Ty(), state_.table,
                   b_.CreateMul(number, i64(static_cast<int64_t>(sizeof(LatheNativeFunction)))));
  llvm::Value* params = b_.CreateLoad(b_.getInt64Ty(), at(row, offsetof(LatheNativeFunction, params)));
  fault_if(b_.CreateICmpNE(params, i64(static_cast<int64_t>(i.args.size()) - 1)), Fault::kArgumentCount);
  return b_.CreateLoad(b_.getPtrTy(), at(row, offsetof(LatheNativeFunction, code)));
}

void ProgramEmitter::call(const Instruction& i) {
  const bool of_closure = i.op == Opcode::kCallClosure;
  llvm::Value* code = of_closure ? closure_code(i) : state_.functions[static_cast<size_t>(i.number)];
  llvm::Value* left_at = at(machine(), offsetof(LatheNativeMachine, calls_left));
  llvm::Value* left = b_.CreateLoad(b_.getInt64Ty(), left_at);
  fail_if(b_.CreateICmpEQ(left, i64(0)), b_.getInt32(kLatheDepth), 0);
  b_.CreateStore(b_.CreateSub(left, i64(1)), left_at);
  // The arguments first: one of them may be the function itself, moved.
  std::vector<Word> args;
  for (size_t k = of_closure ? 1 : 0; k < i.args.size(); ++k) args.push_back(take(i.args[k]));
  llvm::Value* closure = null();
  if (of_closure) closure = b_.CreateIntToPtr(take(i.args[0]).payload, b_.getPtrTy());
  call_and_resume(code, closure, args, i.results[0]);
}

void ProgramEmitter::call_and_resume(llvm::Value* code, llvm::Value* closure, std::span<const Word> args,
                                     int32_t result) {
  const int64_t state = ++states_;
  const int64_t own_bytes = 16 * (1 + this->code().registers);
  spill();
  llvm::Value* callee = at(frame(), own_bytes);
  b_.CreateStore(place(llvm_function_, state), at(callee, offsetof(LatheNativeFrame, caller)));
  b_.CreateStore(closure, at(callee, offsetof(LatheNativeFrame, closure)));
  for (size_t k = 1; k < args.size(); ++k) stored(frame_word(callee, 1 + k), args[k]);
  jump_to(code, callee, i64(0), args.empty() ? nullptr : &args[0]);

  llvm::BasicBlock* back = block();
  resume_->addCase(b_.getInt64(static_cast<uint64_t>(state)), back);
  b_.SetInsertPoint(back);
  b_.CreateStore(at(llvm_function_->getArg(1), -own_bytes), frame_);
  for (size_t r = 0; r < facts_.size() && !in_frame(); ++r) {
    const Word value = facts_[r].held ? loaded(frame_word(frame(), 1 + r)) : Word{i64(0), i64(0), {}};
    // Known kinds are written out: loads would hide them.
    const bool known = facts_[r].held && facts_[r].kind && facts_[r].tag;
    put(r, {known ? word_of(*facts_[r].kind, *facts_[r].tag) : value.word, value.payload, {}});
  }
  llvm::Value* left_at = at(machine(), offsetof(LatheNativeMachine, calls_left));
  b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), left_at), i64(1)), left_at);
  set(result, {llvm_function_->getArg(3), llvm_function_->getArg(4), {}});
}

void ProgramEmitter::tail_call(const Instruction& i) {
  const bool of_closure = i.op == Opcode::kTailCallClosure;
  llvm::Value* code = of_closure ? closure_code(i) : state_.functions[static_cast<size_t>(i.number)];
  std::vector<Word> args;
  for (size_t k = of_closure ? 1 : 0; k < i.args.size(); ++k) args.push_back(take(i.args[k]));
  llvm::Value* closure = null();
  if (of_closure) closure = b_.CreateIntToPtr(take(i.args[0]).payload, b_.getPtrTy());
  release_all();
  if (code == llvm_function_) {
    for (size_t k = 0; k < args.size(); ++k) put(k, args[k]);
    b_.CreateBr(body_);
    return;
  }
  tail_jump(code, closure, args);
}

/// The callee's frame takes the place of this one.
void ProgramEmitter::tail_jump(llvm::Value* code, llvm::Value* closure, std::span<const Word> args) {
  llvm::Value* closure_at = at(frame(), offsetof(LatheNativeFrame, closure));
  if (this->code().captured > 0) {
    llvm::Value* own = b_.CreateLoad(b_.getPtrTy(), closure_at);
    release(object(Kind::kClosure, 0, own));
  }
  b_.CreateStore(closure, closure_at);
  for (size_t k = 1; k < args.size(); ++k) stored(frame_word(frame(), 1 + k), args[k]);
  jump_to(code, frame(), i64(0), args.empty() ? nullptr : &args[0]);
}

void ProgramEmitter::give_back(const Instruction& i) {
  const Word value = take(i.args[0]);
  release_all();
  if (code().captured > 0)
    release(object(Kind::kClosure, 0,
                   b_.CreateLoad(b_.getPtrTy(), at(frame(), offsetof(LatheNativeFrame, closure)))));
  llvm::Value* caller = b_.CreateLoad(b_.getPtrTy(), at(frame(), offsetof(LatheNativeFrame, caller)));
  llvm::Value* code = b_.CreateLoad(b_.getPtrTy(), at(caller, offsetof(LatheNativeReturn, code)));
  llvm::Value* state = b_.CreateLoad(b_.getInt64Ty(), at(caller, offsetof(LatheNativeReturn, state)));
  jump_to(code, frame(), state, &value);
}

}  // namespace lathe::codegen
