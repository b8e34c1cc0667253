#include "core/frontends/onnx_export.h"

#include <algorithm>

#include "core/frontends/onnx_exporter.h"
#include "core/support/file.h"

namespace lathe::onnx {
namespace {
using Proto = ::onnx::TensorProto;

/// The first that knows the opset.
int ir_version_of(int opset) { return opset < 19 ? 8 : 9; }

template <typename F>
void for_each_row(F&& f) {
  for (auto family : {elementwise_exports(), nn_exports(), reduce_exports(), tensor_exports()})
    for (const ExportRow& row : family) f(row);
}

void describe(::onnx::ValueInfoProto* info, const std::string& name, const relay::Type& type) {
  const auto* tensor = type.as<relay::TensorType>();
  if (!tensor) fail("`{}` is not a tensor", name);
  info->set_name(name);
  auto* proto = info->mutable_type()->mutable_tensor_type();
  proto->set_elem_type(onnx_dtype(tensor->dtype));
  proto->mutable_shape();
  for (int64_t dim : relay::constant_shape(*tensor)) proto->mutable_shape()->add_dim()->set_dim_value(dim);
}

bool is_call_of(const relay::Expr& e, std::string_view name) {
  const auto* call = e.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  return op && op->name == name;
}

/// The axis of a bias counted from the front.
int64_t bias_axis(const Written& w) { return w.front(w.attrs<relay::ChannelAttrs>().axis); }

::onnx::AttributeProto* add_attribute(::onnx::NodeProto* node, const char* name,
                                      ::onnx::AttributeProto::AttributeType type) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

}  // namespace

int32_t onnx_dtype(DataType dtype) {
  // The inverse of dtype_from(), found by trying: one table of types is enough.
  for (int32_t type = 1; type <= Proto::BFLOAT16; ++type) {
    if (type == Proto::STRING || type == Proto::COMPLEX64 || type == Proto::COMPLEX128) continue;
    if (dtype_from(type) == dtype) return type;
  }
  fail("element type {} has no ONNX form", to_string(dtype));
}

void set_ints(::onnx::NodeProto* node, const char* name, const std::vector<int64_t>& values) {
  // An empty list would be a list of nothing, not the default.
  if (values.empty()) return;
  auto* attribute = add_attribute(node, name, ::onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute->add_ints(value);
}
void set_int(::onnx::NodeProto* node, const char* name, int64_t value) {
  add_attribute(node, name, ::onnx::AttributeProto::INT)->set_i(value);
}
void set_float(::onnx::NodeProto* node, const char* name, double value) {
  add_attribute(node, name, ::onnx::AttributeProto::FLOAT)->set_f(static_cast<float>(value));
}
void set_text(::onnx::NodeProto* node, const char* name, const std::string& value) {
  add_attribute(node, name, ::onnx::AttributeProto::STRING)->set_s(value);
}

const ExportRow* find_export(const std::string& op) {
  static const auto* table = [] {
    auto* rows = new std::unordered_map<std::string, const ExportRow*>;
    for_each_row([&](const ExportRow& row) { rows->emplace(row.op, &row); });
    return rows;
  }();
  auto found = table->find(op);
  return found == table->end() ? nullptr : found->second;
}

const relay::TensorType& Written::type() const {
  const relay::Type& type = call.checked_type;
  const auto* tuple = type.as<relay::TupleType>();
  return *(tuple ? tuple->items.at(0) : type).as<relay::TensorType>();
}

void plain(Exporter& e, const Written& w) { e.node(find_export(w.op())->onnx, w.args, w.output()); }

::onnx::NodeProto* Exporter::node(const char* op, const Names& inputs, const std::string& output) {
  auto* proto = graph_->add_node();
  proto->set_op_type(op);
  // Output names are unique, so they name nodes too.
  proto->set_name(output);
  for (const std::string& input : inputs) proto->add_input(input);
  proto->add_output(output);
  return proto;
}

std::string Exporter::add(const char* op, const Names& inputs) {
  std::string output = fresh();
  node(op, inputs, output);
  return output;
}

std::string Exporter::unused(const char* prefix, int64_t& next) const {
  std::string name;
  do name = fmt::format("{}{}", prefix, next++);
  while (params_.count(name));
  return name;
}

std::string Exporter::initializer(const Tensor& tensor) {
  std::string name = unused("c", next_);
  auto* proto = graph_->add_initializer();
  proto->set_name(name);
  proto->set_data_type(onnx_dtype(tensor.dtype()));
  for (int64_t dim : tensor.shape()) proto->add_dims(dim);
  proto->set_raw_data(tensor.data(), static_cast<size_t>(tensor.bytes()));
  return name;
}

std::string Exporter::ints(const std::vector<int64_t>& values) {
  return initializer(tensor_of(values, {static_cast<int64_t>(values.size())}, kInt64));
}
std::string Exporter::number(DataType dtype, double value) { return initializer(full({}, dtype, value)); }
std::string Exporter::reshaped(const std::string& value, const std::vector<int64_t>& shape) {
  return add("Reshape", {value, ints(shape)});
}
std::string Exporter::transposed(const std::string& value, const std::vector<int64_t>& axes) {
  std::string output = fresh();
  set_ints(node("Transpose", {value}, output), "perm", axes);
  return output;
}
std::string Exporter::cast(const std::string& value, DataType dtype) {
  std::string output = fresh();
  set_int(node("Cast", {value}, output), "to", onnx_dtype(dtype));
  return output;
}

void Exporter::run(const relay::Function& main) {
  for (const relay::Var& param : main.params) {
    names_[param.get()] = {param->name};
    params_.insert(param->name);
    describe(graph_->add_input(), param->name, param->checked_type);
  }
  std::vector<relay::Expr> outputs{main.body};
  // A tuple as the result gives one output for each item.
  if (const auto* t = main.body.as<relay::Tuple>()) outputs = t->items;
  find_biased(main.body);
  post_order(main.body, [&](const NodeRef& node) { visit(node); });
  int64_t count = 0;
  for (const relay::Expr& output : outputs)
    for (size_t i = 0; i < names_of(output).size(); ++i) {
      const std::string name = unused("output_", count);
      // A name of its own for each output: one value may be several of them, or an input.
      node("Identity", {names_of(output)[i]}, name);
      const auto* tuple = output->checked_type.as<relay::TupleType>();
      describe(graph_->add_output(), name, tuple ? tuple->items[i] : output->checked_type);
    }
  if (opset_ >= 18) take_axes_as_inputs();
}

/// As all reductions have them since opset 18. Which it is to be is known when all is written.
void Exporter::take_axes_as_inputs() {
  for (::onnx::NodeProto& node : *graph_->mutable_node()) {
    if (!node.op_type().starts_with("Reduce")) continue;
    auto& attributes = *node.mutable_attribute();
    const auto axes = std::find_if(attributes.begin(), attributes.end(),
                                   [](const auto& each) { return each.name() == "axes"; });
    if (axes == attributes.end()) continue;
    node.add_input(ints({axes->ints().begin(), axes->ints().end()}));
    attributes.erase(axes);
  }
}

void Exporter::find_biased(const relay::Expr& body) {
  // A product that somebody else reads too must be written without the bias.
  std::unordered_map<const lathe::Node*, int> uses;
  post_order(body, [&](const NodeRef& node) {
    if (const auto* tuple = node.as<relay::Tuple>())
      for (const relay::Expr& item : tuple->items) ++uses[item.get()];
    const auto* call = node.as<relay::Call>();
    if (!call) return;
    for (const relay::Expr& arg : call->args) ++uses[arg.get()];
    if (!is_call_of(node.cast<relay::RelayNode>(), "nn.bias_add") || bias_axis({*call, {}, {}}) != 1) return;
    const relay::Expr& product = call->args[0];
    auto rank = shape_of(product).size();
    bool takes_bias = is_call_of(product, "nn.conv1d") || is_call_of(product, "nn.conv2d") ||
                      is_call_of(product, "nn.conv3d") || (is_call_of(product, "nn.dense") && rank == 2);
    if (takes_bias && !in_8_bits({*product.as<relay::Call>(), {}, {}})) biased_.insert(product.get());
  });
  std::erase_if(biased_, [&](const lathe::Node* product) { return uses[product] != 1; });
}

const Names& Exporter::names_of(const relay::Expr& e) const {
  auto found = names_.find(e.get());
  if (found == names_.end()) fail("a {} has no ONNX form", e->type().name);
  return found->second;
}

Names Exporter::names_of_args(const relay::Call& call) const {
  Names args;
  for (const relay::Expr& arg : call.args) {
    const Names& names = names_of(arg);
    args.insert(args.end(), names.begin(), names.end());
  }
  return args;
}

void Exporter::visit(const NodeRef& ref) {
  if (const auto* c = ref.as<relay::Constant>()) names_[c] = {initializer(c->value)};
  if (const auto* t = ref.as<relay::Tuple>()) {
    Names names;
    for (const relay::Expr& item : t->items)
      names.insert(names.end(), names_of(item).begin(), names_of(item).end());
    names_[t] = std::move(names);
  }
  if (const auto* p = ref.as<relay::Projection>()) {
    const Names& names = names_of(p->tuple);
    auto index = static_cast<size_t>(p->index);
    // Names of fields are flat, which is right for tuples of tensors.
    if (index >= names.size() || names[index].empty()) fail("field {} of a tuple has no ONNX form", p->index);
    names_[p] = {names[index]};
  }
  if (const auto* call = ref.as<relay::Call>()) write(*call);
}

void Exporter::write(const relay::Call& call) {
  const auto* op = call.callee.as<relay::OpNode>();
  if (!op) fail("only calls of operators have an ONNX form");
  // Its bias_add comes later and writes both; an empty name must not be read by anybody else.
  if (biased_.count(&call)) {
    names_[&call] = {""};  // written with its bias
    return;
  }
  const ExportRow* row = find_export(op->name);
  if (!row) fail("operator {} has no ONNX form", op->name);
  Names outputs{fresh()};
  if (const auto* tuple = call.checked_type.as<relay::TupleType>())
    while (outputs.size() < tuple->items.size()) outputs.push_back(fresh());
  // Results that no node made have no name, so that reading them is refused.
  int before = graph_->node_size();
  row->write(*this, {call, names_of_args(call), outputs});
  std::unordered_set<std::string> made;
  for (int i = before; i < graph_->node_size(); ++i)
    made.insert(graph_->node(i).output().begin(), graph_->node(i).output().end());
  for (std::string& output : outputs)
    if (!made.count(output)) output.clear();  // of batch_norm and dropout only the value is
  names_[&call] = std::move(outputs);
}

bool has_onnx_form(const std::string& op) { return find_export(op) != nullptr; }

void export_file(const relay::Module& module, const std::string& path) {
  auto main = module->functions.find("main");
  if (main == module->functions.end()) fail("the module has no function @main");
  ::onnx::ModelProto model;
  model.set_producer_name("lathe");
  model.mutable_graph()->set_name("main");
  Exporter exporter(model.mutable_graph());
  exporter.run(*main->second);
  model.set_ir_version(ir_version_of(exporter.opset()));
  auto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(exporter.opset());
  std::string bytes;
  if (!model.SerializeToString(&bytes)) fail("{}: the model is too large for one ONNX file", path);
  write_file(path, bytes);
}

}  // namespace lathe::onnx
