#include "core/relay/lower.h"

#include <gtest/gtest.h>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

/// fn(x) { layout_transform(x, from, to) }
Ref<Function> transform(const std::vector<int64_t>& shape, const char* from, const char* to) {
  auto x = mutate(*make_var("x", tensor_type(shape, kFloat32)));
  x->checked_type = x->annotation;
  Var param = seal(std::move(x));
  auto attrs = std::make_unique<LayoutTransformAttrs>();
  attrs->src_layout = from;
  attrs->dst_layout = to;
  return make<Function>(std::vector<TypeVar>(), std::vector<Var>{param}, Type(),
                        typed_call("layout_transform", {param}, seal(std::move(attrs))));
}

TEST(IsView, ALayoutTransformThatMovesNothing) {
  EXPECT_TRUE(is_view(transform({1, 32, 1, 1}, "NCHW", "NCHW16c")));
  EXPECT_TRUE(is_view(transform({1, 2, 1, 1, 16}, "NCHW16c", "NCHW8c")));
  EXPECT_TRUE(is_view(transform({1, 1, 4, 4, 3}, "NCHW3c", "NHWC")));
}

TEST(IsView, NotOneThatMovesElements) {
  EXPECT_FALSE(is_view(transform({1, 32, 4, 4}, "NCHW", "NCHW16c")));
  EXPECT_FALSE(is_view(transform({1, 2, 4, 4, 16}, "NCHW16c", "NCHW8c"))) << "the same axes, other blocks";
  EXPECT_FALSE(is_view(transform({1, 2, 4, 4}, "NCHW", "NHWC")));
}

}  // namespace
}  // namespace lathe::relay
