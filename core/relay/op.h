// The operator table: an operator is one row of its family's table (ops/*.cpp), where name, documentation,
// attributes, type relation, meaning as a tensor program, fusion and layout behaviour stand together.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/relay/expr.h"
#include "core/tir/builder.h"

namespace lathe::relay {

/// How operator fusion may combine an operator with its neighbours (Roesch et al. 2019, section 4.4), in
/// rising order: a pattern absorbs lower ones.
enum class Fusion : uint8_t {
  kElementwise,  // out[i] from in[i]
  kBroadcast,    // out[i] from in[some of i]
  kInjective,    // out[i] from in[f(i)], f one to one: reshape, transpose, pad
  kReduction,    // over rows, with a fusable output: sums, softmax, norms; takes what comes before, too
  kAnchor,       // complex with a fusable output: conv2d, dense, pooling
  kTuple,
  kOpaque,  // never fused
};

/// How a type relation answers (Relay 2019, section 3.2.2): solved, not enough known yet, or throw Error when
/// the argument types are wrong (lower case, names the operator and both shapes).
enum class Relation : uint8_t { kSolved, kWaits };

/// What a type relation sees: arguments (holes resolved as far as known) and how to state the result.
class RelationContext {
 public:
  virtual ~RelationContext() = default;
  /// The operator asked about: many operators share a relation, and its messages begin with their name.
  virtual const Op& op() const = 0;
  /// The argument's type when it is a tensor type, or null while it is a hole. Throws Error when it is
  /// something else.
  virtual const TensorType* tensor(size_t arg) = 0;
  virtual Type type(size_t arg) = 0;
  virtual size_t args() const = 0;  // of the call; a tuple counts as one
  /// The argument when it is a Constant (shapes given as tensors), or null.
  virtual const Constant* constant(size_t arg) = 0;
  virtual void result(Type type) = 0;
  /// Unifies an argument's type with what the relation demands (the weight of a conv from its input, say).
  virtual void unify_arg(size_t arg, Type type) = 0;
  /// States a == b: Error when it is false; recorded when it can't be decided (symbolic).
  virtual void equal_dims(const lathe::Expr& a, const lathe::Expr& b) = 0;
  /// Whether a == b can be shown, perhaps by choosing what is open yet. Error when they differ whatever the
  /// symbols stand for.
  virtual bool same_dim(const lathe::Expr& a, const lathe::Expr& b) = 0;
  /// States that a == b, or one of them is 1: recorded, for what same_dim() does not show.
  virtual void broadcast_dims(const lathe::Expr&, const lathe::Expr&) {}
};

using InferType = Relation (*)(RelationContext&, const Attrs&);
/// The meaning: appends blocks to the builder; inputs are the argument tensors, tuples flattened. One buffer
/// a tensor of the result.
using Compute = std::vector<tir::Buffer> (*)(tir::FuncBuilder&, const Attrs&, std::span<const tir::Buffer>,
                                             const Type& result);

/// How layout alteration (passes/alter_layout) treats an operator on blocked channels, NCHW16c.
enum class LayoutRule : uint8_t {
  kNone,           // needs its declared layout: inputs are converted back
  kElementwise,    // any layout, same for all inputs of full rank; result has it
  kAttribute,      // is told by its attribute `layout`: pooling, resizing
  kReduction,      // any layout, over height and width
  kPadding,        // any layout, of all axes but the channels
  kSlice,          // any layout; of the channels whole blocks
  kConcatenation,  // a block that divides the channels of all parts
  kBias,           // data and a vector over the channels: their sum
  kSlope,          // the same: max(x, 0) + vector * min(x, 0)
  kConvolution,    // begins blocks, with packed weights
  kDense,          // packs its weights
};

/// What an operator is to passes that give it narrower numbers than float32: bfloat16
/// (passes/to_mixed_precision), 8-bit integers (passes/quantize, passes/fake_quantization_to_integer).
enum class NarrowRule : uint8_t {
  kReal,     // computes on real numbers
  kProduct,  // a sum of products of its two operands: these are narrow, the sum is wide (Op::product)
  kChoice,   // results are elements of the first argument (of its tuple): moved, repeated, the largest; or 0
  kMean,     // of the first argument; the sum is wide (Op::mean)
  kSum,      // of two tensors: what is stored is narrow, the sum is wide
};

/// When a run may refuse to compute an operator whose arguments are of the right types.
enum class Refusal : uint8_t {
  kNever,
  kOfNothing,    // where the first argument has no elements, which types do not tell of open dimensions
  kByArguments,  // where shapes, or numbers, do not go together; or what it is there to check does not hold
};

/// Axes of a product's operands and result, counted from the front.
struct ProductAxes {
  int64_t weight, result;          // its channels, in the second operand and in the result
  std::vector<int64_t> summed;     // of the second operand, its channels first
  std::optional<int64_t> of_data;  // of the first one: the axis summed, where that is one, without windows
};

/// A sum of products of two operands, written for other element types.
struct ProductRule {
  const char* real;                               // on real numbers (and integers without zero points)
  const char* quantized;                          // on quantized operands; null: there is none
  Attrs (*with_sums_of)(const Attrs&, DataType);  // the same operator with sums of that type
  /// From the ranks of the operands; nothing for layouts that the quantized operator does not know.
  std::optional<ProductAxes> (*axes)(const Attrs&, size_t data_rank, size_t weight_rank);
};

struct Op {
  const char* name;                 // as in TVM's Relay: "nn.conv2d"
  const char* doc;                  // one or two sentences: formula, shapes
  int args = 1;                     // -1: any number
  const NodeType* attrs = nullptr;  // the attribute struct's type; null: none
  InferType infer = nullptr;
  Compute compute = nullptr;  // null: not executable (yet): on_device annotations and the like
  Fusion fusion = Fusion::kOpaque;
  LayoutRule layout = LayoutRule::kNone;
  NarrowRule narrow = NarrowRule::kReal;
  const ProductRule* product = nullptr;  // of a product, and of its form on quantized operands
  /// The attributes of the `mean` that a kMean operator is on an operand of that rank; null: of no axes.
  Attrs (*mean)(const Attrs&, size_t rank) = nullptr;
  /// Whether the result is the elements of the first argument in their order in memory, which no kernel is
  /// needed for; null: it never is. Types are null where they are not known.
  bool (*keeps_order)(const Attrs&, const TensorType* from, const TensorType* to) = nullptr;
  bool slides_window = false;  // over height and width, each channel by itself: may be computed by its reader
  bool stateful = false;       // has effects or randomness: not folded, not deduplicated
  Refusal refusal = Refusal::kNever;  // where a branch or a loop may leave it out, it is not computed before
};

/// All rows; each family is one span (ops/tables.cpp lists them, a line each).
std::span<const std::span<const Op> > op_families();
/// The row, or nullptr.
const Op* find_op(std::string_view name);
/// Names of all operators, for messages and listings.
std::vector<std::string> op_names();

}  // namespace lathe::relay
