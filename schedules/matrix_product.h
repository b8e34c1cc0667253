// Recognising matrix products by their structure: what an algorithm with fewer multiplications needs to know.
#pragma once

#include <vector>

#include "core/tir/stmt.h"
#include "schedules/convolution.h"

namespace lathe::schedule {

/// out[.., row, .., column] = sum over `depth` of data * weight, where the row and all other variables of the
/// output index the data alone, in whatever layout, and the column the weight alone.
struct MatrixProduct : SumOfProducts {
  Var row, column, depth;  // the block's variables
  int64_t rows = 0, columns = 0, depths = 0;
  size_t out_row = 0;                         // dimension of the output
  std::vector<const tir::BlockIter*> others;  // of the output, those of one value apart
};

/// The rows are the variable with the most values, of an even number where there is one. Throws Error saying
/// in what `block` is no matrix product. REQUIRES: constant extents.
MatrixProduct matrix_product_of(const Ref<tir::Block>& block);

}  // namespace lathe::schedule
