// How one ONNX node becomes Relay: what the converters of onnx_*.cpp see. An operator is one row of its
// family's table.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <span>

#include "core/frontends/onnx.h"
#include "core/relay/op.h"

namespace lathe::onnx {

/// An expression with a known tensor type, as most ONNX values are; or a sequence: a relay::Tuple of its
/// items.
using Value = relay::Expr;
using Values = std::vector<Value>;
/// An optional without a value.
const Value& no_value();

/// Calls `op`, infers the result's type from the arguments' and, when all arguments are small constants,
/// folds it, so that chains of shape arithmetic vanish while they are imported. Throws Error when the type
/// relation refuses.
Value emit(const char* op, std::vector<Value> args, relay::Attrs attrs = nullptr);
Value constant(Tensor value);
Value int_constant(const std::vector<int64_t>& values);  // int64, 1-D
Value scalar(DataType dtype, double value);
/// Throws Error for a sequence.
const relay::TensorType& type_of(const Value& value);
/// Throws Error where a dimension is open.
std::vector<int64_t> shape_of(const Value& value);
/// The value's tensor when it is known at import, or null.
const Tensor* known(const Value& value);
/// Field `index` of a tuple-typed value.
Value field_of(const Value& tuple, int64_t index);
Value tuple_of(const std::vector<Value>& items);
Value reshape(const Value& value, const std::vector<int64_t>& shape);
Value cast_to(const Value& value, DataType dtype);

/// A TensorProto as a tensor; `folder` is where external data may lie. Throws Error on sizes that disagree.
Tensor tensor_from(const ::onnx::TensorProto& proto, const std::string& folder);
/// The same of one that states the elements that are not 0.
Tensor tensor_from(const ::onnx::SparseTensorProto& proto, const std::string& folder);
DataType dtype_from(int32_t onnx_type);
/// The name of a type of 4 bits, or of 8 that are a float: of constants alone, whose numbers are held in a
/// wider type. Null for another.
const char* small_type(int32_t onnx_type);

/// Elements of a tensor that has none are taken: a loop without steps, which this is a body of, takes none.
class NothingToTake : public Error {
 public:
  using Error::Error;
};

/// The import around a node.
class Surroundings {
 public:
  /// The outputs of a graph that is an attribute, for these inputs; it sees the values around its node.
  virtual std::vector<Value> run(const ::onnx::GraphProto& graph, const std::vector<Value>& inputs) = 0;
  /// Whether the graph may be written out so many times more: loops within loops soon are more nodes than
  /// any machine compiles.
  virtual bool has_room_for(const ::onnx::GraphProto& graph, int64_t times) const = 0;
  /// The rank that the graph states of a value of its own.
  virtual std::optional<int64_t> stated_rank(const std::string& name) const = 0;

 protected:
  ~Surroundings() = default;
};

class Node {
 public:
  Node(const ::onnx::NodeProto& proto, int64_t opset, std::vector<Value> inputs, std::string folder,
       Surroundings& around)
      : proto_(proto),
        op_(proto.op_type()),
        opset_(opset),
        inputs_(std::move(inputs)),
        folder_(std::move(folder)),
        around_(around) {}

  int64_t opset() const { return opset_; }
  const std::string& op() const { return op_; }
  /// A node of the standard's operator `op` with other inputs and the same attributes.
  Node as(std::string op, std::vector<Value> inputs, int64_t opset = kNewest) const;
  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return static_cast<size_t>(proto_.output_size()); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  /// Input i; rejects the node when it is missing.
  const Value& in(size_t i) const;
  std::vector<int64_t> shape(size_t i) const { return shape_of(in(i)); }
  /// The same, open dimensions among them as expressions.
  const std::vector<Expr>& dims(size_t i) const { return type_of(in(i)).shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(type_of(in(i)).shape.size()); }
  DataType dtype(size_t i) const { return type_of(in(i)).dtype; }
  /// Extent of input i along `axis`, which is as axis() gives it.
  int64_t dim(size_t i, int64_t axis) const;
  /// All inputs; rejects the node when one is missing.
  const std::vector<Value>& all() const;
  /// The numbers of input i, which must be known at import. Integers beyond kLargest are rejected.
  std::vector<int64_t> ints_in(size_t i) const;
  std::vector<double> reals_in(size_t i) const;
  /// The same, of sizes: open dimensions among them (onnx_dims.h) are expressions.
  std::vector<Expr> sizes_in(size_t i) const;
  /// Input i, which must be known at import.
  const Tensor& known_in(size_t i) const;
  /// The one number of input i.
  int64_t int_in(size_t i) const;
  double real_in(size_t i) const;
  /// Positions that may lie outside and mean its end then: as ints_in, but clamped to +-kLargest.
  std::vector<int64_t> positions_in(size_t i) const;
  /// The same, of which some may be open dimensions.
  std::vector<Expr> open_positions_in(size_t i) const;
  std::vector<int64_t> positions(const char* name) const;
  int64_t position(const char* name, int64_t otherwise) const;

  bool has_attr(const char* name) const;
  /// Attributes; the node is rejected where one is of another type. Integers beyond kLargest are rejected.
  int64_t integer(const char* name, int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> ints(const char* name, std::vector<int64_t> otherwise) const;
  std::vector<double> reals(const char* name) const;       // none: empty
  std::vector<std::string> texts(const char* name) const;  // none: empty
  std::optional<Tensor> tensor(const char* name) const;
  std::optional<Tensor> sparse_tensor(const char* name) const;
  /// The outputs of the graph that attribute `name` holds.
  std::vector<Value> run(const char* name, const std::vector<Value>& inputs) const;
  /// The type of output i of that graph, where the file says all of it; null else.
  relay::Type declared_output(const char* name, size_t i) const;
  /// The rank that the file states of output 0, which tells what the inputs' types do not.
  std::optional<int64_t> stated_rank() const { return around_.stated_rank(proto_.output(0)); }
  /// Whether so many steps of a loop, whose body attribute `name` holds, may be written out.
  bool may_unroll(const char* name, int64_t steps) const;
  using Type = ::onnx::AttributeProto::AttributeType;
  const ::onnx::AttributeProto* find(const char* name, Type type) const;

  /// The version of the standard that operators are of which have none.
  static constexpr int64_t kNewest = 24;
  /// Larger sizes and offsets than these are in no model, and their products would overflow.
  static constexpr int64_t kLargest = int64_t{1} << 30;
  /// No constant that is made at import has more elements: 1 GiB of float32.
  static constexpr int64_t kMostConstant = int64_t{1} << 28;
  /// No tensor has more dimensions.
  static constexpr int64_t kMostDims = 64;
  /// Loops and recurrences are unrolled up to so many steps.
  static constexpr int64_t kMostSteps = int64_t{1} << 12;

  /// An axis counted from the end when negative; rejects the node when it is outside, as all are of a scalar.
  int64_t axis(int64_t value, int64_t rank) const;
  /// `dims`; rejects the node when a constant of that shape would be too large to be made at import.
  const std::vector<int64_t>& constant_shape(const std::vector<int64_t>& dims) const;
  template <typename... Args>
  [[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const ::onnx::GraphProto& graph(const char* name) const;
  int64_t in_range(int64_t value) const;

  const ::onnx::NodeProto& proto_;
  std::string op_;
  int64_t opset_;
  std::vector<Value> inputs_;
  std::string folder_;
  Surroundings& around_;
};

/// What is convolved with the weight at input `weight`, and how.
struct ConvOperands {
  Value data;
  relay::Attrs attrs;
};
/// Of input 0, with elements of `zero` around it where the attributes cannot tell how many.
ConvOperands conv_operands(const Node& node, size_t weight, const Value& zero,
                           std::optional<DataType> out_dtype = {});
/// NumPy's matmul: 1-D operands become matrices, leading dimensions broadcast. `dense(rows, w)` is rows times
/// the transpose of w, for a right operand that is one matrix.
Value matrix_product(const Node& node, Value a, Value b,
                     FunctionRef<Value(const Value&, const Value&)> dense);

using Convert = std::vector<Value> (*)(const Node&);

/// Floats of 16 bits as they are, or computed in float32 and rounded once: for what sums, or has more than
/// one step. Products are kGiven and say themselves what they sum in, so that their operands stay narrow.
enum class Arithmetic : uint8_t { kGiven, kWide };
struct Converter {
  const char* op;
  Convert convert;
  Arithmetic arithmetic = Arithmetic::kGiven;
};

/// The row of an operator by its full name (onnx_functions.h); null where there is none.
const Converter* find_converter(const std::string& full_name);
/// The node as its row converts it.
std::vector<Value> converted(const Converter& row, const Node& node);
/// The node as it would be converted were it of the operator of that full name, with these inputs.
std::vector<Value> converted_as(const char* full_name, const Node& node, std::vector<Value> inputs,
                                int64_t opset = Node::kNewest);

// The families, a file each: a list that is read as declarations here, and as calls where rows are collected.
/// Of the standard's operators.
#define LATHE_ONNX_FAMILIES                                                                                 \
  attention_converters(), col2im_converters(), control_converters(), data_sized_converters(),               \
      einsum_converters(), image_converters(), linear_attention_converters(), loss_converters(),            \
      math_converters(), nn_converters(), pool_converters(), quantize_converters(), recurrent_converters(), \
      reduce_converters(), resize_converters(), sequence_converters(), shape_converters(),                  \
      signal_converters(), slice_converters(), tensor_converters()
/// Of the domain com.microsoft, which ONNX Runtime's optimizer and quantizer write.
#define LATHE_ONNX_CONTRIB_FAMILIES                                                       \
  contrib_attention_converters(), contrib_fused_converters(), contrib_image_converters(), \
      contrib_matrix_converters(), contrib_quantized_converters(), contrib_weight_converters()
std::span<const Converter> LATHE_ONNX_FAMILIES;
std::span<const Converter> LATHE_ONNX_CONTRIB_FAMILIES;

}  // namespace lathe::onnx
