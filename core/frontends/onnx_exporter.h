// How one call of Relay becomes ONNX nodes: what the rows of onnx_export_*.cpp see.
#pragma once

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "core/frontends/onnx_converter.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {

/// Names of values in the file.
using Names = std::vector<std::string>;

class Exporter {
 public:
  explicit Exporter(::onnx::GraphProto* graph) : graph_(graph) {}

  void run(const relay::Function& main);

  /// Appends a node; the result is for its attributes.
  ::onnx::NodeProto* node(const char* op, const Names& inputs, const std::string& output);
  /// Appends a node without attributes; gives its output, of a new name.
  std::string add(const char* op, const Names& inputs);
  std::string initializer(const Tensor& tensor);
  std::string ints(const std::vector<int64_t>& values);  // int64, 1-D
  std::string number(DataType dtype, double value);      // a scalar
  std::string reshaped(const std::string& value, const std::vector<int64_t>& shape);
  std::string transposed(const std::string& value, const std::vector<int64_t>& axes);
  std::string cast(const std::string& value, DataType dtype);
  std::string fresh() { return unused("t", next_); }
  /// Something of this opset was written.
  void need_opset(int version) { opset_ = std::max(opset_, version); }
  /// The lowest that has all that was written.
  int opset() const { return opset_; }

  /// A convolution or dense layer that only a bias_add along its channels reads: the two are one node.
  bool takes_bias(const relay::Expr& product) const { return biased_.count(product.get()) != 0; }
  /// The names of a call's arguments, tuples flattened.
  Names names_of_args(const relay::Call& call) const;

 private:
  void take_axes_as_inputs();
  void find_biased(const relay::Expr& body);
  void visit(const NodeRef& node);
  void write(const relay::Call& call);
  const Names& names_of(const relay::Expr& e) const;
  /// `prefix` and the next number with which it is no parameter's name.
  std::string unused(const char* prefix, int64_t& next) const;

  ::onnx::GraphProto* graph_;
  std::unordered_set<std::string> params_;
  std::unordered_set<const lathe::Node*> biased_;
  std::unordered_map<const lathe::Node*, Names> names_;  // a tuple has those of its fields
  int64_t next_ = 0;
  int opset_ = 17;
};

int32_t onnx_dtype(DataType dtype);
void set_ints(::onnx::NodeProto* node, const char* name, const std::vector<int64_t>& values);
void set_int(::onnx::NodeProto* node, const char* name, int64_t value);
void set_float(::onnx::NodeProto* node, const char* name, double value);
void set_text(::onnx::NodeProto* node, const char* name, const std::string& value);

/// A call being written: where its arguments and its results stand.
struct Written {
  const relay::Call& call;
  Names args, outputs;

  const std::string& op() const { return call.callee.as<relay::OpNode>()->name; }
  const std::string& output() const { return outputs[0]; }
  std::vector<int64_t> shape(size_t arg) const { return shape_of(call.args[arg]); }
  int64_t rank(size_t arg) const { return static_cast<int64_t>(shape(arg).size()); }
  DataType dtype(size_t arg) const { return type_of(call.args[arg]).dtype; }
  /// The type of the (first) result.
  const relay::TensorType& type() const;
  std::vector<int64_t> result_shape() const { return relay::constant_shape(type()); }
  /// The attributes as `A`; the defaults when the call has none.
  template <typename A>
  const A& attrs() const {
    static const Ref<A> defaults = make<A>();
    const A* a = call.attrs.as<A>();
    return a ? *a : *defaults;
  }
  /// `axis` of argument `arg` counted from the front.
  int64_t front(int64_t axis, size_t arg = 0) const { return axis < 0 ? axis + rank(arg) : axis; }
  template <typename... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{} {} has no ONNX form", op(), fmt::format(format, std::forward<Args>(args)...));
  }
};

/// Appends the nodes that compute w.outputs.
using Write = void (*)(Exporter& e, const Written& w);
struct ExportRow {
  const char* op;
  Write write;
  const char* onnx = nullptr;  // the operator, for rows that only name it
};
std::span<const ExportRow> elementwise_exports();
std::span<const ExportRow> nn_exports();
std::span<const ExportRow> reduce_exports();
std::span<const ExportRow> tensor_exports();
const ExportRow* find_export(const std::string& op);

/// The node of the row's own name with the call's arguments.
void plain(Exporter& e, const Written& w);
/// Whether a product is of 8-bit integers. ONNX has operators of their own for these, which sum in int32 and
/// take no bias.
bool in_8_bits(const Written& product);
/// `bias` may be "".
void write_conv(Exporter& e, const Written& w, const std::string& bias);
void write_dense(Exporter& e, const Written& w, const std::string& bias);

}  // namespace lathe::onnx
