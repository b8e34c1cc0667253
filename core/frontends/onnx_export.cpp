#include "core/frontends/onnx_export.h"

#include <onnx/onnx_pb.h>

#include <unordered_map>
#include <unordered_set>

#include "core/frontends/onnx_converter.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/support/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Proto = ::onnx::TensorProto;

int32_t onnx_dtype(DataType dtype) {
  for (int32_t type = 1; type <= Proto::BFLOAT16; ++type) {
    if (type == Proto::STRING || type == Proto::COMPLEX64 || type == Proto::COMPLEX128) continue;
    if (dtype_from(type) == dtype) return type;
  }
  fail("element type {} has no ONNX form", to_string(dtype));
}

using Args = std::vector<std::string>;

class Exporter {
 public:
  explicit Exporter(::onnx::GraphProto* graph) : graph_(graph) {}

  void run(const relay::Function& main) {
    for (const relay::Var& param : main.params) {
      names_[param.get()] = param->name;
      describe(graph_->add_input(), param->name, param->checked_type);
    }
    std::vector<relay::Expr> outputs{main.body};
    if (const auto* t = main.body.as<relay::Tuple>()) outputs = t->items;
    find_biased(main.body);
    post_order(main.body, [&](const NodeRef& node) { visit(node); });
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::string name = fmt::format("output_{}", i);
      node("Identity", {name_of(outputs[i])}, name);
      describe(graph_->add_output(), name, outputs[i]->checked_type);
    }
  }

  ::onnx::NodeProto* node(const char* op, const std::vector<std::string>& inputs, const std::string& output) {
    auto* proto = graph_->add_node();
    proto->set_op_type(op);
    proto->set_name(output);
    for (const std::string& input : inputs) proto->add_input(input);
    proto->add_output(output);
    return proto;
  }
  std::string initializer(const Tensor& tensor) {
    std::string name = fmt::format("c{}", next_++);
    auto* proto = graph_->add_initializer();
    proto->set_name(name);
    proto->set_data_type(onnx_dtype(tensor.dtype()));
    for (int64_t dim : tensor.shape()) proto->add_dims(dim);
    proto->set_raw_data(tensor.data(), static_cast<size_t>(tensor.bytes()));
    return name;
  }
  /// A convolution or dense layer that only a bias_add along its channels reads: the two are one node.
  bool takes_bias(const relay::Expr& product) const { return biased_.count(product.get()) != 0; }
  Args names_of_args(const relay::Call& call) const;
  std::string fresh() { return fmt::format("t{}", next_++); }
  std::string name_of(const relay::Expr& e) const {
    auto found = names_.find(e.get());
    if (found == names_.end()) fail("a {} has no ONNX form", e->type().name);
    return found->second;
  }

 private:
  static void describe(::onnx::ValueInfoProto* info, const std::string& name, const relay::Type& type) {
    const auto* tensor = type.as<relay::TensorType>();
    if (!tensor) fail("`{}` is not a tensor", name);
    info->set_name(name);
    auto* proto = info->mutable_type()->mutable_tensor_type();
    proto->set_elem_type(onnx_dtype(tensor->dtype));
    for (int64_t dim : relay::constant_shape(*tensor)) proto->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  void find_biased(const relay::Expr& body);
  void visit(const NodeRef& node);

  ::onnx::GraphProto* graph_;
  std::unordered_set<const lathe::Node*> biased_;
  std::unordered_map<const lathe::Node*, std::string> names_;
  int64_t next_ = 0;
};

bool is_call_of(const relay::Expr& e, std::string_view name) {
  const auto* call = e.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  return op && op->name == name;
}

/// The axis of a bias counted from the front.
int64_t bias_axis(const relay::Call& call) {
  const auto* a = call.attrs.as<relay::ChannelAttrs>();
  int64_t axis = a ? a->axis : 1;
  return axis < 0 ? axis + static_cast<int64_t>(shape_of(call.args[0]).size()) : axis;
}

void Exporter::find_biased(const relay::Expr& body) {
  std::unordered_map<const lathe::Node*, int> uses;
  post_order(body, [&](const NodeRef& node) {
    const auto* call = node.as<relay::Call>();
    if (const auto* tuple = node.as<relay::Tuple>())
      for (const relay::Expr& item : tuple->items) ++uses[item.get()];
    if (!call) return;
    for (const relay::Expr& arg : call->args) ++uses[arg.get()];
    bool adds = is_call_of(node.cast<relay::RelayNode>(), "nn.bias_add");
    if (adds && ((is_call_of(call->args[0], "nn.conv2d") && bias_axis(*call) == 1) ||
                 (is_call_of(call->args[0], "nn.dense") && bias_axis(*call) == 1 &&
                  shape_of(call->args[0]).size() == 2)))
      biased_.insert(call->args[0].get());
  });
  std::erase_if(biased_, [&](const lathe::Node* product) { return uses[product] != 1; });
}

void set_ints(::onnx::NodeProto* node, const char* name, const Ints& values) {
  if (values.empty()) return;
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}
void set_int(::onnx::NodeProto* node, const char* name, int64_t value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(value);
}
void set_float(::onnx::NodeProto* node, const char* name, double value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::FLOAT);
  attribute->set_f(static_cast<float>(value));
}

/// All begins then all ends, from one number, one an axis, or all.
Ints pads_of(const Ints& padding, size_t axes) {
  if (padding.empty()) return Ints(2 * axes, 0);
  if (padding.size() == 1) return Ints(2 * axes, padding[0]);
  Ints pads = padding;
  if (pads.size() == axes) pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}
Ints each_axis(const Ints& values, size_t axes, int64_t otherwise) {
  if (values.empty()) return Ints(axes, otherwise);
  return values.size() == 1 ? Ints(axes, values[0]) : values;
}

using Write = void (*)(Exporter&, const relay::Call&, Args, const std::string& output);

template <const char* kOp()>
void plain(Exporter& e, const relay::Call&, Args args, const std::string& output) {
  e.node(kOp(), args, output);
}

void conv(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto& a = *call.attrs.as<relay::ConvAttrs>();
  if (!a.data_layout.empty() && a.data_layout != "NCHW")
    fail("nn.conv2d in layout {} has no ONNX form", a.data_layout);
  auto* node = e.node("Conv", args, output);
  set_ints(node, "strides", each_axis(a.strides, 2, 1));
  set_ints(node, "pads", pads_of(a.padding, 2));
  set_ints(node, "dilations", each_axis(a.dilation, 2, 1));
  set_int(node, "group", a.groups);
}

void pool(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto& a = *call.attrs.as<relay::PoolAttrs>();
  bool average = call.callee.as<relay::OpNode>()->name == "nn.avg_pool2d";
  auto* node = e.node(average ? "AveragePool" : "MaxPool", args, output);
  set_ints(node, "kernel_shape", each_axis(a.pool_size, 2, 1));
  set_ints(node, "strides", each_axis(a.strides, 2, 1));
  set_ints(node, "pads", pads_of(a.padding, 2));
  set_int(node, "ceil_mode", a.ceil_mode);
  if (average) set_int(node, "count_include_pad", a.count_include_pad);
}

void batch_norm(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto* a = call.attrs.as<relay::NormAttrs>();
  set_float(e.node("BatchNormalization", args, output), "epsilon", a ? a->epsilon : 1e-5);
}

void dense(Exporter& e, const relay::Call&, Args args, const std::string& output) {
  set_int(e.node("Gemm", args, output), "transB", 1);
}

void bias_add(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  if (e.takes_bias(call.args[0])) {
    const auto& product = *call.args[0].as<relay::Call>();
    Args operands = e.names_of_args(product);
    operands.push_back(args[1]);
    return is_call_of(call.args[0], "nn.conv2d") ? conv(e, product, operands, output)
                                                 : dense(e, product, operands, output);
  }
  Ints shape(shape_of(call.args[0]).size() - static_cast<size_t>(bias_axis(call)), 1);
  shape[0] = -1;
  std::string column = e.fresh();
  e.node("Reshape", {args[1], e.initializer(tensor_of(shape, {static_cast<int64_t>(shape.size())}, kInt64))},
         column);
  e.node("Add", {args[0], column}, output);
}

/// Scale and zero point of one number, or of one a channel.
template <const char* kOp()>
void quantization(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto* a = call.attrs.as<relay::QuantizeAttrs>();
  auto* node = e.node(kOp(), args, output);
  int64_t axis = a ? a->axis : -1, rank = static_cast<int64_t>(shape_of(call.args[0]).size());
  if (shape_of(call.args[1]).size() == 1) set_int(node, "axis", axis < 0 ? axis + rank : axis);
}

void clip(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto& a = *call.attrs.as<relay::ClipAttrs>();
  e.node("Clip",
         {args[0], e.initializer(full({}, kFloat32, a.a_min)), e.initializer(full({}, kFloat32, a.a_max))},
         output);
}

void concatenate(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  set_int(e.node("Concat", args, output), "axis", call.attrs.as<relay::ConcatenateAttrs>()->axis);
}

void softmax(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto* a = call.attrs.as<relay::SoftmaxAttrs>();
  set_int(e.node("Softmax", args, output), "axis", a ? a->axis : -1);
}

/// Any pure change of shape.
void reshape_to(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  Ints shape = relay::constant_shape(*call.checked_type.as<relay::TensorType>());
  e.node("Reshape", {args[0], e.initializer(tensor_of(shape, {static_cast<int64_t>(shape.size())}, kInt64))},
         output);
}

void mean(Exporter& e, const relay::Call& call, Args args, const std::string& output) {
  const auto& a = *call.attrs.as<relay::ReduceAttrs>();
  auto* node = e.node("ReduceMean", args, output);
  if (a.axis) set_ints(node, "axes", *a.axis);
  set_int(node, "keepdims", a.keepdims);
}

constexpr const char* kQuantizeLinear() { return "QuantizeLinear"; }
constexpr const char* kDequantizeLinear() { return "DequantizeLinear"; }
constexpr const char* kAdd() { return "Add"; }
constexpr const char* kMul() { return "Mul"; }
constexpr const char* kSub() { return "Sub"; }
constexpr const char* kRelu() { return "Relu"; }
constexpr const char* kIdentity() { return "Identity"; }
constexpr const char* kGlobalAveragePool() { return "GlobalAveragePool"; }
constexpr const char* kGlobalMaxPool() { return "GlobalMaxPool"; }

struct Row {
  const char* op;
  Write write;
};
constexpr Row kRows[] = {
    {"nn.conv2d", conv},
    {"nn.max_pool2d", pool},
    {"nn.avg_pool2d", pool},
    {"nn.global_avg_pool2d", plain<kGlobalAveragePool>},
    {"nn.global_max_pool2d", plain<kGlobalMaxPool>},
    {"nn.batch_norm", batch_norm},
    {"nn.bias_add", bias_add},
    {"nn.dense", dense},
    {"qnn.quantize", quantization<kQuantizeLinear>},
    {"qnn.dequantize", quantization<kDequantizeLinear>},
    {"nn.relu", plain<kRelu>},
    {"nn.softmax", softmax},
    {"nn.batch_flatten", reshape_to},
    {"nn.dropout", plain<kIdentity>},
    {"add", plain<kAdd>},
    {"multiply", plain<kMul>},
    {"subtract", plain<kSub>},
    {"clip", clip},
    {"concatenate", concatenate},
    {"reshape", reshape_to},
    {"squeeze", reshape_to},
    {"expand_dims", reshape_to},
    {"mean", mean},
};

Args Exporter::names_of_args(const relay::Call& call) const {
  Args args;
  for (const relay::Expr& arg : call.args) {
    if (const auto* t = arg.as<relay::Tuple>())
      for (const relay::Expr& item : t->items) args.push_back(name_of(item));
    else
      args.push_back(name_of(arg));
  }
  return args;
}

void Exporter::visit(const NodeRef& ref) {
  if (const auto* c = ref.as<relay::Constant>()) names_[c] = initializer(c->value);
  if (const auto* p = ref.as<relay::Projection>()) {  // batch_norm and dropout: field 0 is the value
    if (p->index != 0) fail("field {} of a tuple has no ONNX form", p->index);
    names_[p] = name_of(p->tuple);
  }
  const auto* call = ref.as<relay::Call>();
  if (!call) return;
  const auto* op = call->callee.as<relay::OpNode>();
  if (!op) fail("only calls of operators have an ONNX form");
  if (takes_bias(ref.cast<relay::RelayNode>())) {
    names_[call] = "";  // written with its bias
    return;
  }
  Args args = names_of_args(*call);
  std::string output = fresh();
  names_[call] = output;
  for (const Row& row : kRows)
    if (op->name == row.op) return row.write(*this, *call, args, output);
  fail("operator {} has no ONNX form", op->name);
}

}  // namespace

void export_file(const relay::Module& module, const std::string& path) {
  auto main = module->functions.find("main");
  if (main == module->functions.end()) fail("the module has no function @main");
  ::onnx::ModelProto model;
  model.set_ir_version(7);
  model.set_producer_name("lathe");
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(13);
  model.mutable_graph()->set_name("main");
  Exporter(model.mutable_graph()).run(*main->second);
  std::string bytes;
  if (!model.SerializeToString(&bytes)) fail("{}: the model is too large for one ONNX file", path);
  write_file(path, bytes);
}

}  // namespace lathe::onnx
