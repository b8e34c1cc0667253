// The metadata of Apache TVM's printer: a JSON graph {"root": i, "nodes": [{"type_key", "attrs", "data",
// "keys", "repr_str"}, ...], "b64ndarrays": [...]}. The root maps type keys to arrays of nodes, in the order
// of meta[key][i].
#include <array>
#include <cstring>

#include "core/relay/text/metadata.h"
#include "core/support/error.h"

namespace lathe::relay {
namespace {

using nlohmann::json;

constexpr uint64_t kArrayMagic = 0xDD5E40F096B4A13F;
constexpr int kMaxNesting = 100;  // of lists

std::string decode_base64(std::string_view text) {
  static const std::array<int8_t, 256> kDigits = [] {
    std::array<int8_t, 256> digits{};
    digits.fill(-1);
    constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < kAlphabet.size(); ++i)
      digits[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
    return digits;
  }();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    const int digit = kDigits[static_cast<uint8_t>(c)];
    if (digit < 0) fail("metadata: `{}` is no digit of base 64", c);
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  return bytes;
}

/// Takes numbers from the begin of bytes, little-endian.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take(size_t count) {
    if (bytes_.size() < count) fail("metadata: an array ends early");
    std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view bytes_;
};

/// A tensor as tvm::runtime::SaveDLTensor writes it.
Tensor read_array(std::string_view base64) {
  const std::string raw = decode_base64(base64);
  Bytes bytes(raw);
  if (bytes.take<uint64_t>() != kArrayMagic) fail("metadata: an array without its mark");
  bytes.take<uint64_t>();  // reserved
  bytes.take(8);           // the device
  const auto rank = bytes.take<int32_t>();
  const auto code = bytes.take<uint8_t>(), bits = bytes.take<uint8_t>();
  const auto lanes = bytes.take<uint16_t>();
  if (rank < 0 || rank > 64 || lanes != 1) fail("metadata: an array of rank {} and {} lanes", rank, lanes);
  // DLPack's codes; TVM's bool is a uint of 1 bit in a byte.
  const char* names[] = {"int", "uint", "float", nullptr, "bfloat"};
  const char* name = code < std::size(names) ? names[code] : nullptr;
  const std::string type = code == 1 && bits == 1 ? "bool" : fmt::format("{}{}", name ? name : "?", bits);
  const std::optional<DataType> dtype = parse_dtype(type);
  if (!dtype) fail("metadata: an array of type code {} and {} bits", code, bits);
  std::vector<int64_t> shape;
  for (int32_t i = 0; i < rank; ++i) shape.push_back(bytes.take<int64_t>());
  const int64_t expected = shape_size(checked_shape(shape)) * dtype->bytes();
  const auto size = bytes.take<int64_t>();
  if (size != expected) fail("metadata: an array of {} bytes, {} are expected", size, expected);
  const std::string_view data = bytes.take(static_cast<size_t>(size));
  Tensor tensor(shape, *dtype);
  std::memcpy(tensor.data(), data.data(), data.size());
  return tensor;
}

class Graph {
 public:
  explicit Graph(const json& graph) : nodes_(graph.at("nodes")), arrays_(graph.at("b64ndarrays")) {}

  const json& node(const json& index) const {
    const int64_t at = index.is_string() ? std::stoll(index.get<std::string>()) : index.get<int64_t>();
    if (at < 0 || at >= static_cast<int64_t>(nodes_.size())) fail("metadata: there is no node {}", at);
    return nodes_.at(static_cast<size_t>(at));
  }

  Tensor constant(const json& node) const {
    const std::string at = node.at("attrs").at("data").get<std::string>();
    return read_array(arrays_.at(std::stoul(at)).get_ref<const std::string&>());
  }

  /// A number, a string, a list of such; nothing for other nodes.
  std::optional<json> value(const json& node, int depth = 0) const {
    const std::string key = node.at("type_key").get<std::string>();
    const std::string text = node.value("repr_str", "");
    if (key.empty()) return json(nullptr);
    if (key == "runtime.String") return json(text);
    if (key == "runtime.BoxInt") return json(std::stoll(text));
    if (key == "runtime.BoxFloat") return json(std::stod(text));
    if (key == "runtime.BoxBool") return json(text == "true");
    if (key == "IntImm") {
      const int64_t number = std::stoll(node.at("attrs").at("value").get<std::string>());
      return node.at("attrs").at("dtype") == "bool" ? json(number != 0) : json(number);
    }
    if (key == "FloatImm") return json(std::stod(node.at("attrs").at("value").get<std::string>()));
    if (key != "Array" || depth > kMaxNesting) return std::nullopt;
    json list = json::array();
    for (const json& each : node.value("data", json::array())) {
      std::optional<json> item = value(this->node(each), depth + 1);
      if (!item) return std::nullopt;
      list.push_back(*item);
    }
    return list;
  }

 private:
  const json& nodes_;
  const json& arrays_;
};

}  // namespace

bool is_tvm_metadata(const json& json) {
  return json.is_object() && json.contains("root") && json.contains("nodes") && json.contains("b64ndarrays");
}

Metadata read_tvm_metadata(const json& document) {
  Metadata metadata;
  const Graph graph(document);
  try {
    const json& root = graph.node(document.at("root"));
    const json keys = root.value("keys", json::array()), lists = root.value("data", json::array());
    if (keys.size() != lists.size()) fail("metadata: {} keys of {} lists", keys.size(), lists.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string key = keys[i].get<std::string>();
      for (const json& each : graph.node(lists[i]).value("data", json::array())) {
        const json& node = graph.node(each);
        if (key == "relay.Constant")
          metadata.constants.push_back(graph.constant(node));
        else if (std::optional<json> value = graph.value(node))
          metadata.boxed[key].push_back(*value);
      }
    }
  } catch (const std::logic_error&) {  // of std::stoll and its like
    fail("metadata: a number that is none");
  }
  return metadata;
}

}  // namespace lathe::relay
