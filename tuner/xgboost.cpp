#include "tuner/xgboost.h"

#include <xgboost/c_api.h>

#include <limits>
#include <utility>

#include "core/support/error.h"

namespace lathe::tuner {

namespace {
void check(int status) { CHECK(status == 0, "xgboost: {}", XGBGetLastError()); }
}  // namespace

TreeRows::TreeRows(std::span<const float> values, size_t width, int threads)
    : size_(width ? values.size() / width : 0), width_(width) {
  CHECK(size_ > 0 && values.size() == size_ * width, "{} values in rows of {}", values.size(), width);
  // NaN stands for a missing value.
  check(XGDMatrixCreateFromMat_omp(values.data(), size_, width, std::numeric_limits<float>::quiet_NaN(),
                                   &handle_, threads));
}

TreeRows::~TreeRows() { XGDMatrixFree(handle_); }

Trees::Trees(const TreeOptions& options) {
  check(XGBoosterCreate(nullptr, 0, &handle_));
  const std::pair<const char*, std::string> parameters[] = {
      {"verbosity", "0"},
      {"objective", "reg:squarederror"},  // unused: gradients are ours
      {"base_score", "0"},
      // Binned once (TreeRows), where exact splits look at every value of every column for each node.
      {"tree_method", "hist"},
      {"max_bin", "64"},
      // It is a bound on sums of second derivatives, which are tiny here.
      {"min_child_weight", "0"},
      {"lambda", "0.1"},
      {"max_depth", std::to_string(options.depth)},
      {"eta", fmt::format("{}", options.learning_rate)},
      {"nthread", std::to_string(options.threads)},
      {"seed", std::to_string(options.seed & 0x7fffffff)},
  };
  for (const auto& [name, value] : parameters) check(XGBoosterSetParam(handle_, name, value.c_str()));
}

Trees::~Trees() {
  if (handle_) XGBoosterFree(handle_);
}

Trees::Trees(Trees&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), grown_(other.grown_) {}
/// Swaps, so that what this one held is freed with `other`.
Trees& Trees::operator=(Trees&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(grown_, other.grown_);
  return *this;
}

void Trees::grow(const TreeRows& rows, std::vector<float> gradients, std::vector<float> hessians) {
  CHECK(gradients.size() == rows.size() && hessians.size() == rows.size());
  // A booster that was made without data does not know the width of its rows.
  // Zero features, it would say.
  if (!grown_) check(XGBoosterSetParam(handle_, "num_feature", std::to_string(rows.width_).c_str()));
  check(XGBoosterBoostOneIter(handle_, rows.handle_, gradients.data(), hessians.data(), gradients.size()));
  grown_ = true;
}

std::vector<float> Trees::predict(const TreeRows& rows) const {
  if (!grown_) return std::vector<float>(rows.size());
  // Type 1 is the margin, the plain sum of the trees; both iterations 0 are all of them.
  constexpr char kMargins[] =
      R"({"type": 1, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false})";
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* result = nullptr;
  check(XGBoosterPredictFromDMatrix(handle_, rows.handle_, kMargins, &shape, &dimensions, &result));
  // XGBoost owns `result` until the next call.
  return std::vector<float>(result, result + rows.size());
}

/// By way of JSON, whose fields XGBoost documents; `bytes` is XGBoost's until the next call.
Forest Trees::forest() const {
  CHECK(grown_);
  bst_ulong size = 0;
  const char* bytes = nullptr;
  check(XGBoosterSaveModelToBuffer(handle_, R"({"format": "json"})", &size, &bytes));
  return Forest::of_xgboost(std::string(bytes, size));
}

}  // namespace lathe::tuner
