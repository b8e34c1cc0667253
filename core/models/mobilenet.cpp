// MobileNets: depthwise separable convolutions (Howard et al. 2017) and inverted residuals (Sandler et al.
// 2018).
#include "core/models/architectures.h"
#include "core/models/network.h"

namespace lathe::models {
namespace {

Value depthwise(Network& n, const Value& x, int64_t stride) {
  return n.batch_norm(n.conv(x, x.channels(), same(3, stride, x.channels())));
}

/// Expand, filter, project; the projection has no rectifier.
Value inverted_residual(Network& n, const Value& x, int64_t channels, int64_t stride, int64_t expansion) {
  Value y = x;
  if (expansion != 1) y = n.relu6(n.batch_norm(n.conv(x, x.channels() * expansion, {})));
  y = n.relu6(depthwise(n, y, stride));
  y = n.batch_norm(n.conv(y, channels, {}, 1));
  return stride == 1 && x.channels() == channels ? n.add(x, y) : y;
}
}  // namespace

relay::Module mobilenet_v1(const Model& model, uint64_t seed) {
  struct Block {
    int64_t channels, stride;
  };
  constexpr Block kBlocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                               {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  Network n(model.input_shape, seed);
  Value x = n.relu(n.batch_norm(n.conv(n.input(), 32, same(3, 2))));
  for (const Block& block : kBlocks) {
    x = n.relu(depthwise(n, x, block.stride));
    x = n.relu(n.batch_norm(n.conv(x, block.channels, {})));
  }
  return n.finish(n.dense(n.flatten(n.global_avg_pool(x)), 1000));
}

relay::Module mobilenet_v2(const Model& model, uint64_t seed) {
  struct Stage {
    int64_t expansion, channels, repeats, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Network n(model.input_shape, seed);
  Value x = n.relu6(n.batch_norm(n.conv(n.input(), 32, same(3, 2))));
  for (const Stage& stage : kStages)
    for (int64_t i = 0; i < stage.repeats; ++i)
      x = inverted_residual(n, x, stage.channels, i == 0 ? stage.stride : 1, stage.expansion);
  x = n.relu6(n.batch_norm(n.conv(x, 1280, {})));
  return n.finish(n.dense(n.dropout(n.flatten(n.global_avg_pool(x)), 0.2), 1000));
}

}  // namespace lathe::models
