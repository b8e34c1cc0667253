// Operator tests are tables: a row names an operator, its attributes and inputs, and says what each element
// of the result must be. The driver infers the type, builds the tensor program and runs it with the
// interpreter.
#pragma once

#include <gtest/gtest.h>

#include "core/relay/lower.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {

using Index = std::vector<int64_t>;

/// Inputs as a row's reference reads them: x(0, {n, c, h, w}) is an element of the first input, 0 outside of
/// it.
class Values {
 public:
  explicit Values(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  double operator()(size_t input, const Index& index) const;
  int64_t dim(size_t input, size_t d) const { return tensors_[input].shape()[d]; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

using Reference = std::function<double(const Values& x, const Index& i)>;

struct OpRow {
  const char* label;
  const char* op;
  Attrs attrs;
  std::vector<Index> inputs;  // shapes
  Index result;               // the shape expected of the (first) result
  Reference element;          // of the first result
  DataType dtype = kFloat32;  // of the inputs
  bool tuple = false;         // the inputs are one tuple argument
  size_t item = 0;            // which tensor of a tuple result is looked at
};

/// The result type. Throws what the operator's relation throws; fails the test when the relation waits.
Type infer_op(const char* op, const Attrs& attrs, const std::vector<Type>& args);
/// All tensors of the result.
std::vector<Tensor> run_op(const char* op, const Attrs& attrs, const std::vector<Tensor>& args,
                           bool tuple = false);
void check_rows(const std::vector<OpRow>& rows);
/// The message of the Error that the relation throws on float32 arguments of these shapes.
std::string relation_error(const char* op, const Attrs& attrs, const std::vector<Index>& shapes);

/// Attributes with some fields set: attrs<ConvAttrs>([](auto& a) { a.padding = {1}; })
template <typename A, typename F>
Attrs attrs(F&& set) {
  auto a = std::make_unique<A>();
  set(*a);
  return seal(std::move(a));
}

}  // namespace lathe::relay
