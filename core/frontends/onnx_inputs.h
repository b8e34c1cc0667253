// The inputs of a model as its file declares them.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/frontends/onnx.h"

namespace lathe::onnx {

/// The names of the graph's constants, which files before IR version 4 list among the inputs.
std::set<std::string> constants_of(const ::onnx::GraphProto& graph);

/// What the file says of an input; -1 for an open dimension.
ValueInfo declared(const ::onnx::ValueInfoProto& input, const std::string& model);
/// As declared(), of a tensor, a sequence of tensors, or an optional of one of these.
ValueInfo declared_value(const ::onnx::ValueInfoProto& value, const std::string& model);

/// What is made of an input that is no tensor.
struct HeldInput {
  enum class Form : uint8_t {
    kItems,    // a sequence of as many inputs
    kRows,     // a sequence of the rows of the input of its name, all of one shape
    kNoValue,  // an optional without one
  };
  Form form;
  std::vector<std::string> items = {};
};
using HeldInputs = std::map<std::string, HeldInput>;
/// Makes each input of `graph` a tensor: an optional what it holds; a sequence its items, as many as have
/// shapes, or one tensor, where a shape is given for that or its length stays open.
HeldInputs take_apart_inputs(::onnx::GraphProto& graph, const ImportOptions& options,
                             const std::string& model);

/// ImportOptions::forget_sizes. A vector of integers may be a shape, whose length is a rank: it stays.
void forget_sizes(::onnx::GraphProto& graph);

}  // namespace lathe::onnx
