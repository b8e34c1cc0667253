#include "tests/relay/ops/op_rows.h"

#include "core/arith/simplify.h"
#include "core/tir/interpret.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

/// Type inference of one call: the types of the arguments are known.
class OneCall final : public RelationContext {
 public:
  OneCall(const Op& op, std::vector<Type> types) : op_(op), types_(std::move(types)) {}
  const Op& op() const override { return op_; }
  const TensorType* tensor(size_t arg) override { return types_.at(arg).as<TensorType>(); }
  Type type(size_t arg) override { return types_.at(arg); }
  size_t args() const override { return types_.size(); }
  const Constant* constant(size_t) override { return nullptr; }
  void result(Type type) override { result_ = std::move(type); }
  void unify_arg(size_t arg, Type type) override { types_.at(arg) = std::move(type); }
  void equal_dims(const lathe::Expr& a, const lathe::Expr& b) override {
    if (as_int(a) && as_int(b) && int_value(a) != int_value(b))
      fail("{}: {} is not {}", op_.name, int_value(a), int_value(b));
  }
  bool same_dim(const lathe::Expr& a, const lathe::Expr& b) override {
    equal_dims(a, b);
    return prove_equal(a, b);
  }
  Type answer() const { return result_; }

 private:
  const Op& op_;
  std::vector<Type> types_;
  Type result_;
};

const Op& row_of(const char* name) {
  const Op* op = find_op(name);
  if (!op) throw std::runtime_error(std::string("no operator ") + name);
  return *op;
}

std::vector<Type> types_of(const std::vector<Tensor>& tensors) {
  std::vector<Type> types;
  for (const Tensor& t : tensors) types.push_back(tensor_type(t.shape(), t.dtype()));
  return types;
}

Index unravel(int64_t flat, const Index& shape) {
  Index index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return index;
}
}  // namespace

double Values::operator()(size_t input, const Index& index) const {
  const Tensor& t = tensors_[input];
  int64_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= t.shape()[d]) return 0;
    flat = flat * t.shape()[d] + index[d];
  }
  return t.value(flat);
}

Type infer_op(const char* op, const Attrs& attrs, const std::vector<Type>& args) {
  OneCall call(row_of(op), args);
  EXPECT_EQ(row_of(op).infer(call, attrs), Relation::kSolved) << op;
  return call.answer();
}

std::vector<Tensor> run_op(const char* op, const Attrs& attrs, const std::vector<Tensor>& args, bool tuple) {
  std::vector<Type> types = types_of(args);
  if (tuple) types = {tuple_type(types)};
  Type type = infer_op(op, attrs, types);
  auto function = std::make_unique<Function>();
  std::vector<Expr> operands;
  for (const Tensor& arg : args) {
    function->params.push_back(make_var("x", tensor_type(arg.shape(), arg.dtype())));
    operands.push_back(function->params.back());
  }
  if (tuple) operands = {relay::tuple(operands)};
  auto call = mutate(*relay::call(op, operands, attrs).as<Call>());
  call->checked_type = type;
  function->body = seal(std::move(call));
  tir::Func program = lower_function(seal(std::move(function)), "op");
  std::vector<Tensor> buffers = args, results;
  for (size_t p = args.size(); p < program->params.size(); ++p) {
    results.push_back(zeros(tir::constant_shape(program->params[p]), program->params[p]->dtype));
    buffers.push_back(results.back());
  }
  tir::interpret(program, buffers);
  return results;
}

void check_rows(const std::vector<OpRow>& rows) {
  for (const OpRow& row : rows) {
    SCOPED_TRACE(row.label);
    std::vector<Tensor> inputs;
    for (const Index& shape : row.inputs)
      inputs.push_back(random_tensor(shape, row.dtype, 7 + inputs.size()));
    std::vector<Tensor> results = run_op(row.op, row.attrs, inputs, row.tuple);
    ASSERT_LT(row.item, results.size());
    const Tensor& result = results[row.item];
    ASSERT_EQ(result.shape(), row.result);
    Values values(inputs);
    for (int64_t flat = 0; flat < result.size(); ++flat) {
      double expected = row.element(values, unravel(flat, row.result));
      double tolerance = 1e-5 * std::max(1.0, std::abs(expected));
      ASSERT_NEAR(result.value(flat), expected, tolerance)
          << "element " << shape_text(unravel(flat, row.result));
    }
  }
}

std::string relation_error(const char* op, const Attrs& attrs, const std::vector<Index>& shapes) {
  std::vector<Type> types;
  for (const Index& shape : shapes) types.push_back(tensor_type(shape, kFloat32));
  return thrown_by([&] { infer_op(op, attrs, types); });
}

}  // namespace lathe::relay
