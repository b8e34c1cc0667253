#include "core/program/open_stretch.h"

#include <algorithm>
#include <optional>

#include "core/arith/simplify.h"
#include "core/program/bindings.h"
#include "core/relay/functor.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/placed_error.h"
#include "core/support/stack.h"

namespace lathe::program {
namespace {

using namespace relay;
using relay::Expr, relay::Var;  // of two languages
using Dim = lathe::Expr;

void for_each_dim(const Type& type, FunctionRef<void(const Dim&)> f) {
  if (const TupleType* tuple = type.as<TupleType>())
    for (const Type& item : tuple->items) for_each_dim(item, f);
  if (const TensorType* tensor = type.as<TensorType>())
    for (const Dim& dim : tensor->shape) f(dim);
}

Type with_dims(const Type& type, FunctionRef<Dim(const Dim&)> f) {
  if (const TupleType* tuple = type.as<TupleType>()) {
    std::vector<Type> items;
    for (const Type& item : tuple->items) items.push_back(with_dims(item, f));
    return tuple_type(std::move(items));
  }
  const TensorType* tensor = type.as<TensorType>();
  if (!tensor) return type;
  std::vector<Dim> shape;
  for (const Dim& dim : tensor->shape) shape.push_back(f(dim));
  return tensor_type(std::move(shape), tensor->dtype);
}

bool has_unknown_dim(const Type& type) {
  bool found = false;
  for_each_dim(type, [&](const Dim& dim) { found |= dim.as<Any>() != nullptr; });
  return found;
}

/// Dimensions of the program around in terms of those that parameters show.
class Renaming {
 public:
  explicit Renaming(const std::vector<Type>& params) {
    for (const Type& type : params)
      for_each_dim(type, [&](const Dim& dim) {
        if (dim.as<lathe::VarNode>()) known_.insert(dim.get());
      });
    // Each may be what another one waits for.
    for (bool found = true; found;) {
      found = false;
      for (const Type& type : params) for_each_dim(type, [&](const Dim& dim) { found |= solve(dim); });
    }
  }

  Dim operator()(const Dim& dim) {
    if (as_int(dim)) return dim;
    for (const auto& [whole, name] : whole_)
      if (structural_equal(whole, dim, /*map_free=*/false)) return name;
    bool is_known = !dim.as<Any>();
    post_order(dim, [&](const NodeRef& node) {
      is_known = is_known && (!node.as<lathe::VarNode>() || known_.count(node.get()) > 0);
    });
    if (is_known) return simplify(substitute(dim, values_));
    const Dim name = lathe::var("d");
    // Two of `?` may be two numbers.
    if (!dim.as<Any>()) whole_.push_back({dim, name});
    return name;
  }

 private:
  /// A dimension that is linear in one variable without a value gives it one.
  bool solve(const Dim& dim) {
    std::vector<lathe::Var> unknown;
    post_order(dim, [&](const NodeRef& node) {
      if (node.as<lathe::VarNode>() && !known_.count(node.get()))
        unknown.push_back(node.cast<lathe::VarNode>());
    });
    if (unknown.size() != 1) return false;
    const std::optional<LinearForm> linear = linear_form(dim, unknown);
    if (!linear || linear->coefficients.size() != 1) return false;
    const int64_t factor = linear->coefficients.begin()->second;
    const Dim name = lathe::var(unknown[0]->name);
    // Exact: the dimension is a multiple of the factor beside the rest, or the program around was refused.
    values_[unknown[0].get()] = floordiv(name - substitute(linear->rest, values_), Dim(factor));
    known_.insert(unknown[0].get());
    whole_.push_back({dim, name});
    return true;
  }

  NodeSet known_;  // variables
  lathe::VarMap values_;
  std::vector<std::pair<Dim, Dim>> whole_;  // dimensions that have a name as they are
};

class Renamed : public ExprMutator {
 public:
  Renamed(const Ref<Function>& stretch, FunctionRef<Dim(const Dim&)> dims) : dims_(dims) {
    for (const Var& param : stretch->params) {
      params.push_back(make_var(param->name, with_dims(type_of(param), dims_)));
      set(param, params.back());
    }
  }
  std::vector<Var> params;

 private:
  Expr visit_call(const Ref<Call>& e) override {
    auto copy = mutate(*e);
    for (Expr& arg : copy->args) arg = visit(arg);
    if (copy->out_type) copy->out_type = with_dims(copy->out_type, dims_);
    copy->checked_type = nullptr;
    return seal(std::move(copy));
  }
  Expr visit_function(const Ref<Function>& e) override { return e; }

  FunctionRef<Dim(const Dim&)> dims_;
};

/// The stretch over other dimensions, without types.
Ref<Function> renamed(const Ref<Function>& stretch, FunctionRef<Dim(const Dim&)> dims) {
  Renamed names(stretch, dims);
  auto copy = mutate(*stretch);
  copy->body = names.visit(stretch->body);
  copy->params = names.params;
  copy->result_type = nullptr;
  copy->checked_type = nullptr;
  return seal(std::move(copy));
}

/// Where the first dimension comes from that nothing tells.
[[noreturn]] void refuse(const Ref<Function>& stretch) {
  Expr from;
  post_order(stretch->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (call && !from && has_unknown_dim(call->checked_type)) from = Expr(call);
  });
  const OpNode* op = from ? from.as<Call>()->callee.as<OpNode>() : nullptr;
  throw PlacedError(
      from ? from->span : stretch->span,
      fmt::format("{} gives {}: no shape of what it is computed from tells the `?`; name it by match_cast",
                  op ? op->name : "a function", print(from ? from->checked_type : stretch->result_type)));
}

/// Of a stretch; each is compiled.
constexpr size_t kMostCases = 243;  // of five dimensions three each

/// Where a variable stands by itself.
bool find_dim(const Type& type, const Dim& variable, StretchCases& place) {
  if (const TupleType* tuple = type.as<TupleType>())
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      place.items.push_back(static_cast<int64_t>(i));
      if (find_dim(tuple->items[i], variable, place)) return true;
      place.items.pop_back();
    }
  const TensorType* tensor = type.as<TensorType>();
  for (size_t axis = 0; tensor && axis < tensor->shape.size(); ++axis)
    if (tensor->shape[axis] == variable) {
      place.axis = static_cast<int64_t>(axis);
      return true;
    }
  return false;
}

/// A dimension as one of a parameter's and a number: by the one a run tells whether the other is 1.
struct Shown {
  lathe::Var variable;
  int64_t beside = 0;
  StretchCases place;
};

std::optional<Shown> shown(const Dim& dim, const Ref<Function>& stretch) {
  std::vector<lathe::Var> variables;
  post_order(dim, [&](const NodeRef& node) {
    if (node.as<lathe::VarNode>()) variables.push_back(node.cast<lathe::VarNode>());
  });
  if (variables.size() != 1) return std::nullopt;
  const std::optional<LinearForm> linear = linear_form(dim, variables);
  if (!linear || linear->coefficients.size() != 1 || linear->coefficients.begin()->second != 1)
    return std::nullopt;
  const Dim rest = simplify(linear->rest);
  if (!as_int(rest)) return std::nullopt;
  Shown found{variables[0], int_value(rest), {}};
  StretchCases& place = found.place;
  while (place.param < stretch->params.size() &&
         !find_dim(type_of(stretch->params[place.param]), variables[0], place))
    ++place.param;
  if (place.param == stretch->params.size()) return std::nullopt;
  place.size = 1 - found.beside;
  return found;
}

/// Cases of a stretch with types; `left` are those that may still be made.
class Cases {
 public:
  Cases(const Ref<Function>& typed, size_t& left) : typed_(typed), left_(left) {}

  /// A dimension is 1, or equal to the other, which may be 1, too.
  StretchCases of_broadcast(Shown one, const Dim& other) const {
    const std::optional<Shown> second = shown(other, typed_);
    StretchCases equal = second ? either(*second, Dim(1), where(one, other)) : where(one, other);
    return either(one, Dim(1), std::move(equal));
  }

 private:
  /// The stretch where the dimension is of this size, or what is wrong with it there.
  StretchCases where(const Shown& dim, const Dim& size) const;
  /// That where it is, or what is given. A dimension that is larger has but the one.
  StretchCases either(const Shown& dim, const Dim& size, StretchCases otherwise) const {
    if (dim.place.size < 0) return otherwise;
    StretchCases cases{
        .param = dim.place.param, .items = dim.place.items, .axis = dim.place.axis, .size = dim.place.size};
    StretchCases is_size = where(dim, size);
    if (is_size.wrong && otherwise.wrong) return otherwise;
    cases.is_size = std::make_unique<StretchCases>(std::move(is_size));
    cases.is_not = std::make_unique<StretchCases>(std::move(otherwise));
    return cases;
  }

  const Ref<Function>& typed_;
  size_t& left_;
};

/// A broadcast of which a run can tell whether a dimension is 1.
struct Question {
  Shown one;
  Dim other;
  Expr call;
};

std::optional<Question> question_of(const DimCheck& check, const Ref<Function>& typed) {
  if (!check.or_one) return std::nullopt;
  for (const auto& [dim, other] : {std::pair(check.a, check.b), std::pair(check.b, check.a)}) {
    // Where no parameter shows a dimension by itself, no run could ask; and min(n, 6) is no other name of n.
    std::optional<Shown> one = shown(dim, typed);
    if (one && !uses_var(other, one->variable.get())) return Question{*std::move(one), other, check.call};
  }
  return std::nullopt;
}

/// The first of a function; nothing where there is none.
std::optional<Question> first_question(const Ref<Function>& typed) {
  for (const DimCheck& check : undecided_dims(make_module(typed)))
    if (auto question = question_of(check, typed)) return question;
  return std::nullopt;
}

/// A dimension that an operator demands to be a number, which no other can be told from here on.
std::optional<std::pair<lathe::Var, Dim>> first_demand(const Ref<Function>& typed) {
  for (const DimCheck& check : undecided_dims(make_module(typed)))
    for (const auto& [dim, number] : {std::pair(check.a, check.b), std::pair(check.b, check.a)}) {
      const std::optional<Shown> told = check.or_one ? std::nullopt : shown(dim, typed);
      const Dim size = told ? simplify(number - Dim(told->beside)) : Dim();
      if (told && as_int(size) && int_value(size) >= 0) return std::pair(told->variable, size);
    }
  return std::nullopt;
}

StretchCases cases_of(const Ref<Function>& stretch, size_t& left) {
  std::vector<Type> types;
  for (const Var& param : stretch->params) types.push_back(type_of(param));
  Renaming dims(types);
  const Ref<Function> typed = infer_type(renamed(stretch, dims));
  // One dimension at a time: with it decided, types are inferred anew, and what is then still undecided is
  // asked on both sides apart.
  if (std::optional<Question> question = first_question(typed)) {
    // Three at most, of which one is this.
    if (left < 2)
      throw PlacedError(question->call->span, "too many dimensions in one stretch may be 1 or not");
    ++left;
    return Cases(typed, left).of_broadcast(std::move(question->one), question->other);
  }
  if (const auto demand = first_demand(typed)) {
    const lathe::VarMap number{{demand->first.get(), demand->second}};
    return cases_of(renamed(typed, [&](const Dim& dim) { return simplify(substitute(dim, number)); }), left);
  }
  if (has_unknown_dim(typed->result_type)) refuse(typed);
  StretchCases one;
  one.function = typed;
  return one;
}

StretchCases Cases::where(const Shown& dim, const Dim& size) const try {
  lathe::VarMap values;
  values[dim.variable.get()] = simplify(size - Dim(dim.beside));
  return cases_of(renamed(typed_, [&](const Dim& each) { return simplify(substitute(each, values)); }),
                  --left_);
} catch (const TypeError&) {
  StretchCases none;
  none.wrong = std::current_exception();
  return none;
}

}  // namespace

bool is_static(const Type& type) {
  bool numbers = holds_tensors(type);
  for_each_dim(type, [&](const Dim& dim) { numbers = numbers && as_int(dim); });
  return numbers;
}

bool holds_tensors(const Type& type) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return type.as<TensorType>() != nullptr;
  bool all = true;
  with_enough_stack([&] { all = std::all_of(tuple->items.begin(), tuple->items.end(), holds_tensors); });
  return all;
}

StretchCases with_dims_of_params(const Ref<Function>& stretch) {
  size_t left = kMostCases - 1;
  StretchCases cases = cases_of(stretch, left);
  if (cases.wrong) std::rethrow_exception(cases.wrong);
  return cases;
}

bool has_cases(const Module& graph) {
  const Ref<Function>& main = graph->functions.at("main");
  for (const DimCheck& check : undecided_dims(graph)) {
    const std::optional<Question> question = question_of(check, main);
    if (!question) continue;
    const std::optional<Shown> other = shown(question->other, main);
    // A size that is never 1 leaves but one case.
    if (question->one.place.size >= 0 || (other && other->place.size >= 0)) return true;
  }
  return false;
}

}  // namespace lathe::program
