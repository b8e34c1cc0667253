// The functions of a program -> LLVM IR, one at a time.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/program/native.h"
#include "core/support/node.h"
#include "core/tir/target.h"

namespace lathe::codegen {

/// What a program's functions share.
struct ProgramState {
  llvm::Module& module;
  const runtime::Program& program;
  std::span<const void* const> constants;  // data
  llvm::FunctionType* type = nullptr;      // of LatheNativeCode
  std::vector<llvm::Function*> functions = {};
  llvm::GlobalVariable* table = nullptr;  // of LatheNativeFunction
};

/// Emits the bodies of functions. A register of the program is two slots, for the halves of a Datum, which
/// LLVM keeps in registers of the processor; they go to the frame where the function is left, and are read
/// from there where it goes on. A function of many registers has its slots in the frame: to write all that is
/// held wherever a function may fail takes time and code by the square of its length. What is known of a
/// register's kind saves looking at it: the code goes forward, so all ways to an instruction are known when
/// its turn comes. A call of the function itself in tail position is a loop.
class ProgramEmitter {
 public:
  /// All functions, and the table of them (LatheNativeProgram).
  static void emit(ProgramState& state, const Target& target);

 private:
  /// What holds of a register whatever way led here.
  struct Fact {
    bool held =
        false;  // it may have a value that is still to be released; else what its slots say owns nothing
    std::optional<runtime::Kind> kind;
    std::optional<uint32_t> tag;
    bool operator==(const Fact&) const = default;
    bool is_number() const { return kind == runtime::Kind::kNumber; }
  };
  struct Word {
    llvm::Value *word, *payload;
    Fact fact;
  };

  ProgramEmitter(ProgramState& state, size_t function);
  void run();
  void begin();
  void arrive(size_t at);
  void leave_to(int32_t target);
  void emit(const runtime::Instruction& i);

  // Values.
  size_t number_of(int32_t arg) const { return static_cast<size_t>(arg < 0 ? ~arg : arg); }
  Word peek(int32_t arg);
  Word take(int32_t arg);
  void done(int32_t arg);
  void set(int32_t result, const Word& value);
  void forget(size_t reg);
  void retain(const Word& value);
  void release(const Word& value);
  void release_all();
  void if_owned(const Word& value, FunctionRef<void(llvm::Value* object)> action);
  Word number(DataType dtype, llvm::Value* payload);
  Word object(runtime::Kind kind, uint32_t tag, llvm::Value* object);
  llvm::Value* word_of(runtime::Kind kind, uint32_t tag);
  Word loaded(llvm::Value* at);
  void stored(llvm::Value* at, const Word& value);

  // Failing.
  void fail_if(llvm::Value* condition, llvm::Value* failure, int64_t number);
  void fault_if(llvm::Value* condition, runtime::Fault fault);
  void fail(llvm::Value* failure, int64_t number);
  void spill();
  llvm::Constant* place(llvm::Value* code, int64_t state);
  void require_kind(int32_t arg, runtime::Kind kind, runtime::Fault fault);
  void learn(int32_t arg, runtime::Kind kind, std::optional<uint32_t> tag);
  void require_number(int32_t arg, DataType dtype, runtime::Fault fault);

  // Instructions.
  void constant(const runtime::Instruction& i);
  void run_in_machine(const runtime::Instruction& i, size_t offset, runtime::Fault fault);
  void set_tensor(const runtime::Instruction& i, size_t k, DataType dtype, bool is_number);
  void plan(const runtime::Instruction& i);
  void library(const runtime::Instruction& i);
  void sized(const runtime::Instruction& i);
  void aggregate(const runtime::Instruction& i, runtime::Kind kind);
  llvm::Value* made(runtime::Kind kind, size_t parts);
  void field(const runtime::Instruction& i);
  void captured(const runtime::Instruction& i);
  void reference(const runtime::Instruction& i);
  void switch_on(const runtime::Instruction& i);
  void call(const runtime::Instruction& i);
  void tail_call(const runtime::Instruction& i);
  void give_back(const runtime::Instruction& i);
  void jump_to(llvm::Value* code, llvm::Value* frame, llvm::Value* state, const Word* first);
  llvm::Value* closure_code(const runtime::Instruction& i);
  void call_and_resume(llvm::Value* code, llvm::Value* closure, std::span<const Word> args, int32_t result);
  void tail_jump(llvm::Value* code, llvm::Value* closure, std::span<const Word> args);

  // program_scalar.cpp
  void scalar(const runtime::Instruction& i);
  llvm::Value* real(const Word& value, DataType dtype);
  llvm::Value* payload_of_real(llvm::Value* v);
  llvm::Value* wrapped(DataType dtype, llvm::Value* v);
  llvm::Value* real_result(runtime::ScalarOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_result(runtime::ScalarOp op, DataType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* divided(runtime::ScalarOp op, DataType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* cast(DataType from, DataType to, const Word& value);

  // The machine and memory.
  llvm::Value* machine() { return llvm_function_->getArg(0); }
  llvm::Value* machine_field(size_t offset, llvm::Type* type);
  llvm::Value* call_machine(size_t offset, llvm::Type* result, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* at(llvm::Value* pointer, int64_t bytes);
  llvm::Value* frame_word(llvm::Value* frame, size_t index) {
    return at(frame, static_cast<int64_t>(index) * 16);
  }
  llvm::Value* frame();
  llvm::Value* i64(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  llvm::Value* null() { return llvm::ConstantPointerNull::get(b_.getPtrTy()); }
  llvm::BasicBlock* block() { return llvm::BasicBlock::Create(b_.getContext(), "", llvm_function_); }
  llvm::AllocaInst* slot(llvm::Type* type, size_t count = 1);
  bool in_frame() const;
  llvm::Value* word_slot(size_t reg) { return in_frame() ? frame_word(frame(), 1 + reg) : words_[reg]; }
  llvm::Value* payload_slot(size_t reg) {
    return in_frame() ? at(frame_word(frame(), 1 + reg), 8) : payloads_[reg];
  }
  void put(size_t reg, const Word& value);
  const runtime::CodeFunction& code() const { return state_.program.functions[function_]; }
  bool ended() { return b_.GetInsertBlock()->getTerminator() != nullptr; }

  ProgramState& state_;
  size_t function_;
  llvm::Function* llvm_function_;
  llvm::IRBuilder<> b_;
  llvm::BasicBlock *entry_, *body_ = nullptr;
  llvm::SwitchInst* resume_ = nullptr;  // where the function goes on
  llvm::AllocaInst* frame_;
  llvm::AllocaInst *plan_args_ = nullptr, *plan_results_ = nullptr;
  std::vector<llvm::AllocaInst*> words_, payloads_;  // of the registers, unless they are in the frame
  std::vector<Fact> facts_;
  std::map<size_t, llvm::BasicBlock*> targets_;
  std::map<size_t, std::vector<Fact>> at_target_;
  size_t at_ = 0;
  int64_t states_ = 0;
};

}  // namespace lathe::codegen
