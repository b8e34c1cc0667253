// What the zoo's builders are written with: layers over values that know their shape, with weights drawn as
// they come.
#pragma once

#include "core/models/zoo.h"

namespace lathe::models {

/// A typed expression of the network under construction: a tensor of constant shape.
struct Value {
  relay::Expr expr;
  std::vector<int64_t> shape() const;
  int64_t channels() const { return shape()[1]; }
};

struct ConvShape {
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t groups = 1;
};
/// A square kernel with padding that keeps the extent at stride 1.
ConvShape same(int64_t kernel, int64_t stride = 1, int64_t groups = 1);

struct PoolShape {
  int64_t kernel = 2, stride = 2, pad = 0;
};

class Network {
 public:
  Network(const std::vector<int64_t>& input_shape, uint64_t seed);
  Value input() const { return {data_}; }

  /// `gain`: the factor on the standard deviation 1/sqrt(fan in); sqrt(2) before a rectifier.
  Value conv(const Value& x, int64_t channels, const ConvShape& shape, double gain = kRectified);
  Value bias_add(const Value& x);
  /// Inference form, with statistics away from (0, 1); `scale` is the mean of gamma.
  Value batch_norm(const Value& x, double scale = 1, double epsilon = 1e-5);
  Value relu(const Value& x);
  Value relu6(const Value& x);
  Value max_pool(const Value& x, const PoolShape& shape);
  /// Padding counts in the mean, as torch's default has it.
  Value avg_pool(const Value& x, const PoolShape& shape);
  Value global_avg_pool(const Value& x);
  Value flatten(const Value& x);
  Value dropout(const Value& x, double rate = 0.5);
  /// With bias.
  Value dense(const Value& x, int64_t units, double gain = 1);
  Value add(const Value& a, const Value& b);
  Value concatenate(const std::vector<Value>& parts);

  relay::Module finish(const Value& output);

  static constexpr double kRectified = 1.4142135623730951;

 private:
  relay::Expr weight(std::vector<int64_t> shape, double deviation, double mean = 0);
  Value pool(const char* op, const Value& x, const PoolShape& shape);

  uint64_t next_seed_;
  relay::Var data_;
};

}  // namespace lathe::models
