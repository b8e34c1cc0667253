#include "core/models/network.h"

#include <cmath>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::models {

using relay::typed_call;

namespace {
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

std::vector<int64_t> Value::shape() const {
  return constant_shape(*expr->checked_type.as<relay::TensorType>());
}

Network::Network(const std::vector<int64_t>& input_shape, uint64_t seed)
    : next_seed_(seed * 0x9E3779B97F4A7C15u + 1) {
  relay::Type type = relay::tensor_type(input_shape, kFloat32);
  auto data = mutate(*relay::make_var("data", type));
  data->checked_type = type;
  data_ = seal(std::move(data));
}

relay::Expr Network::weight(std::vector<int64_t> shape, double deviation, double mean) {
  Tensor values = random_tensor(std::move(shape), kFloat32, next_seed_++, deviation);
  if (mean != 0)
    for (float& value : values.span<float>()) value = static_cast<float>(std::fabs(value + mean));
  return relay::typed_constant(values);
}

Value Network::conv(const Value& x, int64_t channels, const ConvShape& s, double gain) {
  auto a = attributes<relay::ConvAttrs>();
  a->strides = {s.stride, s.stride};
  a->padding = {s.pad_h, s.pad_w, s.pad_h, s.pad_w};
  a->groups = s.groups;
  a->channels = channels;
  a->kernel_size = {s.kernel_h, s.kernel_w};
  int64_t per_group = x.channels() / s.groups;
  double fan_in = static_cast<double>(per_group * s.kernel_h * s.kernel_w);
  relay::Expr kernel = weight({channels, per_group, s.kernel_h, s.kernel_w}, gain / std::sqrt(fan_in));
  return {typed_call("nn.conv2d", {x.expr, kernel}, seal(std::move(a)))};
}

Value Network::bias_add(const Value& x) {
  return {typed_call("nn.bias_add", {x.expr, weight({x.channels()}, 0.05)})};
}

Value Network::batch_norm(const Value& x, double scale, double epsilon) {
  auto a = attributes<relay::NormAttrs>();
  a->epsilon = epsilon;
  std::vector<int64_t> vector{x.channels()};
  relay::Expr gamma = weight(vector, 0.1 * scale, scale), beta = weight(vector, 0.1),
              mean = weight(vector, 0.1), variance = weight(vector, 0.2, 1);
  relay::Expr all = typed_call("nn.batch_norm", {x.expr, gamma, beta, mean, variance}, seal(std::move(a)));
  return {relay::typed_projection(all, 0)};
}

Value Network::relu(const Value& x) { return {typed_call("nn.relu", {x.expr})}; }

Value Network::relu6(const Value& x) {
  auto a = attributes<relay::ClipAttrs>();
  a->a_max = 6;
  return {typed_call("clip", {x.expr}, seal(std::move(a)))};
}

Value Network::pool(const char* op, const Value& x, const PoolShape& s) {
  auto a = attributes<relay::PoolAttrs>();
  a->pool_size = {s.kernel, s.kernel};
  a->strides = {s.stride, s.stride};
  a->padding = {s.pad, s.pad, s.pad, s.pad};
  a->count_include_pad = true;
  return {typed_call(op, {x.expr}, seal(std::move(a)))};
}

Value Network::max_pool(const Value& x, const PoolShape& shape) { return pool("nn.max_pool2d", x, shape); }
Value Network::avg_pool(const Value& x, const PoolShape& shape) { return pool("nn.avg_pool2d", x, shape); }
Value Network::global_avg_pool(const Value& x) { return {typed_call("nn.global_avg_pool2d", {x.expr})}; }
Value Network::flatten(const Value& x) { return {typed_call("nn.batch_flatten", {x.expr})}; }

Value Network::dropout(const Value& x, double rate) {
  auto a = attributes<relay::DropoutAttrs>();
  a->rate = rate;
  return {relay::typed_projection(typed_call("nn.dropout", {x.expr}, seal(std::move(a))), 0)};
}

Value Network::dense(const Value& x, int64_t units, double gain) {
  auto a = attributes<relay::DenseAttrs>();
  a->units = units;
  relay::Expr kernel = weight({units, x.channels()}, gain / std::sqrt(static_cast<double>(x.channels())));
  return bias_add({typed_call("nn.dense", {x.expr, kernel}, seal(std::move(a)))});
}

Value Network::add(const Value& a, const Value& b) { return {typed_call("add", {a.expr, b.expr})}; }

Value Network::concatenate(const std::vector<Value>& parts) {
  auto a = attributes<relay::ConcatenateAttrs>();
  a->axis = 1;
  std::vector<relay::Expr> items;
  for (const Value& part : parts) items.push_back(part.expr);
  return {typed_call("concatenate", {relay::typed_tuple(items)}, seal(std::move(a)))};
}

relay::Module Network::finish(const Value& output) {
  auto main = std::make_unique<relay::Function>();
  main->params = {data_};
  main->body = output.expr;
  main->result_type = output.expr->checked_type;
  return relay::make_module(seal(std::move(main)));
}

}  // namespace lathe::models
