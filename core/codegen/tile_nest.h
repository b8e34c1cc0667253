// Loops that compute a matrix product of which both operands lie in memory as tile registers take them.
#pragma once

#include <optional>

#include "core/codegen/dot_product.h"

namespace lathe::codegen {

/// Serial loops, each all that the one before does, that add dot products (dot_product.h) to a matrix of
/// vectors of 16 sums: sums[row, column] += x[row, k] . y[k, column], k along groups of `dot.terms`
/// neighbours. A group of x has four bytes and the next lies behind it; one of y has a vector of them, in as
/// many bytes as the vector has, and all are equally far apart.
struct TileNest {
  std::vector<const tir::For*> loops;  // outermost first, without the one below
  const tir::For* along_k = nullptr;   // takes its steps along k, all of them; null: there is none
  DotProduct dot;                      // of the first row and column, in the first step
  tir::Buffer sums;
  DataType sum;                // of an element
  std::vector<int64_t> slots;  // where the vectors of `sums` begin, row by row
  size_t rows = 0;
  int64_t row_stride = 0;        // elements of x from one row to the next
  std::vector<int64_t> columns;  // elements of y from the first column to each
  int64_t groups = 0;            // along k
  int64_t group_stride = 0;      // elements of y from one group to the next
};

/// Null where `loop` is not the outermost of such a nest. Its loops and loads are those of the program, which
/// lives on.
std::optional<TileNest> tile_nest_of(const tir::For& loop);

}  // namespace lathe::codegen
