// Stretches of tensors whose dimensions are known when they run.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "core/relay/expr.h"

namespace lathe::program {

/// Whether all tensors of the type, tuples taken apart, have shapes of numbers.
bool is_static(const relay::Type& type);
/// Whether the type is of tensors alone, or tuples of them.
bool holds_tensors(const relay::Type& type);

/// A stretch, or two of it for two cases of a dimension. Where two dimensions meet in a broadcast, what the
/// operator is depends on which of them are 1.
struct StretchCases {
  Ref<relay::Function> function;  // of one; null: of two, or of none
  // Why there is none: the types of the stretch cannot hold in this case.
  std::exception_ptr wrong;
  // The dimension that is asked about: of a parameter's tensor, at a place of its tuples; and of which size
  // it makes the broadcast's one 1.
  size_t param = 0;
  std::vector<int64_t> items;
  int64_t axis = 0;
  int64_t size = 1;
  std::unique_ptr<StretchCases> is_size, is_not;
};

/// The stretch, typed anew: each of its dimensions stands by itself in the shape of a parameter, where a call
/// reads it. So what `?` was has a name inside, and what the program around knows of dimensions stays out,
/// but for which of them are equal. Of two cases one at least is there. Throws PlacedError for a result whose
/// shape no parameter's tells, and TypeError where the types hold in no case.
/// REQUIRES: parameters and result of tensors.
StretchCases with_dims_of_params(const Ref<relay::Function>& stretch);

/// Whether main is of two cases. REQUIRES: the module has types, and main is all that is called.
bool has_cases(const relay::Module& graph);

}  // namespace lathe::program
