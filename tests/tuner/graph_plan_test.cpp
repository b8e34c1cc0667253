#include "tuner/graph_plan.h"

#include <gmock/gmock.h>

#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tests/runtime/test_module.h"
#include "tests/thrown_by.h"

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Expr;
using relay::Function;
using ::testing::ElementsAre;

const relay::Type kVector = relay::tensor_type(std::vector<int64_t>{3}, kFloat32);
const relay::Type kColumn = relay::tensor_type(std::vector<int64_t>{3, 1}, kFloat32);

/// `expr` with the type that inference would give it.
template <typename T>
Expr typed(const Ref<T>& expr, const relay::Type& type) {
  auto copy = mutate(*expr);
  copy->checked_type = type;
  return seal(std::move(copy));
}

Expr call(const Expr& callee, std::vector<Expr> args, const relay::Type& type = kVector) {
  return typed(make<Call>(callee, std::move(args)), type);
}

/// Stand-ins for tensor programs: the kernels of tests/runtime.
const Expr kAdd = make<relay::PrimFunc>(), kTwice = make<relay::PrimFunc>();

/// A family of one.
KernelFamily only(GraphKernel kernel) { return {{std::move(kernel)}, {{}}}; }

const auto kernel_of = [](const KernelCall& call) -> const KernelFamily& {
  static const KernelFamily kAddKernel = only({"add"}), kTwiceKernel = only({"twice", 12});
  return call.callee == kAdd ? kAddKernel : kTwiceKernel;
};

relay::Module module_of(std::vector<relay::Var> params, const Expr& body) {
  return relay::make_module(
      make<Function>(std::vector<relay::TypeVar>(), std::move(params), relay::Type(), body));
}

std::vector<std::vector<float>> outputs_of(const relay::Module& module, const std::vector<Tensor>& inputs) {
  runtime::ModuleImage image = plan_graph(module, kernel_of);
  image.library = runtime::test_kernels();
  runtime::Executor executor(runtime::Module::from_image(std::move(image)), runtime::serial_parallel());
  for (size_t i = 0; i < inputs.size(); ++i) executor.set_input(i, inputs[i]);
  executor.run();
  std::vector<std::vector<float>> outputs;
  for (size_t i = 0; i < executor.plan().outputs.size(); ++i) {
    Tensor output = executor.output(i);
    auto values = output.span<float>();
    outputs.emplace_back(values.begin(), values.end());
  }
  return outputs;
}

std::string error_of(const relay::Module& module) {
  return thrown_by([&] { plan_graph(module, kernel_of); });
}

TEST(GraphPlan, FollowsLetsTuplesAndProjections) {
  relay::Var x = relay::make_var("x", kVector), v = relay::make_var("v");
  Expr c = relay::constant(runtime::floats({1, 2, 3}));
  relay::Type pair = relay::tuple_type({kVector, kVector});
  Expr doubled = call(kTwice, {v});
  Expr both = typed(make<relay::Tuple>(std::vector<Expr>{doubled, c}), pair);
  Expr second = typed(make<relay::Projection>(both, int64_t{1}), kVector);
  Expr result = make<relay::Tuple>(std::vector<Expr>{call(kAdd, {doubled, second}), x, both});
  Expr body = make<relay::Let>(v, call(kAdd, {x, c}), result);
  EXPECT_THAT(outputs_of(module_of({x}, body), {runtime::floats({10, 20, 30})}),
              ElementsAre(ElementsAre(23, 46, 69), ElementsAre(10, 20, 30), ElementsAre(22, 44, 66),
                          ElementsAre(1, 2, 3)));
}

TEST(GraphPlan, ReshapesCostNothing) {
  relay::Var x = relay::make_var("x", kVector), p = relay::make_var("p", kVector);
  Expr reshape = make<relay::OpNode>("reshape");
  Expr flatten =
      make<Function>(std::vector<relay::TypeVar>(), std::vector<relay::Var>{p}, kVector,
                     call(reshape, {call(reshape, {p}, kColumn)}), relay::FunctionAttrs{.primitive = true});
  Expr body = call(kTwice, {call(flatten, {call(kTwice, {x})})});
  relay::Module module = module_of({x}, body);
  EXPECT_EQ(plan_graph(module, kernel_of).plan.steps.size(), 2u);
  EXPECT_THAT(outputs_of(module, {runtime::floats({1, 2, 3})}), ElementsAre(ElementsAre(4, 8, 12)));
}

/// add(x, c) by a kernel that takes x and something made of c: here, 10 c.
TEST(GraphPlan, PrologueResultsTakeThePlaceOfConstants) {
  int runs = 0;
  GraphKernel kernel{"add"};
  kernel.prologue = [&](std::span<const Tensor> constants) {
    ++runs;
    EXPECT_EQ(constants.size(), 1u);
    Tensor made = constants[0].clone();
    for (int64_t i = 0; i < made.size(); ++i) made.set(i, 10 * made.value(i));
    return std::vector<Tensor>{made};
  };
  kernel.prologue_arguments = {1};
  kernel.arguments = {{false, 0}, {true, 0}};
  const KernelFamily family = only(kernel);
  const auto kernel_of = [&](const KernelCall&) -> const KernelFamily& { return family; };

  relay::Var x = relay::make_var("x", kVector), v = relay::make_var("v");
  Expr c = relay::constant(runtime::floats({1, 2, 3})), d = relay::constant(runtime::floats({4, 5, 6}));
  // Three calls, two distinct constants, one of them by way of a let.
  Expr sum = call(kAdd, {call(kAdd, {call(kAdd, {x, c}), v}), d});
  runtime::ModuleImage image = plan_graph(module_of({x}, make<relay::Let>(v, c, sum)), kernel_of);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(image.constants.size(), 2u);  // the raw ones are not in the module
  image.library = runtime::test_kernels();
  runtime::Executor executor(runtime::Module::from_image(std::move(image)), runtime::serial_parallel());
  executor.set_input(0, runtime::floats({0, 0, 0}));
  executor.run();
  EXPECT_EQ(executor.output(0).value(0), 10 + 10 + 40);
  EXPECT_EQ(executor.output(0).value(2), 30 + 30 + 60);

  // Nor are they when they come in a tuple with what is read as it is.
  Expr pair = typed(make<relay::Tuple>(std::vector<Expr>{x, c}), relay::tuple_type({kVector, kVector}));
  EXPECT_EQ(plan_graph(module_of({x}, call(kAdd, {pair})), kernel_of).constants.size(), 1u);
  Expr constants = typed(make<relay::Tuple>(std::vector<Expr>{d, c}), relay::tuple_type({kVector, kVector}));
  image = plan_graph(module_of({x}, call(kAdd, {constants})), kernel_of);
  ASSERT_EQ(image.constants.size(), 2u);  // d, and what is made of c
  EXPECT_EQ(image.constants[0].data.value(0), 4);
  EXPECT_EQ(image.constants[1].data.value(0), 10);
  // A constant that something else reads stays.
  Expr both = make<relay::Tuple>(std::vector<Expr>{call(kAdd, {x, c}), c});
  EXPECT_EQ(plan_graph(module_of({x}, both), kernel_of).constants.size(), 2u);
}

TEST(GraphPlan, FlattensTupleInputsAndResolvesGlobals) {
  relay::Var x = relay::make_var("x", relay::tuple_type({kVector, kVector}));
  Expr param = typed(x, x->annotation);
  relay::Var typed_x = param.cast<relay::VarNode>();
  Expr first = typed(make<relay::Projection>(param, int64_t{0}), kVector);
  Expr second = typed(make<relay::Projection>(param, int64_t{1}), kVector);
  relay::Module module = module_of({typed_x}, call(kAdd, {first, second}));
  EXPECT_EQ(plan_graph(module, kernel_of).plan.inputs[1].name, "x.1");
  EXPECT_THAT(outputs_of(module, {runtime::floats({1, 2, 3}), runtime::floats({1, 1, 1})}),
              ElementsAre(ElementsAre(2, 3, 4)));
}

TEST(GraphPlan, ADeepGraphDoesNotOverflowTheStack) {
  relay::Var x = relay::make_var("x", kVector);
  Expr body = x;
  for (int i = 0; i < 20000; ++i) body = call(kTwice, {body});
  EXPECT_EQ(plan_graph(module_of({x}, body), kernel_of).plan.arena_bytes, 3 * 64);
}

TEST(GraphPlan, SaysWhatCannotBeCompiled) {
  relay::Var x = relay::make_var("x", kVector);
  relay::Var n = relay::make_var("n", relay::tensor_type(std::vector<lathe::Expr>{any_dim()}, kFloat32));
  Expr branch = make<relay::If>(x, x, x);
  EXPECT_EQ(error_of(module_of({x}, branch)),
            "control flow, closures and references cannot be compiled yet; the model has RelayIf");
  EXPECT_EQ(error_of(module_of({n}, n)),
            "the model has dimensions that are not known; give inputs with shapes");
  EXPECT_EQ(error_of(module_of({x}, call(make<relay::OpNode>("sort"), {x}))),
            "operator sort cannot be compiled: it is in no fused function");
  EXPECT_EQ(error_of(module_of({x}, call(make<relay::GlobalVarNode>("f"), {x}))),
            "the module has no function @f");
}

}  // namespace
}  // namespace lathe::tuner
