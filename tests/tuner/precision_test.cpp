#include "tuner/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/codegen/host_target.h"
#include "core/models/zoo.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"
#include "tuner/compile.h"

namespace lathe::tuner {
namespace {

/// Products of operands of this type in the module.
int products(const relay::Module& module, DataType type) {
  int count = 0;
  post_order(module->functions.at("main")->body, [&](const NodeRef& node) {
    const auto* call = node.as<relay::Call>();
    const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
    if (!op || (op->name != "nn.conv2d" && op->name != "nn.dense")) return;
    const relay::Expr& x = call->args[0];
    count += x->checked_type.as<relay::TensorType>()->dtype == type;
  });
  return count;
}

int dequantizations(const relay::Module& module) {
  int count = 0;
  post_order(module->functions.at("main")->body, [&](const NodeRef& node) {
    const auto* call = node.as<relay::Call>();
    const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
    count += op && op->name == "qnn.dequantize";
  });
  return count;
}

TEST(Precision, EachIsWhatItSays) {
  relay::Module dqn = models::build_model("dqn");
  EXPECT_EQ(at_precision(dqn, Precision::kGiven, relay::NarrowCosts::none()), dqn);
  relay::Module half = at_precision(dqn, Precision::kBFloat16, relay::NarrowCosts::none()),
                bytes = at_precision(dqn, Precision::kInt8, relay::NarrowCosts::none());
  EXPECT_EQ(products(half, kBFloat16), 5) << "three convolutions and two dense layers";
  EXPECT_EQ(products(half, kFloat32), 0);
  EXPECT_GE(dequantizations(bytes), 10) << "data and weights of each";
  EXPECT_EQ(products(at_precision(dqn, Precision::kFloat64, relay::NarrowCosts::none()), kFloat64), 5);
}

/// Sums that float32 rounds: by hand, 1 + 2^-30 and 3 - 2^-40, and their sigmoids.
TEST(Precision, Float64KeepsWhatFloat32Rounds) {
  relay::Module model = relay::parse_module(R"(#[version = "0.0.5"]
def @main(%x: Tensor[(1, 2), float32]) {
  %0 = nn.dense(%x, [[1f, 1f], [3f, -0.0009765625f]]);
  (%0, sigmoid(%0))
})");
  const double small = std::ldexp(1.0, -30);
  const double expected[] = {1 + small, 3 - small / 1024};
  auto module = runtime::Module::from_image(compile_model(
      at_precision(model, Precision::kFloat64, relay::NarrowCosts::none()), codegen::host_target()));
  runtime::Executor executor(module, runtime::serial_parallel());
  executor.set_input(0, tensor_of(std::vector{1.0f, static_cast<float>(small)}, {1, 2}, kFloat32));
  executor.run();
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(executor.output(0).value(i), expected[i]);
    EXPECT_DOUBLE_EQ(executor.output(1).value(i), 1 / (1 + std::exp(-expected[i])));
  }
}

/// Two ways to the same numbers agree to what float32 can hold, and not to the last bit.
TEST(Precision, Float64IsNearFloat32) {
  for (const char* name : {"dqn", "mobilenet_v1"}) {
    relay::Module model = models::build_model(name);
    std::vector<Tensor> outputs;
    for (Precision precision : {Precision::kGiven, Precision::kFloat64}) {
      auto module = runtime::Module::from_image(
          compile_model(at_precision(model, precision, relay::NarrowCosts::none()), codegen::host_target()));
      runtime::Executor executor(module, runtime::serial_parallel());
      const runtime::Value& input = module->plan().values[module->plan().inputs[0].value];
      EXPECT_EQ(input.dtype, kFloat32);
      executor.set_input(0, random_tensor(input.shape, input.dtype, /*seed=*/1));
      executor.run();
      outputs.push_back(executor.output(0).clone());
    }
    EXPECT_EQ(outputs[1].dtype(), kFloat64);
    EXPECT_LT(max_relative_error(outputs[0], outputs[1]), 1e-5) << name;
    EXPECT_GT(max_relative_error(outputs[0], outputs[1]), 0) << name;
  }
}

/// Weights of blocks lie in few bits already; in 8 bits the data that they multiply may be rounded, too.
TEST(Precision, LetsProductsOfBlocksRoundIn8Bits) {
  using namespace relay;
  auto x = mutate(*make_var("x", tensor_type(Ints{1, 512}, kFloat32)));
  x->checked_type = x->annotation;
  const relay::Var input(seal(std::move(x)));
  const relay::Expr body =
      typed_call("nn.block_dense", {input, typed_constant(random_tensor({128, 16, 32}, kInt8, 1)),
                                    typed_constant(random_tensor({128, 16}, kFloat32, 2))});
  auto function = std::make_unique<relay::Function>();
  function->params = {input};
  function->body = body;
  function->result_type = body->checked_type;
  const Module module = make_module(seal(std::move(function)));
  const auto rounds = [&](Precision precision) {
    return print(at_precision(module, precision, NarrowCosts::none())).find("may_round=True") !=
           std::string::npos;
  };
  EXPECT_TRUE(rounds(Precision::kInt8));
  EXPECT_FALSE(rounds(Precision::kBFloat16));
}

TEST(Precision, Float64OfAQuantizedModelIsRefused) {
  relay::Module bytes =
      at_precision(models::build_model("dqn"), Precision::kInt8, relay::NarrowCosts::none());
  EXPECT_THROW(at_precision(bytes, Precision::kFloat64, relay::NarrowCosts::none()), Error);
}

/// softmax(q k^T) v of three layers of x, five tokens of 2 heads of 7: no size is a multiple of a group.
relay::Module attention() {
  using namespace relay;
  auto x = mutate(*make_var("x", tensor_type(Ints{5, 14}, kFloat32)));
  x->checked_type = x->annotation;
  relay::Var input(seal(std::move(x)));
  auto layer = [&](const relay::Expr& e, uint64_t seed) {
    return typed_call("nn.dense", {e, typed_constant(random_tensor({14, 14}, kFloat32, seed, 0.3))});
  };
  auto heads = [&](uint64_t seed) {
    relay::Expr apart = typed_call("reshape", {layer(input, seed)}, make<ReshapeAttrs>(Ints{5, 2, 7}));
    return typed_call("transpose", {apart}, make<TransposeAttrs>(std::optional(Ints{1, 0, 2})));
  };
  relay::Expr weights = typed_call("nn.softmax", {typed_call("nn.batch_matmul", {heads(1), heads(2)})});
  relay::Expr mixed = typed_call("transpose", {typed_call("nn.matmul", {weights, heads(3)})},
                                 make<TransposeAttrs>(std::optional(Ints{1, 0, 2})));
  relay::Expr joined = typed_call("reshape", {mixed}, make<ReshapeAttrs>(Ints{5, 14}));
  auto function = std::make_unique<Function>();
  function->params = {input};
  function->body = typed_call("add", {layer(joined, 4), input});
  function->result_type = function->body->checked_type;
  return make_module(seal(std::move(function)));
}

/// As kernels, which pad and pack what attention multiplies.
TEST(Precision, AttentionOfOddSizes) {
  std::vector<Tensor> outputs;
  for (Precision precision : {Precision::kGiven, Precision::kBFloat16, Precision::kInt8}) {
    auto module = runtime::Module::from_image(compile_model(
        at_precision(attention(), precision, relay::NarrowCosts::none()), codegen::host_target()));
    runtime::Executor executor(module, runtime::serial_parallel());
    executor.set_input(0, random_tensor({5, 14}, kFloat32, /*seed=*/3));
    executor.run();
    outputs.push_back(executor.output(0).clone());
  }
  EXPECT_LT(max_relative_error(outputs[1], outputs[0]), 0.02);
  EXPECT_GT(max_relative_error(outputs[1], outputs[0]), 0);
  EXPECT_LT(max_relative_error(outputs[2], outputs[0]), 0.06);
}

/// One dense layer on `x`, (2, 3).
relay::Module dense_layer() {
  auto x = mutate(*relay::make_var("x", relay::tensor_type(relay::Ints{2, 3}, kFloat32)));
  x->checked_type = x->annotation;
  auto function = std::make_unique<relay::Function>();
  function->params = {relay::Var(seal(std::move(x)))};
  relay::Expr weight = relay::typed_constant(random_tensor({64, 3}, kFloat32, 1));
  function->body = relay::typed_call("nn.dense", {function->params[0], weight});
  function->result_type = function->body->checked_type;
  return relay::make_module(seal(std::move(function)));
}

/// The scale of its input, in 8 bits.
double scale_for(const CalibrationOptions& options) {
  double scale = 0;
  post_order(quantize_model(dense_layer(), options)->functions.at("main")->body, [&](const NodeRef& node) {
    const auto* call = node.as<relay::Call>();
    const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
    if (op && op->name == "qnn.quantize") scale = call->args[1].as<relay::Constant>()->value.value(0);
  });
  return scale;
}

TEST(Precision, CalibratesOnWhatIsGiven) {
  Tensor small = full({2, 3}, kFloat32, 0.5), large = full({2, 3}, kFloat32, -2);
  EXPECT_FLOAT_EQ(static_cast<float>(scale_for({.inputs = {{"x", {small}}}})), 0.5f / 255);
  EXPECT_FLOAT_EQ(static_cast<float>(scale_for({.inputs = {{"x", {small, large}}}})), 2.5f / 255);
  // Several behind each other: in one file, along the first axis or along one before it.
  Tensor joined = full({4, 3}, kFloat32, 0.5), stacked = full({3, 2, 3}, kFloat32, 0.5);
  joined.set(11, 3), stacked.set(0, 4);
  EXPECT_FLOAT_EQ(static_cast<float>(scale_for({.inputs = {{"x", {joined}}}})), 3.0f / 255);
  EXPECT_FLOAT_EQ(static_cast<float>(scale_for({.inputs = {{"x", {stacked}}}})), 4.0f / 255);
}

TEST(Precision, RefusesSamplesOfNoInput) {
  auto refusal = [](const CalibrationOptions& options) -> std::string {
    try {
      quantize_model(dense_layer(), options);
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  Tensor odd = full({3, 3}, kFloat32, 1), wide = full({2, 3}, kInt64, 1), inf = full({2, 3}, kFloat32, 1);
  inf.set(4, std::numeric_limits<double>::infinity());
  EXPECT_EQ(refusal({.inputs = {{"x", {odd}}}}),
            "--calibrate x: the tensor has (3, 3), an input of (2, 3) or several along the first axis are "
            "expected");
  EXPECT_EQ(refusal({.inputs = {{"x", {wide}}}}),
            "--calibrate x: the tensor is of int64, the input of float32");
  EXPECT_EQ(refusal({.inputs = {{"x", {inf}}}}), "--calibrate x: element 4 is inf");
  EXPECT_NE(refusal({.inputs = {{"y", {odd}}}}).find("`y`"), std::string::npos);
  Tensor none({0, 3}, kFloat32);
  EXPECT_NE(refusal({.inputs = {{"x", {none}}}}), "taken");
}

TEST(Precision, NamesAreKnownOrRefused) {
  EXPECT_EQ(parse_precision("bf16"), Precision::kBFloat16);
  EXPECT_EQ(parse_precision("int8"), Precision::kInt8);
  EXPECT_EQ(parse_precision("float64"), Precision::kFloat64);
  try {
    parse_precision("int9");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "--precision int9: must be given, bf16, int8 or float64; did you mean `int8`?");
  }
}

}  // namespace
}  // namespace lathe::tuner
