// How far groups grow; what they are is in fuse_ops.relay.
#include "core/relay/passes/fuse_ops.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// The operators of each kernel of @main.
std::vector<int> sizes_of(const Module& fused) {
  std::vector<int> sizes;
  post_order(fused->functions.at("main")->body, [&](const NodeRef& node) {
    const auto* call = node.as<Call>();
    const auto* kernel = call ? call->callee.as<Function>() : nullptr;
    if (!kernel) return;
    int& size = sizes.emplace_back();
    post_order(kernel->body, [&](const NodeRef& inside) { size += inside.as<Call>() != nullptr; });
  });
  return sizes;
}

/// A kernel of thousands of operators would be compiled for minutes.
TEST(FuseOps, GroupsStaySmallWhereAllOperatorsReadOneTensor) {
  std::string text = "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(4), float32]) {\n  %0 = exp(%x);\n";
  constexpr int kOperators = 2000;
  for (int i = 1; i < kOperators; ++i) text += fmt::format("  %{} = add(%{}, %0);\n", i, i - 1);
  text += fmt::format("  %{}\n}}\n", kOperators - 1);
  const std::vector<int> sizes = sizes_of(fuse_ops(infer_type(parse_module(text, "test"))));
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 256);
  EXPECT_LE(sizes.size(), 2 * kOperators / 256) << "and are no smaller than they need be";
}

}  // namespace
}  // namespace lathe::relay
