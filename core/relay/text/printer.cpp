// Prints expressions, functions and modules. Shared and nested expressions become graph bindings (%0 = ...;)
// of the innermost scope that holds all their uses, so that what is parsed back is shared alike.
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/text.h"
#include "core/relay/text/attrs_text.h"
#include "core/relay/text/names.h"
#include "core/relay/text/parser.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// The metadata being collected, with the index of what is in it.
class MetadataWriter {
 public:
  std::string constant(const Constant& e) {
    // Copies of a tensor share their storage: a weight that is used twice is written once.
    auto [found, is_new] =
        constant_index_.emplace(std::pair(e.value.data(), e.value.shape()), metadata_.constants.size());
    if (is_new) metadata_.constants.push_back(e.value);
    return fmt::format("meta[relay.Constant][{}]", found->second);
  }
  std::string func(const tir::Func& func) {
    auto [found, is_new] = func_index_.emplace(func.get(), metadata_.funcs.size());
    if (is_new) metadata_.funcs.push_back(func);
    return fmt::format("meta[tir.Func][{}]", found->second);
  }
  bool empty() const { return metadata_.constants.empty() && metadata_.funcs.empty(); }
  std::string text() const { return "#[metadata]\n" + write_metadata(metadata_) + "\n"; }

 private:
  Metadata metadata_;
  std::map<std::pair<const void*, std::vector<int64_t>>, size_t> constant_index_;  // by storage and shape
  std::unordered_map<const Node*, size_t> func_index_;
};

/// One global function, or one expression.
class Printer : public ExprFunctor<std::string> {
 public:
  Printer(const PrintOptions& options, TypeNames types, MetadataWriter& metadata)
      : options_(options), types_(std::move(types)), metadata_(metadata) {}

  std::string definition(const std::string& name, const Ref<Function>& function) {
    place(function);
    return fmt::format("def @{}{}\n", name, signature_and_body(function));
  }

  std::string expression(const Expr& e) {
    place(e);
    return scope(e, 0);
  }

 protected:
  std::string visit_default(const Expr& e) override { CHECK(false, "{} has no text form", e->type().name); }

  std::string visit_constant(const Ref<Constant>& e) override {
    std::string literal = print_literal(e->value);
    if (!literal.empty()) return literal;
    return metadata_.constant(*e);
  }
  std::string visit_var(const Var& e) override {
    auto [found, is_new] = names_.try_emplace(e.get());
    if (is_new) found->second = "%" + used_names_.add(e->name, true);
    return found->second;
  }
  std::string visit_global_var(const GlobalVar& e) override { return "@" + e->name; }
  std::string visit_op(const Ref<OpNode>& e) override { return e->name; }
  std::string visit_constructor(const Constructor& e) override { return e->name; }
  std::string visit_prim_func(const Ref<PrimFunc>& e) override { return metadata_.func(e->func); }
  std::string visit_extern_func(const Ref<ExternFunc>& e) override {
    return fmt::format("extern({})", json_string(e->symbol));
  }

  std::string visit_call(const Ref<Call>& e) override {
    std::string args = operands(e->args);
    if (e->out_type) {
      const ExternFunc* library = e->callee.as<ExternFunc>();
      CHECK(library || e->callee.as<PrimFunc>(),
            "only tensor programs and library functions have an out_type");
      return fmt::format("{}({}, ({}), {})", library ? "call_dps_library" : "call_tir",
                         library ? json_string(library->symbol) : operand(e->callee), args,
                         types_.type(e->out_type));
    }
    std::string attrs = print_attrs(e->attrs), type_args;
    for (const Type& each : e->type_args) type_args += (type_args.empty() ? "" : ", ") + types_.type(each);
    if (!type_args.empty()) type_args = "[" + type_args + "]";
    return fmt::format("{}{}({}{}{})", operand(e->callee), type_args, args,
                       args.empty() || attrs.empty() ? "" : ", ", attrs);
  }
  /// A let that is an operand; chains are written by scope().
  std::string visit_let(const Ref<Let>& e) override {
    block_depth_ += 1;
    std::string text = "{" + new_line() + let_line(e) + scope(e->body, scopes_.places.at(e.get()).bodies[0]);
    block_depth_ -= 1;
    return text + new_line() + "}";
  }
  std::string visit_function(const Ref<Function>& e) override { return "fn " + signature_and_body(e); }
  std::string visit_tuple(const Ref<Tuple>& e) override {
    return fmt::format("({}{})", operands(e->items), e->items.size() == 1 ? "," : "");
  }
  std::string visit_projection(const Ref<Projection>& e) override {
    std::string tuple = operand(e->tuple);
    // %t.0 may be a variable's own name, which the parser looks for first; then (%t).0.
    bool is_name = tuple[0] == '%' && !used_names_.has(fmt::format("{}.{}", tuple.substr(1), e->index));
    return fmt::format(fmt::runtime(is_name ? "{}.{}" : "({}).{}"), tuple, e->index);
  }
  std::string visit_if(const Ref<If>& e) override {
    std::string text;
    for (const If* each = e.get();;) {
      std::vector<int> bodies = scopes_.places.at(each).bodies;
      std::string condition = operand(each->condition);
      text += fmt::format("if ({}) {} else ", condition, block(each->then_case, bodies[0]));
      // An `if` with nothing beside it in its scope needs no braces: chains do not nest, as in the parser.
      const If* next = each->else_case.as<If>();
      if (!next || !used_once(each->else_case) || scopes_.members[bodies[1]].size() > 1)
        return text + block(each->else_case, bodies[1]);
      each = next;
    }
  }
  std::string visit_match(const Ref<Match>& e) override {
    std::vector<int> bodies = scopes_.places.at(e.get()).bodies;
    std::string text = fmt::format("match{} ({}) {{", e->complete ? "" : "?", operand(e->value));
    block_depth_ += 1;
    for (size_t i = 0; i < e->clauses.size(); ++i) {
      const Clause& clause = e->clauses[i];
      text += new_line() + pattern(clause.pattern) + " => ";
      text += block(clause.body, bodies[i]) + ",";
    }
    block_depth_ -= 1;
    return text + new_line() + "}";
  }
  std::string visit_ref_create(const Ref<RefCreate>& e) override {
    return fmt::format("ref({})", operand(e->value));
  }
  std::string visit_ref_read(const Ref<RefRead>& e) override {
    return fmt::format("ref_read({})", operand(e->ref));
  }
  std::string visit_ref_write(const Ref<RefWrite>& e) override {
    std::string ref = operand(e->ref);
    return fmt::format("ref_write({}, {})", ref, operand(e->value));
  }
  std::string visit_grad(const Ref<Grad>& e) override {
    return fmt::format("grad({})", operand(e->function));
  }
  std::string visit_match_cast(const Ref<MatchCast>& e) override {
    return fmt::format("match_cast({}, {})", operand(e->value), types_.type(e->type));
  }
  std::string visit_dataflow(const Ref<Dataflow>& e) override {
    block_depth_ += 1;
    std::string text = "dataflow {" + new_line() + scope(e->body, scopes_.places.at(e.get()).bodies[0], true);
    block_depth_ -= 1;
    return text + new_line() + "}";
  }

 private:
  /// Finds out in which scope each expression is bound, and which stand in place as values of lets.
  void place(const Expr& root) {
    scopes_ = graph_scopes(root);
    for (const std::vector<Expr>& members : scopes_.members)
      for (const Expr& e : members)
        if (const Let* let = e.as<Let>()) in_place_values_.insert(let->value.get());
  }

  std::string new_line() const { return "\n" + std::string(static_cast<size_t>(block_depth_) * 2, ' '); }

  std::string type_comment(const Expr& e) {
    return options_.types && e->checked_type ? fmt::format(" /* ty={} */", types_.type(e->checked_type)) : "";
  }

  /// Leaves are written out, all else has been bound before and is named.
  std::string operand(const Expr& e) {
    if (is_leaf(e)) return dispatch(e);
    auto bound = names_.find(e.get());
    CHECK(bound != names_.end(), "{} is used before it is bound", e->type().name);
    return bound->second;
  }

  std::string operands(const std::vector<Expr>& list) {
    std::string text;
    for (const Expr& each : list) text += (text.empty() ? "" : ", ") + operand(each);
    return text;
  }

  /// Leaves count as used once: they are written where they are used.
  bool used_once(const Expr& e) const { return is_leaf(e) || scopes_.places.at(e.get()).uses == 1; }

  std::string binder(const Var& variable) {
    std::string name = visit_var(variable);
    return variable->annotation ? fmt::format("{}: {}", name, types_.type(variable->annotation)) : name;
  }

  /// The value of a let, or the result of a scope, in place.
  std::string in_place(const Expr& e) {
    return is_leaf(e) || !used_once(e) ? operand(e) : dispatch(e) + type_comment(e);
  }

  /// `let %x = value;` and the begin of the next line. The variable is named first: a recursive function uses
  /// it.
  std::string let_line(const Ref<Let>& let) {
    std::string variable = binder(let->var);
    return fmt::format("let {} = {};", variable, in_place(let->value)) + new_line();
  }

  /// Graph bindings, lets, and the result: what stands between braces.
  std::string scope(const Expr& result, int id, bool is_dataflow = false) {
    std::string text;
    with_enough_stack([&] { text = scope_lines(result, id, is_dataflow); });
    return text;
  }

  /// output(a, b) for a tuple that is written in place, output(a) for all else.
  std::string outputs(const Expr& result) {
    const Tuple* tuple = used_once(result) ? result.as<Tuple>() : nullptr;
    const bool several = tuple && tuple->items.size() > 1;
    return fmt::format("output({})", several ? operands(tuple->items) : in_place(result));
  }

  std::string scope_lines(Expr result, int id, bool is_dataflow) {
    std::string text;
    for (;;) {
      const Let* let = used_once(result) ? result.as<Let>() : nullptr;
      for (const Expr& e : scopes_.members[id]) {
        // The result, and what a let names already, need no binding of their own.
        bool is_in_place = used_once(e) && (e == result || in_place_values_.count(e.get()));
        if (is_in_place) continue;
        std::string value = dispatch(e) + type_comment(e);
        names_[e.get()] = fmt::format("%{}", next_binding_);
        text += fmt::format("%{} = {};", next_binding_++, value) + new_line();
      }
      if (!let) return text + (is_dataflow ? outputs(result) : in_place(result));
      text += let_line(result.cast<Let>());
      // On into the body of the let: its scope is the next in the chain.
      id = scopes_.places.at(let).bodies[0];
      result = let->body;
    }
  }

  std::string block(const Expr& body, int id) {
    block_depth_ += 1;
    std::string text = "{" + new_line() + scope(body, id);
    block_depth_ -= 1;
    return text + new_line() + "}";
  }

  std::string signature_and_body(const Ref<Function>& e) {
    std::string text = types_.type_params(e->type_params) + "(", separator;
    auto add = [&](const std::string& item) { text += std::exchange(separator, ", ") + item; };
    for (const Var& param : e->params) add(binder(param));
    if (e->attrs.primitive) add("Primitive=1");
    for (const auto& [key, value] : e->attrs.other) add(fmt::format("{}={}", key, json_string(value)));
    for (const auto& [key, value] : e->attrs.integers) add(fmt::format("{}={}", key, value));
    for (const auto& [key, value] : e->attrs.values) add(fmt::format("{}={}", key, value));
    text += ")";
    if (e->result_type) text += " -> " + types_.type(e->result_type);
    text += types_.constraints(e->constraints);
    return text + " " + block(e->body, scopes_.places.at(e.get()).bodies[0]);
  }

  std::string pattern(const Pattern& p) {
    auto list = [&](const std::vector<Pattern>& items) {
      std::string text;
      for (const Pattern& each : items) text += (text.empty() ? "" : ", ") + pattern(each);
      return text;
    };
    switch (p->kind()) {
      case PatternKind::kWildcard:
        return "_";
      case PatternKind::kVar:
        return binder(p.as<VarPattern>()->var);
      case PatternKind::kTuple:
        return fmt::format("({})", list(p.as<TuplePattern>()->items));
      case PatternKind::kConstructor:
        break;
    }
    const ConstructorPattern& constructor = *p.as<ConstructorPattern>();
    std::string items = list(constructor.items);
    return constructor.constructor->name + (items.empty() ? "" : "(" + items + ")");
  }

  const PrintOptions& options_;
  TypeNames types_;
  MetadataWriter& metadata_;
  GraphScopes scopes_;
  std::unordered_map<const Node*, std::string> names_;  // variables and bindings
  UniqueNames used_names_;
  std::unordered_set<const Node*> in_place_values_;
  int next_binding_ = 0, block_depth_ = 0;
};

std::string type_definition(const TypeDataNode& data, const UniqueNames::Taken& taken) {
  TypeNames types(taken);
  std::string text = fmt::format("type {}{} {{\n", data.header->name, types.type_params(data.type_params));
  for (const Constructor& each : data.constructors) {
    std::string inputs;
    for (const Type& input : each->inputs) inputs += (inputs.empty() ? "" : ", ") + types.type(input);
    text += fmt::format("  {}{},\n", each->name, inputs.empty() ? "" : "(" + inputs + ")");
  }
  return text + "}\n";
}

}  // namespace

std::string print(const Module& module, const PrintOptions& options) {
  MetadataWriter metadata;
  // Definitions share it: a copy for each of as many types would be their square.
  auto names = std::make_shared<std::unordered_set<std::string>>();
  for (const auto& each : module->types) names->insert(each.first);
  const UniqueNames::Taken taken = std::move(names);
  std::string text = "#[version = \"0.0.5\"]\n";
  for (const auto& each : module->types) text += type_definition(*each.second, taken);
  for (const auto& [name, function] : module->functions)
    text += Printer(options, TypeNames(taken), metadata).definition(name, function);
  if (options.metadata && !metadata.empty()) text += metadata.text();
  return text;
}

std::string print(const Expr& expr, const PrintOptions& options) {
  MetadataWriter metadata;
  std::string text = Printer(options, TypeNames(), metadata).expression(expr) + "\n";
  if (options.metadata && !metadata.empty()) text += metadata.text();
  return text;
}

}  // namespace lathe::relay
