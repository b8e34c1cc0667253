// Names and types in text: what is shared by the printers of definitions and of expressions.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/relay/expr.h"

namespace lathe::relay {

/// Names given so far.
class UniqueNames {
 public:
  /// Names that are taken from the start. Many to be shared by all copies; null: none.
  using Taken = std::shared_ptr<const std::unordered_set<std::string>>;
  explicit UniqueNames(Taken taken = nullptr) : taken_(std::move(taken)) {}

  void reserve(const std::string& name) { used_.insert(name); }
  bool has(const std::string& name) const {
    return used_.count(name) > 0 || (taken_ && taken_->count(name) > 0);
  }
  /// A new name as near to `wanted` as can be, and legal: of a variable, with dots and slashes, or a plain
  /// word.
  std::string add(std::string wanted, bool is_variable);

 private:
  Taken taken_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> next_suffix_;
};

/// Prints types and dimensions, naming their variables; a name is given once and then kept.
class TypeNames {
 public:
  /// Names that type variables must not take: those of the module's types.
  explicit TypeNames(UniqueNames::Taken taken = nullptr) : type_names_(std::move(taken)) {}
  std::string type(const Type& type);
  /// " where (...)", or "".
  std::string constraints(const std::vector<Type>& constraints);
  std::string dim(const lathe::Expr& dim, bool nested = false);
  std::string type_params(const std::vector<TypeVar>& params);  // "[A, B]" or ""

 private:
  void append(std::string& text, const Type& type);
  void append_once(std::string& text, const Type& type);
  void append_list(std::string& text, const std::vector<Type>& types);
  void append_dims(std::string& text, const std::vector<lathe::Expr>& dims);
  std::string type_var(const TypeVarNode* variable);

  UniqueNames type_names_, dim_names_;
  std::unordered_map<const Node*, std::string> named_;
};

/// Type, Shape, BaseType, ...
const char* kind_name(Kind kind);

/// A constant as a literal, or "" when it belongs into the metadata: large, or with a NaN of other bits than
/// the usual ones.
std::string print_literal(const Tensor& value);
/// The same, whatever the bits of a NaN.
std::string print_value(const Tensor& value);

}  // namespace lathe::relay
