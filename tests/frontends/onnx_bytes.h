// ONNX files written by hand: protobuf's encoding of the few messages that tests need.
#pragma once

#include <cstring>
#include <string>
#include <vector>

namespace lathe::onnx::bytes {

inline std::string varint(uint64_t value) {
  std::string result;
  for (; value >= 128; value >>= 7) result += static_cast<char>(value | 128);
  return result + static_cast<char>(value);
}
/// A field that is bytes: a string, or a message.
inline std::string field(uint64_t number, const std::string& content) {
  return varint(number << 3 | 2) + varint(content.size()) + content;
}
inline std::string field(uint64_t number, int64_t value) {
  return varint(number << 3) + varint(static_cast<uint64_t>(value));
}

// Attributes of a node, to be joined.
inline std::string integer(const std::string& name, int64_t value) {
  return field(5, field(1, name) + field(3, value) + field(20, int64_t{2}));
}
inline std::string real(const std::string& name, float value) {
  std::string number(sizeof value, '\0');
  std::memcpy(number.data(), &value, sizeof value);
  return field(5, field(1, name) + varint(2 << 3 | 5) + number + field(20, int64_t{1}));
}
inline std::string text(const std::string& name, const std::string& value) {
  return field(5, field(1, name) + field(4, value) + field(20, int64_t{3}));
}
inline std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  std::string result = field(1, name);
  for (int64_t value : values) result += field(8, value);
  return field(5, result + field(20, int64_t{7}));
}
inline std::string reals(const std::string& name, const std::vector<float>& values) {
  std::string result = field(1, name);
  for (float value : values) {
    std::string number(sizeof value, '\0');
    std::memcpy(number.data(), &value, sizeof value);
    result += varint(7 << 3 | 5) + number;
  }
  return field(5, result + field(20, int64_t{6}));
}
inline std::string subgraph(const std::string& name, const std::string& graph) {
  return field(5, field(1, name) + field(6, graph) + field(20, int64_t{5}));
}

/// A tensor of one int64.
inline std::string tensor(const std::string& name, int64_t value) {
  return field(5, field(1, name) + field(5, field(1, int64_t{1}) + field(2, int64_t{7}) + field(7, value)) +
                      field(20, int64_t{4}));
}

inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& attributes = "") {
  std::string result;
  for (const std::string& input : inputs) result += field(1, input);
  for (const std::string& output : outputs) result += field(2, output);
  return field(1, result + field(4, op) + attributes);
}

/// An input of a graph, of float32 and no stated shape.
inline std::string input(const std::string& name) {
  return field(11, field(1, name) + field(2, field(1, field(1, int64_t{1}))));
}

inline std::string graph(const std::vector<std::string>& nodes, const std::string& inputs,
                         const std::vector<std::string>& outputs) {
  std::string result;
  for (const std::string& each : nodes) result += each;
  result += inputs;
  for (const std::string& output : outputs) result += field(12, field(1, output));
  return result;
}

/// A file of one node.
inline std::string model(const std::string& node, const std::string& inputs,
                         const std::vector<std::string>& outputs, int64_t opset) {
  return field(1, int64_t{8}) + field(7, graph({node}, inputs, outputs)) + field(8, field(2, opset));
}

}  // namespace lathe::onnx::bytes
