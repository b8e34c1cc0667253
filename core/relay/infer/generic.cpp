#include "core/relay/infer/generic.h"

#include <algorithm>

#include "core/relay/analysis/call_type.h"
#include "core/relay/infer/unifier.h"
#include "core/relay/text.h"
#include "core/relay/text/names.h"

namespace lathe::relay {
namespace {

constexpr size_t kMaxRank = 4;
constexpr size_t kMaxTries = 1000;  // of three shape variables and a base type, all

const std::vector<DataType>& example_base_types() {
  static const std::vector<DataType> kTypes{kFloat32, kInt32, kUInt8, kBool};
  return kTypes;
}

/// What the variables stand for in one try: a ShapeType, a scalar's type.
using Values = std::unordered_map<const Node*, Type>;

void add_variables(const Type& type, std::vector<TypeVar>& variables) {
  post_order(type, [&](const NodeRef& node) {
    const TypeVarNode* variable = node.as<TypeVarNode>();
    if (!variable || variable->of == Kind::kType) return;
    if (std::none_of(variables.begin(), variables.end(), [&](const TypeVar& each) { return each == node; }))
      variables.push_back(node.cast<TypeVarNode>());
  });
}

Type shape_of_rank(size_t rank) {
  std::vector<lathe::Expr> dims;
  for (size_t i = 0; i < rank; ++i) dims.push_back(var(fmt::format("d{}", i)));
  return make<ShapeType>(std::move(dims));
}

size_t examples_of(const TypeVar& variable) {
  return variable->of == Kind::kShape ? kMaxRank + 1 : example_base_types().size();
}

/// Try number `number` of all combinations.
Values values_of(const std::vector<TypeVar>& variables, size_t number) {
  Values values;
  for (const TypeVar& each : variables) {
    const size_t example = number % examples_of(each);
    number /= examples_of(each);
    values[each.get()] =
        each->of == Kind::kShape ? shape_of_rank(example) : base_type(example_base_types()[example]);
  }
  return values;
}

std::string text_of(const std::vector<TypeVar>& variables, const Values& values) {
  std::string text;
  for (const TypeVar& each : variables)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", each->name, print(values.at(each.get())));
  return text;
}

/// What the result of all tries so far may be, in terms of the variables.
class Result {
 public:
  explicit Result(const std::vector<TypeVar>& variables) : variables_(variables) {}

  /// False when there is no such type.
  bool add(const Type& found, const Values& values) {
    std::vector<const TensorType*> tensors;
    flatten(found, tensors);
    if (!example_) {
      example_ = found;
      for (const TensorType* each : tensors) candidates_.push_back(candidates_of(*each, values));
    }
    if (tensors.size() != candidates_.size()) return false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      Candidates& left = candidates_[i];
      const Type shape = make<ShapeType>(tensors[i]->shape), base = base_type(tensors[i]->dtype);
      std::erase_if(left.shapes, [&](const Type& each) { return !equal(each, shape, values); });
      std::erase_if(left.bases, [&](const Type& each) { return !equal(each, base, values); });
      if (left.shapes.empty() || left.bases.empty()) return false;
    }
    return true;
  }

  Type type() const {
    size_t next = 0;
    return build(example_, next);
  }

 private:
  struct Candidates {
    std::vector<Type> shapes, bases;
  };

  static void flatten(const Type& type, std::vector<const TensorType*>& tensors) {
    if (const TensorType* tensor = type.as<TensorType>()) tensors.push_back(tensor);
    if (const TupleType* tuple = type.as<TupleType>())
      for (const Type& item : tuple->items) flatten(item, tensors);
  }

  static bool equal(const Type& candidate, const Type& found, const Values& values) {
    return structural_equal(substitute_types(candidate, values), found);
  }

  Candidates candidates_of(const TensorType& found, const Values&) const {
    Candidates all{{make<ShapeType>(found.shape)}, {base_type(found.dtype)}};
    for (const TypeVar& each : variables_)
      (each->of == Kind::kShape ? all.shapes : all.bases).push_back(each);
    return all;
  }

  Type build(const Type& like, size_t& next) const {
    if (like.as<TensorType>()) {
      const Candidates& left = candidates_[next++];
      return tensor_of(left.shapes.front(), left.bases.front());
    }
    std::vector<Type> items;
    for (const Type& item : like.as<TupleType>()->items) items.push_back(build(item, next));
    return tuple_type(std::move(items));
  }

  const std::vector<TypeVar>& variables_;
  Type example_;
  std::vector<Candidates> candidates_;  // of the result's tensors
};

/// The result that one of `given` states for these arguments, or null.
Type stated(const Op& op, const std::vector<Type>& types, const Attrs& attrs,
            const std::vector<Type>& given) {
  for (const Type& each : given) {
    const RelationType& relation = *each.as<RelationType>();
    bool same =
        relation.op == op.name && relation.args.size() == types.size() &&
        (relation.attrs == attrs || (relation.attrs && attrs && structural_equal(relation.attrs, attrs)));
    for (size_t i = 0; same && i < types.size(); ++i) same = structural_equal(relation.args[i], types[i]);
    if (same) return relation.result;
  }
  return nullptr;
}

std::string call_text(const Op& op, const std::vector<Type>& types, const Attrs& attrs) {
  return TypeNames().type(make<RelationType>(op.name, types, attrs, make<HoleType>()));
}

}  // namespace

bool is_generic(const Type& type) {
  // Nearly all types; the others are small.
  if (type.as<TensorType>()) return false;
  bool found = false;
  post_order(type, [&](const NodeRef& node) { found |= node.as<GenericTensorType>() != nullptr; });
  return found;
}

Type generic_result(const Op& op, const std::vector<Expr>& args, const std::vector<Type>& types,
                    const Attrs& attrs, const std::vector<Type>& given) {
  if (Type type = stated(op, types, attrs, given)) return type;
  std::vector<TypeVar> variables;
  for (const Type& each : types) add_variables(each, variables);
  size_t tries = 1;
  for (const TypeVar& each : variables) tries = std::min(tries * examples_of(each), kMaxTries + 1);
  auto ask = [&](const std::string& why) {
    fail("{}; state that it may be called so: where ({})", why, call_text(op, types, attrs));
  };
  if (tries > kMaxTries)
    ask(op.name + std::string(": its arguments have too many shapes and base types that are variables"));
  Result result(variables);
  for (size_t i = 0; i < tries; ++i) {
    const Values values = values_of(variables, i);
    std::vector<Expr> examples;
    for (size_t k = 0; k < types.size(); ++k) {
      const bool is_literal = k < args.size() && args[k].as<Constant>();
      examples.push_back(
          with_checked_type(is_literal ? args[k] : Expr(make_var("x")), substitute_types(types[k], values)));
    }
    Type found;
    try {
      found = typed_call(op.name, std::move(examples), attrs)->checked_type;
    } catch (const Error& error) {
      ask(fmt::format("{}, where {}", error.what(), text_of(variables, values)));
    }
    if (!result.add(found, values))
      ask(fmt::format("{}: the result has type {}, where {}; no variable stands for that", op.name,
                      print(found), text_of(variables, values)));
  }
  return result.type();
}

}  // namespace lathe::relay
