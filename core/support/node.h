// Immutable IR nodes. A node is a plain struct plus the list of its fields; walking, rewriting, structural
// equality, hashing and JSON derive from the list, for every language of ours (scalar expressions, tensor
// programs, Relay). Adding a node: the struct (with kName, kKind, fields), and LATHE_DEFINE_NODE in its .cpp.
//
//   struct For final : NodeOf<For, StmtNode> {
//     Var var; Expr extent; Stmt body;
//     static constexpr auto kName = "For";
//     static constexpr auto kKind = StmtKind::kFor;
//     static constexpr auto fields =
//         std::tuple{def("var", &For::var), field("extent", &For::extent), field("body", &For::body)};
//   };
//   Stmt loop = make<For>(i, n, body);      // arguments in the order of `fields`; the rest keep defaults
//   if (const For* f = loop.as<For>()) ...
//
// Field types: bool, integers, enums, double, std::string, DataType, Tensor, Ref<T>, and std::vector,
// std::optional, std::pair, std::map<std::string, T> of these, and plain structs that have `fields` too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lathe {

class Node;
struct NodeType;

namespace detail {
void destroy(const Node* node);  // iterative: a chain of 1,000,000 nodes does not overflow the stack
}

/// A shared pointer to an immutable node; the count lives in the node. Thread-safe as std::shared_ptr is.
template <typename T>
class Ref {
 public:
  using Pointee = T;
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(const T* node) : node_(node) { retain(); }
  Ref(const Ref& other) : node_(other.node_) { retain(); }
  Ref(Ref&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  template <typename U>
  requires(std::is_base_of_v<T, U> && !std::is_same_v<T, U>) Ref(const Ref<U>& other) : node_(other.get()) {
    retain();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Ref() { release(); }

  const T* get() const { return node_; }
  const T* operator->() const { return node_; }
  const T& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  /// Same node (not: same structure; see structural_equal).
  bool same_as(const Node* other) const { return static_cast<const Node*>(node_) == other; }
  template <typename U>
  friend bool operator==(const Ref& a, const Ref<U>& b) {
    return static_cast<const Node*>(a.get()) == static_cast<const Node*>(b.get());
  }
  /// The node as a `U`, or nullptr when it is of another type (or this is null).
  template <typename U>
  const U* as() const;
  /// This reference as a Ref<U>. REQUIRES: null, or the node is a U.
  template <typename U>
  Ref<U> cast() const {
    return Ref<U>(static_cast<const U*>(static_cast<const Node*>(node_)));
  }

 private:
  void retain() const;
  void release();
  const T* node_ = nullptr;
};

using NodeRef = Ref<Node>;

/// A non-owning reference to a callable, for parameters (no allocation, no template).
template <typename Signature>
class FunctionRef;
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, FunctionRef>) FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// How equality and hashing see a field.
enum class FieldRole : uint8_t {
  kValue,
  kDef,  // defines a variable or buffer: equal up to renaming from here on. Comes before its uses in `fields`
  kInfo,  // says nothing about meaning (names, spans, inferred types): ignored by equality and hash
};
template <typename Class, typename Member>
struct Field {
  const char* name;
  Member Class::*member;
  FieldRole role;
};
template <typename C, typename M>
constexpr Field<C, M> field(const char* name, M C::*member) {
  return {name, member, FieldRole::kValue};
}
template <typename C, typename M>
constexpr Field<C, M> def(const char* name, M C::*member) {
  return {name, member, FieldRole::kDef};
}
template <typename C, typename M>
constexpr Field<C, M> info(const char* name, M C::*member) {
  return {name, member, FieldRole::kInfo};
}

/// What two nodes of one type are told apart by: equality (and hashing) of the node as a whole.
enum class Identity : uint8_t {
  kTree,   // by structure alone; sharing does not matter (scalar expressions, types, statements)
  kGraph,  // by structure, and shared nodes must be shared alike (Relay expressions: sharing is meaning
           // there)
  kName,   // a variable or a buffer: the node itself, up to renaming where it is defined
};

/// One flattened field value of a node; containers give their size first.
struct Cell {
  enum class Tag : uint8_t { kInt, kFloat, kText, kNode } tag;
  FieldRole role;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;
  const Node* node = nullptr;
};

class Node {
 public:
  virtual ~Node() = default;
  const NodeType& type() const { return *type_; }
  /// The value of the language's kind enum, for `switch`.
  uint16_t kind_id() const { return kind_; }
  /// Of nodes with a name in the order in which they were made, from 1; else 0. Addresses depend on what
  /// other threads have freed: what decides by an order decides by these, or builds differ.
  uint32_t serial() const { return serial_; }

  /// Each non-null child node, in field order (kInfo fields excluded).
  virtual void for_each_child(FunctionRef<void(const NodeRef&)> f) const = 0;
  /// This node with each child c replaced by f(c); the same node when nothing changed.
  virtual NodeRef map_children(FunctionRef<NodeRef(const NodeRef&)> f) const = 0;
  virtual void append_cells(std::vector<Cell>& cells) const = 0;
  /// The fields as a JSON object; child nodes become what `id` gives.
  virtual nlohmann::json write_fields(FunctionRef<int64_t(const Node*)> id) const = 0;
  virtual void read_fields(const nlohmann::json& json, FunctionRef<NodeRef(int64_t)> node) = 0;

 protected:
  Node(const NodeType* type, uint16_t kind, bool has_name)
      : serial_(has_name ? next_serial() : 0), type_(type), kind_(kind) {}
  Node(const Node& other)
      : serial_(other.serial_ ? next_serial() : 0), type_(other.type_), kind_(other.kind_) {}

 private:
  template <typename T>
  friend class Ref;
  friend void detail::destroy(const Node*);
  static uint32_t next_serial();
  mutable std::atomic<uint32_t> refs_{0};
  uint32_t serial_;
  const NodeType* type_;
  uint16_t kind_;
};

template <typename T>
void Ref<T>::retain() const {
  if (node_) static_cast<const Node*>(node_)->refs_.fetch_add(1, std::memory_order_relaxed);
}
template <typename T>
void Ref<T>::release() {
  if (node_ && static_cast<const Node*>(node_)->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    detail::destroy(static_cast<const Node*>(node_));
}

struct NodeType {
  const char* name;
  Identity identity;
  Node* (*create)();  // with default fields; for readers
  std::vector<const char*> (*field_names)();
};

/// The base of every concrete node; Base is the language's abstract node (ExprNode, StmtNode, ...).
template <typename Derived, typename Base, Identity kIdentityOf = Identity::kTree>
struct NodeOf : Base {
  static const NodeType kType;  // defined by LATHE_DEFINE_NODE
  NodeOf() : Base(&kType, static_cast<uint16_t>(Derived::kKind), kIdentityOf == Identity::kName) {}
  void for_each_child(FunctionRef<void(const NodeRef&)> f) const override;
  NodeRef map_children(FunctionRef<NodeRef(const NodeRef&)> f) const override;
  void append_cells(std::vector<Cell>& cells) const override;
  nlohmann::json write_fields(FunctionRef<int64_t(const Node*)> id) const override;
  void read_fields(const nlohmann::json& json, FunctionRef<NodeRef(int64_t)> node) override;
};

template <typename T>
template <typename U>
const U* Ref<T>::as() const {
  if (!node_ || &static_cast<const Node*>(node_)->type() != &U::kType) return nullptr;
  return static_cast<const U*>(static_cast<const Node*>(node_));
}

template <typename T, typename... Args>
Ref<T> make(Args&&... args) {
  static_assert(sizeof...(Args) <= std::tuple_size_v<decltype(T::fields)>, "more arguments than fields");
  T* node = new T();
  [&]<size_t... I>(std::index_sequence<I...>, auto&&... values) {
    ((node->*(std::get<I>(T::fields).member) = std::forward<decltype(values)>(values)), ...);
  }
  (std::index_sequence_for<Args...>(), std::forward<Args>(args)...);
  return Ref<T>(node);
}

/// A copy of `node` for changing fields before it is shared: auto copy = mutate(*f); copy->body = b; return
/// seal(copy)
template <typename T>
std::unique_ptr<T> mutate(const T& node) {
  return std::make_unique<T>(node);
}
template <typename T>
Ref<T> seal(std::unique_ptr<T> node) {
  return Ref<T>(node.release());
}

/// Calls f on every distinct node reachable from `root`, children first. Iterative.
void post_order(const NodeRef& root, FunctionRef<void(const NodeRef&)> f);

/// Rewrites bottom-up, each distinct node once: f gets a node whose children are already rewritten and gives
/// its replacement (or the node itself). The same node comes back when nothing changed. Iterative.
NodeRef rewrite(const NodeRef& root, FunctionRef<NodeRef(const NodeRef&)> f);

/// Equal up to the names of variables and buffers defined inside. Free ones must be the same node, or, with
/// `map_free`, may be renamed consistently. Iterative.
bool structural_equal(const NodeRef& a, const NodeRef& b, bool map_free = false);

/// Agrees with structural_equal(.., map_free = true). Stable across runs, machines and library versions.
uint64_t structural_hash(const NodeRef& node);

/// A JSON graph {"root": i, "nodes": [{"type": ..., fields...}, ...]}; sharing is kept.
std::string save_json(const NodeRef& node);

/// The node types a reader may meet: each language gives its table.
using NodeTable = std::vector<const NodeType*>;
/// Reads what save_json wrote. Throws Error on malformed text, an unknown type or value of an enum,
/// references in a circle, and nodes nested or shared so deep that walking them is not safe.
NodeRef load_json(std::string_view text, const NodeTable& types);

}  // namespace lathe

template <typename T>
struct std::hash<lathe::Ref<T>> {
  size_t operator()(const lathe::Ref<T>& ref) const { return std::hash<const void*>()(ref.get()); }
};
