#include "schedules/family.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "core/arith/simplify.h"
#include "core/tir/dims.h"
#include "core/tir/join_dims.h"
#include "schedules/anatomy.h"
#include "schedules/crop_sums.h"
#include "schedules/image_sizes.h"
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

namespace {
constexpr DimValues kOne{1, 1, 1}, kFew{2, 4, 4}, kAny{0, std::numeric_limits<int64_t>::max(), kTypicalDim};

/// Members are compiled one by one: of more dimensions than this only ones are told apart.
constexpr size_t kMostGraded = 2;
/// And of more than this nothing.
constexpr size_t kMostDims = 3;

/// And of values that were given no more are cut apart.
constexpr size_t kMostGiven = 4;
/// Of small images, which a register tile has several of.
constexpr DimValues kFewImages{2, 4, 2}, kManyImages{.typical = 8};

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

/// How many rows of results are few for a convolution that transforms of tiles compute.
struct FewRows {
  /// Up to so many it is computed directly: tiles would be mostly padding, and their weights are several
  /// times as many. With strides transforms save less.
  int64_t direct = 0;
  /// Up to so many tiles are smaller ones, with fewer weights, where these are what takes the time; else 0.
  int64_t in_small_tiles = 0;
};

/// Nothing where it is not transformed anyway.
std::optional<FewRows> rows_in_other_ways(const Func& program) {
  constexpr int64_t kHeavy = 1 << 18, kFewTiles = 18;
  const Func typical = at_typical_dims(program);
  const std::optional<Convolution> found = transformable_convolution(typical);
  if (!found) return std::nullopt;
  const auto reduction = vector_reduction(found->block);
  const bool has_taps = std::any_of(found->windows.begin(), found->windows.end(),
                                    [](const Window& window) { return window.taps > 1; });
  if (!reduction || !reduction->broadcasts() || !has_taps) return std::nullopt;
  FewRows few{.direct = 3};
  double weights = 1;
  for (const Expr& extent : found->weight->buffer->shape) weights *= static_cast<double>(int_value(extent));
  if (weights >= kHeavy) few.in_small_tiles = kFewTiles;
  for (const Window& window : found->windows) {
    if (window.stride > 1) few.direct = 4;
    // It is made for as few anyway.
    if (int_value(window.positions) <= 2 * kFewTiles) few.in_small_tiles = 0;
  }
  return few;
}

/// The dominant reduction sums products over a window, if only of one element.
bool is_convolution(const Func& program) {
  const std::vector<int64_t> many(dims_of(*program).size(), kTypicalDim);
  const Ref<Block> block = dominant_reduction(with_dims(program, many));
  return block && block->reads.size() > 1 && reads_windows(*block);
}

/// What a member is to be for, and how its program comes about.
struct Grade {
  std::vector<DimValues> dims;
  /// Sizes that its dimensions agree in are numbers, and it leaves out what sees padding.
  bool is_small = false;
  /// Rows and columns are one, since nothing tells them apart then.
  bool is_joined = false;
  /// It knows how much its dimensions are at most.
  bool has_short_rows = false;
};

Func cropped(const Func& program, const std::vector<DimValues>& values);

/// Images so small that the kernel, whose elements are far apart, sees one of them at a time: padding is most
/// of what it would multiply. Nothing where it sees more all the same.
std::optional<Grade> grade_of_single_taps(const Func& program, const ImageSizes& sizes) {
  const std::vector<int64_t> many(dims_of(*program).size(), kTypicalDim);
  const int64_t dilation = least_dilation(*dominant_reduction(with_dims(program, many)));
  const auto few = dilation >= kFarApart ? sizes.of_few_rows(dilation) : std::nullopt;
  if (!few) return std::nullopt;
  if (cropped(program, *few) == program) return std::nullopt;
  return Grade{.dims = *few, .is_small = true, .is_joined = true};
}

/// A dimension whose values are the elements of rows that are added up (or of which the largest is sought):
/// the last index of what is read is one of the reduction, of which there are `more` than of the dimension.
struct Rows {
  size_t dim;
  int64_t more;
};

std::optional<Rows> rows_of(const Func& program) {
  const std::vector<Var> dims = dims_of(*program);
  for (const Ref<Block>& block : all_blocks(program)) {
    const Store* store = block->body.as<Store>();
    if (!store || !is_reduction(*block)) continue;
    for (const Ref<Load>& load : loads_of(store->value))
      for (const BlockIter& iter : block->iters) {
        if (iter.kind != IterKind::kReduce || load->indices.empty() ||
            !load->indices.back().same_as(iter.var.get()))
          continue;
        for (size_t d = 0; d < dims.size(); ++d) {
          const Expr more = simplify(iter.extent - dims[d]);
          if (as_int(more) && int_value(more) >= 0) return Rows{d, int_value(more)};
        }
      }
  }
  return std::nullopt;
}

/// Rows that registers hold from one pass over them to the next: of a vector, and of a few.
std::vector<Grade> grades_of_short_rows(const Func& program, const std::vector<DimValues>& any) {
  const std::optional<Rows> rows = rows_of(program);
  std::vector<Grade> grades;
  for (int64_t elements : {16, 64}) {
    if (!rows || rows->more >= elements) continue;
    Grade grade{.dims = any, .has_short_rows = true};
    const int64_t most = elements - rows->more;
    grade.dims[rows->dim] = {.min = 1, .max = most, .typical = most};
    grades.push_back(std::move(grade));
  }
  return grades;
}

/// Single elements where others have rows or images to add up, with the dimensions that say so as numbers:
/// what is left of the program has no loops but those over results.
std::vector<Grade> grades_of_single_elements(const Func& program, const std::vector<DimValues>& any) {
  const std::vector<Var> dims = dims_of(*program);
  std::vector<Grade> grades;
  for (const Ref<Block>& block : all_blocks(program))
    for (const BlockIter& iter : block->iters) {
      if (iter.kind != IterKind::kReduce) continue;
      Grade grade{.dims = any};
      VarMap ones;
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!uses_var(iter.extent, dims[d].get())) continue;
        grade.dims[d] = kOne;
        ones[dims[d].get()] = Expr(1);
      }
      const auto same = [&](const Grade& other) { return other.dims == grade.dims; };
      if (!ones.empty() && is_int(simplify(substitute(iter.extent, ones)), 1) &&
          std::none_of(grades.begin(), grades.end(), same))
        grades.push_back(std::move(grade));
    }
  return grades;
}

/// Values of the dimensions of `from` in the order in which `to`, the same program over other shapes, has
/// them: joined dimensions are a product, whose simplest form may begin with another.
std::vector<DimValues> reordered(const std::vector<DimValues>& dims, const Func& from, const Func& to) {
  const std::vector<Var> before = dims_of(*from);
  std::vector<DimValues> result;
  for (const Var& dim : dims_of(*to))
    result.push_back(
        dims.at(static_cast<size_t>(std::find(before.begin(), before.end(), dim) - before.begin())));
  return result;
}

/// Of what is no product of matrices.
std::vector<Grade> image_grades(const Func& program, const Func& joined) {
  std::vector<Grade> grades;
  if (is_convolution(program)) {
    const ImageSizes sizes(program);
    const std::vector<bool>& batches = sizes.batches();
    const bool has_batch = std::find(batches.begin(), batches.end(), true) != batches.end();
    for (const std::vector<DimValues>& image : sizes.small())
      for (DimValues batch : {kOne, kFewImages, kManyImages}) {
        // Images of two directions are many kinds already.
        if (sizes.images() > 1 && batch == kFewImages) continue;
        Grade grade{.dims = image, .is_small = true};
        for (size_t i = 0; i < batches.size(); ++i)
          if (batches[i]) grade.dims[i] = batch;
        grades.push_back(std::move(grade));
        if (!has_batch) break;
      }
    if (auto single = grade_of_single_taps(program, sizes)) grades.push_back(std::move(*single));
  }
  const auto first_joined = static_cast<int64_t>(grades.size());
  const ImageSizes sizes(joined);
  const std::vector<DimValues> any = sizes.of_many_rows();
  // Images of one direction that have few rows are all small.
  if (const auto rows = rows_in_other_ways(member_of(joined, any).program); rows && sizes.images() > 1) {
    for (const std::vector<DimValues>& line : sizes.narrow())
      grades.push_back({.dims = line, .is_small = true});
    for (int64_t most : {rows->direct, rows->in_small_tiles})
      if (const auto few = most > 0 ? sizes.of_few_rows(most) : std::nullopt)
        grades.push_back({.dims = *few});
  }
  if (!is_convolution(program) && !is_product(program)) {
    for (Grade& grade : grades_of_single_elements(joined, any)) grades.push_back(std::move(grade));
    for (Grade& grade : grades_of_short_rows(joined, any)) grades.push_back(std::move(grade));
  }
  grades.push_back({.dims = any});
  std::for_each(grades.begin() + first_joined, grades.end(),
                [&](Grade& grade) { grade.dims = reordered(grade.dims, joined, program); });
  return grades;
}

/// Which dimensions count products alone, as those of all heads: each goes on by itself, however many there
/// are.
std::vector<bool> counts_of_products(const Func& program) {
  const std::vector<Var> dims = dims_of(*program);
  const Ref<Block> product =
      dominant_reduction(with_dims(program, std::vector<int64_t>(dims.size(), kTypicalDim)));
  std::vector<bool> counts(dims.size());
  for (const Ref<Block>& block : all_blocks(program)) {
    const Store* store = block->body.as<Store>();
    if (!product || !store || block->name != product->name) continue;
    auto is_in_all = [&](const BlockIter& iter) {
      const std::vector<Ref<Load>> loads = loads_of(store->value);
      return iter.kind == IterKind::kSpatial &&
             std::all_of(loads.begin(), loads.end(), [&](const Ref<Load>& load) {
               return std::any_of(load->indices.begin(), load->indices.end(),
                                  [&](const Expr& index) { return uses_var(index, iter.var.get()); });
             });
    };
    for (size_t d = 0; d < dims.size(); ++d) {
      bool found = false, others = false;
      for (const BlockIter& iter : block->iters)
        if (uses_var(iter.extent, dims[d].get())) (is_in_all(iter) ? found : others) = true;
      counts[d] = found && !others;
    }
  }
  return counts;
}

/// All combinations, the last dimension fastest: narrower values before wider ones in each.
std::vector<Grade> product_grades(const Func& program) {
  const std::vector<bool> counts = counts_of_products(program);
  const std::vector<DimValues> graded =
      counts.size() > kMostGraded ? std::vector{kOne, kAny} : std::vector{kOne, kFew, kAny};
  std::vector<std::vector<DimValues>> values;
  for (bool is_count : counts) values.push_back(is_count ? std::vector{kAny} : graded);
  std::vector<Grade> grades;
  std::vector<size_t> digits(counts.size());
  for (;;) {
    Grade& grade = grades.emplace_back();
    for (size_t d = 0; d < digits.size(); ++d) grade.dims.push_back(values[d][digits[d]]);
    size_t last = digits.size();
    while (last > 0 && ++digits[last - 1] == values[last - 1].size()) digits[--last] = 0;
    if (last == 0) return grades;
  }
}

bool contains(const std::vector<DimValues>& dims, std::span<const int64_t> values) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (values[i] < dims[i].min || values[i] > dims[i].max) return false;
  return true;
}

/// Some call may have these.
bool may_occur(const std::vector<DimValues>& dims, const KnownDims& known) {
  for (size_t i = 0; i < dims.size() && !known.most.empty(); ++i)
    if (dims[i].max < known.least[i] || dims[i].min > known.most[i]) return false;
  return true;
}

/// The values that calls of the member have, from small to large, each in no dimension below the one before.
std::vector<std::pair<std::vector<int64_t>, double>> values_within(const std::vector<DimValues>& dims,
                                                                   const KnownDims& known) {
  std::vector<std::pair<std::vector<int64_t>, double>> inside, chain;
  for (const auto& each : known.weights)
    if (contains(dims, each.first)) inside.push_back(each);
  std::stable_sort(inside.begin(), inside.end(),
                   [](const auto& a, const auto& b) { return product_of(a.first) < product_of(b.first); });
  for (const auto& each : inside) {
    bool grows = true;
    for (size_t i = 0; i < dims.size() && !chain.empty(); ++i)
      grows &= each.first[i] >= chain.back().first[i];
    if (grows) chain.push_back(each);
  }
  return chain;
}

/// The last grade, which has all values, as one for each of the values that were given, up to the mean of its
/// own and the next, by ratio. Those that come to the same schedule are one kernel.
std::vector<Grade> cut_at_values(const Grade& all, const KnownDims& known) {
  auto values = values_within(all.dims, known);
  while (values.size() > kMostGiven)
    values.erase(std::min_element(values.begin(), values.end(),
                                  [](const auto& a, const auto& b) { return a.second < b.second; }));
  std::vector<Grade> grades;
  for (size_t v = 0; v < values.size(); ++v) {
    Grade& grade = grades.emplace_back(all);
    for (size_t i = 0; i < grade.dims.size(); ++i) {
      const int64_t value = values[v].first[i];
      grade.dims[i].typical = value;
      if (v + 1 == values.size() || value == values[v + 1].first[i]) continue;
      const double mean = std::sqrt(static_cast<double>(value) * static_cast<double>(values[v + 1].first[i]));
      grade.dims[i].max = std::max(static_cast<int64_t>(mean), value);
    }
  }
  return grades.empty() ? std::vector{all} : grades;
}

/// Made for values that calls have: the most frequent of those that were given, else as near to the typical
/// one as the bounds allow.
void fit_typical(std::vector<DimValues>& dims, const KnownDims& known) {
  const auto values = values_within(dims, known);
  if (!values.empty()) {
    const auto most = std::max_element(values.begin(), values.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    for (size_t i = 0; i < dims.size(); ++i) dims[i].typical = most->first[i];
    return;
  }
  for (size_t i = 0; i < dims.size() && !known.most.empty(); ++i)
    dims[i].typical =
        std::clamp(dims[i].typical, std::max(known.least[i], dims[i].min),
                   std::max({std::min(known.most[i], dims[i].max), known.least[i], dims[i].min}));
}

/// `part` of the program, in which some of the dimensions are numbers, made for these values; `bounded`: it
/// knows how much they are at most.
Func made_for(Func part, const Func& program, const std::vector<DimValues>& dims, bool bounded = false) {
  const std::vector<Var> all = dims_of(*program), open = dims_of(*part);
  for (size_t left = 0; left < open.size(); ++left) {  // those that stay are numbered anew
    const DimValues& values =
        dims.at(static_cast<size_t>(std::find(all.begin(), all.end(), open[left]) - all.begin()));
    if (values.typical != kTypicalDim) part = with_typical(part, left, values.typical);
    if (bounded && values.min >= 1 && values.max != kAny.max) part = with_most(part, left, values.max);
  }
  return part;
}

/// The program in which dimensions of one value are numbers.
Func with_numbers(const Func& program, const std::vector<DimValues>& dims) {
  std::vector<int64_t> numbers;
  for (const DimValues& each : dims) numbers.push_back(each.is_number() ? each.min : kStaysOpen);
  return with_dims(program, numbers);
}

/// The program of these values alone, without the sums' terms that are nothing for all of them.
Func cropped(const Func& program, const std::vector<DimValues>& values) {
  const std::vector<Var> dims = dims_of(*program);
  std::vector<Bound> bounds;
  Analyzer known;
  for (size_t i = 0; i < dims.size(); ++i) {
    bounds.push_back({values[i].min, values[i].max});
    known.bind(dims[i], bounds.back());
  }
  return crop_sums(with_dims_within(program, bounds), known);
}

Member small_member(const Func& program, const Grade& grade) {
  const Func small = cropped(program, grade.dims);
  return {grade.dims, made_for(grade.is_joined ? join_open_dims(small) : small, program, grade.dims), true};
}

Member bounded_member(const Func& program, const std::vector<DimValues>& dims) {
  return {dims, made_for(with_numbers(program, dims), program, dims, true), true};
}

/// There is something to schedule for what the grade is made for. What has no number is refused when it is
/// lowered.
bool has_elements(const Func& program, const Grade& grade) {
  std::vector<int64_t> values;
  for (const DimValues& each : grade.dims) values.push_back(each.typical);
  return least_extent(program, values).value_or(1) >= 1;
}

/// Made for larger values, where a program needs more than the usual ones (an image that windows without
/// padding make smaller, say) and nobody said which.
void grow_typical(const Func& program, Grade& grade) {
  constexpr int64_t kMost = 1 << 14;
  const Grade before = grade;
  for (int64_t times = 2; !has_elements(program, grade); times *= 2) {
    if (times * kTypicalDim > kMost) return void(grade = before);
    for (size_t i = 0; i < grade.dims.size(); ++i)
      if (!grade.dims[i].is_number())
        grade.dims[i].typical = std::min(times * before.dims[i].typical, grade.dims[i].max);
  }
}
}  // namespace

bool is_product(const Func& program) {
  const std::vector<int64_t> many(dims_of(*program).size(), kTypicalDim);
  Ref<Block> block = dominant_reduction(with_dims(program, many));
  if (!block || reads_windows(*block)) return false;
  auto reduction = vector_reduction(block);
  // Not vectorized as it stands, but perhaps once its operands are packed: all sums of products count.
  if (reduction) return reduction->broadcasts();
  const auto written = block->writes.at(0).buffer;
  return std::count_if(block->reads.begin(), block->reads.end(),
                       [&](const Region& read) { return read.buffer != written; }) >= 2;
}

Member member_of(const Func& program, const std::vector<DimValues>& dims) {
  return {dims, made_for(with_numbers(program, dims), program, dims)};
}

std::vector<bool> image_dims(const Func& program) {
  std::vector<bool> found(dims_of(*program).size());
  if (found.empty() || !is_convolution(program)) return found;
  if (const ImageSizes sizes(program); sizes.images() > 1) {
    found = sizes.batches();
    found.flip();
  }
  return found;
}

Func program_at(const Func& program, std::span<const int64_t> values) {
  std::vector<DimValues> dims;
  for (int64_t value : values) dims.push_back(value == 1 ? kOne : DimValues{0, kAny.max, value});
  return member_of(program, dims).program;
}

std::vector<Member> family_of(const Func& program) { return family_within(program, {}); }

std::vector<Member> family_within(const Func& program, const KnownDims& known) {
  const size_t count = dims_of(*program).size();
  if (count == 0) return {member_of(program, {})};
  const bool is_image = count > kMostDims || !is_product(program);
  const Func base = join_open_dims(program);
  std::vector<Grade> grades = is_image ? image_grades(program, base) : product_grades(program);
  const Grade all = std::move(grades.back());
  grades.pop_back();
  KnownDims left = known;  // that the others do not have
  std::erase_if(left.weights, [&](const auto& each) {
    return std::any_of(grades.begin(), grades.end(),
                       [&](const Grade& grade) { return contains(grade.dims, each.first); });
  });
  std::vector<Grade> last = cut_at_values(all, left);
  std::erase_if(grades, [&](const Grade& grade) { return !may_occur(grade.dims, known); });
  for (Grade& grade : grades) fit_typical(grade.dims, known);
  std::erase_if(grades, [&](const Grade& grade) { return !has_elements(program, grade); });
  if (left.weights.empty()) {
    fit_typical(last.back().dims, left);
    grow_typical(program, last.back());
  }
  grades.insert(grades.end(), last.begin(), last.end());
  std::vector<Member> family;
  for (const Grade& grade : grades) {
    if (grade.is_small) {
      family.push_back(small_member(program, grade));
      continue;
    }
    const std::vector<DimValues> dims = reordered(grade.dims, program, base);
    family.push_back(grade.has_short_rows ? bounded_member(base, dims) : member_of(base, dims));
    family.back().dims = grade.dims;
  }
  return family;
}

}  // namespace lathe::schedule
