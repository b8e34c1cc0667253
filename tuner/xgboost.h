// Gradient-boosted trees with gradients of our own. Its .cpp is the only file that calls XGBoost.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tuner/forest.h"

namespace lathe::tuner {

/// Rows of numbers, all of one width, row after row.
class TreeRows {
 public:
  /// REQUIRES: values.size() is a multiple of width; at least one row.
  TreeRows(std::span<const float> values, size_t width, int threads);
  ~TreeRows();
  TreeRows(const TreeRows&) = delete;
  TreeRows& operator=(const TreeRows&) = delete;

  size_t size() const { return size_; }

 private:
  friend class Trees;
  void* handle_ = nullptr;
  size_t size_, width_;
};

struct TreeOptions {
  int depth = 5;
  double learning_rate = 0.2;
  int threads = 1;
  uint64_t seed = 0;
};

/// The sum of regression trees. Deterministic for given options and data.
class Trees {
 public:
  explicit Trees(const TreeOptions& options);
  ~Trees();
  Trees(Trees&& other) noexcept;
  Trees& operator=(Trees&& other) noexcept;

  /// Grows one tree that lowers a loss with these derivatives, one pair a row.
  void grow(const TreeRows& rows, std::vector<float> gradients, std::vector<float> hessians);
  /// One value a row; 0 before the first tree.
  std::vector<float> predict(const TreeRows& rows) const;

  /// The same trees without XGBoost, for keeping. REQUIRES: grown.
  Forest forest() const;

 private:
  void* handle_ = nullptr;
  bool grown_ = false;
};

}  // namespace lathe::tuner
