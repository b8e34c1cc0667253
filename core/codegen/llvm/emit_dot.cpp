// Dot products: sums of 4 products of 8-bit integers, or of 2 of int16 or bfloat16, in the lanes of 32-bit
// results.
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "core/codegen/dot_product.h"
#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/lanes.h"
#include "core/support/error.h"
#include "core/tir/machine.h"

namespace lathe::codegen {
namespace {
/// Vectors of groups of four 8-bit integers, each group in an i32 lane.
struct Bytes {
  llvm::Value* groups;
  bool is_signed;
  int bits = 8;  // that are not 0, of unsigned ones
};

/// acc + x . y in vpdpbusd: unsigned times signed, exact. Operands of other signs are moved by 128.
class Vnni {
 public:
  Vnni(llvm::IRBuilder<>& builder, llvm::Intrinsic::ID instruction)
      : b_(builder), instruction_(instruction) {}

  llvm::Value* add(llvm::Value* acc, Bytes x, Bytes y) {
    // The instruction takes the unsigned operand first.
    if (x.is_signed && !y.is_signed) std::swap(x, y);
    llvm::Value* zero = llvm::Constant::getNullValue(acc->getType());
    if (!x.is_signed && y.is_signed) return dot(acc, x.groups, y.groups);
    if (x.is_signed)  // (x + 128) . y - 128 . y
      return b_.CreateSub(dot(acc, shifted(x.groups), y.groups), dot(zero, bytes(acc, 0x80808080), y.groups));
    // x . (y - 128) + 128 * (x . 1)
    llvm::Value* sum = dot(zero, x.groups, bytes(acc, 0x01010101));
    return b_.CreateAdd(dot(acc, x.groups, shifted(y.groups)), b_.CreateShl(sum, 7));
  }

 private:
  llvm::Value* dot(llvm::Value* acc, llvm::Value* x, llvm::Value* y) {
    return b_.CreateIntrinsic(instruction_, {}, {acc, x, y});
  }
  static llvm::Constant* bytes(llvm::Value* like, uint32_t group) {
    return llvm::ConstantInt::get(like->getType(), group);
  }
  /// Each byte by 128: to flip its top bit is to add 128 to a signed one, or take it from an unsigned one.
  llvm::Value* shifted(llvm::Value* groups) { return b_.CreateXor(groups, bytes(groups, 0x80808080)); }

  llvm::IRBuilder<>& b_;
  llvm::Intrinsic::ID instruction_;
};

/// acc + x . y in sdot or udot, for the lanes of one register: of one sign, exact. An unsigned operand beside
/// a signed one is moved by 128.
llvm::Value* neon_dot(llvm::IRBuilder<>& b, llvm::Value* acc, Bytes x, Bytes y) {
  llvm::Type* bytes = lanes_of(b.getInt8Ty(), 4 * lane_count(acc));
  const auto dot = [&](bool is_signed, llvm::Value* sum, llvm::Value* v, llvm::Value* w) {
    return b.CreateIntrinsic(
        is_signed ? llvm::Intrinsic::aarch64_neon_sdot : llvm::Intrinsic::aarch64_neon_udot,
        {acc->getType(), bytes}, {sum, b.CreateBitCast(v, bytes), b.CreateBitCast(w, bytes)});
  };
  if (x.is_signed == y.is_signed) return dot(x.is_signed, acc, x.groups, y.groups);
  if (x.is_signed) std::swap(x, y);
  // (x - 128) . y + 128 * (1 . y)
  const auto all = [&](uint32_t group) { return llvm::ConstantInt::get(acc->getType(), group); };
  llvm::Value* moved = dot(true, acc, b.CreateXor(x.groups, all(0x80808080)), y.groups);
  llvm::Value* sum = dot(true, llvm::Constant::getNullValue(acc->getType()), all(0x01010101), y.groups);
  return b.CreateAdd(moved, b.CreateShl(sum, 7));
}

/// The even bytes of each i16, extended.
llvm::Value* even_bytes(llvm::IRBuilder<>& b, Bytes v) {
  llvm::Value* halves = b.CreateBitCast(v.groups, lanes_of(b.getInt16Ty(), 2 * lane_count(v.groups)));
  // Up and down again: the second shift extends by the sign or by zeros.
  llvm::Value* low = b.CreateShl(halves, 8);
  return v.is_signed ? b.CreateAShr(low, 8) : b.CreateLShr(low, 8);
}
llvm::Value* odd_bytes(llvm::IRBuilder<>& b, Bytes v) {
  llvm::Value* halves = b.CreateBitCast(v.groups, lanes_of(b.getInt16Ty(), 2 * lane_count(v.groups)));
  return v.is_signed ? b.CreateAShr(halves, 8) : b.CreateLShr(halves, 8);
}

/// The sums of neighbouring products of i16 (x86: vpmaddwd).
llvm::Value* pair_sums(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
  const unsigned lanes = lane_count(x) / 2;
  llvm::Type* wide = lanes_of(b.getInt32Ty(), 2 * lanes);
  llvm::Value* products = b.CreateMul(b.CreateSExt(x, wide), b.CreateSExt(y, wide));
  std::vector<int> even, odd;
  for (unsigned l = 0; l < lanes; ++l) {
    even.push_back(static_cast<int>(2 * l));
    odd.push_back(static_cast<int>(2 * l + 1));
  }
  return b.CreateAdd(b.CreateShuffleVector(products, even), b.CreateShuffleVector(products, odd));
}

/// The instruction for so many 32-bit lanes; none for widths that the machine does not have.
llvm::Intrinsic::ID for_lanes(unsigned lanes, llvm::Intrinsic::ID x4, llvm::Intrinsic::ID x8,
                              llvm::Intrinsic::ID x16) {
  return lanes == 16 ? x16 : lanes == 8 ? x8 : lanes == 4 ? x4 : llvm::Intrinsic::not_intrinsic;
}

/// x . y for unsigned x of at most 7 bits and signed y: two products of a pair do not overflow 16 bits. Null
/// for widths that the machine does not have.
llvm::Value* small_products(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
  const unsigned lanes = lane_count(x);
  const auto pairs =
      for_lanes(lanes, llvm::Intrinsic::x86_ssse3_pmadd_ub_sw_128, llvm::Intrinsic::x86_avx2_pmadd_ub_sw,
                llvm::Intrinsic::x86_avx512_pmaddubs_w_512);
  const auto sums = for_lanes(lanes, llvm::Intrinsic::x86_sse2_pmadd_wd, llvm::Intrinsic::x86_avx2_pmadd_wd,
                              llvm::Intrinsic::x86_avx512_pmaddw_d_512);
  if (pairs == llvm::Intrinsic::not_intrinsic) return nullptr;
  llvm::Type *bytes = lanes_of(b.getInt8Ty(), 4 * lanes), *shorts = lanes_of(b.getInt16Ty(), 2 * lanes);
  llvm::Value* products =
      b.CreateIntrinsic(pairs, {}, {b.CreateBitCast(x, bytes), b.CreateBitCast(y, bytes)});
  return b.CreateIntrinsic(sums, {}, {products, llvm::ConstantInt::get(shorts, 1)});
}

/// acc + x . y: one instruction where the machine has it. Else products of 16 bits, even and odd bytes apart:
/// sums of products of 8 bits fit 32, so this is exact too.
llvm::Value* add_bytes(llvm::IRBuilder<>& b, const MachineFeatures& features, llvm::Value* acc, Bytes x,
                       Bytes y) {
  llvm::Intrinsic::ID instruction =
      for_lanes(lane_count(acc), llvm::Intrinsic::x86_avx512_vpdpbusd_128,
                llvm::Intrinsic::x86_avx512_vpdpbusd_256, llvm::Intrinsic::x86_avx512_vpdpbusd_512);
  if (features.neon_dot && lane_count(acc) == 4) return neon_dot(b, acc, x, y);
  if (features.vnni && instruction != llvm::Intrinsic::not_intrinsic)
    return Vnni(b, instruction).add(acc, x, y);
  if (features.byte_pairs && x.is_signed && !y.is_signed && y.bits < 8)
    if (llvm::Value* sum = small_products(b, y.groups, x.groups)) return b.CreateAdd(acc, sum);
  // Added up before, for what follows waits for the accumulator.
  llvm::Value* sum = b.CreateAdd(pair_sums(b, even_bytes(b, x), even_bytes(b, y)),
                                 pair_sums(b, odd_bytes(b, x), odd_bytes(b, y)));
  return b.CreateAdd(acc, sum);
}

/// acc + x . y for pairs of int16 in i32 lanes.
llvm::Value* add_shorts(llvm::IRBuilder<>& b, llvm::Value* acc, llvm::Value* x, llvm::Value* y) {
  llvm::Type* pairs = lanes_of(b.getInt16Ty(), 2 * lane_count(acc));
  return b.CreateAdd(acc, pair_sums(b, b.CreateBitCast(x, pairs), b.CreateBitCast(y, pairs)));
}

/// acc + x . y for pairs of bfloat16 in i32 lanes: in vdpbf16ps, or as float32.
llvm::Value* add_bfloats(llvm::IRBuilder<>& b, bool native, llvm::Value* acc, llvm::Value* x,
                         llvm::Value* y) {
  llvm::Intrinsic::ID instruction =
      for_lanes(lane_count(acc), llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128,
                llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512);
  if (native && instruction != llvm::Intrinsic::not_intrinsic) {
    llvm::Type* pairs = lanes_of(b.getBFloatTy(), 2 * lane_count(acc));
    return b.CreateIntrinsic(instruction, {}, {acc, b.CreateBitCast(x, pairs), b.CreateBitCast(y, pairs)});
  }
  // A bfloat16 is the upper half of a float32.
  auto low = [&](llvm::Value* v) { return b.CreateBitCast(b.CreateShl(v, 16), acc->getType()); };
  auto high = [&](llvm::Value* v) {
    return b.CreateBitCast(b.CreateAnd(v, llvm::ConstantInt::get(v->getType(), 0xffff0000)), acc->getType());
  };
  acc = b.CreateFAdd(b.CreateFMul(low(x), low(y)), acc);
  return b.CreateFAdd(b.CreateFMul(high(x), high(y)), acc);
}
}  // namespace

bool Emitter::in_memory(const DotProduct& dot) const {
  return storage(dot.same->buffer.get()).pointer && storage(dot.each->buffer.get()).pointer;
}

/// One group of the operand that is the same for all lanes is one 32-bit load and a broadcast; a vector of
/// groups of the other one is one dense load.
/// Null where `e` is not acc + such a sum: then it is emitted as the additions and products that it is.
/// Vectors of other widths than registers are filled up, and cut again.
llvm::Value* Emitter::dot_product(const Binary& e) {
  if (e.op != BinaryOp::kAdd || e.dtype.lanes == 1 || mask_ ||
      !state_.module.getDataLayout().isLittleEndian())
    return nullptr;
  const bool ints = e.dtype.element() == kInt32;
  std::optional<DotProduct> dot = dot_product_of(e.b);
  // The first of a sum that is written out has none before it.
  const bool is_first = !dot && ints;
  if (is_first) dot = dot_product_of(Expr(Ref<Binary>(&e)));
  if (!dot || !in_memory(*dot)) return nullptr;
  DataType same = dot->same->buffer->dtype, each = dot->each->buffer->dtype;
  auto lanes = static_cast<unsigned>(e.dtype.lanes);
  auto loaded = [&](llvm::Type* type, const FlatAccess& at, const tir::Buffer& buffer) {
    return b_.CreateAlignedLoad(type, pointer_to(at, buffer), alignment_of(at, buffer));
  };
  llvm::Value* acc = is_first ? llvm::Constant::getNullValue(value_type(e.dtype)) : value(e.a);
  llvm::Value* x = b_.CreateVectorSplat(lanes, loaded(b_.getInt32Ty(), dot->same_at, dot->same->buffer));
  llvm::Value* y = loaded(lanes_of(b_.getInt32Ty(), lanes), dot->each_at, dot->each->buffer);
  const auto mask = static_cast<uint32_t>((1 << dot->bits) - 1);
  if (dot->shift) y = b_.CreateLShr(y, static_cast<uint64_t>(dot->shift));
  if (dot->bits < 8) y = b_.CreateAnd(y, llvm::ConstantInt::get(y->getType(), mask * 0x01010101));
  // Beyond 16 lanes no instruction fits, and the general way takes any number of them.
  if (lanes <= 16)
    for (llvm::Value** v : {&acc, &x, &y}) *v = with_lanes(b_, *v, register_lanes(lanes));
  llvm::Value* sum = !ints            ? add_bfloats(b_, state_.features.bfloat16, acc, x, y)
                     : same == kInt16 ? add_shorts(b_, acc, x, y)
                                      : add_bytes(b_, state_.features, acc, {x, same == kInt8},
                                                  {y, each == kInt8, dot->bits});
  // In one register: the instruction names it.
  if (ints && state_.features.pairs && static_cast<int>(lane_count(sum)) <= state_.target.lanes())
    sum = opaque(b_, sum);
  return with_lanes(b_, sum, lanes);
}

}  // namespace lathe::codegen
