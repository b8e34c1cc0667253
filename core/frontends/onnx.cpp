#include "core/frontends/onnx.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/frontends/onnx_branches.h"
#include "core/frontends/onnx_functions.h"
#include "core/frontends/onnx_inputs.h"
#include "core/frontends/onnx_lists.h"
#include "core/frontends/onnx_refusals.h"
#include "core/relay/open_shapes.h"
#include "core/relay/passes/settle_dims.h"
#include "core/support/file.h"
#include "core/support/printable.h"
#include "core/support/text.h"

namespace lathe::onnx {
namespace {

::onnx::ModelProto parse_model(const std::string& bytes, const std::string& name) {
  ::onnx::ModelProto model;
  google::protobuf::io::ArrayInputStream array(bytes.data(),
                                               static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX)));
  google::protobuf::io::CodedInputStream stream(&array);
  // Older versions of protobuf stop at 64 MiB by themselves; models are larger.
  stream.SetTotalBytesLimit(INT32_MAX);
  bool parsed =
      bytes.size() < INT32_MAX && model.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  if (!parsed) fail("{}: not an ONNX model, or cut off ({} bytes)", name, bytes.size());
  if (!model.has_graph()) fail("{}: the ONNX model has no graph", name);
  return model;
}

/// Many exporters name outputs but not nodes.
std::string describe(const ::onnx::NodeProto& node) {
  return fmt::format("node `{}` ({})",
                     node.name().empty() && node.output_size() ? node.output(0) : node.name(),
                     node.op_type());
}

/// Strings, which nothing here computes with: labels beside a classifier, of which no node may read any.
bool is_text(const ::onnx::TensorProto& tensor) { return tensor.data_type() == ::onnx::TensorProto::STRING; }
bool is_text(const ::onnx::NodeProto& node) {
  return node.op_type() == "Constant" && is_standard(node) &&
         std::ranges::any_of(node.attribute(), [](const ::onnx::AttributeProto& attribute) {
           return attribute.name().starts_with("value_string") || is_text(attribute.t());
         });
}

const std::string& name_of(const std::string& output) { return output; }
const std::string& name_of(const ::onnx::ValueInfoProto& output) { return output.name(); }

/// What the nodes of a graph or of a function read, those of graphs within among them, and what it gives.
template <typename Graph>
class Reads {
 public:
  explicit Reads(const Graph& graph) : graph_(graph) {}

  bool has(const std::string& name) {
    if (!names_) find();  // few models have anything to ask for
    return names_->count(name) != 0;
  }

 private:
  void find() {
    names_.emplace();
    for (const auto& output : graph_.output()) names_->insert(name_of(output));
    for_each_read(graph_.node(), [&](const std::string& name) { names_->insert(name); });
  }

  const Graph& graph_;
  std::optional<std::set<std::string>> names_;
};

/// The version of the standard's operators that a model or a function imports.
template <typename Proto>
std::optional<int64_t> opset_of(const Proto& proto) {
  std::optional<int64_t> opset;
  for (const auto& import : proto.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = import.version();
  return opset;
}

/// Converts one graph, node by node, in its (topological) order.
class Importer final : public Surroundings {
 public:
  /// `held`: of the model's inputs, which are taken apart.
  Importer(const ::onnx::ModelProto& model, const Functions& functions, const HeldInputs& held,
           std::string name, const ImportOptions& options, Choices& choices)
      : graph_(model.graph()),
        functions_(functions),
        held_(held),
        name_(std::move(name)),
        options_(options),
        choices_(choices) {
    folder_ = std::filesystem::path(name_).parent_path().string();
    calls_.push_back({{Scope{{}, &graph_}}, {}, opset_of(model).value_or(1)});
  }

  ImportedModel imported() {
    OpenDimensions open(choices_);
    // The refusals come before any conversion, so that a model gets one message about all its operators, or
    // all its inputs.
    try {
      refuse_unsupported(graph_, functions_,
                         [](const ::onnx::NodeProto& node) { return find_converter(full_name(node)); });
      refuse_doubled_names(graph_, functions_);
      refuse_small_results(graph_, functions_);
    } catch (const Error& e) {
      fail("{}: {}", name_, e.what());
    }
    refuse_unknown_inputs();
    bind_symbols();
    try {
      add_initializers(graph_);
    } catch (const Error& e) {
      fail("{}: {}", name_, e.what());
    }
    refuse_open_shapes();
    ImportedModel result;
    std::vector<relay::Var> params;
    for (const auto& input : graph_.input()) {
      // Files before IR version 4 list initializers among the inputs.
      if (names().count(input.name())) continue;
      // An input whose value is given is no input of the compiled module any more.
      auto given = options_.constants.find(input.name());
      if (given != options_.constants.end()) {
        names()[input.name()] = constant(given->second);
        continue;
      }
      result.inputs.push_back(bound_input(input));
      params.push_back(parameter(input, result.inputs.back()));
      open.learn_from(params.back());
      names()[input.name()] = params.back();
    }
    for (const auto& [name, held] : held_) names()[name] = held_value(name, held);
    std::vector<relay::Expr> outputs;
    // Messages about nodes, wherever they stand, get the file's name here.
    try {
      convert_nodes(graph_);
      for (const auto& output : graph_.output()) {
        outputs.push_back(value(output.name(), "the list of outputs"));
        if (is_either(outputs.back()))
          fail(
              "output `{}` is of several ranks or types by a condition, which must be known when the "
              "model is compiled",
              output.name());
        // Of a length that only a run tells: side by side in one tensor.
        if (is_list(outputs.back())) outputs.back() = joined_items(outputs.back(), 0, /*new_axis=*/true);
        const auto* items = outputs.back().as<relay::Tuple>();
        if (items && items->items.empty())
          fail("output `{}` is empty, which is not supported", output.name());
        for (size_t i = 0; items && i < items->items.size(); ++i)
          result.outputs.push_back(fmt::format("{}.{}", output.name(), i));
        if (!items) result.outputs.push_back(output.name());
      }
    } catch (const Error& e) {
      fail("{}: {}", name_, e.what());
    }
    if (outputs.empty()) fail("{}: the graph has no outputs", name_);
    for (relay::Expr& output : outputs) output = as_data(output);
    relay::Expr body = outputs.size() == 1 ? outputs[0] : relay::tuple(outputs);
    auto main = make<relay::Function>(std::vector<relay::TypeVar>{}, params, relay::Type(), body);
    result.module = make<relay::ModuleNode>(list_types(body),
                                            std::map<std::string, Ref<relay::Function>>{{"main", main}});
    if (!open.numbers().empty()) result.module = relay::with_numbers(result.module, open.numbers());
    return result;
  }

 private:
  /// An input that is no tensor, of the inputs that were made of it.
  Value held_value(const std::string& name, const HeldInput& held) const {
    if (held.form == HeldInput::Form::kNoValue) return no_value();
    if (held.form == HeldInput::Form::kRows) {
      const Value rows = value(name, name);
      if (dims_of(rows).empty())
        fail("{}: input `{}` is a sequence, whose shape has an axis for its items", name_, name);
      return sequence_of_rows(rows);
    }
    std::vector<Value> items;
    for (const std::string& item : held.items) items.push_back(value(item, name));
    return tuple_of(items);
  }

  /// A dimension of one name is one symbol in all inputs.
  relay::Var parameter(const ::onnx::ValueInfoProto& input, const ValueInfo& value) {
    std::vector<Expr> shape;
    for (size_t i = 0; i < value.shape.size(); ++i) {
      if (value.shape[i] >= 0) {
        shape.emplace_back(value.shape[i]);
        continue;
      }
      auto [known, fresh] = open_.try_emplace(dimension_name(input, i));
      if (fresh) {
        known->second = var(known->first);
        const int64_t least = options_.least_size ? options_.least_size(known->first) : 0;
        OpenDimensions::current()->bound(known->second, least);
      }
      shape.emplace_back(known->second);
    }
    relay::Type type = relay::tensor_type(std::move(shape), value.dtype);
    auto node = mutate(*relay::make_var(value.name, type));
    node->checked_type = type;
    return seal(std::move(node));
  }

  void refuse_unknown_inputs() const {
    std::vector<std::string> names;
    for (const auto& input : graph_.input()) names.push_back(input.name());
    for (const auto& [name, shape] : options_.shapes)
      if (std::find(names.begin(), names.end(), name) == names.end())
        fail("{}: no input is named `{}` (inputs: {}){}", name_, name, join_text(names, ", "),
             did_you_mean(name, names));
  }

  /// Notes what the given shapes say about dimensions that have names.
  void bind_symbols() {
    std::unordered_map<std::string, std::string> input_of;
    for (const auto& input : graph_.input()) {
      auto given = options_.shapes.find(input.name());
      if (given == options_.shapes.end()) continue;
      const auto& dims = input.type().tensor_type().shape().dim();
      for (size_t i = 0; i < std::min(given->second.size(), static_cast<size_t>(dims.size())); ++i) {
        const std::string& symbol = dims.Get(static_cast<int>(i)).dim_param();
        if (symbol.empty()) continue;
        // One name is one extent in all inputs; so one given shape may settle others.
        auto [bound, fresh] = symbols_.emplace(symbol, given->second[i]);
        if (fresh) input_of[symbol] = input.name();
        if (bound->second != given->second[i])
          fail("{}: dimension `{}` is {} in input `{}` and {} in input `{}`", name_, symbol, bound->second,
               input_of[symbol], given->second[i], input.name());
      }
    }
  }

  /// What the file says of an input's shape, with the dimensions that are settled. Throws Error when the
  /// shape given for it does not fit.
  relay::StatedInput stated(const ::onnx::ValueInfoProto& input) const {
    relay::StatedInput result{input.name(), std::nullopt};
    auto found = options_.shapes.find(input.name());
    const std::vector<int64_t>* given = found == options_.shapes.end() ? nullptr : &found->second;
    std::vector<int64_t> extents = declared(input, name_).shape;
    // Not even the rank is stated: the shape given stands for all of it.
    if (!input.type().tensor_type().has_shape()) {
      if (!given) return result;
      extents = *given;
    }
    if (given && given->size() != extents.size())
      fail("{}: input `{}` has rank {}, given shape {}", name_, result.name, extents.size(),
           shape_text(*given));
    result.dims.emplace();
    const auto& dims = input.type().tensor_type().shape().dim();
    for (size_t i = 0; i < extents.size(); ++i) {
      std::string symbol = static_cast<int>(i) < dims.size() ? dims.Get(static_cast<int>(i)).dim_param() : "";
      relay::StatedDim dim{extents[i] >= 0  ? std::to_string(extents[i])
                           : symbol.empty() ? "?"
                                            : symbol,
                           extents[i]};
      if (given && !dim.open() && dim.extent != (*given)[i])
        fail("{}: input `{}`: dimension {} is {}, given {}", name_, result.name, i, dim.extent, (*given)[i]);
      if (given) dim.extent = (*given)[i];
      // Settled by another input's shape.
      if (auto bound = symbols_.find(symbol); !dim.names().empty() && bound != symbols_.end())
        dim.extent = bound->second;
      result.dims->push_back(std::move(dim));
    }
    return result;
  }

  /// What an open dimension is called.
  static std::string dimension_name(const ::onnx::ValueInfoProto& input, size_t axis) {
    const auto& dims = input.type().tensor_type().shape().dim();
    const std::string symbol =
        static_cast<int>(axis) < dims.size() ? dims.Get(static_cast<int>(axis)).dim_param() : "";
    return symbol.empty() ? fmt::format("{}.{}", input.name(), axis) : symbol;
  }

  /// `stated`, less what is to stay open: that needs no flag.
  relay::StatedInput unsettled(const ::onnx::ValueInfoProto& input) const {
    relay::StatedInput result = stated(input);
    if (!result.dims || !options_.keeps_open) return result;
    for (size_t i = 0; i < result.dims->size(); ++i)
      if (relay::StatedDim& dim = (*result.dims)[i];
          dim.open() && options_.keeps_open(dimension_name(input, i)))
        dim.extent = 0;
    return result;
  }

  void refuse_open_shapes() const {
    std::vector<relay::StatedInput> inputs;
    for (const auto& input : graph_.input())
      if (!names().count(input.name()) && !options_.constants.count(input.name()))
        inputs.push_back(unsettled(input));
    if (std::string message = relay::open_shapes_message(inputs); !message.empty())
      fail("{}: {}", name_, message);
  }

  ValueInfo bound_input(const ::onnx::ValueInfoProto& input) const {
    ValueInfo value = declared(input, name_);
    value.shape.clear();
    const relay::StatedInput settled = stated(input);
    for (const relay::StatedDim& dim : *settled.dims) value.shape.push_back(dim.extent);
    return value;
  }

  void add_initializers(const ::onnx::GraphProto& graph) {
    Reads reads(graph);
    for (const auto& each : graph.initializer()) {
      const bool skipped = is_text(each) && !reads.has(each.name());
      names()[each.name()] = skipped ? Value() : constant(tensor_from(each, folder_));
    }
    for (const auto& each : graph.sparse_initializer())
      names()[each.values().name()] = constant(tensor_from(each, folder_));
  }

  using Names = std::unordered_map<std::string, Value>;
  struct Scope {
    Names names;
    const ::onnx::GraphProto* graph = nullptr;  // null: a function's
  };
  /// From the outermost graph to the innermost.
  using Scopes = std::vector<Scope>;
  /// The model itself, or a function, whose nodes see no names around it.
  struct Call {
    Scopes scopes;
    Attributes attributes;
    int64_t opset;
  };
  Names& names() { return calls_.back().scopes.back().names; }
  const Names& names() const { return calls_.back().scopes.back().names; }

  /// The value of that name; `user` is who asks, for the message. Null for an input that a call leaves out.
  Value value(const std::string& name, const std::string& user) const {
    const Scopes& scopes = calls_.back().scopes;
    for (size_t i = scopes.size(); i-- > 0;)
      if (auto found = scopes[i].names.find(name); found != scopes[i].names.end()) return found->second;
    fail("{} uses `{}`, which nothing defines before it", user, name);
  }

  /// While it lives, names are those of one graph or of one function more.
  template <typename Stack>
  struct Innermost {
    Innermost(Stack& all, typename Stack::value_type one) : stack(all) { stack.push_back(std::move(one)); }
    ~Innermost() { stack.pop_back(); }
    Innermost(const Innermost&) = delete;
    Innermost& operator=(const Innermost&) = delete;
    Stack& stack;
  };

  /// Notes that a graph's or a function's nodes are converted once more. A few that call each other twice,
  /// or loops within each other, are as many nodes as no memory holds.
  void write_out(int64_t nodes) {
    written_ += nodes;
    if (written_ > kMostWritten)
      fail("its functions and loops stand for more than {} nodes in all", kMostWritten);
  }

  /// Half of what may be written, so that loops which are not written out have room for their bodies.
  bool has_room_for(const ::onnx::GraphProto& graph, int64_t times) const override {
    int64_t nodes = 0;
    for_each_node(graph.node(), [&](const ::onnx::NodeProto&) { ++nodes; });
    return times * nodes <= kMostWritten / 2 - written_;
  }

  std::optional<int64_t> stated_rank(const std::string& name) const override {
    if (const ::onnx::GraphProto* graph = calls_.back().scopes.back().graph)
      for (const auto* values : {&graph->output(), &graph->value_info()})
        for (const auto& value : *values)
          if (value.name() == name && value.type().tensor_type().has_shape())
            return value.type().tensor_type().shape().dim_size();
    return std::nullopt;
  }

  /// The outputs of a graph inside this one, whose names hide those around it.
  std::vector<Value> run(const ::onnx::GraphProto& graph, const std::vector<Value>& inputs) override {
    // Called for each step of a loop: names inside are converted anew, with other values each time.
    const Innermost inner(calls_.back().scopes, Scope{{}, &graph});
    write_out(graph.node_size());
    add_initializers(graph);
    if (static_cast<size_t>(graph.input_size()) != inputs.size())
      fail("graph `{}` has {} inputs, {} are given", graph.name(), graph.input_size(), inputs.size());
    for (int i = 0; i < graph.input_size(); ++i)
      names()[graph.input(i).name()] = inputs[static_cast<size_t>(i)];
    convert_nodes(graph);
    std::vector<Value> outputs;
    for (const auto& output : graph.output()) {
      outputs.push_back(value(output.name(), "the list of outputs of a graph"));
      if (!outputs.back()) fail("output `{}` of a graph is an input that is left out", output.name());
    }
    return outputs;
  }

  /// The outputs of a function; those of inputs that are left out are null.
  std::vector<Value> run_function(const ::onnx::FunctionProto& function, const ::onnx::NodeProto& call,
                                  const std::vector<Value>& inputs) {
    if (inputs.size() > static_cast<size_t>(function.input_size()))
      fail("{} inputs, the function has {}", inputs.size(), function.input_size());
    const Innermost inner(
        calls_,
        Call{{Scope{}}, functions_.attributes_of(call), opset_of(function).value_or(calls_.back().opset)});
    for (int i = 0; i < function.input_size(); ++i)
      names()[function.input(i)] =
          static_cast<size_t>(i) < inputs.size() ? inputs[static_cast<size_t>(i)] : Value();
    write_out(function.node_size());
    convert_nodes(function);
    std::vector<Value> outputs;
    for (const std::string& output : function.output())
      outputs.push_back(value(output, "the list of outputs of a function"));
    return outputs;
  }

  template <typename Graph>
  void convert_nodes(const Graph& graph) {
    Reads reads(graph);
    for (const auto& node : graph.node())
      if (!is_text(node) || node.output_size() == 0 || reads.has(node.output(0))) convert(node);
  }

  void convert(const ::onnx::NodeProto& stated) {
    const std::optional<::onnx::NodeProto> filled = with_attributes(stated, calls_.back().attributes);
    const ::onnx::NodeProto& proto = filled ? *filled : stated;
    // Every operator has one at least, and converters count them.
    if (proto.output_size() == 0) fail("{}: has no output", describe(proto));
    std::vector<Value> inputs;
    for (const std::string& name : proto.input())
      // An empty name is an optional input that is left out.
      inputs.push_back(name.empty() ? Value() : value(name, describe(proto)));
    std::vector<Value> outputs;
    try {
      const auto* function = functions_.find(proto);
      // Versions are those of the standard; what is not of it is as it is now.
      const int64_t opset = is_standard(proto) ? calls_.back().opset : Node::kNewest;
      const auto convert_side = [&](const std::vector<Value>& side) {
        return function
                   ? run_function(*function, proto, side)
                   : converted(*find_converter(full_name(proto)), Node(proto, opset, side, folder_, *this));
      };
      outputs = of_each_side(inputs, convert_side, [&] { write_out(1); });
    } catch (const NothingToTake& e) {
      throw NothingToTake(fmt::format("{}: {}", describe(proto), e.what()));
    } catch (const NoElement& e) {
      throw NoElement(fmt::format("{}: {}", describe(proto), e.what()));
    } catch (const Error& e) {
      fail("{}: {}", describe(proto), e.what());
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      // An optional output that the model does not take.
      if (proto.output(i).empty()) continue;
      if (static_cast<size_t>(i) >= outputs.size() || !outputs[static_cast<size_t>(i)])
        fail("{}: output {} is not supported", describe(proto), i);
      names()[proto.output(i)] = outputs[static_cast<size_t>(i)];
    }
  }

  // Of any model there is, many times over.
  static constexpr int64_t kMostWritten = int64_t{1} << 18;

  const ::onnx::GraphProto& graph_;
  const Functions& functions_;
  const HeldInputs& held_;
  std::string name_, folder_;
  const ImportOptions& options_;
  Choices& choices_;
  int64_t written_ = 0;                     // nodes of functions and of graphs, each time anew
  std::map<std::string, int64_t> symbols_;  // dimensions by name
  std::map<std::string, Var> open_;         // those that stay open
  std::deque<Call> calls_;                  // the model's, then those being converted; they stay in place
};

}  // namespace

namespace {

/// What `read` says of a model, whose names are of any length: a reader wants to see what is wrong.
template <typename Read>
auto said_in_brief(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.size() <= kBrief) throw;
    throw Error(shortened(message, kBrief));
  }
}

/// Open dimensions that the model's constants settle are numbers in its inputs, too.
void settle_dims(ImportedModel& model, const std::string& name) try {
  model.module = relay::settle_dims(model.module);
  const std::vector<relay::Var>& params = model.module->functions.at("main")->params;
  for (size_t i = 0; i < params.size(); ++i)
    if (const auto* type = params[i]->annotation.as<relay::TensorType>())
      for (size_t axis = 0; axis < type->shape.size(); ++axis)
        if (const int64_t* extent = as_int(type->shape[axis])) model.inputs[i].shape[axis] = *extent;
} catch (const Error& e) {
  fail("{}: {}", name, e.what());
}

Functions functions_of(const ::onnx::ModelProto& model, const std::string& name) try {
  return Functions(model);
} catch (const Error& e) {
  fail("{}: {}", name, e.what());
}

ImportedModel import_model(const std::string& bytes, const std::string& name, const ImportOptions& options) {
  ::onnx::ModelProto model = parse_model(bytes, name);
  const HeldInputs held = take_apart_inputs(*model.mutable_graph(), options, name);
  if (options.forget_sizes) forget_sizes(*model.mutable_graph());
  ImportedModel result;
  Choices choices;
  const Functions functions = functions_of(model, name);
  choices.lead_through([&] { result = Importer(model, functions, held, name, options, choices).imported(); });
  if (options.keeps_open) settle_dims(result, name);
  return result;
}

}  // namespace

ImportedModel import_bytes(const std::string& bytes, const std::string& name, const ImportOptions& options) {
  return said_in_brief([&] { return import_model(bytes, name, options); });
}

ImportedModel import_file(const std::string& path, const ImportOptions& options) {
  return import_bytes(read_file(path), path, options);
}

std::vector<ValueInfo> declared_inputs(const std::string& path) {
  ::onnx::ModelProto model = parse_model(read_file(path), path);
  const std::set<std::string> initialized = constants_of(model.graph());
  std::vector<ValueInfo> inputs;
  for (const auto& input : model.graph().input())
    if (!initialized.count(input.name())) inputs.push_back(declared_value(input, path));
  return inputs;
}

std::vector<ValueInfo> declared_outputs(const std::string& path) {
  ::onnx::ModelProto model = parse_model(read_file(path), path);
  std::vector<ValueInfo> outputs;
  for (const auto& output : model.graph().output()) outputs.push_back(declared_value(output, path));
  return outputs;
}

}  // namespace lathe::onnx
