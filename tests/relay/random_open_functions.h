// Functions of vectors whose lengths a run tells, and vectors that grow: the part of random programs that
// needs open dimensions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/relay/random_parts.h"

namespace lathe::relay {

class OpenGenerator {
 public:
  /// An expression of the type that is wanted.
  using MakeExpr = std::function<Expr(const Type& wanted, int fuel)>;
  /// REQUIRES: `parts` lives as long.
  OpenGenerator(RandomParts& parts, MakeExpr make_expr) : parts_(parts), expr_(std::move(make_expr)) {}

  /// Of two vectors of any lengths, of which the first and the result are of one, and a number. From now on
  /// others call it.
  Ref<Function> add_function(const std::string& name, DataType dtype);
  /// A tensor by way of shapes that a run tells; null where there is no way.
  Expr call_for(const TensorType& tensor, const Type& wanted, int fuel);

 private:
  struct Scope {
    DataType dtype;
    lathe::Expr n;
    Var x, y, count;
    bool is_same = true;  // the length of y
  };
  struct OpenFunction {
    std::string name;  // each use is a node of its own, with dimensions of its own
    bool is_same;
  };
  int below(int n) { return parts_.below(n); }
  bool chance(int percent) { return parts_.chance(percent); }
  Ref<Function> make_function(DataType dtype);
  Expr open_expr(const Scope& s, int fuel);
  Expr some_rows(const Scope& s, int fuel);
  Expr any_length(const Scope& s, int fuel);
  Expr one_or_all(const Scope& s, int fuel);
  Expr grown(DataType dtype, int64_t first, int64_t times, int fuel);
  const OpenFunction& some_function(DataType dtype);

  RandomParts& parts_;
  MakeExpr expr_;
  std::vector<OpenFunction> functions_[2];  // of floats, of int32
};

}  // namespace lathe::relay
