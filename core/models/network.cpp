#include "core/models/network.h"

#include <cmath>

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::models {

using relay::call;

namespace {
int64_t windows(int64_t extent, int64_t kernel, int64_t stride, int64_t pad, bool ceil_mode = false) {
  int64_t room = extent + 2 * pad - kernel;
  int64_t count = (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  return ceil_mode && (count - 1) * stride >= extent + pad ? count - 1 : count;
}

template <typename A>
std::unique_ptr<A> attributes() {
  return std::make_unique<A>();
}
}  // namespace

ConvShape same(int64_t kernel, int64_t stride, int64_t groups) {
  return {.kernel_h = kernel,
          .kernel_w = kernel,
          .stride = stride,
          .pad_h = kernel / 2,
          .pad_w = kernel / 2,
          .groups = groups};
}

Network::Network(const std::vector<int64_t>& input_shape, uint64_t seed)
    : next_seed_(seed * 0x9E3779B97F4A7C15u + 1),
      data_(relay::make_var("data", relay::tensor_type(input_shape, kFloat32))),
      input_{data_, input_shape} {}

relay::Expr Network::weight(std::vector<int64_t> shape, double deviation, double mean) {
  Tensor values = random_tensor(std::move(shape), kFloat32, next_seed_++, deviation);
  if (mean != 0)
    for (float& value : values.span<float>()) value = static_cast<float>(std::fabs(value + mean));
  return relay::constant(values);
}

Value Network::conv(const Value& x, int64_t channels, const ConvShape& s, double gain) {
  auto a = attributes<relay::ConvAttrs>();
  a->strides = {s.stride, s.stride};
  a->padding = {s.pad_h, s.pad_w, s.pad_h, s.pad_w};
  a->groups = s.groups;
  a->channels = channels;
  a->kernel_size = {s.kernel_h, s.kernel_w};
  int64_t fan_in = x.channels() / s.groups * s.kernel_h * s.kernel_w;
  relay::Expr kernel = weight({channels, x.channels() / s.groups, s.kernel_h, s.kernel_w},
                              gain / std::sqrt(static_cast<double>(fan_in)));
  return {call("nn.conv2d", {x.expr, kernel}, seal(std::move(a))),
          {x.shape[0], channels, windows(x.shape[2], s.kernel_h, s.stride, s.pad_h),
           windows(x.shape[3], s.kernel_w, s.stride, s.pad_w)}};
}

Value Network::bias_add(const Value& x) {
  return {call("nn.bias_add", {x.expr, weight({x.channels()}, 0.05)}), x.shape};
}

Value Network::batch_norm(const Value& x, double scale, double epsilon) {
  auto a = attributes<relay::NormAttrs>();
  a->epsilon = epsilon;
  std::vector<int64_t> vector{x.channels()};
  relay::Expr gamma = weight(vector, 0.1 * scale, scale), beta = weight(vector, 0.1),
              mean = weight(vector, 0.1), variance = weight(vector, 0.2, 1);
  return {relay::project(call("nn.batch_norm", {x.expr, gamma, beta, mean, variance}, seal(std::move(a))), 0),
          x.shape};
}

Value Network::relu(const Value& x) { return {call("nn.relu", {x.expr}), x.shape}; }

Value Network::relu6(const Value& x) {
  auto a = attributes<relay::ClipAttrs>();
  a->a_max = 6;
  return {call("clip", {x.expr}, seal(std::move(a))), x.shape};
}

Value Network::pool(const char* op, const Value& x, const PoolShape& s) {
  auto a = attributes<relay::PoolAttrs>();
  a->pool_size = {s.kernel, s.kernel};
  a->strides = {s.stride, s.stride};
  a->padding = {s.pad, s.pad, s.pad, s.pad};
  a->ceil_mode = s.ceil_mode;
  a->count_include_pad = true;
  return {call(op, {x.expr}, seal(std::move(a))),
          {x.shape[0], x.shape[1], windows(x.shape[2], s.kernel, s.stride, s.pad, s.ceil_mode),
           windows(x.shape[3], s.kernel, s.stride, s.pad, s.ceil_mode)}};
}

Value Network::max_pool(const Value& x, const PoolShape& shape) { return pool("nn.max_pool2d", x, shape); }
Value Network::avg_pool(const Value& x, const PoolShape& shape) { return pool("nn.avg_pool2d", x, shape); }

Value Network::global_avg_pool(const Value& x) {
  return {call("nn.global_avg_pool2d", {x.expr}), {x.shape[0], x.channels(), 1, 1}};
}

Value Network::flatten(const Value& x) {
  return {call("nn.batch_flatten", {x.expr}), {x.shape[0], shape_size(x.shape) / x.shape[0]}};
}

Value Network::dropout(const Value& x, double rate) {
  auto a = attributes<relay::DropoutAttrs>();
  a->rate = rate;
  return {relay::project(call("nn.dropout", {x.expr}, seal(std::move(a))), 0), x.shape};
}

Value Network::dense(const Value& x, int64_t units, double gain) {
  auto a = attributes<relay::DenseAttrs>();
  a->units = units;
  relay::Expr kernel = weight({units, x.shape[1]}, gain / std::sqrt(static_cast<double>(x.shape[1])));
  return bias_add({call("nn.dense", {x.expr, kernel}, seal(std::move(a))), {x.shape[0], units}});
}

Value Network::add(const Value& a, const Value& b) { return {call("add", {a.expr, b.expr}), a.shape}; }

Value Network::concatenate(const std::vector<Value>& parts) {
  auto a = attributes<relay::ConcatenateAttrs>();
  a->axis = 1;
  Value result{{}, parts[0].shape};
  std::vector<relay::Expr> items;
  result.shape[1] = 0;
  for (const Value& part : parts) {
    items.push_back(part.expr);
    result.shape[1] += part.channels();
  }
  result.expr = call("concatenate", {relay::tuple(items)}, seal(std::move(a)));
  return result;
}

relay::Module Network::finish(const Value& output) {
  auto main = std::make_unique<relay::Function>();
  main->params = {data_};
  main->body = output.expr;
  return relay::make_module(seal(std::move(main)));
}

}  // namespace lathe::models
