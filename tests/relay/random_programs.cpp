#include "tests/relay/random_programs.h"

#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

Type scalar(DataType dtype) { return tensor_type(std::vector<int64_t>{}, dtype); }

/// Expressions are made for a type that is wanted, with variables in scope that may serve.
class Generator {
 public:
  explicit Generator(uint64_t seed)
      : random_(seed), prelude_(parse_module("import \"list\"\nimport \"function\"\nimport \"nat\"\n")) {}

  Module run() {
    auto module = mutate(*prelude_);
    // Each may call those before it: no recursion but that of the forms below, which ends.
    int functions = below(4);
    for (int i = 0; i < functions; ++i) {
      std::string name = fmt::format("f{}", i);
      Ref<Function> function = make_function({type(2), type(2)}, type(2), 4);
      module->functions[name] = function;
      globals_.push_back({make<GlobalVarNode>(name), function});
    }
    for (int i = below(3); i > 0; --i) {
      std::string name = fmt::format("o{}", i);
      DataType dtype = chance(70) ? kInt32 : kFloat32;
      Ref<Function> function = open_function(dtype);
      module->functions[name] = function;
      const bool is_same = structural_equal(function->params[0]->annotation, function->params[1]->annotation);
      open_[dtype == kInt32].push_back({make<GlobalVarNode>(name), is_same});
    }
    module->functions["main"] = make_function({}, type(2), 6);
    return seal(std::move(module));
  }

 private:
  struct Global {
    GlobalVar name;
    Ref<Function> function;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  Type list_of(Type item) { return make<TypeCall>(make<GlobalTypeVarNode>("List"), std::vector{item}); }
  Type option_of(Type item) { return make<TypeCall>(make<GlobalTypeVarNode>("Option"), std::vector{item}); }
  Constructor constructor(const char* type, size_t i) const {
    return prelude_->types.at(type)->constructors.at(i);
  }

  /// Without functions and references.
  Type type(int depth) {
    if (depth > 0 && chance(40)) {
      switch (below(3)) {
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
    constexpr DataType kTypes[] = {kInt32, kFloat32, kBool};
    if (chance(70)) return scalar(kTypes[below(3)]);
    return tensor_type(std::vector<int64_t>{1 + below(3)}, chance(50) ? kInt32 : kFloat32);
  }

  Var fresh(const Type& type) { return make_var(fmt::format("x{}", next_name_++), type); }

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
    Type from = type(1);
    return apply_global("map", {make_function({from}, item, fuel), expr(list_of(from), fuel)});
  }

  Expr tensor_value(const TensorType& tensor, const Type& wanted, int fuel) {
    if (fuel <= 0 || chance(20)) return literal(tensor);
    if (chance(15))
      if (Expr open = open_call(tensor, wanted, fuel - 1)) return open;
    if (tensor.dtype.is_bool()) {
      if (chance(40)) return call("logical_not", {expr(wanted, fuel)});
      constexpr const char* kComparisons[] = {"less", "equal", "greater_equal", "not_equal"};
      Type operand = scalar(chance(70) ? kInt32 : kFloat32);
      return call(kComparisons[below(4)], {expr(operand, fuel), expr(operand, fuel)});
    }
    constexpr const char* kOperators[] = {"add", "subtract", "multiply", "maximum"};
    if (chance(15)) return call("negative", {expr(wanted, fuel)});
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

  /// A function of vectors of any lengths, of which the first and the result are of one.
  Ref<Function> open_function(DataType dtype) {
    OpenScope scope{.dtype = dtype, .n = lathe::var("n")};
    const Type vector = tensor_type({scope.n}, dtype);
    scope.x = fresh(vector);
    scope.y = fresh(chance(60) ? vector : tensor_type({lathe::var("m")}, dtype));
    scope.is_same = scope.y->annotation == vector;
    scope.count = fresh(scalar(kInt32));
    Expr body = open_expr(scope, 4);
    return make<Function>(std::vector<TypeVar>{}, std::vector{scope.x, scope.y, scope.count},
                          chance(50) ? vector : Type(), body);
  }

  struct OpenScope {
    DataType dtype;
    lathe::Expr n;
    Var x, y, count;
    bool is_same = true;  // the length of y
  };

  /// Of the length n.
  Expr open_expr(const OpenScope& s, int fuel) {
    constexpr const char* kOperators[] = {"add", "subtract", "multiply", "maximum"};
    if (fuel <= 0 || chance(10)) return s.is_same && chance(50) ? s.y : s.x;
    switch (below(8)) {
      case 0:
        return call("negative", {open_expr(s, fuel - 1)});
      case 1:
        return call(kOperators[below(4)],
                    {open_expr(s, fuel - 1), literal(*scalar(s.dtype).as<TensorType>())});
      case 2:
        return make<If>(call("less", {s.count, constant(full({}, kInt32, below(4)))}), open_expr(s, fuel - 1),
                        open_expr(s, fuel - 1));
      case 3: {
        // Longer, and cut again.
        Expr whole = chance(50) ? open_expr(s, fuel - 1) : any_length(s, fuel - 1);
        Expr longer = call("concatenate", {relay::tuple({open_expr(s, fuel - 1), whole})});
        Expr cut = call("first_rows", {longer, call("extent", {chance(50) ? s.x : open_expr(s, fuel - 1)})});
        return make<MatchCast>(cut, tensor_type({s.n}, s.dtype));
      }
      case 4:
        // A broadcast, of one element or of as many.
        if (!s.is_same)
          return make<MatchCast>(call("reshape_to", {s.x, call("extent", {s.x})}),
                                 tensor_type({s.n}, s.dtype));
        return make<MatchCast>(call(kOperators[below(4)], {open_expr(s, fuel - 1), one_or_all(s, fuel - 1)}),
                               tensor_type({s.n}, s.dtype));
      case 5:
        if (!open_[s.dtype == kInt32].empty()) {
          const OpenFunction& callee = some_open(s.dtype);
          Expr other = callee.is_same ? open_expr(s, fuel - 1) : any_length(s, fuel - 1);
          return make<Call>(callee.name, std::vector<Expr>{open_expr(s, fuel - 1), other, s.count});
        }
        [[fallthrough]];
      default:
        return call(kOperators[below(4)], {open_expr(s, fuel - 1), open_expr(s, fuel - 1)});
    }
  }

  /// As many as a number says, from 0 to n.
  Expr some_rows(const OpenScope& s, int fuel) {
    Expr most = call("cast", {call("extent", {s.x})}, int32_cast());
    Expr count = call("minimum", {call("maximum", {s.count, constant(full({}, kInt32, 0))}), most});
    return call("first_rows", {open_expr(s, fuel), count});
  }

  /// A vector whose type does not say its length, or says it by a name of its own.
  Expr any_length(const OpenScope& s, int fuel) {
    if (fuel <= 0 || chance(20)) return s.y;
    Expr rows = some_rows(s, fuel - 1);
    return chance(50) ? rows : Expr(make<MatchCast>(rows, tensor_type({lathe::var("k")}, s.dtype)));
  }

  Expr one_or_all(const OpenScope& s, int fuel) {
    Expr count = call("where", {call("less", {s.count, constant(full({}, kInt32, 1))}), call("extent", {s.x}),
                                call("minimum", {call("extent", {s.x}), constant(full({}, kInt64, 1))})});
    return call("first_rows", {open_expr(s, fuel), count});
  }

  static Attrs int32_cast() {
    auto attrs = std::make_unique<CastAttrs>();
    attrs->dtype = kInt32;
    return seal(std::move(attrs));
  }

  /// A vector that gets longer while a loop runs.
  Expr grown(DataType dtype, int64_t first, int64_t times, int fuel) {
    auto vector = [&](lathe::Expr n) { return tensor_type({std::move(n)}, dtype); };
    Var self = make_var(fmt::format("grow{}", next_name_++));
    Var count = fresh(scalar(kInt32)), state = fresh(vector(any_dim()));
    Expr row = expr(tensor_type(std::vector<int64_t>{1}, dtype), fuel);
    Expr longer = call("concatenate", {relay::tuple({state, row})});
    if (chance(30)) longer = call("negative", {longer});
    Expr again = apply(self, call("subtract", {count, constant(full({}, kInt32, 1))}), longer);
    Expr body = make<If>(call("less_equal", {count, constant(full({}, kInt32, 0))}), Expr(state), again);
    Ref<Function> function =
        make<Function>(std::vector<TypeVar>{}, std::vector{count, state}, vector(any_dim()), body);
    Expr start = expr(tensor_type(std::vector<int64_t>{first}, dtype), fuel);
    return make<Let>(self, function,
                     apply(self, constant(full({}, kInt32, static_cast<double>(times))), start));
  }

  /// By way of shapes that a run tells; null where there is no way.
  Expr open_call(const TensorType& tensor, const Type& wanted, int fuel) {
    if (tensor.dtype.is_bool()) return Expr();
    if (tensor.shape.empty()) {
      if (tensor.dtype != kInt32) return Expr();
      // Sums of integers are equal in any order.
      return call("sum", {grown(kInt32, 1 + below(2), below(4), fuel)});
    }
    const int64_t length = int_value(tensor.shape[0]);
    if (!open_[tensor.dtype == kInt32].empty() && chance(70))
      return make<Call>(
          some_open(tensor.dtype).name,
          std::vector<Expr>{expr(wanted, fuel), expr(wanted, fuel), expr(scalar(kInt32), fuel)});
    const int64_t first = 1 + below(static_cast<int>(length));
    return make<MatchCast>(grown(tensor.dtype, first, length - first, fuel), wanted);
  }

  Expr literal(const TensorType& type) {
    Tensor tensor(constant_shape(type), type.dtype);
    for (int64_t i = 0; i < tensor.size(); ++i)
      type.dtype.is_float() ? tensor.set(i, below(9) - 4)
                            : tensor.set_integer(i, type.dtype.is_bool() ? below(2) : below(9) - 4);
    return constant(tensor);
  }

  /// What gives a value of any type.
  Expr form(const Type& wanted, int fuel) {
    switch (below(12)) {
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
    Var name = make_var(fmt::format("f{}", next_name_++));
    Expr first = apply(name, expr(param, fuel)), second = apply(name, expr(param, fuel));
    return make<Let>(name, function, make<If>(expr(scalar(kBool), fuel), first, second));
  }

  /// A function that calls itself a few times, in tail position or not.
  Expr loop(const Type& wanted, int fuel) {
    Var self = make_var(fmt::format("loop{}", next_name_++));
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
    Var ref = make_var(fmt::format("r{}", next_name_++));
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

  Expr global(const Type& wanted, int fuel) {
    for (const Global& each : globals_) {
      if (!structural_equal(each.function->result_type, wanted)) continue;
      std::vector<Expr> args;
      for (const Var& param : each.function->params) args.push_back(expr(param->annotation, fuel));
      return make<Call>(each.name, args);
    }
    return expr(wanted, fuel);
  }

  std::mt19937_64 random_;
  Module prelude_;
  std::vector<Var> scope_;
  std::unordered_map<const Node*, Type> types_;  // of variables without annotation
  std::vector<Global> globals_;
  /// Of two vectors of any length, perhaps of the same, and a number.
  struct OpenFunction {
    GlobalVar name;
    bool is_same;
  };
  const OpenFunction& some_open(DataType dtype) {
    const std::vector<OpenFunction>& all = open_[dtype == kInt32];
    return all[static_cast<size_t>(below(static_cast<int>(all.size())))];
  }
  std::vector<OpenFunction> open_[2];  // of floats, of int32
  int next_name_ = 0;
};

}  // namespace

Module random_program(uint64_t seed) { return Generator(seed).run(); }

}  // namespace lathe::relay
