// What a program's instructions become, but for arithmetic (program_scalar.cpp).
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "core/codegen/llvm/program_emitter.h"
#include "core/runtime/program/scalar.h"
#include "core/support/error.h"

namespace lathe::codegen {

using runtime::Fault;
using runtime::Instruction;
using runtime::Kind;
using runtime::Opcode;

namespace {

bool is_resumed(Opcode op) { return op == Opcode::kCall || op == Opcode::kCallClosure; }

}  // namespace

void ProgramEmitter::emit(ProgramState& state, const Target& target) {
  llvm::LLVMContext& context = state.module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type* i64 = b.getInt64Ty();
  state.type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy(), i64, i64, i64},
                                       /*isVarArg=*/false);
  llvm::StructType* row_type = llvm::StructType::get(context, {b.getPtrTy(), i64});
  std::vector<llvm::Constant*> rows;
  for (const runtime::CodeFunction& function : state.program.functions) {
    auto* f =
        llvm::Function::Create(state.type, llvm::Function::InternalLinkage, function.name, state.module);
    f->addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty()) f->addFnAttr("target-features", target.features);
    f->addFnAttr(llvm::Attribute::NoUnwind);
    state.functions.push_back(f);
    rows.push_back(
        llvm::ConstantStruct::get(row_type, {f, b.getInt64(static_cast<uint64_t>(function.params))}));
  }
  auto global = [&](llvm::Constant* value, llvm::GlobalValue::LinkageTypes linkage, const char* name) {
    return new llvm::GlobalVariable(state.module, value->getType(), /*isConstant=*/true, linkage, value,
                                    name);
  };
  llvm::ArrayType* type = llvm::ArrayType::get(row_type, rows.size());
  state.table = global(llvm::ConstantArray::get(type, rows), llvm::GlobalValue::PrivateLinkage, "functions");
  global(llvm::ConstantStruct::getAnon(
             {b.getInt64(runtime::kNativeVersion), b.getInt64(rows.size()), state.table}),
         llvm::GlobalValue::ExternalLinkage, runtime::kNativeSymbol);
  for (size_t i = 0; i < state.functions.size(); ++i) ProgramEmitter(state, i).run();
}

ProgramEmitter::ProgramEmitter(ProgramState& state, size_t function)
    : state_(state),
      function_(function),
      llvm_function_(state.functions[function]),
      b_(state.module.getContext()),
      entry_(llvm::BasicBlock::Create(b_.getContext(), "entry", llvm_function_)),
      frame_(slot(b_.getPtrTy())),
      facts_(static_cast<size_t>(code().registers)) {
  for (size_t r = 0; r < facts_.size() && !in_frame(); ++r) {
    words_.push_back(slot(b_.getInt64Ty()));
    payloads_.push_back(slot(b_.getInt64Ty()));
  }
  size_t args = 0, results = 0;
  for (const Instruction& i : code().code) {
    for (int32_t target : i.targets) targets_.try_emplace(static_cast<size_t>(target), nullptr);
    if (i.op != Opcode::kPlan && i.op != Opcode::kLibrary && i.op != Opcode::kSized &&
        i.op != Opcode::kNewReference)
      continue;
    args = std::max(args, i.args.size());
    results = std::max(results, i.results.size());
  }
  llvm::Type* datum = llvm::ArrayType::get(b_.getInt64Ty(), 2);
  if (args > 0) plan_args_ = slot(datum, args);
  if (results > 0) plan_results_ = slot(datum, results);
}

llvm::AllocaInst* ProgramEmitter::slot(llvm::Type* type, size_t count) {
  llvm::IRBuilder<> at(entry_);
  return at.CreateAlloca(type, at.getInt64(count));
}

void ProgramEmitter::run() {
  begin();
  for (at_ = 0; at_ < code().code.size(); ++at_) {
    arrive(at_);
    emit(code().code[at_]);
  }
}

/// Parameters from where the caller put them; other registers have no value.
void ProgramEmitter::begin() {
  llvm::Value* zero = i64(0);
  llvm::BasicBlock *start = block(), *larger = block(), *fits = block();
  body_ = block();
  b_.SetInsertPoint(entry_);
  const auto& instructions = code().code;
  if (std::any_of(instructions.begin(), instructions.end(), [](auto& i) { return is_resumed(i.op); }))
    resume_ = b_.CreateSwitch(llvm_function_->getArg(2), start);
  else
    b_.CreateBr(start);

  const auto params = static_cast<size_t>(code().params);
  llvm::Value *given = llvm_function_->getArg(1), *word = llvm_function_->getArg(3),
              *payload = llvm_function_->getArg(4);
  for (size_t p = 0; p < params; ++p) facts_[p].held = true;
  b_.SetInsertPoint(start);
  b_.CreateStore(given, frame_);
  llvm::Value* last = machine_field(offsetof(LatheNativeMachine, last_frame), b_.getPtrTy());
  b_.CreateCondBr(b_.CreateICmpUGT(given, last), larger, fits,
                  llvm::MDBuilder(b_.getContext()).createBranchWeights(1, 1 << 20));

  b_.SetInsertPoint(larger);
  if (params > 0) stored(frame_word(given, 1), {word, payload, {}});
  llvm::Value* moved = call_machine(offsetof(LatheNativeMachine, grow), b_.getPtrTy(), {machine(), given});
  llvm::BasicBlock *full = block(), *roomy = block();
  b_.CreateCondBr(b_.CreateIsNull(moved), full, roomy);
  b_.SetInsertPoint(full);
  // All arguments are in the frame already.
  b_.CreateRet(call_machine(offsetof(LatheNativeMachine, failed), b_.getInt32Ty(),
                            {machine(), given, place(null(), 0), b_.getInt32(kLatheKept), zero}));
  b_.SetInsertPoint(roomy);
  b_.CreateStore(moved, frame_);
  b_.CreateBr(fits);

  b_.SetInsertPoint(fits);
  for (size_t r = 0; r < facts_.size(); ++r) {
    if (r > 0 && r < params && in_frame()) continue;
    put(r, r >= params ? Word{zero, zero, {}}
           : r == 0    ? Word{word, payload, {}}
                       : loaded(frame_word(frame(), 1 + r)));
  }
  b_.CreateBr(body_);
  b_.SetInsertPoint(body_);
}

/// What is known where ways meet is what is known on each.
void ProgramEmitter::arrive(size_t at) {
  auto target = targets_.find(at);
  if (target == targets_.end()) return;
  if (!ended()) leave_to(static_cast<int32_t>(at)), b_.CreateBr(target->second);
  CHECK(target->second, "code that nothing leads to");
  b_.SetInsertPoint(target->second);
  facts_ = std::move(at_target_.at(at));
}

void ProgramEmitter::leave_to(int32_t target) {
  const auto at = static_cast<size_t>(target);
  if (!targets_[at]) targets_[at] = block();
  auto [known, fresh] = at_target_.try_emplace(at, facts_);
  if (fresh) return;
  for (size_t r = 0; r < facts_.size(); ++r) {
    Fact& fact = known->second[r];
    // Where it has no value on one of the ways, its slots say so.
    if (fact.held != facts_[r].held || fact.kind != facts_[r].kind) fact.kind = {}, fact.tag = {};
    if (fact.tag != facts_[r].tag) fact.tag = {};
    fact.held = fact.held || facts_[r].held;
  }
}

void ProgramEmitter::emit(const Instruction& i) {
  switch (i.op) {
    case Opcode::kConstant:
      return constant(i);
    case Opcode::kCopy:
      return set(i.results[0], take(i.args[0]));
    case Opcode::kPlan:
      return plan(i);
    case Opcode::kLibrary:
      return library(i);
    case Opcode::kScalar:
      return scalar(i);
    case Opcode::kSized:
      return sized(i);
    case Opcode::kTuple:
      return aggregate(i, Kind::kTuple);
    case Opcode::kData:
      return aggregate(i, Kind::kData);
    case Opcode::kClosure:
      return aggregate(i, Kind::kClosure);
    case Opcode::kField:
      return field(i);
    case Opcode::kCaptured:
    case Opcode::kSelf:
      return captured(i);
    case Opcode::kNewReference:
    case Opcode::kRead:
    case Opcode::kWrite:
      return reference(i);
    case Opcode::kBranch: {
      require_number(i.args[0], kBool, Fault::kBranchNoBool);
      llvm::Value* yes = b_.CreateICmpNE(peek(i.args[0]).payload, i64(0));
      if (i.args[0] < 0) forget(number_of(i.args[0]));
      leave_to(i.targets[0]);
      llvm::BasicBlock* next = block();
      b_.CreateCondBr(yes, next, targets_.at(static_cast<size_t>(i.targets[0])));
      b_.SetInsertPoint(next);
      return;
    }
    case Opcode::kSwitch:
      return switch_on(i);
    case Opcode::kJump:
      leave_to(i.targets[0]);
      b_.CreateBr(targets_.at(static_cast<size_t>(i.targets[0])));
      return;
    case Opcode::kCall:
    case Opcode::kCallClosure:
      return call(i);
    case Opcode::kTailCall:
    case Opcode::kTailCallClosure:
      return tail_call(i);
    case Opcode::kReturn:
      return give_back(i);
    case Opcode::kFail:
      return fail(b_.getInt32(kLatheMessage), i.number);
  }
}

void ProgramEmitter::constant(const Instruction& i) {
  const runtime::Value& type = state_.program.constants[static_cast<size_t>(i.number)];
  if (type.shape.empty()) {
    const runtime::Number value =
        runtime::load_number(type.dtype, state_.constants[static_cast<size_t>(i.number)]);
    return set(i.results[0], number(type.dtype, i64(std::bit_cast<int64_t>(value))));
  }
  llvm::Value* constants = machine_field(offsetof(LatheNativeMachine, constants), b_.getPtrTy());
  Word value = loaded(frame_word(constants, static_cast<size_t>(i.number)));
  value.fact.kind = Kind::kTensor;
  retain(value);
  set(i.results[0], value);
}

/// The instruction at hand, by a function of the machine that finds the rest by its number: from plan_args_
/// to plan_results_.
void ProgramEmitter::run_in_machine(const Instruction& i, size_t offset, Fault fault) {
  for (size_t k = 0; k < i.args.size(); ++k) stored(frame_word(plan_args_, k), peek(i.args[k]));
  llvm::Value *args = plan_args_ ? static_cast<llvm::Value*>(plan_args_) : null(),
              *results = plan_results_ ? static_cast<llvm::Value*>(plan_results_) : null();
  llvm::Value* status = call_machine(
      offset, b_.getInt32Ty(),
      {machine(), i64(static_cast<int64_t>(function_)), i64(static_cast<int64_t>(at_)), args, results});
  fail_if(b_.CreateICmpNE(status, b_.getInt32(0)), status, static_cast<int64_t>(fault));
  for (int32_t arg : i.args) done(arg);
}

/// Result k of it, of whose type more is known than its kind where it is a number.
void ProgramEmitter::set_tensor(const Instruction& i, size_t k, DataType dtype, bool is_number) {
  Word value = loaded(frame_word(plan_results_, k));
  if (is_number)
    value = number(dtype, value.payload);
  else
    value.fact.kind = Kind::kTensor;
  set(i.results[k], value);
}

void ProgramEmitter::plan(const Instruction& i) {
  run_in_machine(i, offsetof(LatheNativeMachine, plan), Fault::kTensorType);
  const runtime::Plan& plan = state_.program.plans[static_cast<size_t>(i.number)];
  for (size_t k = 0; k < i.results.size(); ++k) {
    const runtime::Value& type = plan.values[static_cast<size_t>(plan.outputs[k].value)];
    set_tensor(i, k, type.dtype, type.shape.empty());
  }
}

void ProgramEmitter::library(const Instruction& i) {
  run_in_machine(i, offsetof(LatheNativeMachine, library), Fault::kLibrary);
  const runtime::LibraryCall& call = state_.program.library_calls[static_cast<size_t>(i.number)];
  for (size_t k = 0; k < i.results.size(); ++k)
    set_tensor(i, k, call.results[k].dtype, call.results[k].shape.empty());
}

void ProgramEmitter::sized(const Instruction& i) {
  run_in_machine(i, offsetof(LatheNativeMachine, sized), Fault::kSized);
  Word value = loaded(plan_results_);
  if (i.sized == runtime::SizedOp::kExtent) value = number(kInt64, value.payload);
  set(i.results[0], value);
}

/// A new object, its parts not set: the first free block of its size, or what the machine finds.
llvm::Value* ProgramEmitter::made(Kind kind, size_t parts) {
  const runtime::SizeClass size =
      runtime::size_class_of(static_cast<int64_t>(sizeof(runtime::Object) + parts * sizeof(runtime::Datum)));
  llvm::Value* list = at(machine_field(offsetof(LatheNativeMachine, free_blocks), b_.getPtrTy()),
                         int64_t{size.number} * static_cast<int64_t>(sizeof(void*)));
  llvm::Value* first = b_.CreateLoad(b_.getPtrTy(), list);
  llvm::BasicBlock *none = block(), *some = block(), *next = block();
  b_.CreateCondBr(b_.CreateIsNull(first), none, some);

  b_.SetInsertPoint(none);
  llvm::Value* fresh =
      call_machine(offsetof(LatheNativeMachine, make), b_.getPtrTy(),
                   {machine(), b_.getInt32(static_cast<uint32_t>(kind)), i64(static_cast<int64_t>(parts))});
  fail_if(b_.CreateIsNull(fresh), b_.getInt32(kLatheKept), 0);
  llvm::BasicBlock* from_none = b_.GetInsertBlock();
  b_.CreateBr(next);

  b_.SetInsertPoint(some);
  b_.CreateStore(b_.CreateLoad(b_.getPtrTy(), first), list);
  llvm::Value* used_at = machine_field(offsetof(LatheNativeMachine, used_bytes), b_.getPtrTy());
  b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), used_at), i64(size.bytes)), used_at);
  auto store = [&](llvm::Value* value, size_t offset) {
    b_.CreateStore(value, at(first, static_cast<int64_t>(offset)));
  };
  store(b_.getInt32(1), offsetof(runtime::Object, references));
  store(b_.getInt32(0), offsetof(runtime::Object, inner));
  store(b_.getInt8(static_cast<uint8_t>(kind)), offsetof(runtime::Object, kind));
  store(b_.getInt8(size.number), offsetof(runtime::Object, size_class));
  store(b_.getInt32(static_cast<uint32_t>(parts)), offsetof(runtime::Object, count));
  b_.CreateBr(next);

  b_.SetInsertPoint(next);
  llvm::PHINode* object = b_.CreatePHI(b_.getPtrTy(), 2);
  object->addIncoming(fresh, from_none);
  object->addIncoming(first, some);
  return object;
}

void ProgramEmitter::aggregate(const Instruction& i, Kind kind) {
  const uint32_t tag = kind == Kind::kTuple ? 0 : static_cast<uint32_t>(i.number);
  if (i.args.empty()) return set(i.results[0], object(kind, tag, null()));
  llvm::Value* object_at = made(kind, i.args.size());
  for (size_t k = 0; k < i.args.size(); ++k)
    stored(at(object_at, static_cast<int64_t>(sizeof(runtime::Object) + k * sizeof(runtime::Datum))),
           take(i.args[k]));
  set(i.results[0], object(kind, tag, object_at));
}

void ProgramEmitter::field(const Instruction& i) {
  const Word whole = peek(i.args[0]);
  if (whole.fact.kind != Kind::kTuple && whole.fact.kind != Kind::kData) {
    llvm::Value* kind = b_.CreateAnd(whole.word, i64(0xff));
    static_assert(static_cast<int>(Kind::kData) == static_cast<int>(Kind::kTuple) + 1);
    fault_if(b_.CreateICmpUGT(b_.CreateSub(kind, i64(static_cast<int64_t>(Kind::kTuple))), i64(1)),
             Fault::kNoPart);
  }
  fault_if(b_.CreateICmpEQ(whole.payload, i64(0)), Fault::kNoPart);
  llvm::Value* object = b_.CreateIntToPtr(whole.payload, b_.getPtrTy());
  llvm::Value* count = b_.CreateLoad(b_.getInt32Ty(), at(object, offsetof(runtime::Object, count)));
  fault_if(b_.CreateICmpULE(b_.CreateZExt(count, b_.getInt64Ty()), i64(i.number)), Fault::kNoPart);
  const Word part = loaded(at(object, static_cast<int64_t>(sizeof(runtime::Object)) +
                                          i.number * static_cast<int64_t>(sizeof(runtime::Datum))));
  retain(part);
  done(i.args[0]);
  set(i.results[0], part);
}

void ProgramEmitter::captured(const Instruction& i) {
  llvm::Value* closure = b_.CreateLoad(b_.getPtrTy(), at(frame(), offsetof(LatheNativeFrame, closure)));
  Word value = object(Kind::kClosure, static_cast<uint32_t>(function_), closure);
  if (i.op == Opcode::kCaptured) {
    fault_if(b_.CreateIsNull(closure), Fault::kNoCapture);
    value = loaded(at(closure, static_cast<int64_t>(sizeof(runtime::Object)) +
                                   i.number * static_cast<int64_t>(sizeof(runtime::Datum))));
  }
  retain(value);
  set(i.results[0], value);
}

void ProgramEmitter::reference(const Instruction& i) {
  if (i.op == Opcode::kNewReference) {
    stored(plan_args_, peek(i.args[0]));
    llvm::Value* made =
        call_machine(offsetof(LatheNativeMachine, make_reference), b_.getPtrTy(), {machine(), plan_args_});
    fail_if(b_.CreateIsNull(made), b_.getInt32(kLatheKept), 0);
    take(i.args[0]);
    return set(i.results[0], object(Kind::kReference, 0, made));
  }
  require_kind(i.args[0], Kind::kReference, Fault::kNoReference);
  llvm::Value* cell = at(b_.CreateIntToPtr(peek(i.args[0]).payload, b_.getPtrTy()),
                         offsetof(runtime::ReferenceObject, value));
  Word result = object(Kind::kTuple, 0, null());
  if (i.op == Opcode::kRead) {
    result = loaded(cell);
    retain(result);
  } else {
    const Word old = loaded(cell);
    stored(cell, take(i.args[1]));
    release(old);
  }
  done(i.args[0]);
  set(i.results[0], result);
}

void ProgramEmitter::switch_on(const Instruction& i) {
  require_kind(i.args[0], Kind::kData, Fault::kNoSuchData);
  llvm::Value* choice = b_.CreateSub(b_.CreateLShr(peek(i.args[0]).word, i64(32)), i64(i.number));
  fault_if(b_.CreateICmpUGE(choice, i64(static_cast<int64_t>(i.targets.size()))), Fault::kNoSuchData);
  done(i.args[0]);
  for (int32_t target : i.targets) leave_to(target);
  auto to = [&](size_t k) { return targets_.at(static_cast<size_t>(i.targets[k])); };
  llvm::SwitchInst* chosen = b_.CreateSwitch(choice, to(0));
  for (size_t k = 1; k < i.targets.size(); ++k) chosen->addCase(b_.getInt64(k), to(k));
}

}  // namespace lathe::codegen
