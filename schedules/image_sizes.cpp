#include "schedules/image_sizes.h"

#include <utility>

#include "core/arith/simplify.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// No other dimensions are in the extent than `chosen` says: the frames of clips are (d + 1) // 2 * n images.
bool is_of(const std::vector<Var>& dims, const std::vector<bool>& chosen, const Expr& extent) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (!chosen[i] && uses_var(extent, dims[i].get())) return false;
  return true;
}

}  // namespace

std::vector<DimValues> ImageSizes::of_many_rows() const {
  constexpr int64_t kFewestRows = 8, kLargestImage = 1024;
  int64_t size = kTypicalImage;
  while (size < kLargestImage && extents(size).least < kFewestRows) size *= 2;
  return values({.typical = size});
}

std::optional<std::vector<DimValues>> ImageSizes::of_few_rows(int64_t most_rows) const {
  constexpr int64_t kLargestImage = 1 << 16;
  auto is_few = [&](int64_t size) { return extents(size).most_of_results <= most_rows; };
  int64_t size = 1;
  while (size <= kLargestImage && is_few(2 * size)) size *= 2;
  // All are batches, or one row has them all: nothing tells images apart.
  if (!is_few(size) || size > kLargestImage) return std::nullopt;
  for (int64_t step = size / 2; step > 0; step /= 2)
    if (is_few(size + step)) size += step;
  // Rows that come in fours, say, are none or too many.
  if (extents(size).most_of_results == 0) return std::nullopt;
  return values({.max = size, .typical = size});
}

std::vector<std::vector<DimValues>> ImageSizes::small() const {
  std::vector<std::vector<DimValues>> found;
  if (images() == 0) return found;
  for (DimValues image : alike(std::nullopt, images() == 1 ? kMostRowsAlone : kMostRows))
    found.push_back(values(image));
  return found;
}

std::vector<std::vector<DimValues>> ImageSizes::narrow() const {
  constexpr int64_t kMostResults = 8;
  std::vector<std::vector<DimValues>> found;
  const auto few = of_few_rows(kMostResults);
  for (size_t d = 0; d < dims_.size() && few && images() > 1; ++d) {
    if (batch_[d]) continue;
    for (DimValues line : alike(d, 1)) found.push_back(*few), found.back()[d] = line;
  }
  return found;
}

bool ImageSizes::is_batch(const Var& dim) const {
  return std::all_of(program_->params.begin(), program_->params.end(), [&](const Buffer& param) {
    for (size_t d = 0; d < param->shape.size(); ++d)
      if (uses_var(param->shape[d], dim.get()) && (d > 0 || param->shape.size() < 3)) return false;
    return true;
  });
}

std::vector<DimValues> ImageSizes::values(DimValues image) const {
  std::vector<DimValues> values(dims_.size(), DimValues{.typical = 1});
  for (size_t i = 0; i < values.size(); ++i)
    if (!batch_[i]) values[i] = image;
  return values;
}

std::vector<DimValues> ImageSizes::alike(std::optional<size_t> along, int64_t most_rows) const {
  constexpr int64_t kLargestImage = 1 << 10;
  std::vector<DimValues> found;
  Rows before;
  for (int64_t size = 1, first = 1; size <= kLargestImage && before.most <= most_rows; ++size) {
    Rows now = rows(size, along);
    if (now.extents == before.extents && size > 1) continue;
    if (before.least >= 1 && found.size() < kMostSmall)
      found.push_back({.min = first, .max = size - 1, .typical = size - 1});
    first = size;
    before = std::move(now);
  }
  return found;
}

ImageSizes::Rows ImageSizes::rows(int64_t size, std::optional<size_t> along) const {
  Rows result{.least = std::numeric_limits<int64_t>::max()};
  const size_t count = program_->params.size();
  for (size_t p = 0; p < count; ++p)
    for (const Expr& extent : program_->params[p]->shape) {
      if (as_int(extent) || is_of(dims_, batch_, extent)) continue;
      if (along && !uses_var(extent, dims_[*along].get())) continue;
      const bool is_result = p + static_cast<size_t>(program_->outputs) >= count;
      const std::optional<int64_t> now = at(extent, size, along);
      if (!now || (!is_result && at(extent, kFar, along) != at(extent, kFar + 1, along))) continue;
      result.extents.push_back(*now);
      result.least = std::min(result.least, *now);
      result.most = std::max(result.most, *now);
    }
  return result;
}

std::optional<int64_t> ImageSizes::at(const Expr& extent, int64_t size, std::optional<size_t> along) const {
  VarMap numbers;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (!along || i == *along) numbers[dims_[i].get()] = Expr(batch_[i] ? 1 : size);
  const Expr value = simplify(substitute(extent, numbers));
  const int64_t* number = as_int(value);
  return number ? std::optional(*number) : std::nullopt;
}

ImageSizes::Extents ImageSizes::extents(int64_t size) const {
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
      if (as_int(extent) || is_of(dims_, batch_, extent) || !rows) continue;
      result.least = std::min(result.least, *rows);
      if (p + static_cast<size_t>(program_->outputs) >= count)
        result.most_of_results = std::max(result.most_of_results, *rows);
    }
  return result;
}

}  // namespace lathe::schedule
