// Deep residual networks (He et al. 2015), as torchvision has them: stride in the 3x3 convolution of
// bottlenecks.
#include <array>

#include "core/models/architectures.h"
#include "core/models/network.h"

namespace lathe::models {
namespace {

/// Mean of the last gamma of a residual branch: small, so that the sums do not grow with depth.
constexpr double kBranchScale = 0.3;

Value shortcut(Network& n, const Value& x, int64_t channels, int64_t stride) {
  if (stride == 1 && x.channels() == channels) return x;
  return n.batch_norm(n.conv(x, channels, {.stride = stride}, 1));
}

Value basic_block(Network& n, const Value& x, int64_t width, int64_t stride) {
  Value y = n.relu(n.batch_norm(n.conv(x, width, same(3, stride))));
  y = n.batch_norm(n.conv(y, width, same(3)), kBranchScale);
  return n.relu(n.add(y, shortcut(n, x, width, stride)));
}

Value bottleneck(Network& n, const Value& x, int64_t width, int64_t stride) {
  Value y = n.relu(n.batch_norm(n.conv(x, width, {})));
  y = n.relu(n.batch_norm(n.conv(y, width, same(3, stride))));
  y = n.batch_norm(n.conv(y, 4 * width, {}), kBranchScale);
  return n.relu(n.add(y, shortcut(n, x, 4 * width, stride)));
}

using ResidualBlock = Value (*)(Network&, const Value&, int64_t width, int64_t stride);

relay::Module resnet(const Model& model, uint64_t seed, ResidualBlock block,
                     const std::array<int, 4>& depths) {
  Network n(model.input_shape, seed);
  Value x = n.relu(n.batch_norm(n.conv(n.input(), 64, same(7, 2))));
  x = n.max_pool(x, {.kernel = 3, .stride = 2, .pad = 1});
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < depths[stage]; ++i) x = block(n, x, 64 << stage, i == 0 && stage > 0 ? 2 : 1);
  return n.finish(n.dense(n.flatten(n.global_avg_pool(x)), 1000));
}
}  // namespace

relay::Module resnet18(const Model& model, uint64_t seed) {
  return resnet(model, seed, basic_block, {2, 2, 2, 2});
}
relay::Module resnet34(const Model& model, uint64_t seed) {
  return resnet(model, seed, basic_block, {3, 4, 6, 3});
}
relay::Module resnet50(const Model& model, uint64_t seed) {
  return resnet(model, seed, bottleneck, {3, 4, 6, 3});
}
relay::Module resnet101(const Model& model, uint64_t seed) {
  return resnet(model, seed, bottleneck, {3, 4, 23, 3});
}

}  // namespace lathe::models
