#include "tests/relay/random_programs.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/lower.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"
#include "tests/relay/random_definitions.h"
#include "tests/relay/random_open_functions.h"

namespace lathe::relay {
namespace {

/// Expressions are made for a type that is wanted, with variables in scope that may serve.
class Generator : RandomParts {
 public:
  explicit Generator(uint64_t seed) : RandomParts(seed), prelude_(parse_module(kDefinitions)) {}

  Module run() {
    auto module = mutate(*prelude_);
    if (chance(30)) add_mutual_recursion(*module);
    // Each may call those before it: no recursion but that of the forms below, which ends.
    int functions = below(4);
    for (int i = 0; i < functions; ++i) {
      std::string name = fmt::format("f{}", i);
      Ref<Function> function = make_function({type(2), type(2)}, type(2), 4);
      module->functions[name] = function;
      globals_.push_back({make<GlobalVarNode>(name), function, false});
    }
    for (int i = below(3); i > 0; --i) {
      std::string name = fmt::format("o{}", i);
      module->functions[name] = open_.add_function(name, chance(70) ? kInt32 : kFloat32);
    }
    module->functions["main"] = make_function({}, type(2), 6);
    return seal(std::move(module));
  }

 private:
  struct Global {
    GlobalVar name;
    Ref<Function> function;
    bool counts_down;  // its first argument is how often it calls
  };

  Type list_of(Type item) { return make<TypeCall>(make<GlobalTypeVarNode>("List"), std::vector{item}); }
  Type option_of(Type item) { return make<TypeCall>(make<GlobalTypeVarNode>("Option"), std::vector{item}); }
  Constructor constructor(const char* type, size_t i) const {
    return prelude_->types.at(type)->constructors.at(i);
  }

  Type named(const char* name, std::vector<Type> args = {}) {
    return make<TypeCall>(make<GlobalTypeVarNode>(name), std::move(args));
  }
  static bool is_named(const Type& type, std::string_view name) {
    const TypeCall* call = type.as<TypeCall>();
    return call && call->callee->name == name;
  }
  /// Functions and references are inside of data alone.
  Type type(int depth) {
    if (depth > 0 && chance(40)) {
      switch (below(5)) {
        case 3:
          return named("Thing");
        case 4:
          return named("Tree", {type(0)});
        case 0:
          return list_of(type(depth - 1));
        case 1:
          return option_of(type(depth - 1));
        default: {
          std::vector<Type> items;
          for (int n = below(3); n >= 0; --n) items.push_back(type(depth - 1));
          return tuple_type(items);
        }
      }
    }
    constexpr DataType kTypes[] = {kInt32, kFloat32, kBool, kInt32, kFloat32, kBool, kInt64, kUInt8};
    if (chance(70)) return scalar(kTypes[below(8)]);
    std::vector<int64_t> shape{1 + below(3)};
    if (chance(20)) shape.push_back(1 + below(3));
    return tensor_type(shape, chance(50) ? kInt32 : kFloat32);
  }

  Ref<Function> make_function(const std::vector<Type>& params, const Type& result, int fuel) {
    std::vector<Var> vars;
    for (const Type& each : params) vars.push_back(fresh(each));
    size_t mark = scope_.size();
    scope_.insert(scope_.end(), vars.begin(), vars.end());
    Expr body = expr(result, fuel);
    scope_.resize(mark);
    return make<Function>(std::vector<TypeVar>{}, vars, result, body);
  }

  template <typename... Args>
  Expr apply(Expr callee, Args... args) {
    return make<Call>(std::move(callee), std::vector<Expr>{args...});
  }
  Expr apply_global(const char* name, std::vector<Expr> args) {
    return make<Call>(make<GlobalVarNode>(name), std::move(args));
  }

  /// `body` in the scope of a variable with the value.
  Expr bind(const Type& type, Expr value, FunctionRef<Expr(const Var&)> body) {
    Var variable = fresh(chance(50) ? type : Type());
    types_[variable.get()] = type;
    scope_.push_back(variable);
    Expr inner = body(variable);
    scope_.pop_back();
    return make<Let>(variable, std::move(value), inner);
  }

  Type type_of(const Var& variable) const {
    return variable->annotation ? variable->annotation : types_.at(variable.get());
  }

  Expr expr(const Type& wanted, int fuel) {
    std::vector<Var> fitting;
    for (const Var& each : scope_)
      if (structural_equal(type_of(each), wanted)) fitting.push_back(each);
    if (!fitting.empty() && chance(fuel > 0 ? 25 : 80))
      return fitting[static_cast<size_t>(below(static_cast<int>(fitting.size())))];
    if (fuel <= 0) return value(wanted, 0);
    return chance(45) ? value(wanted, fuel - 1) : form(wanted, fuel - 1);
  }

  /// What makes a value of just this type.
  Expr value(const Type& wanted, int fuel) {
    if (const TensorType* tensor = wanted.as<TensorType>()) return tensor_value(*tensor, wanted, fuel);
    if (const TupleType* tuple = wanted.as<TupleType>()) {
      std::vector<Expr> items;
      for (const Type& item : tuple->items) items.push_back(expr(item, fuel));
      return relay::tuple(items);
    }
    if (is_named(wanted, "Thing")) return thing(fuel);
    if (is_named(wanted, "Tree")) return tree(wanted, fuel);
    const TypeCall& data = *wanted.as<TypeCall>();
    const Type& item = data.args[0];
    if (data.callee->name == "Option")
      return chance(30) ? apply(constructor("Option", 1)) : apply(constructor("Option", 0), expr(item, fuel));
    if (fuel <= 0 || chance(20)) return apply(constructor("List", 1));
    if (chance(50)) return apply(constructor("List", 0), expr(item, fuel), expr(wanted, fuel));
    if (chance(30)) return apply_global("concat", {expr(wanted, fuel), expr(wanted, fuel)});
    if (chance(30))
      return apply_global("filter", {make_function({item}, scalar(kBool), fuel), expr(wanted, fuel)});
    if (chance(20)) return apply_global("map", {make<GlobalVarNode>("id"), expr(wanted, fuel)});
    if (chance(15)) return scanned(wanted, item, fuel);
    if (chance(15)) {
      const Type from = type(0);
      return apply_global("prune", {make_function({from}, item, fuel), rose(from, fuel)});
    }
    Type from = type(1);
    return apply_global("map", {make_function({from}, item, fuel), expr(list_of(from), fuel)});
  }

  Expr thing(int fuel) {
    const std::vector<Constructor>& all = prelude_->types.at("Thing")->constructors;
    switch (fuel > 0 ? below(5) : 4) {
      case 0:
        return apply(all[0], relay::tuple({expr(scalar(kInt32), fuel), expr(scalar(kFloat32), fuel)}),
                     expr(scalar(kBool), fuel));
      case 1:
        return apply(all[1], make_function({scalar(kInt32)}, scalar(kInt32), fuel));
      case 2:
        return apply(all[2], make<RefCreate>(expr(scalar(kInt32), fuel)));
      case 3:
        return apply(all[3], expr(list_of(named("Thing")), fuel));
      default:
        return apply(all[4]);
    }
  }

  Expr tree(const Type& wanted, int fuel) {
    const Type item = wanted.as<TypeCall>()->args[0];
    if (fuel <= 0 || chance(50)) return apply(constructor("Tree", 0), expr(item, fuel));
    return apply(constructor("Tree", 1), expr(wanted, fuel),
                 relay::tuple({expr(item, fuel), expr(wanted, fuel)}));
  }

  /// Data of two types that hold each other.
  Expr rose(const Type& item, int fuel) {
    const std::vector<Constructor>& forest = prelude_->types.at("Forest")->constructors;
    Expr others = apply(forest[0]);
    for (int n = fuel > 0 ? below(3) : 0; n > 0; --n)
      others = apply(forest[1], relay::tuple({rose(item, fuel - 1), others}));
    return apply(constructor("Rose", 0), expr(item, fuel), others);
  }

  /// By functions of two arguments: constructors, and those that are given pairs.
  Expr scanned(const Type& wanted, const Type& item, int fuel) {
    if (chance(30))
      return apply_global("foldr", {constructor("List", 0), expr(wanted, fuel), expr(wanted, fuel)});
    const Type other = type(0);
    if (chance(50))
      return apply_global(
          "scanl", {make_function({item, other}, item, fuel), expr(item, fuel), expr(list_of(other), fuel)});
    Expr pairs = apply_global("zip", {expr(list_of(other), fuel), expr(wanted, fuel)});
    return apply_global("map", {make_function({tuple_type({other, item})}, item, fuel), pairs});
  }

  Expr tensor_value(const TensorType& tensor, const Type& wanted, int fuel) {
    if (fuel <= 0 || chance(20)) return literal(tensor);
    if (chance(15))
      if (Expr open = open_.call_for(tensor, wanted, fuel - 1)) return open;
    if (tensor.dtype.is_bool()) {
      if (chance(40)) return call("logical_not", {expr(wanted, fuel)});
      constexpr const char* kComparisons[] = {"less", "equal", "greater_equal", "not_equal"};
      Type operand = scalar(chance(70) ? kInt32 : kFloat32);
      return call(kComparisons[below(4)], {expr(operand, fuel), expr(operand, fuel)});
    }
    constexpr const char* kOperators[] = {"add", "subtract", "multiply", "maximum"};
    if (chance(8)) return apply_global("sum3", {expr(wanted, fuel), expr(wanted, fuel), expr(wanted, fuel)});
    if (chance(8)) return apply_global("plus", {expr(wanted, fuel), expr(scalar(tensor.dtype), fuel)});
    if (chance(8)) return tensor_program(wanted, fuel);
    if (chance(8)) return generic(wanted, fuel);
    if (chance(8)) return dataflow(wanted);
    if (chance(15) && tensor.dtype.code != TypeCode::kUInt) return call("negative", {expr(wanted, fuel)});
    if (chance(10) && tensor.shape.empty() && tensor.dtype == kInt32)
      return apply_global("length", {expr(list_of(type(1)), fuel)});
    if (chance(10) && tensor.shape.empty())
      return make<Call>(
          make<GlobalVarNode>("foldl"),
          std::vector<Expr>{op_expr(kOperators[below(4)]), expr(wanted, fuel), expr(list_of(wanted), fuel)},
          Attrs(), std::vector<Type>{wanted, wanted});
    // A scalar broadcasts.
    Type other = chance(30) ? scalar(tensor.dtype) : wanted;
    Expr a = expr(wanted, fuel), b = expr(other, fuel);
    if (chance(15)) return call(kOperators[below(4)], {a, a});  // shared
    return call(kOperators[below(4)], {a, b});
  }

  /// A kernel written as a tensor program: the sum of two.
  Expr tensor_program(const Type& wanted, int fuel) {
    auto function = std::make_unique<Function>();
    for (const char* name : {"a", "b"})
      function->params.push_back(with_checked_type(make_var(name), wanted).cast<VarNode>());
    function->body = typed_call("add", {function->params.begin(), function->params.end()}, Attrs());
    Expr program = make<PrimFunc>(lower_function(seal(std::move(function)), "sum"));
    return make<Call>(program, std::vector{expr(wanted, fuel), expr(wanted, fuel)}, Attrs(),
                      std::vector<Type>{}, wanted);
  }

  /// Without effects: operators on variables and literals.
  Expr pure(const Type& wanted, int fuel) {
    const TensorType& tensor = *wanted.as<TensorType>();
    for (size_t i = scope_.size(); i-- > 0;)
      if (structural_equal(type_of(scope_[i]), wanted) && chance(50)) return scope_[i];
    if (fuel <= 0 || tensor.dtype.is_bool()) return literal(tensor);
    return call(chance(50) ? "add" : "multiply", {pure(wanted, fuel - 1), pure(wanted, fuel - 1)});
  }

  Expr dataflow(const Type& wanted) {
    const size_t mark = scope_.size();
    std::vector<std::pair<Var, Expr>> lets;
    for (int n = below(3); n >= 0; --n) {
      Type type = chance(50) ? wanted : scalar(kInt32);
      Expr value = pure(type, 2);
      if (chance(20)) value = make<MatchCast>(value, type);
      lets.emplace_back(fresh(type), value);
      scope_.push_back(lets.back().first);
    }
    Expr body = chance(50) ? pure(wanted, 1) : relay::tuple({pure(wanted, 1), pure(wanted, 1)});
    const bool several = body.as<Tuple>() != nullptr;
    scope_.resize(mark);
    for (; !lets.empty(); lets.pop_back()) body = make<Let>(lets.back().first, lets.back().second, body);
    Expr block = make<Dataflow>(body);
    return several ? project(block, below(2)) : block;
  }

  /// What gives a value of any type.
  Expr form(const Type& wanted, int fuel) {
    switch (below(21)) {
      case 19:
        return curried(wanted, fuel);
      case 20:
        return referred_function(wanted, fuel);
      case 12:
        return match_thing(wanted, fuel);
      case 13:
        return match_nested(wanted, fuel);
      case 14:
        return project(apply_global("swap", {relay::tuple({expr(type(1), fuel), expr(wanted, fuel)})}), 0);
      case 15:
        return apply_global("pick", {expr(scalar(kBool), fuel), expr(wanted, fuel), expr(wanted, fuel)});
      case 16:
        return apply_global("twice", {make_function({wanted}, wanted, fuel), expr(wanted, fuel)});
      case 17:
        return captured_reference(wanted, fuel);
      case 18:
        return polymorphic(wanted, fuel);
      case 0:
        return make<If>(expr(scalar(kBool), fuel), expr(wanted, fuel), expr(wanted, fuel));
      case 1: {
        Type bound = type(2);
        return bind(bound, expr(bound, fuel), [&](const Var&) { return expr(wanted, fuel); });
      }
      case 2:
        return match_list(wanted, fuel);
      case 3:
        return match_option(wanted, fuel);
      case 4:
        return projection(wanted, fuel);
      case 5:
        return local_function(wanted, fuel);
      case 6:
        return loop(wanted, fuel);
      case 7:
        return reference(wanted, fuel);
      case 8:
        return apply_global("id", {expr(wanted, fuel)});
      case 9:
        return global(wanted, fuel);
      case 10: {
        Expr shared = expr(wanted, fuel);
        return project(relay::tuple({shared, shared}), below(2));
      }
      default:
        // The type that it has; of a tensor, checked.
        return make<MatchCast>(expr(wanted, fuel), wanted);
    }
  }

  Expr match_list(const Type& wanted, int fuel) {
    Type item = type(1);
    Expr list = expr(list_of(item), fuel);
    Var head = fresh(item), tail = fresh(list_of(item));
    Expr empty = expr(wanted, fuel);
    scope_.insert(scope_.end(), {head, tail});
    Expr some = expr(wanted, fuel);
    scope_.resize(scope_.size() - 2);
    Pattern cons = make<ConstructorPattern>(
        constructor("List", 0), std::vector<Pattern>{make<VarPattern>(head), make<VarPattern>(tail)});
    Pattern rest = chance(50) ? Pattern(make<WildcardPattern>())
                              : Pattern(make<ConstructorPattern>(constructor("List", 1)));
    return make<Match>(list, std::vector<Clause>{{cons, some}, {rest, empty}});
  }

  /// `body` with more variables in scope.
  Expr with_variables(const std::vector<Var>& variables, const Type& wanted, int fuel) {
    const size_t mark = scope_.size();
    scope_.insert(scope_.end(), variables.begin(), variables.end());
    Expr body = expr(wanted, fuel);
    scope_.resize(mark);
    return body;
  }

  Pattern of(const Constructor& constructor, std::vector<Pattern> items = {}) {
    return make<ConstructorPattern>(constructor, std::move(items));
  }

  /// Data with functions, references and tuples in it, which the clauses use.
  Expr match_thing(const Type& wanted, int fuel) {
    const std::vector<Constructor>& all = prelude_->types.at("Thing")->constructors;
    Expr value = expr(named("Thing"), fuel);
    std::vector<Clause> clauses;
    if (chance(80)) {
      Var number = fresh(scalar(kInt32)), flag = fresh(scalar(kBool));
      Pattern pair =
          make<TuplePattern>(std::vector<Pattern>{make<VarPattern>(number), make<WildcardPattern>()});
      clauses.push_back(
          {of(all[0], {pair, make<VarPattern>(flag)}), with_variables({number, flag}, wanted, fuel)});
    }
    if (chance(80)) {
      Var function = make_var(new_name("f")), result = fresh(scalar(kInt32));
      Expr called = apply(function, expr(scalar(kInt32), fuel));
      clauses.push_back({of(all[1], {make<VarPattern>(function)}),
                         make<Let>(result, called, with_variables({result}, wanted, fuel))});
    }
    if (chance(80)) {
      Var cell = make_var(new_name("r")), old = fresh(scalar(kInt32));
      Expr rest = with_variables({old}, wanted, fuel);
      Expr write = make<RefWrite>(cell, expr(scalar(kInt32), fuel));
      clauses.push_back({of(all[2], {make<VarPattern>(cell)}),
                         make<Let>(old, make<RefRead>(cell), make<Let>(make_var("_"), write, rest))});
    }
    if (chance(50)) {
      // The first of the list looked into, one level down.
      Var tail = fresh(list_of(named("Thing")));
      Pattern cons = of(constructor("List", 0), {of(all[4]), make<VarPattern>(tail)});
      clauses.push_back({of(all[3], {cons}), with_variables({tail}, wanted, fuel)});
    }
    clauses.push_back({make<WildcardPattern>(), expr(wanted, fuel)});
    return make<Match>(value, std::move(clauses));
  }

  /// Two lists of tuples at once, with wildcards in the way: rows overlap, and some may be never reached.
  Expr match_nested(const Type& wanted, int fuel) {
    Type item = tuple_type({scalar(kInt32), type(0)});
    Expr value = relay::tuple({expr(list_of(item), fuel), expr(option_of(item), fuel)});
    std::vector<Clause> clauses;
    for (int n = 1 + below(4); n > 0; --n) {
      std::vector<Var> variables;
      Pattern list = list_pattern(item, 2, variables);
      Pattern option = chance(30)   ? Pattern(make<WildcardPattern>())
                       : chance(30) ? of(constructor("Option", 1))
                                    : of(constructor("Option", 0), {item_pattern(item, variables)});
      clauses.push_back(
          {make<TuplePattern>(std::vector{list, option}), with_variables(variables, wanted, fuel)});
    }
    clauses.push_back({make<WildcardPattern>(), expr(wanted, fuel)});
    return make<Match>(value, std::move(clauses), chance(50));
  }
  Pattern variable_pattern(const Type& type, std::vector<Var>& variables) {
    variables.push_back(fresh(type));
    return make<VarPattern>(variables.back());
  }
  Pattern item_pattern(const Type& item, std::vector<Var>& variables) {
    if (chance(30)) return make<WildcardPattern>();
    if (chance(30)) return variable_pattern(item, variables);
    return make<TuplePattern>(std::vector<Pattern>{
        variable_pattern(item.as<TupleType>()->items[0], variables), make<WildcardPattern>()});
  }
  Pattern list_pattern(const Type& item, int depth, std::vector<Var>& variables) {
    if (chance(20)) return make<WildcardPattern>();
    if (depth == 0 || chance(20)) return variable_pattern(list_of(item), variables);
    if (chance(30)) return of(constructor("List", 1));
    Pattern head = item_pattern(item, variables);
    return of(constructor("List", 0), {head, list_pattern(item, depth - 1, variables)});
  }

  /// A counter in a closure: called for its effect and its value, in turn with reads from outside.
  Expr captured_reference(const Type& wanted, int fuel) {
    Var cell = make_var(new_name("r")), next = make_var(new_name("next"));
    Var step = fresh(scalar(kInt32));
    Expr sum = call("add", {make<RefRead>(cell), with_variables({step}, scalar(kInt32), fuel)});
    Expr body = make<Let>(make_var("_"), make<RefWrite>(cell, sum), make<RefRead>(cell));
    Ref<Function> function = make<Function>(std::vector<TypeVar>{}, std::vector{step}, Type(), body);
    Var a = fresh(scalar(kInt32)), b = fresh(scalar(kInt32)), c = fresh(scalar(kInt32));
    Expr rest = with_variables({a, b, c}, wanted, fuel);
    rest = make<Let>(c, chance(50) ? Expr(make<RefRead>(cell)) : apply(next, expr(scalar(kInt32), 0)), rest);
    rest = make<Let>(b, make<RefRead>(cell), rest);
    rest = make<Let>(a, apply(next, expr(scalar(kInt32), fuel)), rest);
    return make<Let>(cell, make<RefCreate>(expr(scalar(kInt32), fuel)), make<Let>(next, function, rest));
  }

  /// A local function that is polymorphic in a shape and captures a reference, used at two shapes.
  Expr generic(const Type& wanted, int fuel) {
    const DataType dtype = wanted.as<TensorType>()->dtype;
    TypeVar shape = make<TypeVarNode>("S", Kind::kShape);
    const Type any = make<GenericTensorType>(shape, base_type(dtype));
    Var x = make_var("x", any), name = make_var(new_name("g"));
    Var cell = make_var(new_name("r")), old = fresh(scalar(kInt32));
    Expr count = call("add", {make<RefRead>(cell), constant(full({}, kInt32, 1))});
    Expr body = make<Let>(make_var("_"), make<RefWrite>(cell, count), call("add", {x, x}));
    Ref<Function> function = make<Function>(std::vector{shape}, std::vector{x}, any, body);
    Var first = fresh(wanted), second = fresh(scalar(dtype));
    Expr rest = with_variables({first, second, old}, wanted, fuel);
    rest = make<Let>(old, make<RefRead>(cell), rest);
    rest = make<Let>(second, apply(name, expr(scalar(dtype), fuel)), rest);
    rest = make<Let>(first, apply(name, expr(wanted, fuel)), rest);
    return make<Let>(cell, make<RefCreate>(constant(full({}, kInt32, 0))), make<Let>(name, function, rest));
  }

  /// A local function that is polymorphic in a type, used at two.
  Expr polymorphic(const Type& wanted, int fuel) {
    TypeVar param = make<TypeVarNode>("A");
    Var x = make_var("x", param), name = make_var(new_name("pair"));
    Expr body = chance(50) ? relay::tuple({x, x}) : relay::tuple({project(relay::tuple({x, x}), 1), x});
    Ref<Function> function =
        make<Function>(std::vector{param}, std::vector{x}, tuple_type({param, param}), body);
    Expr both = relay::tuple({apply(name, expr(type(1), fuel)), apply(name, expr(wanted, fuel))});
    return make<Let>(name, function, project(project(both, 1), below(2)));
  }

  Expr match_option(const Type& wanted, int fuel) {
    Type a = type(1), b = type(0);
    Expr value = relay::tuple({expr(option_of(a), fuel), expr(b, fuel)});
    Var x = fresh(a), y = fresh(b);
    Expr none = expr(wanted, fuel);
    scope_.insert(scope_.end(), {x, y});
    Expr some = expr(wanted, fuel);
    scope_.resize(scope_.size() - 2);
    Pattern both = make<TuplePattern>(std::vector<Pattern>{
        make<ConstructorPattern>(constructor("Option", 0), std::vector<Pattern>{make<VarPattern>(x)}),
        make<VarPattern>(y)});
    return make<Match>(value, std::vector<Clause>{{both, some}, {make<WildcardPattern>(), none}}, chance(50));
  }

  Expr projection(const Type& wanted, int fuel) {
    std::vector<Expr> items;
    int size = 1 + below(3), index = below(size);
    for (int i = 0; i < size; ++i) items.push_back(expr(i == index ? wanted : type(1), fuel));
    return project(relay::tuple(items), index);
  }

  /// Called where it stands, or by a name, twice.
  Expr local_function(const Type& wanted, int fuel) {
    Type param = type(1);
    Ref<Function> function = make_function({param}, wanted, fuel);
    if (chance(30)) return apply(function, expr(param, fuel));
    Var name = make_var(new_name("f"));
    Expr first = apply(name, expr(param, fuel)), second = apply(name, expr(param, fuel));
    return make<Let>(name, function, make<If>(expr(scalar(kBool), fuel), first, second));
  }

  /// A function that gives one: the inner one captures what the outer one is given, and outlives its call.
  Expr curried(const Type& wanted, int fuel) {
    const Type first = type(1), second = type(0);
    Var x = fresh(first), y = fresh(second), name = make_var(new_name("f")), part = make_var(new_name("g"));
    Expr inner =
        make<Function>(std::vector<TypeVar>{}, std::vector{y}, wanted, with_variables({x, y}, wanted, fuel));
    Expr outer = make<Function>(std::vector<TypeVar>{}, std::vector{x}, Type(), inner);
    Expr used = make<If>(expr(scalar(kBool), fuel), apply(part, expr(second, fuel)),
                         apply(apply(name, expr(first, fuel)), expr(second, fuel)));
    return make<Let>(name, outer, make<Let>(part, apply(name, expr(first, fuel)), used));
  }

  /// A reference to a function, which another one takes the place of that calls it: what it held goes on
  /// living.
  Expr referred_function(const Type& wanted, int fuel) {
    Var cell = make_var(new_name("r")), old = make_var(new_name("f")), x = fresh(wanted);
    Expr later = make<Function>(std::vector<TypeVar>{}, std::vector{x}, wanted,
                                apply(old, with_variables({x}, wanted, fuel)));
    Expr body =
        make<Let>(make_var("_"), make<RefWrite>(cell, later), apply(make<RefRead>(cell), expr(wanted, fuel)));
    body = make<Let>(old, make<RefRead>(cell), body);
    return make<Let>(cell, make<RefCreate>(make_function({wanted}, wanted, fuel)), body);
  }

  /// A function that calls itself a few times, in tail position or not.
  Expr loop(const Type& wanted, int fuel) {
    Var self = make_var(new_name("loop"));
    Var count = fresh(scalar(kInt32)), state = fresh(wanted);
    scope_.insert(scope_.end(), {count, state});
    Expr step = expr(wanted, fuel);
    scope_.resize(scope_.size() - 2);
    auto number = [](int value) { return constant(full({}, kInt32, value)); };
    Expr less = call("subtract", {count, number(1)});
    Expr again = apply(self, less, step);
    if (chance(30)) again = project(relay::tuple({again, state}), 0);
    Expr body = make<If>(call("less_equal", {count, number(0)}), Expr(state), again);
    Ref<Function> function =
        make<Function>(std::vector<TypeVar>{}, std::vector{count, state}, chance(50) ? wanted : Type(), body);
    return make<Let>(self, function, apply(self, number(below(4)), expr(wanted, fuel)));
  }

  /// Written before it is read.
  Expr reference(const Type& wanted, int fuel) {
    Var ref = make_var(new_name("r"));
    Expr first = expr(wanted, fuel), second = expr(wanted, fuel);
    Expr write = make<RefWrite>(ref, second);
    Expr read = make<RefRead>(ref);
    if (chance(50)) {
      // What was there before, or what is there now.
      Var old = fresh(wanted);
      Expr body = make<Let>(make_var("_"), write, chance(50) ? read : Expr(old));
      return make<Let>(ref, make<RefCreate>(first), make<Let>(old, make<RefRead>(ref), body));
    }
    return make<Let>(ref, make<RefCreate>(first), make<Let>(make_var("_"), write, read));
  }

  /// Two functions that call each other until a counter is down, in tail position or not.
  void add_mutual_recursion(ModuleNode& module) {
    const Type state = type(2);
    auto number = [](int value) { return constant(full({}, kInt32, value)); };
    for (int i = 0; i < 2; ++i) {
      Var count = fresh(scalar(kInt32)), value = fresh(state);
      Expr step = with_variables({count, value}, state, 3);
      Expr again = make<Call>(make<GlobalVarNode>(fmt::format("fm{}", 1 - i)),
                              std::vector<Expr>{call("subtract", {count, number(1)}), step});
      if (chance(30)) again = project(relay::tuple({value, again}), 1);
      Expr body = make<If>(call("less_equal", {count, number(0)}), Expr(value), again);
      module.functions[fmt::format("fm{}", i)] =
          make<Function>(std::vector<TypeVar>{}, std::vector{count, value}, state, body);
    }
    for (int i = 0; i < 2; ++i) {
      const std::string name = fmt::format("fm{}", i);
      globals_.push_back({make<GlobalVarNode>(name), module.functions[name], true});
    }
  }

  Expr global(const Type& wanted, int fuel) {
    for (const Global& each : globals_) {
      if (!structural_equal(each.function->result_type, wanted)) continue;
      std::vector<Expr> args;
      for (const Var& param : each.function->params) args.push_back(expr(param->annotation, fuel));
      if (each.counts_down) args[0] = constant(full({}, kInt32, below(5)));
      return make<Call>(each.name, args);
    }
    return expr(wanted, fuel);
  }

  Module prelude_;
  std::vector<Var> scope_;
  std::unordered_map<const Node*, Type> types_;  // of variables without annotation
  std::vector<Global> globals_;
  OpenGenerator open_{*this, [this](const Type& type, int fuel) { return expr(type, fuel); }};
};

}  // namespace

Module random_program(uint64_t seed) { return Generator(seed).run(); }

}  // namespace lathe::relay
