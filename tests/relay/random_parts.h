// What generators of random programs share: choices, names and literals.
#pragma once

#include <random>

#include "core/relay/expr.h"

namespace lathe::relay {

inline Type scalar(DataType dtype) { return tensor_type(std::vector<int64_t>{}, dtype); }

class RandomParts {
 public:
  explicit RandomParts(uint64_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  /// A name that no other has.
  std::string new_name(const char* prefix) { return fmt::format("{}{}", prefix, next_name_++); }
  Var fresh(const Type& type) { return make_var(new_name("x"), type); }
  /// Small numbers.
  Expr literal(const TensorType& type) {
    Tensor tensor(constant_shape(type), type.dtype);
    for (int64_t i = 0; i < tensor.size(); ++i)
      type.dtype.is_float() ? tensor.set(i, below(9) - 4)
                            : tensor.set_integer(i, type.dtype.is_bool()                 ? below(2)
                                                    : type.dtype.code == TypeCode::kUInt ? below(9)
                                                                                         : below(9) - 4);
    return constant(tensor);
  }

 private:
  std::mt19937_64 random_;
  int next_name_ = 0;
};

}  // namespace lathe::relay
