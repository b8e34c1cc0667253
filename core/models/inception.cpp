// Inception v3 (Szegedy et al. 2015), as torchvision has it, without the auxiliary classifier.
#include "core/models/architectures.h"
#include "core/models/network.h"

namespace lathe::models {
namespace {

/// Convolution, batch norm (epsilon 0.001), rectifier.
Value unit(Network& n, const Value& x, int64_t channels, const ConvShape& shape) {
  return n.relu(n.batch_norm(n.conv(x, channels, shape), 1, 1e-3));
}
Value unit(Network& n, const Value& x, int64_t channels, int64_t kernel = 1) {
  return unit(n, x, channels, same(kernel));
}
/// A 3x3 convolution of stride 2 without padding.
Value halving(Network& n, const Value& x, int64_t channels) {
  return unit(n, x, channels, {.kernel_h = 3, .kernel_w = 3, .stride = 2});
}
Value row(Network& n, const Value& x, int64_t channels, int64_t width) {
  return unit(n, x, channels, {.kernel_w = width, .pad_w = width / 2});
}
Value column(Network& n, const Value& x, int64_t channels, int64_t height) {
  return unit(n, x, channels, {.kernel_h = height, .pad_h = height / 2});
}
Value pooled(Network& n, const Value& x, int64_t channels) {
  return unit(n, n.avg_pool(x, {.kernel = 3, .stride = 1, .pad = 1}), channels);
}

Value block_a(Network& n, const Value& x, int64_t pool_channels) {
  Value one = unit(n, x, 64);
  Value five = unit(n, unit(n, x, 48), 64, 5);
  Value three = unit(n, unit(n, unit(n, x, 64), 96, 3), 96, 3);
  return n.concatenate({one, five, three, pooled(n, x, pool_channels)});
}

Value block_b(Network& n, const Value& x) {
  Value three = halving(n, x, 384);
  Value twice = halving(n, unit(n, unit(n, x, 64), 96, 3), 96);
  return n.concatenate({three, twice, n.max_pool(x, {.kernel = 3})});
}

Value block_c(Network& n, const Value& x, int64_t width) {
  Value one = unit(n, x, 192);
  Value seven = column(n, row(n, unit(n, x, width), width, 7), 192, 7);
  Value twice = column(n, unit(n, x, width), width, 7);
  twice = column(n, row(n, twice, width, 7), width, 7);
  twice = row(n, twice, 192, 7);
  return n.concatenate({one, seven, twice, pooled(n, x, 192)});
}

Value block_d(Network& n, const Value& x) {
  Value three = halving(n, unit(n, x, 192), 320);
  Value seven = halving(n, column(n, row(n, unit(n, x, 192), 192, 7), 192, 7), 192);
  return n.concatenate({three, seven, n.max_pool(x, {.kernel = 3})});
}

Value block_e(Network& n, const Value& x) {
  Value one = unit(n, x, 320);
  Value three = unit(n, x, 384);
  three = n.concatenate({row(n, three, 384, 3), column(n, three, 384, 3)});
  Value twice = unit(n, unit(n, x, 448), 384, 3);
  twice = n.concatenate({row(n, twice, 384, 3), column(n, twice, 384, 3)});
  return n.concatenate({one, three, twice, pooled(n, x, 192)});
}
}  // namespace

relay::Module inception_v3(const Model& model, uint64_t seed) {
  Network n(model.input_shape, seed);
  Value x = halving(n, n.input(), 32);
  x = unit(n, x, 32, {.kernel_h = 3, .kernel_w = 3});
  x = n.max_pool(unit(n, x, 64, 3), {.kernel = 3});
  x = unit(n, unit(n, x, 80), 192, {.kernel_h = 3, .kernel_w = 3});
  x = n.max_pool(x, {.kernel = 3});
  for (int64_t pool_channels : {32, 64, 64}) x = block_a(n, x, pool_channels);
  x = block_b(n, x);
  for (int64_t width : {128, 160, 160, 192}) x = block_c(n, x, width);
  x = block_e(n, block_e(n, block_d(n, x)));
  return n.finish(n.dense(n.flatten(n.dropout(n.global_avg_pool(x))), 1000));
}

}  // namespace lathe::models
