#include "core/relay/passes/narrow_constants.h"

#include <gtest/gtest.h>

#include <set>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/well_formed.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/pass.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

Target zen4() {
  Target target;
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = "znver4";
  target.vector_bits = 512;
  target.vector_registers = 32;
  target.l2_bytes = 1 << 20;
  return target;
}

Var rows_of(std::vector<lathe::Expr> shape) {
  auto x = mutate(*make_var("x", tensor_type(std::move(shape), kFloat32)));
  x->checked_type = x->annotation;
  return seal(std::move(x));
}
Expr rows(int64_t count) { return rows_of({imm(kInt64, count), imm(kInt64, 256)}); }

/// Random numbers that float16 holds.
Tensor halves(const Ints& shape, uint64_t seed = 1) {
  const Tensor half = random_tensor(shape, kFloat16, seed);
  Tensor wide(shape, kFloat32);
  for (int64_t i = 0; i < wide.size(); ++i) wide.set(i, half.value(i));
  return wide;
}

Expr layer(const Expr& x, const Tensor& weights) {
  return typed_call("nn.dense", {x, typed_constant(weights)});
}

/// `body` over the variables in it.
Module over_inputs(const Expr& body) {
  auto function = std::make_unique<Function>();
  post_order(body, [&](const NodeRef& node) {
    if (node.as<VarNode>()) function->params.push_back(node.cast<VarNode>());
  });
  function->body = body;
  return make_module(seal(std::move(function)));
}

Module narrowed(const Expr& body, const Target& target = zen4()) {
  const PassId grouped[] = {PassId::kFuseOps};
  const Module module = run_passes(over_inputs(body), grouped);
  const Module result = narrow_constants(module, target);
  EXPECT_EQ(find_ill_formed(result), "");
  return result;
}

/// Of the weights that kernels are called with, operands first.
std::vector<DataType> weight_types(const Module& module) {
  std::vector<DataType> types;
  post_order(module->functions.at("main")->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (!call || !call->callee.as<Function>()) return;
    for (const Expr& arg : call->args)
      if (const auto* weights = arg.as<Constant>()) types.push_back(weights->value.dtype());
  });
  return types;
}
DataType weight_type(const Expr& body, const Target& target = zen4()) {
  return weight_types(narrowed(body, target)).at(0);
}

TEST(NarrowConstants, OfFewRowsAndOfRowsThatARunTells) {
  const Tensor weights = halves({512, 256});
  EXPECT_EQ(weight_type(layer(rows(1), weights)), kFloat16);
  EXPECT_EQ(weight_type(layer(rows(31), weights)), kFloat16);
  EXPECT_EQ(weight_type(layer(rows(32), weights)), kFloat32);
  EXPECT_EQ(weight_type(layer(rows_of({lathe::var("n"), imm(kInt64, 256)}), weights)), kFloat16);
}

TEST(NarrowConstants, LeavesWhatWouldRoundAndWhatGainsNothing) {
  EXPECT_EQ(weight_type(layer(rows(1), random_tensor({512, 256}, kFloat32, 1))), kFloat32);
  Tensor large = halves({512, 256});
  large.set(0, 65536);
  EXPECT_EQ(weight_type(layer(rows(1), large)), kFloat32) << "float16 ends at 65504";
  EXPECT_EQ(weight_type(layer(rows(1), halves({16, 256}))), kFloat32) << "stays in a cache";
  Target plain = zen4();
  plain.vector_bits = 128;
  EXPECT_EQ(weight_type(layer(rows(1), halves({512, 256})), plain), kFloat32) << "converts no halves";
  const Expr weights = typed_constant(halves({256, 256}));
  const Expr square = typed_call("nn.dense", {weights, weights});
  EXPECT_EQ(weight_type(square), kFloat32) << "the weights are rows, too";
}

TEST(NarrowConstants, OfAllLayersByOneKernel) {
  const Expr given = typed_call("tanh", {typed_constant(random_tensor({3, 256}, kFloat32, 5))});
  const Expr first = typed_call("tanh", {layer(given, halves({256, 256}, 1))});
  const Expr second = typed_call("tanh", {layer(first, halves({256, 256}, 2))});
  const Expr third = layer(second, random_tensor({256, 256}, kFloat32, 3));
  const Module module = narrowed(third);
  EXPECT_EQ(weight_types(module), (std::vector{kFloat32, kFloat16, kFloat16, kFloat32}));
  std::set<const Node*> kernels;
  post_order(module->functions.at("main")->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    const auto* kernel = call ? call->callee.as<Function>() : nullptr;
    if (kernel && kernel->params.back()->checked_type.as<TensorType>()->dtype == kFloat16)
      kernels.insert(kernel);
  });
  EXPECT_EQ(kernels.size(), 1u);
  const PassId inlined[] = {PassId::kDefuse, PassId::kInferType};
  EXPECT_EQ(max_relative_error(value_of(run_passes(module, inlined)), value_of(closed(third))), 0);
}

}  // namespace
}  // namespace lathe::relay
