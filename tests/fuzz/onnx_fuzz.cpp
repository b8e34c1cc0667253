// ONNX files, imported and optimized. The seeds are a small case of each operator in Debian's conformance
// data, these cases changed (onnx_mutations.h), and single nodes with inputs and attributes drawn at random:
// mutated bytes alone seldom are a well-formed node that means nothing.
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <random>
#include <set>

#include "core/frontends/onnx.h"
#include "core/program/stretches.h"
#include "core/relay/pass.h"
#include "core/support/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/onnx_mutations.h"

namespace lathe::fuzz {
namespace {
constexpr uint32_t kRandomNodes = 2000, kMutantsOfCase = 6;

class RandomNode {
 public:
  explicit RandomNode(uint32_t seed) : random_(seed) {}

  std::string model() {
    ::onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(pick<int64_t>({6, 9, 11, 13, 17, 18}));
    ::onnx::GraphProto& graph = *model.mutable_graph();
    ::onnx::NodeProto& node = *graph.add_node();
    static const std::vector<std::string> operators = onnx::supported_operators();
    set_operator(node, operators[random_() % operators.size()]);
    for (uint32_t i = 0, inputs = 1 + random_() % 5; i < inputs; ++i) {
      std::string name = random_() % 16 ? "x" + std::to_string(i) : "";
      node.add_input(name);
      if (name.empty()) continue;
      random_() % 2 ? add_input(graph, name) : add_constant(graph, name);
    }
    for (uint32_t i = 0, outputs = random_() % 4 ? 1 : 3; i < outputs; ++i)
      node.add_output("y" + std::to_string(i));
    graph.add_output()->set_name("y0");
    for (uint32_t i = random_() % 5; i > 0; --i) add_attribute(node);
    return model.SerializeAsString();
  }

 private:
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  int64_t number() {
    return pick<int64_t>({0, 1, 1, 2, 2, 3, 4, -1, -1, -2, -5, 7, INT64_MAX, INT64_MIN, int64_t{1} << 31});
  }
  int element_type() {
    return pick<int>({::onnx::TensorProto::FLOAT, ::onnx::TensorProto::FLOAT, ::onnx::TensorProto::INT64,
                      ::onnx::TensorProto::INT8, ::onnx::TensorProto::UINT8, ::onnx::TensorProto::BOOL,
                      ::onnx::TensorProto::DOUBLE});
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> dims(random_() % 6);
    for (int64_t& dim : dims) dim = pick<int64_t>({1, 1, 2, 3, 4, 4, 5, 8, 0});
    return dims;
  }

  void add_input(::onnx::GraphProto& graph, const std::string& name) {
    auto& input = *graph.add_input();
    input.set_name(name);
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(element_type());
    type.mutable_shape();
    for (int64_t dim : shape()) type.mutable_shape()->add_dim()->set_dim_value(dim);
  }

  void add_constant(::onnx::GraphProto& graph, const std::string& name) {
    auto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    bool integers = random_() % 2;
    tensor.set_data_type(integers ? ::onnx::TensorProto::INT64 : ::onnx::TensorProto::FLOAT);
    int64_t size = 1;
    for (int64_t dim : random_() % 2 ? std::vector<int64_t>{pick<int64_t>({0, 1, 2, 3, 4, 8})} : shape())
      tensor.add_dims(dim), size *= dim;
    for (int64_t i = 0; i < size; ++i)
      integers ? tensor.add_int64_data(number()) : tensor.add_float_data(static_cast<float>(number()));
  }

  void add_attribute(::onnx::NodeProto& node) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(pick({"axis",
                             "axes",
                             "pads",
                             "strides",
                             "dilations",
                             "kernel_shape",
                             "group",
                             "split",
                             "perm",
                             "keepdims",
                             "starts",
                             "ends",
                             "output_shape",
                             "output_padding",
                             "blocksize",
                             "auto_pad",
                             "mode",
                             "shape",
                             "to",
                             "transA",
                             "batch_dims",
                             "largest",
                             "noop_with_empty_axes",
                             "k",
                             "ceil_mode",
                             "size",
                             "value_ints",
                             "block_size",
                             "num_heads",
                             "kv_num_heads",
                             "K",
                             "N"}));
    attribute.set_type(pick({::onnx::AttributeProto::INTS, ::onnx::AttributeProto::INT,
                             ::onnx::AttributeProto::STRING, ::onnx::AttributeProto::FLOAT}));
    attribute.set_i(number());
    attribute.set_f(static_cast<float>(number()));
    for (uint32_t i = random_() % 7; i > 0; --i) attribute.add_ints(number());
    attribute.set_s(pick({"SAME_UPPER", "SAME_LOWER", "VALID", "reflect", "edge", "linear", "add", "?"}));
  }

  std::mt19937 random_;
};
}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  std::set<std::filesystem::path> folders;
  for (const auto& folder : std::filesystem::directory_iterator("/usr/share/libonnx-testdata/data/node"))
    folders.insert(folder.path());
  std::set<std::string> known;
  for (const std::filesystem::path& folder : folders) {
    std::string bytes = read_file(folder / "model.onnx");
    ::onnx::ModelProto model;
    if (bytes.size() > 4096 || !model.ParseFromString(bytes)) continue;
    bool fresh = false;
    for (const auto& node : model.graph().node()) fresh |= known.insert(node.op_type()).second;
    if (!fresh) continue;
    files.push_back(std::move(bytes));
    for (uint32_t i = 0; i < kMutantsOfCase; ++i) {
      ::onnx::ModelProto mutant = model;
      ModelMutator(static_cast<uint32_t>(files.size()), onnx::supported_operators()).mutate(mutant);
      files.push_back(mutant.SerializeAsString());
    }
  }
  for (uint32_t seed = 0; seed < kRandomNodes; ++seed) files.push_back(RandomNode(seed).model());
  return files;
}

void run_one(std::string_view bytes) {
  const onnx::ImportedModel model = onnx::import_bytes(std::string(bytes), "fuzz.onnx");
  // Passes rely on what type relations have accepted.
  if (!program::is_program(model.module)) relay::run_passes(model.module, relay::inference_pipeline());
}

}  // namespace lathe::fuzz
