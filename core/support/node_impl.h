// The generic parts of NodeOf, derived from T::fields. Include only from the .cpp file that defines nodes:
//   LATHE_DEFINE_NODE(For)
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/support/error.h"
#include "core/support/node.h"
#include "core/support/tensor.h"

namespace lathe::reflect {

template <typename T>
concept HasFields = requires {
  T::fields;
};
template <typename T>
concept IsRef = requires {
  typename T::Pointee;
};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsPair : std::false_type {};
template <typename A, typename B>
struct IsPair<std::pair<A, B>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

/// How many values an enum has that is a field, from 0 upwards: each specializes it.
template <typename T>
inline constexpr size_t kValuesOf = 0;

template <typename T, typename F>
void for_each_field(F&& f) {
  std::apply([&](const auto&... each) { (f(each), ...); }, T::fields);
}

/// Calls f on each Ref inside `value`; the Refs may be assigned when `value` is not const.
template <typename T, typename F>
void each_ref(T& value, F&& f) {
  using V = std::remove_const_t<T>;
  if constexpr (IsRef<V>) {
    f(value);
  } else if constexpr (IsVector<V>::value) {
    if constexpr (!std::is_arithmetic_v<typename V::value_type>)
      for (auto& item : value) each_ref(item, f);
  } else if constexpr (IsOptional<V>::value) {
    if (value) each_ref(*value, f);
  } else if constexpr (IsPair<V>::value) {
    each_ref(value.first, f);
    each_ref(value.second, f);
  } else if constexpr (IsMap<V>::value) {
    for (auto& item : value) each_ref(item.second, f);
  } else if constexpr (HasFields<V>) {
    for_each_field<V>([&](const auto& member) {
      if (member.role != FieldRole::kInfo) each_ref(value.*(member.member), f);
    });
  }
}

template <typename T>
void append(std::vector<Cell>& cells, const T& value, FieldRole role) {
  using Tag = Cell::Tag;
  if constexpr (IsRef<T>) {
    cells.push_back({.tag = Tag::kNode, .role = role, .node = value.get()});
  } else if constexpr (std::is_same_v<T, std::string>) {
    cells.push_back({.tag = Tag::kText, .role = role, .text = value});
  } else if constexpr (std::is_floating_point_v<T>) {
    cells.push_back({.tag = Tag::kFloat, .role = role, .real = value});
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    cells.push_back({.tag = Tag::kInt, .role = role, .integer = static_cast<int64_t>(value)});
  } else if constexpr (std::is_same_v<T, DataType>) {
    append(cells,
           static_cast<int64_t>(value.code) << 32 | static_cast<int64_t>(value.bits) << 16 | value.lanes,
           role);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    append(cells, value.dtype(), role);
    append(cells, value.shape(), role);
    cells.push_back({.tag = Tag::kText,
                     .role = role,
                     .text = {static_cast<const char*>(value.data()),
                              static_cast<size_t>(value.defined() ? value.bytes() : 0)}});
  } else if constexpr (IsVector<T>::value || IsMap<T>::value) {
    append(cells, static_cast<int64_t>(value.size()), role);
    for (const auto& item : value) append(cells, static_cast<const typename T::value_type&>(item), role);
  } else if constexpr (IsOptional<T>::value) {
    append(cells, value.has_value(), role);
    if (value) append(cells, *value, role);
  } else if constexpr (IsPair<T>::value) {
    append(cells, static_cast<const std::remove_const_t<typename T::first_type>&>(value.first), role);
    append(cells, value.second, role);
  } else {
    static_assert(HasFields<T>, "a field of a type that reflection does not know");
    for_each_field<T>([&](const auto& member) {
      append(cells, value.*(member.member), role == FieldRole::kValue ? member.role : role);
    });
  }
}

template <typename T>
nlohmann::json write(const T& value, FunctionRef<int64_t(const Node*)> id) {
  if constexpr (IsRef<T>) {
    return value ? nlohmann::json(id(value.get())) : nlohmann::json(nullptr);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    // JSON has no infinities; hexadecimal text also keeps every bit.
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(fmt::format("{}", value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, DataType>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    std::string hex;
    for (int64_t i = 0; i < (value.defined() ? value.bytes() : 0); ++i) {
      uint8_t byte = static_cast<const uint8_t*>(value.data())[i];
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    return {{"dtype", to_string(value.dtype())}, {"shape", value.shape()}, {"data", hex}};
  } else if constexpr (IsVector<T>::value) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& item : value)
      list.push_back(write(static_cast<const typename T::value_type&>(item), id));
    return list;
  } else if constexpr (IsMap<T>::value) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [key, item] : value) object[key] = write(item, id);
    return object;
  } else if constexpr (IsOptional<T>::value) {
    return value ? write(*value, id) : nlohmann::json(nullptr);
  } else if constexpr (IsPair<T>::value) {
    return nlohmann::json::array({write(value.first, id), write(value.second, id)});
  } else {
    nlohmann::json object = nlohmann::json::object();
    for_each_field<T>([&](const auto& member) { object[member.name] = write(value.*(member.member), id); });
    return object;
  }
}

/// inf, -inf or nan: the numbers that JSON lacks. Throws Error on any other text.
double not_finite(std::string_view text);
/// Two digits a byte, as write() writes them. Throws Error on anything else.
void read_hex(std::string_view digits, uint8_t* bytes);

template <typename T>
void read(const nlohmann::json& json, T& value, FunctionRef<NodeRef(int64_t)> node) {
  if constexpr (IsRef<T>) {
    if (json.is_null()) return;
    NodeRef ref = node(json.get<int64_t>());
    using Target = std::remove_cvref_t<decltype(*value)>;
    if (!dynamic_cast<const Target*>(ref.get()))
      fail("json: a node of type {} is out of place", ref->type().name);
    value = ref.cast<Target>();
  } else if constexpr (std::is_enum_v<T>) {
    static_assert(kValuesOf<T> > 0, "an enum whose number of values reflection does not know");
    const auto number = json.get<int64_t>();
    if (number < 0 || number >= static_cast<int64_t>(kValuesOf<T>))
      fail("json: {} is none of the {} values of its field", number, kValuesOf<T>);
    value = static_cast<T>(number);
  } else if constexpr (std::is_floating_point_v<T>) {
    value = json.is_string() ? static_cast<T>(not_finite(json.get_ref<const std::string&>())) : json.get<T>();
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    value = json.get<T>();
  } else if constexpr (std::is_same_v<T, DataType>) {
    auto type = parse_dtype(json.get<std::string>());
    if (!type) fail("json: `{}` is not an element type", json.get<std::string>());
    value = *type;
  } else if constexpr (std::is_same_v<T, Tensor>) {
    DataType dtype;
    read(json.at("dtype"), dtype, node);
    auto shape = json.at("shape").get<std::vector<int64_t>>();
    const auto& hex = json.at("data").get_ref<const std::string&>();
    int64_t bytes = dtype.bytes();
    for (int64_t dim : shape)
      if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
        fail("json: a tensor of shape {}", shape_text(shape));
    if (static_cast<size_t>(bytes) * 2 != hex.size())
      fail("json: a tensor of {} bytes has {} digits", bytes, hex.size());
    value = Tensor(shape, dtype);
    read_hex(hex, static_cast<uint8_t*>(value.data()));
  } else if constexpr (IsVector<T>::value) {
    value.clear();
    for (const auto& item : json) {
      typename T::value_type element{};
      read(item, element, node);
      value.push_back(std::move(element));
    }
  } else if constexpr (IsMap<T>::value) {
    for (const auto& [key, item] : json.items()) read(item, value[key], node);
  } else if constexpr (IsOptional<T>::value) {
    if (json.is_null()) return;
    value.emplace();
    read(json, *value, node);
  } else if constexpr (IsPair<T>::value) {
    read(json.at(0), value.first, node);
    read(json.at(1), value.second, node);
  } else {
    for_each_field<T>([&](const auto& member) { read(json.at(member.name), value.*(member.member), node); });
  }
}

}  // namespace lathe::reflect

namespace lathe {

template <typename D, typename B, Identity I>
void NodeOf<D, B, I>::for_each_child(FunctionRef<void(const NodeRef&)> f) const {
  reflect::each_ref(static_cast<const D&>(*this), [&](const auto& ref) {
    if (ref) f(NodeRef(ref.get()));
  });
}

template <typename D, typename B, Identity I>
NodeRef NodeOf<D, B, I>::map_children(FunctionRef<NodeRef(const NodeRef&)> f) const {
  std::vector<NodeRef> mapped;
  bool changed = false;
  reflect::each_ref(static_cast<const D&>(*this), [&](const auto& ref) {
    if (!ref) return;
    mapped.push_back(f(NodeRef(ref.get())));
    changed |= !(mapped.back() == ref);
  });
  if (!changed) return NodeRef(this);
  auto copy = mutate(static_cast<const D&>(*this));
  size_t next = 0;
  reflect::each_ref(*copy, [&](auto& ref) {
    using T = std::remove_cvref_t<decltype(*ref)>;
    if (!ref) return;
    const NodeRef& replacement = mapped[next++];
    CHECK(!replacement || dynamic_cast<const T*>(replacement.get()),
          "{} put into a field of another type in {}", replacement->type().name, D::kName);
    ref = replacement.template cast<T>();
  });
  return seal(std::move(copy));
}

template <typename D, typename B, Identity I>
void NodeOf<D, B, I>::append_cells(std::vector<Cell>& cells) const {
  reflect::append(cells, static_cast<const D&>(*this), FieldRole::kValue);
}

template <typename D, typename B, Identity I>
nlohmann::json NodeOf<D, B, I>::write_fields(FunctionRef<int64_t(const Node*)> id) const {
  return reflect::write(static_cast<const D&>(*this), id);
}

template <typename D, typename B, Identity I>
void NodeOf<D, B, I>::read_fields(const nlohmann::json& json, FunctionRef<NodeRef(int64_t)> node) {
  reflect::read(json, static_cast<D&>(*this), node);
}

template <typename D, typename B, Identity I>
const NodeType NodeOf<D, B, I>::kType{
    D::kName, I, []() -> Node* { return new D(); },
    []() {
      std::vector<const char*> names;
      reflect::for_each_field<D>([&](const auto& member) { names.push_back(member.name); });
      return names;
    }};

}  // namespace lathe

/// Defines what NodeOf declares for T. In namespace lathe or one inside it, once, in a .cpp file.
#define LATHE_DEFINE_NODE(T, ...) template struct ::lathe::NodeOf<T, __VA_ARGS__>;
