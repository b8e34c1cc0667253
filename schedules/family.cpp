#include "schedules/family.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "core/tir/dims.h"
#include "core/tir/join_dims.h"
#include "schedules/anatomy.h"
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Annotations of a function: kTypicalKey + "0" is for its first dimension; the other one is of a program
/// with these in place of them.
constexpr const char *kTypicalKey = "typical", *kStandsInKey = "stands_in";
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

/// The extent is one of the dimensions that `chosen` says.
bool is_one_of(const std::vector<Var>& dims, const std::vector<bool>& chosen, const Expr& extent) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (chosen[i] && extent.same_as(dims[i].get())) return true;
  return false;
}

/// Rows and columns of a program's tensors at images of a size, and batches, which are of one image where
/// nothing says more, as those are that somebody waits for.
class ImageSizes {
 public:
  explicit ImageSizes(const Func& program) : program_(program), dims_(dims_of(*program)) {
    for (const Var& dim : dims_) batch_.push_back(is_batch(dim));
  }

  /// Images are the smallest that deep layers, which see a fraction of them, still have some rows of.
  std::vector<DimValues> of_many_rows() const {
    constexpr int64_t kFewestRows = 8, kLargestImage = 1024;
    int64_t size = kTypicalDim;
    while (size < kLargestImage && extents(size).least < kFewestRows) size *= 2;
    return values(kAny.max, size);
  }

  /// Images of which the results have fewer rows and columns than a tile of transforms, whatever the batch;
  /// nothing where none are.
  std::optional<std::vector<DimValues>> of_few_rows() const {
    constexpr int64_t kMostRows = 3, kLargestImage = 1 << 16;
    int64_t size = 1;
    while (size <= kLargestImage && extents(2 * size).most_of_results <= kMostRows) size *= 2;
    // All are batches, or one row has them all: nothing tells images apart.
    if (size == 1 || size > kLargestImage) return std::nullopt;
    return values(size, size);
  }

 private:
  struct Extents {
    int64_t least = std::numeric_limits<int64_t>::max(), most_of_results = 0;
  };

  bool is_batch(const Var& dim) const {
    return std::all_of(program_->params.begin(), program_->params.end(), [&](const Buffer& param) {
      for (size_t d = 0; d < param->shape.size(); ++d)
        if (uses_var(param->shape[d], dim.get()) &&
            (d > 0 || param->shape.size() < 3 || !param->shape[d].same_as(dim.get())))
          return false;
      return true;
    });
  }

  std::vector<DimValues> values(int64_t most, int64_t typical) const {
    std::vector<DimValues> values(dims_.size(), kAny);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].typical = batch_[i] ? 1 : typical;
      if (!batch_[i]) values[i].max = most;
    }
    return values;
  }

  /// Of those that are open and no batches.
  Extents extents(int64_t size) const {
    std::vector<int64_t> numbers;
    for (bool batch : batch_) numbers.push_back(batch ? 1 : size);
    const Func sized = with_dims(program_, numbers);
    Extents result;
    const size_t count = program_->params.size();
    for (size_t p = 0; p < count; ++p)
      for (size_t d = 0; d < program_->params[p]->shape.size(); ++d) {
        // An extent that has no name has no number: the program is refused when it is lowered.
        const Expr& extent = program_->params[p]->shape[d];
        const int64_t* rows = as_int(sized->params[p]->shape[d]);
        if (as_int(extent) || is_one_of(dims_, batch_, extent) || !rows) continue;
        result.least = std::min(result.least, *rows);
        if (p + static_cast<size_t>(program_->outputs) >= count)
          result.most_of_results = std::max(result.most_of_results, *rows);
      }
    return result;
  }

  const Func& program_;
  const std::vector<Var> dims_;
  std::vector<bool> batch_;
};

/// A convolution that is computed another way where there are few rows: directly, and not by transforms,
/// whose tiles would be mostly padding and whose weights are several times as many. With strides the direct
/// way is chosen for larger images, too.
bool is_transformable(const Func& program) {
  const Func typical = at_typical_dims(program);
  const std::optional<Convolution> found = transformable_convolution(typical);
  if (!found) return false;
  const auto reduction = vector_reduction(found->block);
  return reduction && reduction->broadcasts() &&
         std::any_of(found->windows.begin(), found->windows.end(),
                     [](const Window& window) { return window.taps > 1; }) &&
         std::all_of(found->windows.begin(), found->windows.end(),
                     [](const Window& window) { return window.stride == 1; });
}

/// Of what is no product of matrices.
std::vector<Member> family_of_images(const Func& program) {
  const ImageSizes sizes(program);
  const Member any = member_of(program, sizes.of_many_rows());
  const auto few = sizes.of_few_rows();
  if (!few || !is_transformable(any.program)) return {any};
  return {member_of(program, *few), any};
}

Func with_typical(const Func& program, size_t dim, int64_t value) {
  auto copy = mutate(*program);
  copy->annotations[kTypicalKey + std::to_string(dim)] = value;
  return seal(std::move(copy));
}

/// One below, at and above multiples of vectors and register tiles, and less than any of these.
constexpr int64_t kEdges[] = {2, 7, 15, 16, 17, 33, 61};

double product_of(std::span<const int64_t> values) {
  return std::accumulate(values.begin(), values.end(), 1.0,
                         [](double product, int64_t value) { return product * static_cast<double>(value); });
}

/// Less of the other dimensions where one is large: the unscheduled program is to run at a size that is no
/// larger than the one that is measured.
void make_lighter(std::vector<int64_t>& values, std::span<const int64_t> typical) {
  constexpr double kLight = 4096;
  while (product_of(values) > std::max(product_of(typical), kLight)) {
    int64_t* most = nullptr;
    for (int64_t& value : values)
      if (value > kEdges[0] && std::find(std::begin(kEdges), std::end(kEdges), value) != std::end(kEdges) &&
          (!most || value > *most))
        most = &value;
    if (!most) return;
    *most = *(std::find(std::begin(kEdges), std::end(kEdges), *most) - 1);
  }
}

/// No buffer of the program has a negative extent for these.
bool has_shapes(const Func& program, std::span<const int64_t> values) {
  bool has = true;
  const Func bound = with_dims(program, values);
  for (const Buffer& param : bound->params)
    for (const Expr& extent : param->shape) has &= as_int(extent) && *as_int(extent) >= 0;
  return has;
}
}  // namespace

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

Func program_at(const Func& program, std::span<const int64_t> values) {
  std::vector<DimValues> dims;
  for (int64_t value : values) dims.push_back(value == 1 ? kOne : DimValues{0, kAny.max, value});
  return member_of(program, dims).program;
}

std::vector<int64_t> typical_dims(const Func& program) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < dims_of(*program).size(); ++i) {
    auto found = program->annotations.find(kTypicalKey + std::to_string(i));
    values.push_back(found == program->annotations.end() ? kTypicalDim : found->second);
  }
  return values;
}

Func for_typical_dims(const Func& program, std::span<const int64_t> values) {
  auto copy = mutate(*with_dims(program, values));
  copy->annotations[kStandsInKey] = 1;
  return seal(std::move(copy));
}

Func at_typical_dims(const Func& program) {
  const std::vector<int64_t> values = typical_dims(program);
  return values.empty() ? program : for_typical_dims(program, values);
}

bool is_for_typical_dims(const FuncNode& program) { return program.annotations.count(kStandsInKey) != 0; }

Func without_typical_dims(const Func& program) {
  auto copy = mutate(*program);
  std::erase_if(copy->annotations, [](const auto& each) { return each.first.starts_with(kTypicalKey); });
  return copy->annotations.size() == program->annotations.size() ? program : seal(std::move(copy));
}

std::vector<std::vector<int64_t>> checked_dims(const Func& program) {
  const std::vector<int64_t> typical = typical_dims(program);
  std::vector<std::vector<int64_t>> checked;
  if (typical.empty()) return checked;
  constexpr size_t kCount = std::size(kEdges) + 2;
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<int64_t> values;
    for (size_t d = 0; d < typical.size(); ++d) {
      // Each dimension begins elsewhere: not all of them are at the same place of a tile.
      const size_t at = (i + 2 * d) % kCount;
      values.push_back(at < std::size(kEdges) ? kEdges[at]
                                              : std::max<int64_t>(typical[d] + (at % 2 == 0 ? 1 : -1), 1));
    }
    make_lighter(values, typical);
    if (values != typical && has_shapes(program, values)) checked.push_back(std::move(values));
  }
  return checked;
}

std::vector<Member> family_of(const Func& program) {
  const size_t count = dims_of(*program).size();
  if (count == 0) return {member_of(program, {})};
  if (count > kMostDims || !is_product(program)) return family_of_images(join_open_dims(program));
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
