#include "tuner/precision.h"

#include <gtest/gtest.h>

#include "core/models/zoo.h"
#include "core/support/error.h"

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
  EXPECT_EQ(at_precision(dqn, Precision::kGiven), dqn);
  relay::Module half = at_precision(dqn, Precision::kBFloat16), bytes = at_precision(dqn, Precision::kInt8);
  EXPECT_EQ(products(half, kBFloat16), 5) << "three convolutions and two dense layers";
  EXPECT_EQ(products(half, kFloat32), 0);
  EXPECT_GE(dequantizations(bytes), 10) << "data and weights of each";
}

TEST(Precision, NamesAreKnownOrRefused) {
  EXPECT_EQ(parse_precision("bf16"), Precision::kBFloat16);
  EXPECT_EQ(parse_precision("int8"), Precision::kInt8);
  try {
    parse_precision("int9");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "--precision int9: must be given, bf16 or int8; did you mean `int8`?");
  }
}

}  // namespace
}  // namespace lathe::tuner
