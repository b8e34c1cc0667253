// Loads and stores: addresses, registers, gathers.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/lanes.h"
#include "core/support/error.h"
#include "core/tir/machine.h"

namespace lathe::codegen {

const Storage& Emitter::storage(const tir::BufferNode* buffer) const {
  auto found = buffers_.find(buffer);
  CHECK(found != buffers_.end(), "buffer {} is used outside its allocation", buffer->name);
  return found->second;
}

/// Buffers begin at a multiple of 64 bytes; the largest power of two that divides every step from there is
/// certain, whatever the loop variables are.
llvm::Align Emitter::alignment_of(const FlatAccess& at, const tir::Buffer& buffer) const {
  int64_t step = at.constant;
  for (const auto& [term, coefficient] : at.terms) step = std::gcd(step, coefficient);
  int64_t bytes = step * buffer->dtype.bytes();
  uint64_t power = bytes == 0 ? 64 : uint64_t{1} << std::countr_zero(static_cast<uint64_t>(std::abs(bytes)));
  return llvm::Align(std::min<uint64_t>(power, 64));
}

namespace {
/// Reads no memory and opens no blocks: may be computed earlier than the program says.
bool is_movable(const Expr& e) {
  bool movable = true;
  post_order(e, [&](const NodeRef& node) {
    const Binary* b = node.as<Binary>();
    movable &= !(b && b->op == BinaryOp::kPow) && !node.as<tir::Load>() && !node.as<Select>() &&
               !node.as<IntrinsicCall>();
  });
  return movable;
}
}  // namespace

/// The innermost open loop that `e` depends on.
size_t Emitter::depth_of(const Expr& e) const {
  size_t depth = 0;
  post_order(e, [&](const NodeRef& node) {
    if (auto found = depth_.find(node.as<VarNode>()); found != depth_.end())
      depth = std::max(depth, found->second);
  });
  return depth;
}

llvm::Value* Emitter::advanced(llvm::Value* pointer, llvm::Type* element,
                               const std::pair<Expr, int64_t>& term) {
  // Without overflow, as all index arithmetic; as unsigned numbers a negative coefficient would overflow.
  llvm::Value* offset = b_.CreateMul(value(term.first), b_.getInt64(term.second), "", false, true);
  return b_.CreateInBoundsGEP(element, pointer, offset);
}

/// Base, plus the terms of each loop from the outside in, each added at the head of its loop, plus the
/// constant. LLVM's own loop-invariant code motion is not used: it moves the constants out too, a register
/// for each copy of an access.
llvm::Value* Emitter::pointer_to(const FlatAccess& at, const tir::Buffer& buffer) {
  llvm::Type* element = memory_type(buffer->dtype);
  llvm::Value* pointer = storage(buffer.get()).pointer;
  std::vector<std::vector<std::pair<Expr, int64_t>>> by_loop(loops_.size());
  std::vector<std::pair<Expr, int64_t>> here;
  for (const auto& term : at.terms)
    // Other terms stay where the program has them.
    (is_movable(term.first) ? by_loop[depth_of(term.first)] : here).push_back(term);
  FlatAccess part;
  for (size_t d = 0; d < loops_.size(); ++d) {
    if (by_loop[d].empty()) continue;
    // The sum down to this loop: what its pointer is found by.
    part.terms.insert(part.terms.end(), by_loop[d].begin(), by_loop[d].end());
    llvm::Value*& known = loops_[d].pointers[key_of(part, buffer)];
    if (!known) {
      llvm::IRBuilderBase::InsertPointGuard guard(b_);
      b_.SetInsertPoint(loops_[d].head->getTerminator());
      known = pointer;
      for (const auto& term : by_loop[d]) known = advanced(known, element, term);
    }
    pointer = known;
  }
  for (const auto& term : here) pointer = advanced(pointer, element, term);
  return at.constant == 0 ? pointer : b_.CreateInBoundsGEP(element, pointer, b_.getInt64(at.constant));
}

/// The element offset of each lane, as a vector of int64.
llvm::Value* Emitter::lane_offsets(const FlatAccess& at) {
  std::vector<llvm::Constant*> first;
  for (int l = 0; l < at.lanes; ++l) first.push_back(b_.getInt64(at.constant + l * at.lane_stride));
  llvm::Value* sum = llvm::ConstantVector::get(first);
  for (const auto& [term, coefficient] : at.terms)
    sum = b_.CreateAdd(sum,
                       b_.CreateVectorSplat(at.lanes, b_.CreateMul(value(term), b_.getInt64(coefficient))));
  for (const auto& [term, coefficient] : at.vector_terms) {
    llvm::Value* factor = b_.CreateVectorSplat(at.lanes, b_.getInt64(coefficient));
    sum = b_.CreateAdd(sum, b_.CreateMul(value(term), factor));
  }
  return sum;
}

/// The mask of elements that these lanes want, where a lane that does not exist wants none.
llvm::Value* Emitter::mask_of(llvm::ArrayRef<int> lanes) {
  return b_.CreateShuffleVector(mask_, llvm::Constant::getNullValue(mask_->getType()), lanes);
}

/// Every second, third or fourth element: as many dense loads, the last one ending with the last element, and
/// shuffles that pick the lanes from them. Under a mask each load reads the elements of its wanted lanes.
llvm::Value* Emitter::load_strided(const FlatAccess& at, const tir::Buffer& buffer) {
  const auto lanes = static_cast<int64_t>(at.lanes), span = (lanes - 1) * at.lane_stride + 1;
  llvm::Type* element = memory_type(buffer->dtype);
  llvm::Type* type = memory_type(buffer->dtype.with_lanes(at.lanes));
  llvm::Value *pointer = pointer_to(at, buffer), *result = nullptr;
  llvm::Align align(static_cast<uint64_t>(buffer->dtype.bytes()));
  for (int64_t part = 0; part < at.lane_stride; ++part) {
    // No load reaches beyond the last element that a lane wants, which may be the last of the buffer.
    const int64_t begin = std::min(part * lanes, span - lanes);
    // Of the result so far, then of what is loaded; and the lane that wants an element, if any.
    std::vector<int> order, wanting(lanes, at.lanes);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t at_element = lane * at.lane_stride;
      bool here = at_element >= part * lanes && at_element < (part + 1) * lanes;
      order.push_back(static_cast<int>(here ? lanes + at_element - begin : lane));
      if (here) wanting[at_element - begin] = static_cast<int>(lane);
    }
    llvm::Value* start = b_.CreateInBoundsGEP(element, pointer, b_.getInt64(begin));
    llvm::Value* loaded;
    if (mask_)
      loaded = b_.CreateMaskedLoad(type, start, align, mask_of(wanting), llvm::Constant::getNullValue(type));
    else
      loaded = b_.CreateAlignedLoad(type, start, align);
    result = b_.CreateShuffleVector(result ? result : llvm::PoisonValue::get(type), loaded, order);
  }
  return result;
}

/// Lanes that are no neighbours, in the cheapest of six ways: whole short rows, dense loads and shuffles for
/// short strides, runs of neighbours, two loads where one jump parts them, the gather instruction under a
/// mask, else a load for each lane.
llvm::Value* Emitter::gather(const FlatAccess& at, const tir::Buffer& buffer) {
  constexpr int64_t kMostStride = 4;
  if (const auto rows = short_rows(at, buffer)) return load_short_rows(*rows, buffer);
  if (at.vector_terms.empty() && at.lanes >= 4 && at.lane_stride > 1 && at.lane_stride <= kMostStride)
    return load_strided(at, buffer);
  if (llvm::Value* runs = load_runs(at, buffer)) return runs;
  if (llvm::Value* parts = load_broken_line(at, buffer)) return parts;
  llvm::Type* element = memory_type(buffer->dtype);
  llvm::Value* base = storage(buffer.get()).pointer;
  llvm::Value* pointers = b_.CreateInBoundsGEP(element, base, lane_offsets(at));
  llvm::Type* type = memory_type(buffer->dtype.with_lanes(at.lanes));
  if (mask_) {
    return b_.CreateMaskedGather(type, pointers, llvm::Align(buffer->dtype.bytes()), mask_,
                                 llvm::Constant::getNullValue(type));
  }
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (int l = 0; l < at.lanes; ++l) {
    llvm::Value* lane = b_.CreateLoad(element, b_.CreateExtractElement(pointers, l));
    result = b_.CreateInsertElement(result, lane, l);
  }
  return result;
}

/// A store for each lane, in the order of lanes: of two that hit one element the last one counts, as in a
/// loop.
void Emitter::scatter(const FlatAccess& at, const tir::Buffer& buffer, llvm::Value* v) {
  llvm::Type* element = memory_type(buffer->dtype);
  llvm::Value* pointers = b_.CreateInBoundsGEP(element, storage(buffer.get()).pointer, lane_offsets(at));
  if (mask_) {
    b_.CreateMaskedScatter(v, pointers, llvm::Align(buffer->dtype.bytes()), mask_);
    return;
  }
  for (int l = 0; l < at.lanes; ++l)
    b_.CreateStore(b_.CreateExtractElement(v, l), b_.CreateExtractElement(pointers, l));
}

/// Whether its vectors come from main memory in the innermost loop. What the statement writes is a sum in
/// registers.
bool Emitter::reads_far(const tir::Buffer& buffer) const {
  return loops_.back().prefetch > 0 && buffer->scope == tir::Scope::kGlobal && buffer.get() != stored_;
}

/// The line so many bytes behind `pointer`, into this level of the caches and those beyond.
void Emitter::ask_for(llvm::Value* pointer, int64_t bytes, int level) {
  constexpr int kRead = 0, kData = 1, kAllLevels = 4;  // locality 3 is the first level, 2 the second
  llvm::Value* line = b_.CreateGEP(b_.getInt8Ty(), pointer, b_.getInt64(bytes));
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                     {line, b_.getInt32(kRead), b_.getInt32(kAllLevels - level), b_.getInt32(kData)});
}

/// Each line once an iteration, however many accesses touch it: a prefetch takes the slot of a load.
void Emitter::prefetch(const FlatAccess& at, const tir::Buffer& buffer, llvm::Value* pointer) {
  Loop& loop = loops_.back();
  int64_t line = at.constant * buffer->dtype.bytes() / kLineBytes;
  if (!loop.prefetched.emplace(key_of(at, buffer), line).second) return;
  ask_for(pointer, loop.prefetch, /*level=*/1);
}

/// Where the first vector of `at` will be at the beginning of the next iteration of the loop that is marked,
/// and behind that by what all iterations before this one have asked for. Beyond the last one there is
/// nothing, which a prefetch does not mind. `iterations` of the program are one of the innermost loop here.
void Emitter::prefetch_next(FlatAccess at, const tir::Buffer& buffer, double iterations) {
  const auto marked = std::find_if(loops_.rbegin(), loops_.rend(), [](const Loop& loop) {
                        return loop.lines_of_next > 0;
                      }).base();
  if (marked == loops_.begin() || marked == loops_.end() || std::exchange(loops_.back().asks_for_next, true))
    return;
  VarMap begin{{(marked - 1)->var, Expr(Var((marked - 1)->var)) + 1}};
  llvm::Value* iteration = b_.getInt64(0);
  for (auto loop = marked; loop != loops_.end(); ++loop) {
    begin[loop->var] = 0;
    iteration = b_.CreateAdd(b_.CreateMul(iteration, loop->end), loop->index);
  }
  for (auto& [term, coefficient] : at.terms) term = substitute(term, begin);
  share_terms(at);
  const auto lines =
      static_cast<int64_t>(std::ceil(static_cast<double>((marked - 1)->lines_of_next) * iterations));
  llvm::Value* next = b_.CreateGEP(b_.getInt8Ty(), pointer_to(at, buffer),
                                   b_.CreateMul(iteration, b_.getInt64(lines * kLineBytes)));
  for (int64_t line = 0; line < lines; ++line) ask_for(next, line * kLineBytes, /*level=*/2);
}

namespace {
bool is_number(const Expr& e) {
  const Broadcast* lanes = e.as<Broadcast>();
  return as_int(lanes ? lanes->value : e) != nullptr;
}

/// By what may be zero, where a condition around says that it is not.
bool divides_by_a_variable(const Expr& e) {
  bool divides = false;
  post_order(e, [&](const NodeRef& node) {
    const Binary* b = node.as<Binary>();
    divides |= b && b->op >= BinaryOp::kDiv && b->op <= BinaryOp::kFloorMod && !is_number(b->b);
  });
  return divides;
}
}  // namespace

/// The lanes of a condition. Where a mask is a vector, a comparison of indices takes a dozen instructions: it
/// stands at the head of the innermost loop that it depends on.
llvm::Value* Emitter::early_mask(const Expr& condition) {
  if (!state_.features.vector_masks || loops_.empty() || mask_ || !is_movable(condition) ||
      divides_by_a_variable(condition))
    return value(condition);
  const size_t depth = depth_of(condition);
  if (depth + 1 == loops_.size()) return value(condition);
  for (const auto& [known, mask] : loops_[depth].masks)
    if (structural_equal(known, condition)) return mask;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(loops_[depth].head->getTerminator());
  llvm::Value* mask = value(condition);
  loops_[depth].masks.emplace_back(condition, mask);
  return mask;
}

/// The mask as a vector whose signs say it, beside where it is computed.
llvm::Value* Emitter::signs_of(llvm::Instruction* mask, llvm::VectorType* type) {
  llvm::Value*& known = signs_[{mask, type}];
  if (known) return known;
  llvm::IRBuilder<> beside(mask->getParent(), std::next(mask->getIterator()));
  // That it comes of a mask of one bit a lane is hidden: LLVM thinks that such a one is free, and computes it
  // again beside each load.
  return known = opaque(beside, beside.CreateSExt(mask, type));
}

/// Loaded by load_masked() under this mask, and nothing else.
bool Emitter::is_zero_beyond(llvm::Value* loaded, llvm::Value* mask) const {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(loaded);
  if (!call || call->arg_size() != 2) return false;
  const auto signs = signs_.find({mask, call->getArgOperand(1)->getType()});
  return signs != signs_.end() && signs->second == call->getArgOperand(1);
}

/// Under the mask that holds; zeros elsewhere.
llvm::Value* Emitter::load_masked(llvm::Type* type, llvm::Value* pointer, llvm::Align align) {
  const uint64_t bits = type->getScalarSizeInBits(), all = type->getPrimitiveSizeInBits();
  auto* mask = llvm::dyn_cast<llvm::Instruction>(mask_);
  if (!state_.features.vector_masks || !mask || llvm::isa<llvm::PHINode>(mask) ||
      (bits != 32 && bits != 64) || (all != 128 && all != 256))
    return b_.CreateMaskedLoad(type, pointer, align, mask_, llvm::Constant::getNullValue(type));
  using namespace llvm::Intrinsic;
  constexpr ID kLoads[2][2][2] = {
      {{x86_avx2_maskload_d, x86_avx2_maskload_d_256}, {x86_avx2_maskload_q, x86_avx2_maskload_q_256}},
      {{x86_avx_maskload_ps, x86_avx_maskload_ps_256}, {x86_avx_maskload_pd, x86_avx_maskload_pd_256}}};
  llvm::Value* signs = signs_of(mask, llvm::VectorType::getInteger(llvm::cast<llvm::VectorType>(type)));
  return b_.CreateIntrinsic(kLoads[type->isFPOrFPVectorTy()][bits == 64][all == 256], {}, {pointer, signs});
}

llvm::Value* Emitter::load_from(const FlatAccess& at, const tir::Buffer& buffer) {
  llvm::Type* type = memory_type(buffer->dtype.with_lanes(at.lanes));
  if (!at.is_dense()) return gather(at, buffer);
  llvm::Value* pointer = pointer_to(at, buffer);
  llvm::Align align = alignment_of(at, buffer);
  if (at.lanes > 1 && reads_far(buffer)) {
    prefetch(at, buffer, pointer);
    prefetch_next(at, buffer);
  }
  if (!mask_) return b_.CreateAlignedLoad(type, pointer, align);
  if (at.lanes > 1) return load_masked(type, pointer, align);
  // A branch around the statement has seen to it that a lane is wanted (emit_masked).
  if (mask_ == statement_mask_) return b_.CreateAlignedLoad(type, pointer, align);
  // Wanted by some lane or by none: then the address may be out of bounds. The branch is scalar, so no mask
  // holds inside.
  llvm::Value* mask = mask_;
  mask_ = nullptr;
  llvm::Value* result =
      guarded(b_.CreateOrReduce(mask), type, [&] { return b_.CreateAlignedLoad(type, pointer, align); });
  mask_ = mask;
  return result;
}

/// Copies of an access, as of an unrolled loop, hold equal terms in nodes of their own: equal ones become one
/// node, by which pointers and prefetches are found again, and which lives as long as they do.
void Emitter::share_terms(FlatAccess& at) {
  for (auto& [term, coefficient] : at.terms) {
    if (term.as<VarNode>()) continue;
    std::vector<Expr>& alike = terms_[structural_hash(term)];
    auto known = std::find_if(alike.begin(), alike.end(),
                              [&term = term](const Expr& other) { return structural_equal(term, other); });
    if (known != alike.end())
      term = *known;
    else
      alike.push_back(term);
  }
}

FlatAccess Emitter::access(const tir::Buffer& buffer, const std::vector<Expr>& indices) {
  FlatAccess at = flatten(buffer, indices);
  share_terms(at);
  return at;
}

llvm::Value* Emitter::load_slot(llvm::AllocaInst* slot) {
  return b_.CreateLoad(slot->getAllocatedType(), slot);
}

llvm::Value* Emitter::load(const tir::Load& e) {
  FlatAccess at = access(e.buffer, e.indices);
  const Storage& place = storage(e.buffer.get());
  if (!place.pointer) {
    if (!at.is_dense()) return from_memory(load_slot(place.columns.at(at.constant)), e.dtype);
    std::vector<llvm::Value*> parts;
    for (int64_t lane = 0; lane < at.lanes; lane += at.lanes == 1 ? 1 : lane_count(parts.back()))
      parts.push_back(load_slot(place.slots.at(at.constant + lane)));
    return from_memory(parts.size() == 1 ? parts[0] : llvm::concatenateVectors(b_, parts), e.dtype);
  }
  return from_memory(load_from(at, e.buffer), e.dtype);
}

namespace {
/// The lanes that a mask of constants lets through, in parts of a power of two of neighbours, the largest
/// first in each run: {first lane, lanes}. Nothing for other masks.
std::optional<std::vector<std::pair<int, int>>> parts_of(llvm::Value* mask) {
  auto* known = llvm::dyn_cast<llvm::Constant>(mask);
  if (!known) return std::nullopt;
  const int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements());
  const auto is_wanted = [&](int lane) {
    const llvm::Constant* element = known->getAggregateElement(static_cast<unsigned>(lane));
    return element && element->isOneValue();
  };
  std::vector<std::pair<int, int>> parts;
  for (int first = 0; first < lanes; ++first) {
    int end = first;
    while (end < lanes && is_wanted(end)) ++end;
    for (; first < end; first += parts.back().second)
      parts.emplace_back(first, static_cast<int>(std::bit_floor(static_cast<unsigned>(end - first))));
  }
  return parts;
}
}  // namespace

/// Where no register holds a mask, a masked store costs as much as a dozen others: with a mask that is known,
/// shorter vectors are stored instead.
void Emitter::store_masked(llvm::Value* v, llvm::Value* pointer, llvm::Align align) {
  constexpr size_t kMostParts = 4;
  const auto parts = state_.features.avx512_lanes == 0 ? parts_of(mask_) : std::nullopt;
  if (!parts || parts->size() > kMostParts) {
    b_.CreateMaskedStore(v, pointer, align, mask_);
    return;
  }
  llvm::Type* element = v->getType()->getScalarType();
  const uint64_t bytes = element->getPrimitiveSizeInBits() / 8;
  for (const auto& [first, lanes] : *parts) {
    std::vector<int> order(static_cast<size_t>(lanes));
    std::iota(order.begin(), order.end(), first);
    llvm::Value* part = lanes == 1 ? b_.CreateExtractElement(v, static_cast<uint64_t>(first))
                                   : b_.CreateShuffleVector(v, order);
    llvm::Value* place = b_.CreateInBoundsGEP(element, pointer, b_.getInt64(first));
    b_.CreateAlignedStore(part, place, llvm::commonAlignment(align, static_cast<uint64_t>(first) * bytes));
  }
}

void Emitter::emit_store(const tir::Store& e) {
  FlatAccess at = access(e.buffer, e.indices);
  // Before the value is emitted, whose loads of the same buffer are not to be prefetched.
  stored_ = e.buffer.get();
  llvm::Value* v = value(e.value);
  if (at.lanes > 1 && e.value.dtype().lanes == 1) v = b_.CreateVectorSplat(at.lanes, v);
  CHECK(at.lanes == 1 || std::max<int>(at.lanes, e.value.dtype().lanes) == at.lanes,
        "{} lanes stored in {} of {}", e.value.dtype().lanes, at.lanes, e.buffer->name);
  v = to_memory(v, e.buffer->dtype.with_lanes(at.lanes));
  const Storage& place = storage(e.buffer.get());
  // Registers; `at` is constant then (plan_registers).
  if (!place.pointer)
    store_in_register(place.slots.at(at.constant), v);
  else if (!at.is_dense())
    scatter(at, e.buffer, v);
  else if (mask_)
    store_masked(v, pointer_to(at, e.buffer), alignment_of(at, e.buffer));
  else
    b_.CreateAlignedStore(v, pointer_to(at, e.buffer), alignment_of(at, e.buffer));
}

/// Lanes that the mask leaves out keep what they hold.
void Emitter::store_in_register(llvm::AllocaInst* slot, llvm::Value* v) {
  if (mask_) v = b_.CreateSelect(mask_, v, b_.CreateLoad(slot->getAllocatedType(), slot));
  b_.CreateStore(v, slot);
}

}  // namespace lathe::codegen
