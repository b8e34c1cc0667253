// ONNX models in (opset 7 on; https://onnx.ai/onnx/operators). Protobuf types stop in this room.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/relay/expr.h"

namespace lathe::onnx {

struct ValueInfo {
  std::string name;
  std::vector<int64_t> shape;  // -1: not known, or to stay open
  DataType dtype;
  bool sequence = false,
       optional = false;  // of a sequence `dtype` is that of its items, which have shapes of their own
};

/// `main` of the module takes the inputs in order and gives the outputs in order (a tuple when there are
/// several). Weights are constants in it. Types are inferred; shapes are constant but for the dimensions that
/// were to stay open, which are symbols. A sequence is an input, or an output, for each item: `name.0`,
/// `name.1`, ...
struct ImportedModel {
  relay::Module module;
  std::vector<ValueInfo> inputs;
  std::vector<std::string> outputs;
};

struct ImportOptions {
  /// Shapes of inputs, by name: how open dimensions are bound. A dimension of one name is one number in all,
  /// so that one of the inputs that have it is enough.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Inputs whose value is known now (a shape given as a tensor, say): they become constants.
  std::map<std::string, Tensor> constants = {};
  /// Inputs that are sequences without items, or optionals without a value. Other sequences have as many
  /// items as `shapes` has names `input.0`, `input.1`, ...
  std::set<std::string> empty = {};
  /// Whether a dimension that nothing settles stays open, by its name, or as INPUT.AXIS where it has none.
  /// Null: none does.
  std::function<bool(const std::string& dim)> keeps_open = {};
  /// The least size of a dimension that stays open, which the run sees to. Null: 0 for all.
  std::function<int64_t(const std::string& dim)> least_size = {};
  /// Whether the sizes that the file states for dimensions of inputs, 1 excepted, are open ones: of equal
  /// numbers one and the same, "d3". Vectors of integers keep theirs.
  bool forget_sizes = false;
};

/// Throws Error on a file that is not ONNX or is cut off, on unsupported operators (one message that names
/// all of them), on an operator's wrong use (naming the node), on dimensions that the file and `options`
/// leave open (naming the inputs and the flags that settle them), on external data outside the model's
/// folder.
ImportedModel import_file(const std::string& path, const ImportOptions& options = {});
ImportedModel import_bytes(const std::string& bytes, const std::string& name,
                           const ImportOptions& options = {});

/// The declared inputs, initializers excluded, and outputs. Reads the file, converts nothing.
std::vector<ValueInfo> declared_inputs(const std::string& path);
std::vector<ValueInfo> declared_outputs(const std::string& path);

/// A TensorProto file (.pb), as in the conformance suite's data sets.
Tensor load_tensor(const std::string& path);
/// A file of what `declared` says: a SequenceProto or an OptionalProto too. The items; none for no value.
std::vector<Tensor> load_value(const std::string& path, const ValueInfo& declared);

/// The operators that import knows, sorted.
std::vector<std::string> supported_operators();

}  // namespace lathe::onnx
