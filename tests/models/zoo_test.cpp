#include "core/models/zoo.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/relay/passes/alter_layout.h"
#include "core/relay/passes/simplify_inference.h"
#include "core/support/error.h"

namespace lathe::models {
namespace {

struct Expected {
  const char* name;
  int64_t parameters;  // torchvision's count; batch norms hold two statistics more a channel
  int64_t convolutions;
  int64_t outputs;
};

/// Elements of weights, bias, gamma and beta: what torch calls parameters.
int64_t count_parameters(const relay::Module& module) {
  int64_t count = 0;
  post_order(module, [&](const NodeRef& node) {
    const relay::Call* call = node.as<relay::Call>();
    if (!call) return;
    bool norm = call->callee.as<relay::OpNode>()->name == "nn.batch_norm";
    for (size_t arg = 1; arg < (norm ? 3 : call->args.size()); ++arg)
      if (const auto* weight = call->args[arg].as<relay::Constant>()) count += weight->value.size();
  });
  return count;
}

int64_t count_calls(const relay::Module& module, std::string_view op) {
  int64_t count = 0;
  post_order(module, [&](const NodeRef& node) {
    const relay::Call* call = node.as<relay::Call>();
    count += call && call->callee.as<relay::OpNode>()->name == op;
  });
  return count;
}

TEST(Zoo, ModelsAreThoseOfTorchvision) {
  const Expected kExpected[] = {
      {"resnet18", 11689512, 20, 1000},     {"resnet34", 21797672, 36, 1000},
      {"resnet50", 25557032, 53, 1000},     {"resnet101", 44549160, 104, 1000},
      {"mobilenet_v2", 3504872, 52, 1000},  {"mobilenet_v1", 4231976, 27, 1000},
      {"inception_v3", 23834568, 94, 1000}, {"dqn", 1687206, 3, 6},
  };
  for (const Expected& e : kExpected) {
    SCOPED_TRACE(e.name);
    relay::Module module = build_model(e.name);
    EXPECT_EQ(count_parameters(module), e.parameters);
    EXPECT_EQ(count_calls(module, "nn.conv2d"), e.convolutions);
    const auto* type = module->functions.at("main")->body->checked_type.as<relay::TensorType>();
    EXPECT_EQ(constant_shape(*type), (std::vector<int64_t>{1, e.outputs}));
  }
}

/// Blocked layouts reach from the first convolution, which reads the image as it lies, to the dense layers,
/// which follow a flattened image: what stays is one transformation at most, of an input that is padded.
TEST(Zoo, LayoutsStayBlockedThroughTheNetwork) {
  Target target;
  target.vector_bits = 512;
  for (const char* name : {"resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "inception_v3", "dqn"}) {
    SCOPED_TRACE(name);
    relay::Module module = relay::simplify_inference(build_model(name));
    relay::Module altered = relay::alter_layout(module, target);
    EXPECT_EQ(count_calls(altered, "nn.conv2d"), 0);
    EXPECT_LE(count_calls(altered, "layout_transform"), 1);
  }
}

TEST(Zoo, WeightsComeFromTheSeed) {
  auto digest = [](uint64_t seed) { return structural_hash(build_model("dqn", seed)); };
  EXPECT_EQ(digest(1), digest(1));
  EXPECT_NE(digest(1), digest(2));
}

TEST(Zoo, UnknownModel) {
  try {
    find_model("resnet81");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "unknown model `resnet81`; did you mean `resnet18`?");
  }
}

}  // namespace
}  // namespace lathe::models
