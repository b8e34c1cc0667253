// At which sizes of images a program with open dimensions has few rows, or many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/tir/dims.h"
#include "schedules/family.h"

namespace lathe::schedule {

/// Rows and columns of a program's tensors at images of a size, and batches, which are of one image where
/// nothing says more, as those are that somebody waits for.
class ImageSizes {
 public:
  explicit ImageSizes(const tir::Func& program) : program_(program), dims_(dims_of(*program)) {
    for (const Var& dim : dims_) batch_.push_back(is_batch(dim));
  }

  /// Images are the smallest of the usual sizes that deep layers, which see a fraction of them, still have
  /// some rows of.
  std::vector<DimValues> of_many_rows() const;

  /// Images of which the results have fewer rows and columns than a tile of transforms, whatever the batch;
  /// nothing where none are.
  std::optional<std::vector<DimValues>> of_few_rows(int64_t most_rows) const;

  /// Images of few rows and columns, wherever the kernel sees them: those that have the same ones are one.
  std::vector<std::vector<DimValues>> small() const;

  /// Images of one row, or of one column, of few results.
  std::vector<std::vector<DimValues>> narrow() const;

  const std::vector<bool>& batches() const { return batch_; }
  /// How many dimensions are those of images.
  int64_t images() const { return std::count(batch_.begin(), batch_.end(), false); }

 private:
  /// What is small of one direction, of images of two, and how many sizes of these at most. Each is compiled.
  static constexpr int64_t kMostRowsAlone = 3, kMostRows = 2;
  static constexpr size_t kMostSmall = 3;

  struct Rows {
    std::vector<int64_t> extents;
    int64_t least = 0, most = 0;
  };
  struct Extents {
    int64_t least = std::numeric_limits<int64_t>::max(), most_of_results = 0;
  };

  bool is_batch(const Var& dim) const;

  std::vector<DimValues> values(DimValues image) const;

  /// Sizes of images, or of their dimension `along`, at which the kernel sees as many rows, 1 to `most_rows`.
  std::vector<DimValues> alike(std::optional<size_t> along, int64_t most_rows) const;

  /// Of images of a size: the extents that several sizes have in common, and those of results.
  Rows rows(int64_t size, std::optional<size_t> along) const;
  static constexpr int64_t kFar = 1 << 16;

  /// Nothing where it depends on other dimensions than `along`.
  std::optional<int64_t> at(const Expr& extent, int64_t size, std::optional<size_t> along) const;

  /// Of those that are open and no batches.
  Extents extents(int64_t size) const;

  const tir::Func& program_;
  const std::vector<Var> dims_;
  std::vector<bool> batch_;
};

}  // namespace lathe::schedule
