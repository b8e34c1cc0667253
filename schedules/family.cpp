#include "schedules/family.h"

#include <algorithm>

#include "core/tir/dims.h"
#include "schedules/anatomy.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Annotations of a function: kTypicalKey + "0" is for its first dimension.
constexpr const char* kTypicalKey = "typical";
constexpr DimValues kOne{1, 1, 1}, kFew{2, 4, 4}, kAny{0, std::numeric_limits<int64_t>::max(), kTypicalDim};

/// Members are compiled one by one: of more dimensions than this only ones are told apart.
constexpr size_t kMostGraded = 2;
/// And of more than this nothing.
constexpr size_t kMostDims = 3;

/// A load is indexed by a sum of a spatial variable and one of the reduction.
bool reads_windows(const Block& block) {
  auto uses = [&](const Expr& index, IterKind kind) {
    return std::any_of(block.iters.begin(), block.iters.end(), [&](const BlockIter& iter) {
      return iter.kind == kind && uses_var(index, iter.var.get());
    });
  };
  bool found = false;
  post_order(block.body, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>())
      for (const Expr& index : load->indices)
        found |= uses(index, IterKind::kSpatial) && uses(index, IterKind::kReduce);
  });
  return found;
}

bool is_product(const Func& program) {
  const std::vector<int64_t> many(dims_of(*program).size(), kTypicalDim);
  Ref<Block> block = dominant_reduction(with_dims(program, many));
  if (!block || reads_windows(*block)) return false;
  auto reduction = vector_reduction(block);
  // Not vectorized as it stands, but perhaps once its operands are packed: all sums of products count.
  if (reduction) return reduction->broadcasts();
  return block->reads.size() > 2;
}

Func with_typical(const Func& program, size_t dim, int64_t value) {
  auto copy = mutate(*program);
  copy->annotations[kTypicalKey + std::to_string(dim)] = value;
  return seal(std::move(copy));
}

Member member_of(const Func& program, const std::vector<DimValues>& dims) {
  std::vector<int64_t> numbers;
  for (const DimValues& each : dims) numbers.push_back(each.is_number() ? each.min : kStaysOpen);
  Member member{dims, with_dims(program, numbers)};
  size_t left = 0;  // those that stay are numbered anew
  for (const DimValues& each : dims) {
    if (each.is_number()) continue;
    if (each.typical != kTypicalDim) member.program = with_typical(member.program, left, each.typical);
    ++left;
  }
  return member;
}
}  // namespace

int64_t typical_dim(const Func& program, size_t i) {
  auto found = program->annotations.find(kTypicalKey + std::to_string(i));
  return found == program->annotations.end() ? kTypicalDim : found->second;
}

Func without_typical_dims(const Func& program) {
  auto copy = mutate(*program);
  std::erase_if(copy->annotations, [](const auto& each) { return each.first.starts_with(kTypicalKey); });
  return copy->annotations.size() == program->annotations.size() ? program : seal(std::move(copy));
}

std::vector<Member> family_of(const Func& program) {
  const size_t count = dims_of(*program).size();
  if (count == 0 || count > kMostDims || !is_product(program))
    return {member_of(program, std::vector<DimValues>(count, kAny))};
  // All combinations, the last dimension fastest: narrower values before wider ones in each.
  const std::vector<DimValues> grades =
      count > kMostGraded ? std::vector{kOne, kAny} : std::vector{kOne, kFew, kAny};
  std::vector<Member> family;
  std::vector<size_t> digits(count);
  for (;;) {
    std::vector<DimValues> dims;
    for (size_t digit : digits) dims.push_back(grades[digit]);
    family.push_back(member_of(program, dims));
    size_t last = count;
    while (last > 0 && ++digits[last - 1] == grades.size()) digits[--last] = 0;
    if (last == 0) return family;
  }
}

}  // namespace lathe::schedule
