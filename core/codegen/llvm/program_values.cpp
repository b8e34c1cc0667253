// Values in registers: who owns them, what is known of them, and what is left of them where a program ends.
#include <llvm/IR/MDBuilder.h>

#include "core/codegen/llvm/program_emitter.h"

namespace lathe::codegen {

using runtime::Fault;
using runtime::Kind;

namespace {

/// A Datum's first half.
uint64_t word_bits(Kind kind, uint32_t tag) { return static_cast<uint64_t>(kind) | uint64_t{tag} << 32; }

}  // namespace

bool ProgramEmitter::in_frame() const {
  // Several times what a processor has: LLVM would keep most of them in memory of its own.
  constexpr size_t kMostSlots = 64;
  return facts_.size() > kMostSlots;
}

ProgramEmitter::Word ProgramEmitter::peek(int32_t arg) {
  const size_t r = number_of(arg);
  return {b_.CreateLoad(b_.getInt64Ty(), word_slot(r)), b_.CreateLoad(b_.getInt64Ty(), payload_slot(r)),
          facts_[r]};
}

void ProgramEmitter::put(size_t reg, const Word& value) {
  b_.CreateStore(value.word, word_slot(reg));
  b_.CreateStore(value.payload, payload_slot(reg));
}

ProgramEmitter::Word ProgramEmitter::take(int32_t arg) {
  const Word value = peek(arg);
  if (arg < 0)
    forget(number_of(arg));
  else
    retain(value);
  return value;
}

/// After a read in place: the last use frees.
void ProgramEmitter::done(int32_t arg) {
  if (arg >= 0) return;
  const Word value = peek(arg);
  forget(number_of(arg));
  release(value);
}

/// Its value is somebody else's now. A number may stay: it owns nothing.
void ProgramEmitter::forget(size_t reg) {
  if (!facts_[reg].is_number()) b_.CreateStore(i64(0), word_slot(reg));
  facts_[reg] = {};
}

void ProgramEmitter::set(int32_t result, const Word& value) {
  const Word old = peek(result);
  const auto r = static_cast<size_t>(result);
  put(r, value);
  facts_[r] = value.fact;
  facts_[r].held = true;
  if (old.fact.held) release(old);
}

/// The action on the object that the value counts for, where there is one.
void ProgramEmitter::if_owned(const Word& value, FunctionRef<void(llvm::Value*)> action) {
  if (value.fact.is_number()) return;
  llvm::BasicBlock *owned = block(), *next = block();
  llvm::Value* owns = b_.CreateICmpNE(value.payload, i64(0));
  if (!value.fact.kind)
    owns = b_.CreateAnd(owns, b_.CreateICmpUGT(b_.CreateAnd(value.word, i64(0xff)),
                                               i64(static_cast<int64_t>(Kind::kNumber))));
  b_.CreateCondBr(owns, owned, next);
  b_.SetInsertPoint(owned);
  action(b_.CreateIntToPtr(value.payload, b_.getPtrTy()));
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
}

void ProgramEmitter::retain(const Word& value) {
  if_owned(value, [&](llvm::Value* object) {
    llvm::Value* references = b_.CreateLoad(b_.getInt32Ty(), object);
    b_.CreateStore(b_.CreateAdd(references, b_.getInt32(1)), object);
  });
}

void ProgramEmitter::release(const Word& value) {
  if_owned(value, [&](llvm::Value* object) {
    llvm::Value* left = b_.CreateSub(b_.CreateLoad(b_.getInt32Ty(), object), b_.getInt32(1));
    b_.CreateStore(left, object);
    llvm::BasicBlock *dead = block(), *next = block();
    b_.CreateCondBr(b_.CreateICmpEQ(left, b_.getInt32(0)), dead, next);
    b_.SetInsertPoint(dead);
    call_machine(offsetof(LatheNativeMachine, free_object), b_.getVoidTy(), {machine(), object});
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
  });
}

void ProgramEmitter::release_all() {
  for (size_t r = 0; r < facts_.size(); ++r) {
    if (!facts_[r].held) continue;
    const Word value = peek(static_cast<int32_t>(r));
    forget(r);
    release(value);
  }
}

llvm::Value* ProgramEmitter::word_of(Kind kind, uint32_t tag) { return b_.getInt64(word_bits(kind, tag)); }

ProgramEmitter::Word ProgramEmitter::number(DataType dtype, llvm::Value* payload) {
  const auto tag = std::bit_cast<uint32_t>(dtype);
  return {word_of(Kind::kNumber, tag), payload, {.kind = Kind::kNumber, .tag = tag}};
}

ProgramEmitter::Word ProgramEmitter::object(Kind kind, uint32_t tag, llvm::Value* object) {
  return {word_of(kind, tag), b_.CreatePtrToInt(object, b_.getInt64Ty()), {.kind = kind, .tag = tag}};
}

ProgramEmitter::Word ProgramEmitter::loaded(llvm::Value* from) {
  return {b_.CreateLoad(b_.getInt64Ty(), from), b_.CreateLoad(b_.getInt64Ty(), at(from, 8)), {}};
}

void ProgramEmitter::stored(llvm::Value* to, const Word& value) {
  b_.CreateStore(value.word, to);
  b_.CreateStore(value.payload, at(to, 8));
}

// --- failing

void ProgramEmitter::spill() {
  if (in_frame()) return;
  for (size_t r = 0; r < facts_.size(); ++r)
    if (facts_[r].held) stored(frame_word(frame(), 1 + r), peek(static_cast<int32_t>(r)));
}

/// A LatheNativeReturn: this place, with what the registers hold now.
llvm::Constant* ProgramEmitter::place(llvm::Value* code, int64_t state) {
  std::vector<uint32_t> held;
  for (size_t r = 0; r < facts_.size(); ++r)
    if (facts_[r].held) held.push_back(static_cast<uint32_t>(r));
  llvm::LLVMContext& context = b_.getContext();
  auto global = [&](llvm::Constant* value) {
    return new llvm::GlobalVariable(state_.module, value->getType(), /*isConstant=*/true,
                                    llvm::GlobalValue::PrivateLinkage, value);
  };
  auto number = [&](size_t value) { return b_.getInt32(static_cast<uint32_t>(value)); };
  llvm::Constant* list =
      held.empty() ? llvm::cast<llvm::Constant>(null()) : global(llvm::ConstantDataArray::get(context, held));
  return global(llvm::ConstantStruct::getAnon(
      {llvm::cast<llvm::Constant>(code), b_.getInt64(static_cast<uint64_t>(state)), number(function_),
       number(at_), number(facts_.size()), number(held.size()), list}));
}

void ProgramEmitter::fail(llvm::Value* failure, int64_t number) {
  spill();
  b_.CreateRet(call_machine(offsetof(LatheNativeMachine, failed), b_.getInt32Ty(),
                            {machine(), frame(), place(null(), 0), failure, i64(number)}));
}

void ProgramEmitter::fail_if(llvm::Value* condition, llvm::Value* failure, int64_t number) {
  llvm::BasicBlock *failing = block(), *next = block();
  b_.CreateCondBr(condition, failing, next, llvm::MDBuilder(b_.getContext()).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(failing);
  fail(failure, number);
  b_.SetInsertPoint(next);
}

void ProgramEmitter::fault_if(llvm::Value* condition, Fault fault) {
  fail_if(condition, b_.getInt32(kLatheFault), static_cast<int64_t>(fault));
}

/// From here on that is known.
void ProgramEmitter::learn(int32_t arg, Kind kind, std::optional<uint32_t> tag) {
  Fact& fact = facts_[number_of(arg)];
  fact.kind = kind;
  if (tag) fact.tag = tag;
}

void ProgramEmitter::require_kind(int32_t arg, Kind kind, Fault fault) {
  const Word value = peek(arg);
  if (value.fact.kind == kind) return;
  fault_if(b_.CreateICmpNE(b_.CreateAnd(value.word, i64(0xff)), i64(static_cast<int64_t>(kind))), fault);
  learn(arg, kind, {});
}

void ProgramEmitter::require_number(int32_t arg, DataType dtype, Fault fault) {
  const auto tag = std::bit_cast<uint32_t>(dtype);
  const Word value = peek(arg);
  if (value.fact.is_number() && value.fact.tag == tag) return;
  fault_if(b_.CreateICmpNE(value.word, word_of(Kind::kNumber, tag)), fault);
  learn(arg, Kind::kNumber, tag);
}

// --- the machine and memory

llvm::Value* ProgramEmitter::at(llvm::Value* pointer, int64_t bytes) {
  return bytes == 0 ? pointer : b_.CreateConstGEP1_64(b_.getInt8Ty(), pointer, static_cast<uint64_t>(bytes));
}

llvm::Value* ProgramEmitter::frame() { return b_.CreateLoad(b_.getPtrTy(), frame_); }

llvm::Value* ProgramEmitter::machine_field(size_t offset, llvm::Type* type) {
  return b_.CreateLoad(type, at(machine(), static_cast<int64_t>(offset)));
}

llvm::Value* ProgramEmitter::call_machine(size_t offset, llvm::Type* result,
                                          llvm::ArrayRef<llvm::Value*> args) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* arg : args) types.push_back(arg->getType());
  return b_.CreateCall(llvm::FunctionType::get(result, types, /*isVarArg=*/false),
                       machine_field(offset, b_.getPtrTy()), args);
}

}  // namespace lathe::codegen
