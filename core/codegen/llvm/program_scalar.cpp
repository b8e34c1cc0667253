// Numbers of programs, as core/runtime/program/scalar.cpp computes with them: integers and booleans as int64,
// floats as double, rounded to their type.
#include <llvm/IR/Intrinsics.h>

#include "core/codegen/llvm/program_emitter.h"
#include "core/runtime/program/scalar.h"
#include "core/support/error.h"

namespace lathe::codegen {

using runtime::Fault;
using runtime::ScalarOp;

void ProgramEmitter::scalar(const runtime::Instruction& i) {
  const bool select = i.scalar == ScalarOp::kSelect;
  for (size_t k = select ? 1 : 0; k < i.args.size(); ++k)
    require_number(i.args[k], i.dtype, Fault::kNumberType);
  if (select) require_number(i.args[0], kBool, Fault::kChoiceNoBool);
  std::vector<Word> args;
  for (int32_t arg : i.args) args.push_back(peek(arg));
  DataType type = runtime::scalar_result_type(i.scalar, i.dtype);
  llvm::Value* result = nullptr;
  if (select) {
    result = b_.CreateSelect(b_.CreateICmpNE(args[0].payload, i64(0)), args[1].payload, args[2].payload);
  } else if (i.scalar == ScalarOp::kCast) {
    type = *runtime::dtype_of_number(i.number);
    result = cast(i.dtype, type, args[0]);
  } else if (i.dtype.is_float()) {
    llvm::Value* a = real(args[0], i.dtype);
    result = real_result(i.scalar, a, args.size() > 1 ? real(args[1], i.dtype) : a);
  } else {
    llvm::Value* a = args[0].payload;
    result = integer_result(i.scalar, i.dtype, a, args.size() > 1 ? args[1].payload : a);
  }
  for (int32_t arg : i.args)
    if (arg < 0) forget(number_of(arg));
  set(i.results[0], number(type, result));
}

/// The number in its own precision.
llvm::Value* ProgramEmitter::real(const Word& value, DataType dtype) {
  llvm::Value* wide = b_.CreateBitCast(value.payload, b_.getDoubleTy());
  return dtype == kFloat32 ? b_.CreateFPTrunc(wide, b_.getFloatTy()) : wide;
}

llvm::Value* ProgramEmitter::payload_of_real(llvm::Value* v) {
  if (v->getType()->isFloatTy()) v = b_.CreateFPExt(v, b_.getDoubleTy());
  return b_.CreateBitCast(v, b_.getInt64Ty());
}

/// The integer that its type makes of it.
llvm::Value* ProgramEmitter::wrapped(DataType dtype, llvm::Value* v) {
  if (dtype.is_bool()) return b_.CreateZExt(b_.CreateICmpNE(v, i64(0)), b_.getInt64Ty());
  if (dtype.bits == 64) return v;
  llvm::Value* narrow = b_.CreateTrunc(v, b_.getIntNTy(dtype.bits));
  return dtype.code == TypeCode::kInt ? b_.CreateSExt(narrow, b_.getInt64Ty())
                                      : b_.CreateZExt(narrow, b_.getInt64Ty());
}

llvm::Value* ProgramEmitter::real_result(ScalarOp op, llvm::Value* a, llvm::Value* b) {
  auto boolean = [&](llvm::Value* v) { return b_.CreateZExt(v, b_.getInt64Ty()); };
  auto is_nan = [&](llvm::Value* v) { return b_.CreateFCmpUNO(v, v); };
  switch (op) {
    case ScalarOp::kAdd:
      return payload_of_real(b_.CreateFAdd(a, b));
    case ScalarOp::kSubtract:
      return payload_of_real(b_.CreateFSub(a, b));
    case ScalarOp::kMultiply:
      return payload_of_real(b_.CreateFMul(a, b));
    case ScalarOp::kDivide:
      return payload_of_real(b_.CreateFDiv(a, b));
    case ScalarOp::kNegative:
      return payload_of_real(b_.CreateFNeg(a));
    case ScalarOp::kMinimum:
      return payload_of_real(b_.CreateSelect(b_.CreateOr(b_.CreateFCmpOLT(b, a), is_nan(b)), b, a));
    case ScalarOp::kMaximum:
      return payload_of_real(b_.CreateSelect(b_.CreateOr(b_.CreateFCmpOGT(b, a), is_nan(b)), b, a));
    case ScalarOp::kEqual:
      return boolean(b_.CreateFCmpOEQ(a, b));
    case ScalarOp::kNotEqual:
      return boolean(b_.CreateFCmpUNE(a, b));
    case ScalarOp::kLess:
      return boolean(b_.CreateFCmpOLT(a, b));
    case ScalarOp::kLessEqual:
      return boolean(b_.CreateFCmpOLE(a, b));
    case ScalarOp::kGreater:
      return boolean(b_.CreateFCmpOGT(a, b));
    case ScalarOp::kGreaterEqual:
      return boolean(b_.CreateFCmpOGE(a, b));
    default:
      CHECK(false, "no instruction {} on floats", runtime::scalar_op_name(op));
  }
}

llvm::Value* ProgramEmitter::integer_result(ScalarOp op, DataType dtype, llvm::Value* a, llvm::Value* b) {
  const bool is_unsigned = dtype == kUInt64;
  auto boolean = [&](llvm::Value* v) { return b_.CreateZExt(v, b_.getInt64Ty()); };
  auto less = [&](llvm::Value* x, llvm::Value* y) {
    return is_unsigned ? b_.CreateICmpULT(x, y) : b_.CreateICmpSLT(x, y);
  };
  switch (op) {
    case ScalarOp::kAdd:
      return wrapped(dtype, b_.CreateAdd(a, b));
    case ScalarOp::kSubtract:
      return wrapped(dtype, b_.CreateSub(a, b));
    case ScalarOp::kMultiply:
      return wrapped(dtype, b_.CreateMul(a, b));
    case ScalarOp::kNegative:
      return wrapped(dtype, b_.CreateNeg(a));
    case ScalarOp::kDivide:
    case ScalarOp::kMod:
    case ScalarOp::kFloorDivide:
    case ScalarOp::kFloorMod:
      return wrapped(dtype, divided(op, dtype, a, b));
    case ScalarOp::kMinimum:
      return b_.CreateSelect(less(a, b), a, b);
    case ScalarOp::kMaximum:
      return b_.CreateSelect(less(a, b), b, a);
    case ScalarOp::kEqual:
      return boolean(b_.CreateICmpEQ(a, b));
    case ScalarOp::kNotEqual:
    case ScalarOp::kXor:
      return boolean(b_.CreateICmpNE(a, b));
    case ScalarOp::kLess:
      return boolean(less(a, b));
    case ScalarOp::kLessEqual:
      return boolean(b_.CreateNot(less(b, a)));
    case ScalarOp::kGreater:
      return boolean(less(b, a));
    case ScalarOp::kGreaterEqual:
      return boolean(b_.CreateNot(less(a, b)));
    case ScalarOp::kAnd:
      return b_.CreateAnd(a, b);
    case ScalarOp::kOr:
      return b_.CreateOr(a, b);
    case ScalarOp::kNot:
      return boolean(b_.CreateICmpEQ(a, i64(0)));
    default:
      CHECK(false, "no instruction {} on integers", runtime::scalar_op_name(op));
  }
}

/// By 0 and by -1 apart: those and INT64_MIN / -1 are traps of some processors.
llvm::Value* ProgramEmitter::divided(ScalarOp op, DataType dtype, llvm::Value* a, llvm::Value* b) {
  const bool quotient = op == ScalarOp::kDivide || op == ScalarOp::kFloorDivide;
  llvm::Value *zero = i64(0), *one = i64(1);
  llvm::Value* by_zero = b_.CreateICmpEQ(b, zero);
  if (dtype == kUInt64) {
    llvm::Value* safe = b_.CreateSelect(by_zero, one, b);
    return b_.CreateSelect(by_zero, zero, quotient ? b_.CreateUDiv(a, safe) : b_.CreateURem(a, safe));
  }
  llvm::Value* by_minus_one = b_.CreateICmpEQ(b, i64(-1));
  llvm::Value* safe = b_.CreateSelect(b_.CreateOr(by_zero, by_minus_one), one, b);
  llvm::Value *q = b_.CreateSDiv(a, safe), *r = b_.CreateSRem(a, safe);
  if (op == ScalarOp::kFloorDivide || op == ScalarOp::kFloorMod) {
    llvm::Value* adjust = b_.CreateAnd(b_.CreateICmpNE(r, zero),
                                       b_.CreateXor(b_.CreateICmpSLT(r, zero), b_.CreateICmpSLT(b, zero)));
    q = b_.CreateSub(q, b_.CreateZExt(adjust, b_.getInt64Ty()));
    r = b_.CreateAdd(r, b_.CreateSelect(adjust, b, zero));
  }
  llvm::Value* rest =
      quotient ? b_.CreateSelect(by_minus_one, b_.CreateNeg(a), q) : b_.CreateSelect(by_minus_one, zero, r);
  return b_.CreateSelect(by_zero, zero, rest);
}

llvm::Value* ProgramEmitter::cast(DataType from, DataType to, const Word& value) {
  // No target need have instructions for floats of 16 bits.
  if (to.is_float() && to.bits == 16)
    return call_machine(offsetof(LatheNativeMachine, cast), b_.getInt64Ty(),
                        {i64(runtime::dtype_number(from)), i64(runtime::dtype_number(to)), value.payload});
  if (!from.is_float()) {
    if (!to.is_float()) return wrapped(to, value.payload);
    llvm::Type* type = to == kFloat64 ? b_.getDoubleTy() : b_.getFloatTy();
    return payload_of_real(from == kUInt64 ? b_.CreateUIToFP(value.payload, type)
                                           : b_.CreateSIToFP(value.payload, type));
  }
  llvm::Value* x = b_.CreateBitCast(value.payload, b_.getDoubleTy());
  if (to.is_float()) return payload_of_real(to == kFloat32 ? b_.CreateFPTrunc(x, b_.getFloatTy()) : x);
  if (to.is_bool())
    return b_.CreateZExt(b_.CreateFCmpUNE(x, llvm::ConstantFP::get(b_.getDoubleTy(), 0)), b_.getInt64Ty());
  // Toward zero; what the type does not hold becomes its nearest value, NaN zero.
  const bool is_signed = to.code == TypeCode::kInt;
  llvm::Type* type = b_.getIntNTy(to.bits);
  llvm::Value* integer = b_.CreateIntrinsic(
      is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat, {type, b_.getDoubleTy()}, {x});
  return is_signed ? b_.CreateSExt(integer, b_.getInt64Ty()) : b_.CreateZExt(integer, b_.getInt64Ty());
}

}  // namespace lathe::codegen
