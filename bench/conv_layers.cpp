#include "bench/conv_layers.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/relay/lower.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/layout.h"
#include "core/relay/pass.h"
#include "core/relay/passes/infer_type.h"
#include "core/runtime/thread_pool.h"
#include "core/tir/text.h"
#include "tuner/optimize.h"

namespace lathe::bench {
namespace {

using relay::Call;
using relay::Layout;
using Shape = std::vector<int64_t>;

Shape shape_of(const relay::Expr& e) {
  return relay::constant_shape(*e->checked_type.as<relay::TensorType>());
}

/// The extents of blocked `layout` along the axes `letters`: NCHW16c of 64 channels is 64 along C.
Shape plain_shape(const Shape& shape, const std::string& layout, std::string_view letters) {
  std::vector<Expr> extents(shape.begin(), shape.end());
  Shape plain;
  for (char letter : letters) plain.push_back(int_value(Layout::parse(layout).extent(letter, extents)));
  return plain;
}

/// Two numbers, one an axis, from a list that may be shorter.
Shape both(const Shape& given, int64_t otherwise) {
  if (given.empty()) return {otherwise, otherwise};
  return {given[0], given.size() > 1 ? given[1] : given[0]};
}

/// The walk from the result of a fused function back to its convolution.
class Walk {
 public:
  explicit Walk(const relay::Function& function) : function_(function) {}

  /// Nothing when there is anything but out = relu(conv + bias + residual) on the way.
  std::optional<ConvLayer> layer() {
    relay::Expr e = function_.body;
    while (const auto* call = e.as<Call>()) {
      if (call->attrs.as<relay::ConvAttrs>()) return convolution(*call);
      if (!epilogue(*call, e)) return {};
    }
    return {};
  }

 private:
  int parameter(const relay::Expr& e) const {
    for (size_t i = 0; i < function_.params.size(); ++i)
      if (function_.params[i].get() == e.get()) return static_cast<int>(i);
    return -1;
  }

  /// Steps over one operation; false when it is none of the three, or they are in another order.
  bool epilogue(const Call& call, relay::Expr& next) {
    const auto* op = call.callee.as<relay::OpNode>();
    if (!op) return false;
    ConvProblem& problem = layer_.problem;
    // Backwards: relu stands last, then the residual, then the bias next to the convolution. Each once.
    if (op->name == "nn.relu") {
      next = call.args[0];
      return !problem.bias && !problem.residual && !std::exchange(problem.relu, true);
    }
    if (op->name != "add" && op->name != "nn.bias_add") return false;
    // One argument goes on towards the convolution, the other has to be a parameter.
    const size_t chain = call.args[0].as<Call>() ? 0 : 1;
    const int other = parameter(call.args[1 - chain]);
    next = call.args[chain];
    if (other < 0) return false;
    if (shape_of(call.args[1 - chain]) == shape_of(next)) {
      layer_.residual = other;
      return !problem.bias && !std::exchange(problem.residual, true);
    }
    layer_.bias = other;
    return !std::exchange(problem.bias, true);
  }

  /// The end of the walk. Shapes and layouts are the function's; what oneDNN is given are plain ones.
  std::optional<ConvLayer> convolution(const Call& call) {
    const auto& attrs = *call.attrs.as<relay::ConvAttrs>();
    layer_.data = parameter(call.args[0]);
    layer_.weights = parameter(call.args[1]);
    if (attrs.groups != 1 || attrs.kernel_size.size() != 2 || layer_.data < 0 || layer_.weights < 0)
      return {};
    layer_.data_layout = attrs.data_layout;
    layer_.weight_layout = attrs.kernel_layout;
    layer_.out_layout = attrs.out_layout.empty() ? attrs.data_layout : attrs.out_layout;
    ConvProblem& p = layer_.problem;
    p.data = plain_shape(shape_of(call.args[0]), layer_.data_layout, "NCHW");
    p.weights = plain_shape(shape_of(call.args[1]), layer_.weight_layout, "OIHW");
    p.out = plain_shape(relay::constant_shape(*call.checked_type.as<relay::TensorType>()), layer_.out_layout,
                        "NCHW");
    p.strides = both(attrs.strides, 1);
    p.pad_begin = both(attrs.padding, 0);
    p.pad_end = attrs.padding.size() == 4 ? Shape{attrs.padding[2], attrs.padding[3]} : p.pad_begin;
    p.dilation = both(attrs.dilation, 1);
    // oneDNN counts the gaps between taps, Relay the steps.
    for (int64_t& d : p.dilation) --d;
    return layer_;
  }

  const relay::Function& function_;
  ConvLayer layer_;
};

/// A module whose `main` is this call; arguments that are no constants are its inputs.
relay::Module module_of(const Call& call) {
  std::vector<relay::Var> params;
  auto alone = mutate(call);
  for (relay::Expr& arg : alone->args) {
    if (arg.as<relay::Constant>()) continue;
    params.push_back(relay::make_var(fmt::format("x{}", params.size()), arg->checked_type));
    arg = params.back();
  }
  auto main = std::make_unique<relay::Function>();
  main->params = params;
  main->body = seal(std::move(alone));
  return relay::infer_type(relay::make_module(seal(std::move(main))));
}

Tensor plain(const Tensor& tensor, const std::string& layout, const char* letters) {
  return relay::transform_layout(tensor, Layout::parse(layout), Layout::parse(letters));
}

}  // namespace

double ConvProblem::flops() const {
  return 2.0 * static_cast<double>(shape_size(out) * weights[1] * weights[2] * weights[3]);
}

std::string ConvProblem::text() const {
  return fmt::format("{}x{}x{} -> {}, {}x{}/{} pad {}{}", data[1], data[2], data[3], weights[0], weights[2],
                     weights[3], strides[0], pad_begin[0], residual ? ", +" : "");
}

std::vector<ConvLayer> find_conv_layers(const relay::Module& model, const Target& target) {
  // Fused with other windows a convolution would be no layer that oneDNN could compute.
  const relay::Module fused = relay::run_passes(
      model, relay::inference_pipeline(),
      {.disabled = {relay::PassId::kFuseWindows}, .target = target, .evaluate = tuner::constant_evaluator()});
  std::vector<ConvLayer> layers;
  std::map<std::string, size_t> known;  // equal programs are one layer, as they are one task
  post_order(fused->functions.at("main")->body, [&](const NodeRef& node) {
    const auto* call = node.as<Call>();
    const auto* function = call ? call->callee.as<relay::Function>() : nullptr;
    if (!function || !function->attrs.primitive) return;
    auto layer = Walk(*function).layer();
    if (!layer) return;
    tir::Func workload = tir::canonical(relay::lower_function(Ref<relay::Function>(function), "task"));
    auto [found, fresh] = known.emplace(tir::workload_digest(workload), layers.size());
    if (fresh) {
      layer->call = Ref<Call>(call);
      layers.push_back(std::move(*layer));
    }
    ++layers[found->second].uses;
  });
  return layers;
}

/// Constants stay constants, so that weights are transformed ahead as in the model itself.
LayerModule::LayerModule(const ConvLayer& layer, const Target& target,
                         const tuner::ScheduleWorkload& schedule)
    : layer_(layer) {
  relay::Module module = module_of(*layer.call);
  executor_ = std::make_unique<runtime::Executor>(
      runtime::Module::from_image(tuner::final_build(module, target, schedule)), runtime::serial_parallel());
  size_t inputs = 0;
  for (const relay::Expr& argument : layer.call->args) {
    if (const auto* constant = argument.as<relay::Constant>()) {
      arguments_.push_back(constant->value);
    } else {
      arguments_.push_back(random_tensor(shape_of(argument), kFloat32, 1 + inputs));
      executor_->set_input(inputs++, arguments_.back());
    }
  }
}

ConvValues LayerModule::values() const {
  const auto argument = [&](int i) { return arguments_[static_cast<size_t>(i)]; };
  ConvValues values{plain(argument(layer_.data), layer_.data_layout, "NCHW"),
                    plain(argument(layer_.weights), layer_.weight_layout, "OIHW"),
                    {},
                    {}};
  if (layer_.bias >= 0) values.bias = argument(layer_.bias).reshaped({layer_.problem.weights[0]});
  if (layer_.residual >= 0) values.residual = plain(argument(layer_.residual), layer_.out_layout, "NCHW");
  return values;
}

Tensor LayerModule::output() const { return plain(executor_->output(0), layer_.out_layout, "NCHW"); }

}  // namespace lathe::bench
