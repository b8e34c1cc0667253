#include "tuner/bind_shapes.h"

#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/arith/only_unknown.h"
#include "core/arith/simplify.h"
#include "core/relay/analysis/told_dims.h"
#include "core/relay/functor.h"
#include "core/relay/open_shapes.h"
#include "core/relay/text.h"

namespace lathe::tuner {
namespace {

using relay::Function;
using relay::TensorType;

/// What a symbolic dimension was found to be, and in which input.
struct Bound {
  int64_t value;
  std::string input;
};
// By node: two dimensions of one name in a definition of a text are one node.
using Dims = std::unordered_map<const Node*, Bound>;

/// Matches an input's declared shape with the given one, noting symbolic dimensions in `dims`.
void match(const std::string& name, const TensorType& type, const std::vector<int64_t>& shape, Dims& dims) {
  if (shape.size() != type.shape.size())
    fail("input `{}` has {} dimensions, must have {}", name, shape.size(), type.shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (const IntImm* wanted = type.shape[i].as<IntImm>(); wanted && wanted->value != shape[i])
      fail("input `{}` has shape {}: dimension {} must be {}", name, shape_text(shape), i, wanted->value);
    const VarNode* dim = type.shape[i].as<VarNode>();
    if (!dim) continue;
    auto [known, fresh] = dims.try_emplace(dim, Bound{shape[i], name});
    // One dimension of the model, given twice: both must agree.
    if (!fresh && known->second.value != shape[i])
      fail("dimension {} is {} in input `{}` and {} in input `{}`", dim->name, known->second.value,
           known->second.input, shape[i], name);
  }
}

/// An expression where all its dimensions that are noted have their values.
Expr value_of(const Expr& e, const Dims& dims) {
  VarMap values;
  for (const auto& [variable, bound] : dims) values[static_cast<const VarNode*>(variable)] = bound.value;
  return simplify(substitute(e, values));
}

/// The same for dimensions that are told by expressions: of 2 * k, where nothing else tells k, k is half of
/// it. Whether there are some.
bool match_expressions(const std::string& name, const TensorType& type, const std::vector<int64_t>& shape,
                       Dims& dims) {
  const auto is_known = [&](const VarNode* variable) { return dims.count(variable) != 0; };
  bool found = false;
  for (size_t i = 0; i < shape.size(); ++i)
    if (const auto unknown = only_unknown(type.shape[i], is_known))
      if (const Expr rest = value_of(unknown->rest, dims); as_int(rest)) {
        dims[unknown->variable] = {unknown->told_by(shape[i], int_value(rest)), name};
        found = true;
      }
  return found;
}

/// Throws Error where expressions are not what the shape says.
void compare_expressions(const std::string& name, const TensorType& type, const std::vector<int64_t>& shape,
                         const Dims& dims) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (const Expr& dim = type.shape[i]; dim.as<Binary>())
      if (const Expr value = value_of(dim, dims); as_int(value) && int_value(value) != shape[i])
        fail("input `{}` has shape {}: dimension {} must be {}", name, shape_text(shape), i,
             relay::print(dim));
}

/// An input's declared type with the given shape in place of unknown dimensions.
relay::Type filled(const TensorType& type, const std::vector<int64_t>& shape) {
  std::vector<Expr> dims = type.shape;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].as<Any>()) dims[i] = shape[i];
  return relay::tensor_type(std::move(dims), type.dtype);
}

/// An input's type with symbols in place of the unknown dimensions that are to stay open.
relay::Type with_symbols(const relay::Var& param, const TensorType& type, const OpenDims& open) {
  std::vector<Expr> dims = type.shape;
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::string name = fmt::format("{}.{}", param->name, i); dims[i].as<Any>() && open.keeps(name))
      dims[i] = var(name);
  return relay::tensor_type(std::move(dims), type.dtype);
}

/// What an input's type says of its shape, as the text of the model does; dimensions that are to stay open
/// are left out.
relay::StatedInput stated(const relay::Var& param, const TensorType& type, const OpenDims& open) {
  relay::StatedInput input{param->name, std::vector<relay::StatedDim>()};
  for (const Expr& dim : type.shape) {
    const IntImm* extent = dim.as<IntImm>();
    const relay::StatedDim stated{dim.as<Any>() ? "?" : relay::print(dim), extent ? extent->value : -1,
                                  dim.as<Binary>() ? dim : Expr()};
    const std::set<std::string> names = stated.names();
    const bool stays_open = !names.empty() && std::all_of(names.begin(), names.end(),
                                                          [&](const auto& name) { return open.keeps(name); });
    if (!stays_open) input.dims->push_back(stated);
  }
  return input;
}

/// After binding, so that the message is about what is still open.
void require_known(const Function& main, const OpenDims& open) {
  std::vector<relay::StatedInput> inputs;
  for (const relay::Var& param : main.params)
    if (const TensorType* type = param->annotation.as<TensorType>())
      inputs.push_back(stated(param, *type, open));
  std::set<std::string> dims;
  for (const relay::ToldDim& told : relay::told_dims(main)) dims.insert(told.dim->name);
  const std::string message = relay::open_shapes_message(inputs);
  if (message.empty()) return;
  // A misspelt name leaves its dimension open, and the message would be about that.
  if (!dims.empty()) require_known(open, {dims.begin(), dims.end()});
  throw Error(message);
}

/// A misspelt name would otherwise leave a dimension open, and the message would be about that.
void require_names(const Function& main, const InputShapes& shapes) {
  std::vector<std::string> names;
  for (const relay::Var& param : main.params) names.push_back(param->name);
  for (const auto& [name, shape] : shapes)
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::string hint = did_you_mean(name, names), all;
      for (const std::string& known : names) all += (all.empty() ? "; it has " : ", ") + known;
      fail("the model has no input `{}`{}", name, hint.empty() ? all : hint);
    }
}

}  // namespace

relay::Module bind_shapes(const relay::Module& module, const InputShapes& shapes, const OpenDims& open) {
  const auto found = module->functions.find("main");
  if (found == module->functions.end()) fail("the model has no function @main");
  const Ref<Function>& main = found->second;
  require_names(*main, shapes);
  Dims dims;
  std::unordered_map<const Node*, NodeRef> params;  // with an unknown dimension settled
  for (const relay::Var& param : main->params) {
    const TensorType* type = param->annotation.as<TensorType>();
    auto shape = shapes.find(param->name);
    // A shape that was not given is no mistake yet: its dimensions may be constant, or be settled by other
    // inputs.
    if (type && shape == shapes.end() && !open.none())
      params[param.get()] = relay::make_var(param->name, with_symbols(param, *type, open));
    if (!type || shape == shapes.end()) continue;
    match(param->name, *type, shape->second, dims);
    params[param.get()] = relay::make_var(param->name, filled(*type, shape->second));
  }
  const auto for_each_given =
      [&](FunctionRef<void(const std::string&, const TensorType&, const std::vector<int64_t>&)> f) {
        for (const relay::Var& param : main->params)
          if (auto shape = shapes.find(param->name); shape != shapes.end())
            if (const TensorType* type = param->annotation.as<TensorType>())
              f(param->name, *type, shape->second);
      };
  // After all that stand alone; each may be what another one waits for.
  for (bool found = true; std::exchange(found, false);)
    for_each_given([&](const auto& name, const auto& type, const auto& shape) {
      found |= match_expressions(name, type, shape, dims);
    });
  for_each_given([&](const auto& name, const auto& type, const auto& shape) {
    compare_expressions(name, type, shape, dims);
  });
  // Two passes: the second also has to reach the symbolic dimensions in the types of the new parameters.
  NodeRef with_params = rewrite(module, [&](const NodeRef& node) {
    auto found = params.find(node.get());
    return found == params.end() ? node : found->second;
  });
  NodeRef bound = rewrite(with_params, [&](const NodeRef& node) -> NodeRef {
    if (auto found = dims.find(node.get()); found != dims.end()) return NodeRef(Expr(found->second.value));
    const Binary* binary = node.as<Binary>();
    // What they make of expressions.
    return binary && as_int(binary->a) && as_int(binary->b) ? NodeRef(simplify(node.cast<ExprNode>())) : node;
  });
  relay::Module result = bound.cast<relay::ModuleNode>();
  require_known(*result->functions.at("main"), open);
  return result;
}

}  // namespace lathe::tuner
