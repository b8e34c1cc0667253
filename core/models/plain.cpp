// Networks that are one chain of layers.
#include "core/models/architectures.h"
#include "core/models/network.h"

namespace lathe::models {

relay::Module vgg16(const Model& model, uint64_t seed) {
  Network n(model.input_shape, seed);
  Value x = n.input();
  struct Stage {
    int64_t channels;
    int convolutions;
  };
  for (Stage stage : {Stage{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 0; i < stage.convolutions; ++i) x = n.relu(n.bias_add(n.conv(x, stage.channels, same(3))));
    x = n.max_pool(x, {});
  }
  x = n.flatten(x);
  for (int i = 0; i < 2; ++i) x = n.dropout(n.relu(n.dense(x, 4096, Network::kRectified)));
  return n.finish(n.dense(x, 1000));
}

relay::Module dqn(const Model& model, uint64_t seed) {
  Network n(model.input_shape, seed);
  Value x = n.relu(n.bias_add(n.conv(n.input(), 32, {.kernel_h = 8, .kernel_w = 8, .stride = 4})));
  x = n.relu(n.bias_add(n.conv(x, 64, {.kernel_h = 4, .kernel_w = 4, .stride = 2})));
  x = n.relu(n.bias_add(n.conv(x, 64, {.kernel_h = 3, .kernel_w = 3})));
  x = n.relu(n.dense(n.flatten(x), 512, Network::kRectified));
  return n.finish(n.dense(x, 6));
}

}  // namespace lathe::models
