// Loads of lanes that are a few runs of neighbours, each loaded whole, put together in registers. Packing an
// operand for dot products is made of these: lanes in pairs from two rows, or a pair from each of 16.
#include <algorithm>
#include <map>

#include "core/arith/simplify.h"
#include "core/codegen/llvm/emitter.h"
#include "core/support/floor_div.h"

namespace lathe::codegen {
namespace {

/// The lanes of an expression of constants; nothing for others.
std::optional<std::vector<int64_t>> lanes_of_constants(const Expr& e) {
  if (const int64_t* c = as_int(e)) return std::vector<int64_t>{*c};
  auto repeated = [](std::vector<int64_t> one, int lanes) {
    return one.size() == 1 ? std::vector<int64_t>(static_cast<size_t>(lanes), one[0]) : one;
  };
  if (const Broadcast* b = e.as<Broadcast>()) {
    auto value = lanes_of_constants(b->value);
    return value ? std::optional(repeated(*value, e.dtype().lanes)) : std::nullopt;
  }
  if (const Ramp* r = e.as<Ramp>()) {
    const int64_t *base = as_int(r->base), *stride = as_int(r->stride);
    if (!base || !stride) return std::nullopt;
    std::vector<int64_t> lanes;
    for (int l = 0; l < e.dtype().lanes; ++l) lanes.push_back(*base + l * *stride);
    return lanes;
  }
  const Binary* b = e.as<Binary>();
  auto x = b ? lanes_of_constants(b->a) : std::nullopt, y = x ? lanes_of_constants(b->b) : std::nullopt;
  if (!y) return std::nullopt;
  std::vector<int64_t> left = repeated(*x, e.dtype().lanes), right = repeated(*y, e.dtype().lanes);
  for (size_t l = 0; l < left.size(); ++l) {
    const Expr result = simplify(binary(b->op, Expr(left[l]), Expr(right[l])));
    if (!as_int(result)) return std::nullopt;
    left[l] = int_value(result);
  }
  return left;
}

/// A vector term whose lanes are numbers times a stride that is open, as of channels of an image whose size
/// is.
struct OpenLanes {
  std::vector<int64_t> lanes;
  Expr stride;
};
std::optional<OpenLanes> open_lanes(const Expr& term) {
  const Binary* product = term.as<Binary>();
  const Broadcast* stride = product && product->op == BinaryOp::kMul ? product->b.as<Broadcast>() : nullptr;
  auto lanes = stride ? lanes_of_constants(product->a) : std::nullopt;
  return lanes ? std::optional(OpenLanes{*lanes, stride->value}) : std::nullopt;
}

/// What lanes have of open strides: each combination of multiples is a place of its own, from which constants
/// tell where elements are. Places count as kApart elements apart, so that no run goes from one to another.
class Places {
 public:
  static constexpr int64_t kApart = int64_t{1} << 48;

  void add(const OpenLanes& term, int64_t coefficient) {
    strides_.push_back(term.stride);
    for (size_t l = 0; l < of_lanes_.size(); ++l) of_lanes_[l].push_back(coefficient * term.lanes[l]);
  }
  explicit Places(int lanes) : of_lanes_(static_cast<size_t>(lanes)) {}

  /// Of lane l from the others.
  int64_t offset_of_lane(size_t l) {
    const auto [found, is_new] = numbers_.try_emplace(of_lanes_[l], static_cast<int64_t>(multiples_.size()));
    if (is_new) multiples_.push_back(of_lanes_[l]);
    return found->second * kApart;
  }
  /// The multiples of the strides of the place that `offset` is in.
  const std::vector<int64_t>& multiples_at(int64_t offset) const {
    return multiples_[static_cast<size_t>(number_at(offset))];
  }
  int64_t offset_in_place(int64_t offset) const { return offset - number_at(offset) * kApart; }
  const std::vector<Expr>& strides() const { return strides_; }

 private:
  static int64_t number_at(int64_t offset) { return floor_div(offset + kApart / 2, kApart); }

  std::vector<Expr> strides_;
  std::vector<std::vector<int64_t>> of_lanes_, multiples_;
  std::map<std::vector<int64_t>, int64_t> numbers_;
};

/// Runs of neighbours in rising order; lane l is element places[l] of all of them.
struct Runs {
  std::vector<int64_t> starts, lengths;
  std::vector<int> places;
  /// The lanes of a run are neighbours, in its order, as the runs are.
  bool are_in_order() const {
    for (size_t l = 0; l < places.size(); ++l)
      if (places[l] != static_cast<int>(l)) return false;
    return true;
  }
  bool are_of(int64_t length) const {
    return std::all_of(lengths.begin(), lengths.end(), [&](int64_t each) { return each == length; });
  }
};

Runs runs_of(const std::vector<int64_t>& offsets) {
  std::vector<int64_t> sorted = offsets;
  std::sort(sorted.begin(), sorted.end());
  // Several lanes may want one element.
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  Runs runs;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i] != sorted[i - 1] + 1) {
      runs.starts.push_back(sorted[i]);
      runs.lengths.push_back(0);
    }
    ++runs.lengths.back();
  }
  for (int64_t offset : offsets)
    runs.places.push_back(
        static_cast<int>(std::lower_bound(sorted.begin(), sorted.end(), offset) - sorted.begin()));
  return runs;
}

/// The lanes of both, one after another. A shuffle takes two vectors of one length, so the shorter one is
/// filled up with lanes of no value.
llvm::Value* joined(llvm::IRBuilder<>& b, llvm::Value* left, llvm::Value* right) {
  auto count = [](llvm::Value* v) {
    return static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements());
  };
  llvm::SmallVector<int> pattern;
  int wide = std::max(count(left), count(right));
  auto widened = [&](llvm::Value* v) {
    llvm::SmallVector<int> lanes;
    for (int i = 0; i < wide; ++i) lanes.push_back(i < count(v) ? i : -1);
    return count(v) == wide ? v : b.CreateShuffleVector(v, lanes);
  };
  for (int i = 0; i < count(left); ++i) pattern.push_back(i);
  for (int i = 0; i < count(right); ++i) pattern.push_back(wide + i);
  return b.CreateShuffleVector(widened(left), widened(right), pattern);
}

/// By halves: a tree of shuffles, as deep as the logarithm of the parts.
llvm::Value* joined(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> parts) {
  if (parts.size() == 1) return parts[0];
  size_t half = parts.size() / 2;
  return joined(b, joined(b, parts.take_front(half)), joined(b, parts.drop_front(half)));
}

// Runs up to the first are loaded as one integer each, when all are alike; from the second on as a vector.
constexpr int64_t kScalarBytes = 8, kVectorBytes = 16;

/// Whether runs as vectors, put together by shuffles, cost less than a load for each lane. Shorter ones than
/// kVectorBytes do where a lane is as wide as registers have instructions for, and there are few of them.
bool pays_in_vectors(const Runs& runs, int lanes, int64_t bytes) {
  const bool long_runs = std::all_of(runs.lengths.begin(), runs.lengths.end(),
                                     [&](int64_t length) { return length * bytes >= kVectorBytes; });
  return long_runs || (bytes >= 4 && 2 * runs.starts.size() <= static_cast<size_t>(lanes));
}

}  // namespace

/// Null where the lanes are no such runs.
llvm::Value* Emitter::load_runs(const FlatAccess& at, const tir::Buffer& buffer) {
  std::vector<int64_t> offsets;
  Places places(at.lanes);
  for (int l = 0; l < at.lanes; ++l) offsets.push_back(at.constant + l * at.lane_stride);
  for (const auto& [term, coefficient] : at.vector_terms) {
    if (auto open = open_lanes(term); open && open->lanes.size() == offsets.size()) {
      places.add(*open, coefficient);
      continue;
    }
    auto lanes = lanes_of_constants(term);
    if (!lanes || lanes->size() != offsets.size()) return nullptr;
    for (size_t l = 0; l < offsets.size(); ++l) offsets[l] += coefficient * (*lanes)[l];
  }
  if (std::any_of(offsets.begin(), offsets.end(),
                  [](int64_t offset) { return std::abs(offset) >= Places::kApart / 2; }))
    return nullptr;
  for (size_t l = 0; l < offsets.size(); ++l) offsets[l] += places.offset_of_lane(l);
  const Runs runs = runs_of(offsets);
  // Whole runs as integers of up to 8 bytes go straight into the lanes of a vector, when no shuffle must
  // follow.
  const int64_t bytes = runs.lengths[0] * buffer->dtype.bytes();
  const bool scalars = runs.lengths[0] > 1 && runs.are_of(runs.lengths[0]) && bytes <= kScalarBytes &&
                       (bytes & (bytes - 1)) == 0 && runs.are_in_order();
  if (!scalars && !pays_in_vectors(runs, at.lanes, buffer->dtype.bytes())) return nullptr;
  // The scalar part of the address: distances of runs from there are constants, and multiples of strides.
  FlatAccess base;
  base.terms = at.terms;
  llvm::Value* pointer = pointer_to(base, buffer);
  // Here, not in the branches that some runs are loaded in.
  std::vector<llvm::Value*> strides;
  for (const Expr& stride : places.strides()) strides.push_back(value(stride));
  auto start = [&](int64_t offset) {
    llvm::Value* distance = b_.getInt64(static_cast<uint64_t>(places.offset_in_place(offset)));
    for (size_t i = 0; i < strides.size(); ++i)
      if (const int64_t times = places.multiples_at(offset)[i])
        distance =
            b_.CreateAdd(distance, b_.CreateMul(strides[i], b_.getInt64(static_cast<uint64_t>(times))));
    return b_.CreateInBoundsGEP(memory_type(buffer->dtype), pointer, distance);
  };
  llvm::Align align(static_cast<uint64_t>(buffer->dtype.bytes()));
  llvm::Type* result_type = memory_type(buffer->dtype.with_lanes(at.lanes));
  // The bits of an element, whatever it is: shuffles need not know.
  llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(8 * buffer->dtype.bytes()));
  if (scalars) {
    if (mask_) return masked_scalar_runs(at, buffer, runs.lengths[0], start, runs.starts);
    auto* type = llvm::FixedVectorType::get(b_.getIntNTy(static_cast<unsigned>(8 * bytes)),
                                            static_cast<unsigned>(runs.starts.size()));
    llvm::Value* all = llvm::PoisonValue::get(type);
    for (size_t r = 0; r < runs.starts.size(); ++r)
      all = b_.CreateInsertElement(
          all, b_.CreateAlignedLoad(type->getElementType(), start(runs.starts[r]), align), r);
    return b_.CreateBitCast(all, result_type);
  }
  std::vector<llvm::Value*> parts;
  int64_t before = 0;  // elements of the runs before this one
  for (size_t r = 0; r < runs.starts.size(); before += runs.lengths[r++]) {
    auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(runs.lengths[r]));
    if (!mask_) {
      parts.push_back(b_.CreateAlignedLoad(type, start(runs.starts[r]), align));
      continue;
    }
    // For each element of the run the lane whose mask decides whether it is read.
    llvm::SmallVector<int> wanted(static_cast<size_t>(runs.lengths[r]), at.lanes);
    for (size_t l = 0; l < runs.places.size(); ++l) {
      const int64_t place = runs.places[l] - before;
      if (place < 0 || place >= runs.lengths[r]) continue;
      if (wanted[static_cast<size_t>(place)] != at.lanes) return nullptr;  // two lanes want it
      wanted[static_cast<size_t>(place)] = static_cast<int>(l);
    }
    parts.push_back(b_.CreateMaskedLoad(type, start(runs.starts[r]), align, mask_of(wanted),
                                        llvm::Constant::getNullValue(type)));
  }
  llvm::Value* all = joined(b_, parts);
  // Also where lanes share an element, and so are more than there are elements.
  if (!runs.are_in_order()) all = b_.CreateShuffleVector(all, runs.places);
  return b_.CreateBitCast(all, result_type);
}

/// Each side of the jump under the mask of its lanes. Null where there is no such jump, or no masks for
/// registers.
llvm::Value* Emitter::load_broken_line(const FlatAccess& at, const tir::Buffer& buffer) {
  if (state_.features.avx512_lanes == 0 || buffer->dtype.bytes() < 4) return nullptr;
  std::optional<BrokenLine> line = broken_line(at);
  if (!line) return nullptr;
  for (FlatAccess* part : {&line->first, &line->second}) share_terms(*part);
  const auto lanes = static_cast<unsigned>(at.lanes);
  llvm::Type* type = memory_type(buffer->dtype.with_lanes(at.lanes));
  llvm::Align align(static_cast<uint64_t>(buffer->dtype.bytes()));
  llvm::Value* before = b_.CreateTrunc(value(line->before), b_.getInt32Ty());
  llvm::Value* steps = b_.CreateStepVector(llvm::FixedVectorType::get(b_.getInt32Ty(), lanes));
  llvm::Value* is_first = b_.CreateICmpULT(steps, b_.CreateVectorSplat(lanes, before));
  llvm::Value* loaded = llvm::Constant::getNullValue(type);
  for (const auto& [part, wanted] :
       {std::pair(&line->first, is_first), std::pair(&line->second, b_.CreateNot(is_first))}) {
    llvm::Value* mask = mask_ ? b_.CreateAnd(mask_, wanted) : wanted;
    loaded = b_.CreateMaskedLoad(type, pointer_to(*part, buffer), align, mask, loaded);
  }
  return loaded;
}

/// Where every run is wanted whole or not at all, those that are; the others are read from a place of zeros.
/// Lane by lane where some are wanted in part.
llvm::Value* Emitter::masked_scalar_runs(const FlatAccess& at, const tir::Buffer& buffer, int64_t length,
                                         FunctionRef<llvm::Value*(int64_t)> start,
                                         const std::vector<int64_t>& starts) {
  llvm::Align align(static_cast<uint64_t>(buffer->dtype.bytes()));
  llvm::Type* result_type = memory_type(buffer->dtype.with_lanes(at.lanes));
  auto lanes = static_cast<unsigned>(at.lanes);
  llvm::Type* bits_type = b_.getIntNTy(lanes);
  llvm::Value* bits = b_.CreateBitCast(mask_, bits_type);
  // The mask as bits, one a lane. Each is compared with those behind it in its run, at the run's first lane:
  // where one differs, the run is wanted in part.
  llvm::APInt firsts(lanes, 0);
  for (unsigned l = 0; l < lanes; l += static_cast<unsigned>(length)) firsts.setBit(l);
  llvm::Value* differ = llvm::ConstantInt::get(bits_type, 0);
  for (int64_t place = 1; place < length; ++place)
    differ = b_.CreateOr(differ, b_.CreateXor(bits, b_.CreateLShr(bits, static_cast<uint64_t>(place))));
  differ = b_.CreateAnd(differ, llvm::ConstantInt::get(bits_type, firsts));
  llvm::Value* whole = b_.CreateICmpEQ(differ, llvm::ConstantInt::get(bits_type, 0));
  // A load needs an address even when nobody wants its value.
  llvm::Value* zeros = stack_slot(b_.getInt64Ty(), llvm::Align(8), "zeros");
  b_.CreateStore(b_.getInt64(0), zeros);
  auto read = [&](llvm::Type* type, llvm::Value* pointer, unsigned lane) {
    llvm::Value* wanted = b_.CreateExtractElement(mask_, lane);
    return b_.CreateAlignedLoad(type, b_.CreateSelect(wanted, pointer, zeros), align);
  };
  llvm::Value* mask = mask_;
  // Two ways behind branches, of which one runs. The mask is off where the branches are emitted, on inside.
  auto in_runs = [&]() -> llvm::Value* {
    mask_ = mask;
    unsigned bytes = static_cast<unsigned>(length) * static_cast<unsigned>(buffer->dtype.bytes());
    auto* type = llvm::FixedVectorType::get(b_.getIntNTy(8 * bytes), static_cast<unsigned>(starts.size()));
    llvm::Value* all = llvm::PoisonValue::get(type);
    for (unsigned r = 0; r < starts.size(); ++r)
      all = b_.CreateInsertElement(
          all, read(type->getElementType(), start(starts[r]), r * static_cast<unsigned>(length)), r);
    return b_.CreateBitCast(all, result_type);
  };
  auto one_by_one = [&]() -> llvm::Value* {
    mask_ = mask;
    llvm::Type* element = memory_type(buffer->dtype);
    llvm::Value* all = llvm::PoisonValue::get(result_type);
    for (unsigned l = 0; l < lanes; ++l) {
      int64_t offset = starts[l / static_cast<unsigned>(length)] + l % static_cast<unsigned>(length);
      all = b_.CreateInsertElement(all, read(element, start(offset), l), l);
    }
    return all;
  };
  mask_ = nullptr;
  llvm::Value* fast = guarded(whole, result_type, in_runs);
  mask_ = nullptr;
  llvm::Value* slow = guarded(b_.CreateNot(whole), result_type, one_by_one);
  mask_ = mask;
  return b_.CreateSelect(whole, fast, slow);
}

}  // namespace lathe::codegen
