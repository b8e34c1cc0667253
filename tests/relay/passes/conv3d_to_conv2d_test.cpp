#include "core/relay/passes/conv3d_to_conv2d.h"

#include <gtest/gtest.h>

#include <random>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

using Index = std::vector<int64_t>;

struct Drawn {
  explicit Drawn(uint64_t seed) : engine(seed) {}
  int64_t upto(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  Expr tensor(Index shape) {
    return typed_constant(random_tensor(std::move(shape), kFloat32, engine(), 0.5));
  }
  std::mt19937_64 engine;
};

/// A convolution with anything in it; one in four sees depth alone, one in four each channel by itself, one
/// in four has axes along which it sees single points.
Expr convolution(Drawn& d) {
  int64_t kind = d.upto(0, 3), groups = d.upto(1, 3), channels = kind == 1 ? 1 : d.upto(1, 3);
  auto a = std::make_unique<ConvAttrs>();
  a->groups = groups;
  Index data{d.upto(1, 2), groups * channels}, weight{groups * d.upto(1, 3), channels};
  bool points[3] = {};
  for (int64_t s = 0; s < 3; ++s) {
    bool trivial = kind == 0 && s > 0;
    points[s] = kind == 2 && d.upto(0, 3) > 0;
    weight.push_back(trivial || points[s] ? 1 : d.upto(1, 3));
    a->strides.push_back(trivial ? 1 : d.upto(1, 3));
    a->dilation.push_back(d.upto(1, 2));
    data.push_back((weight.back() - 1) * a->dilation.back() + d.upto(1, 4));
  }
  for (int64_t p = 0; p < 6; ++p)
    a->padding.push_back((kind == 0 && p % 3 > 0) || points[p % 3] ? 0 : d.upto(0, 2));
  Expr x = typed_call("negative", {d.tensor(data)});
  return typed_call("nn.conv3d", {x, d.tensor(weight)}, seal(std::move(a)));
}

/// What may follow a convolution: operands of several shapes, a sum with another volume, a concatenation.
Expr network(Drawn& d) {
  Expr x = convolution(d);
  Index shape = constant_shape(*x->checked_type.as<TensorType>());
  x = typed_call("nn.relu", {typed_call("add", {x, d.tensor({shape[1], 1, 1, 1})})});
  for (const Index& other : {Index{}, {shape[4]}, {1, 1, 1, shape[3], 1}, {shape[2], 1, 1}, shape})
    if (d.upto(0, 1)) x = typed_call("multiply", {x, d.tensor(other)});
  if (d.upto(0, 1))
    x = typed_call("concatenate", {typed_tuple({x, d.tensor(shape)})}, make<ConcatenateAttrs>(int64_t{1}));
  Index weight{3, constant_shape(*x->checked_type.as<TensorType>())[1], 2, 2, 2};
  auto a = std::make_unique<ConvAttrs>();
  a->padding = {1}, a->strides = {d.upto(1, 2)};
  return typed_call("nn.conv3d", {x, d.tensor(weight)}, seal(std::move(a)));
}

TEST(Conv3dToConv2d, ComputesTheSameWhateverTheAttributes) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Drawn d(seed);
    Expr body = network(d);
    Module module = closed(body), result = conv3d_to_conv2d(module);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(module, {.metadata = false})));
    EXPECT_TRUE(structural_equal(result->functions.at("main")->body->checked_type, body->checked_type));
    EXPECT_EQ(print(result, {.metadata = false}).find("nn.conv3d("), std::string::npos);
    ASSERT_LT(max_relative_error(value_of(result), value_of(module)), 1e-5);
  }
}

}  // namespace
}  // namespace lathe::relay
