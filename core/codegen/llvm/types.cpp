#include <llvm/IR/PatternMatch.h>

#include "core/codegen/llvm/emitter.h"
#include "core/support/error.h"

namespace lathe::codegen {
namespace {
/// A vector of one lane is a scalar.
llvm::Type* with_lanes(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

/// What arithmetic is done in: floats of 16 bits in float32.
llvm::Type* number_type(llvm::LLVMContext& context, DataType dtype) {
  if (dtype.is_float())
    return dtype.bits == 64 ? llvm::Type::getDoubleTy(context) : llvm::Type::getFloatTy(context);
  CHECK(dtype.is_int(), "code generation of values of type {}", to_string(dtype));
  return llvm::Type::getIntNTy(context, dtype.bits);
}
}  // namespace

llvm::Type* Emitter::value_type(DataType dtype) {
  llvm::Type* element = dtype.is_bool() ? b_.getInt1Ty() : number_type(b_.getContext(), dtype);
  return with_lanes(element, dtype.lanes);
}

llvm::Type* Emitter::memory_type(DataType dtype) {
  llvm::Type* element = dtype.is_bool()                        ? b_.getInt8Ty()
                        : dtype.code == TypeCode::kBFloat      ? b_.getInt16Ty()
                        : dtype.is_float() && dtype.bits == 16 ? b_.getHalfTy()
                                                               : number_type(b_.getContext(), dtype);
  return with_lanes(element, dtype.lanes);
}

namespace {
llvm::Type* like(llvm::Type* element, llvm::Type* shape) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape);
  return with_lanes(element, vector ? vector->getNumElements() : 1);
}

/// The upper halves of float32, rounded to nearest even; a NaN stays one.
llvm::Value* bfloat_bits(llvm::IRBuilder<>& b, llvm::Value* v) {
  llvm::Type* wide = like(b.getInt32Ty(), v->getType());
  auto number = [&](uint32_t x) { return llvm::ConstantInt::get(wide, x); };
  llvm::Value* bits = b.CreateBitCast(v, wide);
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, number(16)), number(1));
  llvm::Value* up = b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(odd, number(0x7fff))), number(16));
  // Rounding could carry a NaN over to a number: it is cut off, and made quiet so that a bit of it is left.
  llvm::Value* nan = b.CreateOr(b.CreateLShr(bits, number(16)), number(0x40));
  llvm::Value* is_nan = b.CreateFCmpUNO(v, v);
  return b.CreateTrunc(b.CreateSelect(is_nan, nan, up), like(b.getInt16Ty(), v->getType()));
}

/// The same in vcvtneps2bf16, which takes subnormal numbers for 0 as all instructions for bfloat16 do. LLVM
/// would change signs behind it, of bfloat16, one by one. What is loaded has no sign to be changed, and its
/// loop may become one of vectors.
llvm::Value* converted_bits(llvm::IRBuilder<>& b, llvm::Value* v) {
  llvm::Value* wide = llvm::isa<llvm::LoadInst>(v) ? v : b.CreateArithmeticFence(v, v->getType());
  llvm::Value* narrow = b.CreateFPTrunc(wide, like(b.getBFloatTy(), v->getType()));
  return b.CreateBitCast(narrow, like(b.getInt16Ty(), v->getType()));
}

llvm::Value* bfloat_value(llvm::IRBuilder<>& b, llvm::Value* bits) {
  llvm::Type* wide = like(b.getInt32Ty(), bits->getType());
  llvm::Value* shifted = b.CreateShl(b.CreateZExt(bits, wide), llvm::ConstantInt::get(wide, 16));
  return b.CreateBitCast(shifted, like(b.getFloatTy(), bits->getType()));
}

/// The bits that `v` was made of by bfloat_value, or null: what was rounded, or loaded, is not rounded again.
llvm::Value* known_bits(llvm::Value* v) {
  using namespace llvm::PatternMatch;
  llvm::Value* bits = nullptr;
  bool found = match(v, m_BitCast(m_Shl(m_ZExt(m_Value(bits)), m_SpecificInt(16))));
  return found && bits->getType()->getScalarType()->isIntegerTy(16) ? bits : nullptr;
}
}  // namespace

/// From the type in memory to that of values, for loads.
llvm::Value* Emitter::from_memory(llvm::Value* v, DataType dtype) {
  if (dtype.is_bool()) return b_.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (dtype.code == TypeCode::kBFloat) return bfloat_value(b_, v);
  if (dtype.is_float() && dtype.bits == 16) return b_.CreateFPExt(v, value_type(dtype));
  return v;
}

/// `v`, to be compared or rounded to a whole number: what was widened LLVM would compare and round as halves
/// instead, which processors do one by one, if at all. Arithmetic needs no such fence, which costs a little.
llvm::Value* Emitter::kept_wide(llvm::Value* v) {
  const auto* widened = llvm::dyn_cast<llvm::FPExtInst>(v);
  const bool half = widened && widened->getSrcTy()->getScalarType()->isHalfTy();
  return half ? b_.CreateArithmeticFence(v, v->getType()) : v;
}

/// The other way, for stores.
llvm::Value* Emitter::to_memory(llvm::Value* v, DataType dtype) {
  if (dtype.is_bool()) return b_.CreateZExt(v, memory_type(dtype));
  if (dtype.code == TypeCode::kBFloat) {
    if (llvm::Value* bits = known_bits(v)) return bits;
    return state_.features.bfloat16 ? converted_bits(b_, v) : bfloat_bits(b_, v);
  }
  if (dtype.is_float() && dtype.bits == 16) return b_.CreateFPTrunc(v, memory_type(dtype));
  return v;
}

/// The value as it would come back from memory: what was computed in float32 for a type of 16 bits.
llvm::Value* Emitter::rounded(llvm::Value* v, DataType dtype) {
  if (!dtype.is_float() || dtype.bits != 16) return v;
  return from_memory(to_memory(v, dtype), dtype);
}

}  // namespace lathe::codegen
