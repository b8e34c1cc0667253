// How far groups grow; what they are is in fuse_ops.relay.
#include "core/relay/passes/fuse_ops.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/relay/passes/canonicalize_ops.h"
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

/// A kernel of thousands of arguments would be compiled for minutes.
TEST(FuseOps, KernelsReadFewPartsWhereThousandsAreJoined) {
  std::string text = "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(4), float32]) {\n", items;
  constexpr int kParts = 2000;
  for (int i = 0; i < kParts; ++i) {
    text += fmt::format("  %{} = add(%x, {}f);\n", i, i);
    items += fmt::format("{}%{}", i ? ", " : "", i);
  }
  text += fmt::format("  concatenate(({}), axis=0)\n}}\n", items);
  const Module fused = fuse_ops(canonicalize_ops(infer_type(parse_module(text, "test"))));
  const std::vector<int> sizes = sizes_of(fused);
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 256);
  size_t widest = 0;
  post_order(fused->functions.at("main")->body, [&](const NodeRef& node) {
    if (const auto* tuple = node.as<Tuple>()) widest = std::max(widest, tuple->items.size());
  });
  EXPECT_LE(widest, 128);
  EXPECT_EQ(print(fused->functions.at("main")->body->checked_type), "Tensor[(8000), float32]");
}

/// Three chains from one value, which joins them last: on its way to their ends lie 240 operators, in groups
/// of 480.
TEST(FuseOps, GroupsStaySmallWhereChainsMeet) {
  constexpr int kChains = 3, kLinks = 80;
  std::string text =
      "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(2, 3), float32], %y: Tensor[(3, 2), float32]) {\n"
      "  %0 = transpose(%x, axes=[1, 0]);\n";
  int next = 1;
  std::vector<int> ends;
  for (int chain = 0; chain < kChains; ++chain) {
    for (int last = 0, i = 0; i < kLinks; ++i, last = next++) {
      text += fmt::format("  %{} = multiply(%y, {}f);\n", next, chain * kLinks + i);
      text += fmt::format("  %{} = add(%{}, %{});\n", next + 1, last, next);
      ++next;
    }
    ends.push_back(next - 1);
  }
  text += fmt::format("  %{} = (%{});\n  concatenate(%{})\n}}\n", next, fmt::join(ends, ", %"), next);
  const std::vector<int> sizes = sizes_of(fuse_ops(infer_type(parse_module(text, "test"))));
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 256);
  EXPECT_LE(sizes.size(), kChains + 1) << "and are no smaller than they need be";
}

/// What is used twice is computed twice where it is inlined: a kernel of 40 such steps would never be done.
TEST(FuseOps, GroupsEndWhereUsesOfUsesUnfold) {
  std::string text = "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(4), float32]) {\n  %0 = exp(%x);\n";
  constexpr int kOperators = 40;
  for (int i = 1; i < kOperators; ++i) text += fmt::format("  %{} = add(%{}, %{});\n", i, i - 1, i - 1);
  text += fmt::format("  %{}\n}}\n", kOperators - 1);
  const std::vector<int> sizes = sizes_of(fuse_ops(infer_type(parse_module(text, "test"))));
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 12) << "2^12 are computed by these";
  EXPECT_LE(sizes.size(), 4U);
}

}  // namespace
}  // namespace lathe::relay
