#include "tests/relay/random_open_functions.h"

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

Attrs int32_cast() {
  auto attrs = std::make_unique<CastAttrs>();
  attrs->dtype = kInt32;
  return seal(std::move(attrs));
}

Expr number(double value) { return constant(full({}, kInt32, value)); }

}  // namespace

Ref<Function> OpenGenerator::add_function(const std::string& name, DataType dtype) {
  Ref<Function> function = make_function(dtype);
  const bool is_same = structural_equal(function->params[0]->annotation, function->params[1]->annotation);
  functions_[dtype == kInt32].push_back({name, is_same});
  return function;
}

const OpenGenerator::OpenFunction& OpenGenerator::some_function(DataType dtype) {
  const std::vector<OpenFunction>& all = functions_[dtype == kInt32];
  return all[static_cast<size_t>(below(static_cast<int>(all.size())))];
}

/// A function of vectors of any lengths, of which the first and the result are of one.
Ref<Function> OpenGenerator::make_function(DataType dtype) {
  Scope scope{.dtype = dtype, .n = lathe::var("n")};
  const Type vector = tensor_type({scope.n}, dtype);
  scope.x = parts_.fresh(vector);
  scope.y = parts_.fresh(chance(60) ? vector : tensor_type({lathe::var("m")}, dtype));
  scope.is_same = scope.y->annotation == vector;
  scope.count = parts_.fresh(scalar(kInt32));
  Expr body = open_expr(scope, 4);
  return make<Function>(std::vector<TypeVar>{}, std::vector{scope.x, scope.y, scope.count},
                        chance(50) ? vector : Type(), body);
}

/// Of the length n.
Expr OpenGenerator::open_expr(const Scope& s, int fuel) {
  constexpr const char* kOperators[] = {"add", "subtract", "multiply", "maximum"};
  if (fuel <= 0 || chance(10)) return s.is_same && chance(50) ? s.y : s.x;
  switch (below(8)) {
    case 0:
      return call("negative", {open_expr(s, fuel - 1)});
    case 1:
      return call(kOperators[below(4)],
                  {open_expr(s, fuel - 1), parts_.literal(*scalar(s.dtype).as<TensorType>())});
    case 2:
      return make<If>(call("less", {s.count, number(below(4))}), open_expr(s, fuel - 1),
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
        return make<MatchCast>(call("reshape_to", {s.x, call("extent", {s.x})}), tensor_type({s.n}, s.dtype));
      return make<MatchCast>(call(kOperators[below(4)], {open_expr(s, fuel - 1), one_or_all(s, fuel - 1)}),
                             tensor_type({s.n}, s.dtype));
    case 5:
      if (!functions_[s.dtype == kInt32].empty()) {
        const OpenFunction& callee = some_function(s.dtype);
        Expr other = callee.is_same ? open_expr(s, fuel - 1) : any_length(s, fuel - 1);
        return make<Call>(make<GlobalVarNode>(callee.name),
                          std::vector<Expr>{open_expr(s, fuel - 1), other, s.count});
      }
      [[fallthrough]];
    default:
      return call(kOperators[below(4)], {open_expr(s, fuel - 1), open_expr(s, fuel - 1)});
  }
}

/// As many as a number says, from 0 to n.
Expr OpenGenerator::some_rows(const Scope& s, int fuel) {
  Expr most = call("cast", {call("extent", {s.x})}, int32_cast());
  Expr count = call("minimum", {call("maximum", {s.count, number(0)}), most});
  // As many as elements say.
  if (chance(40)) {
    Expr below_it = call("less", {open_expr(s, fuel), parts_.literal(*scalar(s.dtype).as<TensorType>())});
    count = call("sum", {call("cast", {below_it}, int32_cast())});
  }
  return call("first_rows", {open_expr(s, fuel), count});
}

/// A vector whose type does not say its length, or says it by a name of its own.
Expr OpenGenerator::any_length(const Scope& s, int fuel) {
  if (fuel <= 0 || chance(20)) return s.y;
  Expr rows = some_rows(s, fuel - 1);
  return chance(50) ? rows : Expr(make<MatchCast>(rows, tensor_type({lathe::var("k")}, s.dtype)));
}

Expr OpenGenerator::one_or_all(const Scope& s, int fuel) {
  Expr count = call("where", {call("less", {s.count, number(1)}), call("extent", {s.x}),
                              call("minimum", {call("extent", {s.x}), constant(full({}, kInt64, 1))})});
  return call("first_rows", {open_expr(s, fuel), count});
}

/// A vector that gets longer while a loop runs.
Expr OpenGenerator::grown(DataType dtype, int64_t first, int64_t times, int fuel) {
  auto vector = [&](lathe::Expr n) { return tensor_type({std::move(n)}, dtype); };
  Var self = make_var(parts_.new_name("grow"));
  Var count = parts_.fresh(scalar(kInt32)), state = parts_.fresh(vector(any_dim()));
  Expr row = expr_(tensor_type(std::vector<int64_t>{1}, dtype), fuel);
  Expr longer = call("concatenate", {relay::tuple({state, row})});
  if (chance(30)) longer = call("negative", {longer});
  Expr again = make<Call>(self, std::vector<Expr>{call("subtract", {count, number(1)}), longer});
  Expr body = make<If>(call("less_equal", {count, number(0)}), Expr(state), again);
  Ref<Function> function =
      make<Function>(std::vector<TypeVar>{}, std::vector{count, state}, vector(any_dim()), body);
  Expr start = expr_(tensor_type(std::vector<int64_t>{first}, dtype), fuel);
  return make<Let>(self, function,
                   make<Call>(self, std::vector<Expr>{number(static_cast<double>(times)), start}));
}

/// By way of shapes that a run tells; null where there is no way.
Expr OpenGenerator::call_for(const TensorType& tensor, const Type& wanted, int fuel) {
  if (tensor.shape.size() > 1 || (tensor.dtype != kInt32 && tensor.dtype != kFloat32)) return Expr();
  if (tensor.shape.empty()) {
    if (tensor.dtype != kInt32) return Expr();
    // Sums of integers are equal in any order.
    return call("sum", {grown(kInt32, 1 + below(2), below(4), fuel)});
  }
  const int64_t length = int_value(tensor.shape[0]);
  if (!functions_[tensor.dtype == kInt32].empty() && chance(70))
    return make<Call>(
        make<GlobalVarNode>(some_function(tensor.dtype).name),
        std::vector<Expr>{expr_(wanted, fuel), expr_(wanted, fuel), expr_(scalar(kInt32), fuel)});
  const int64_t first = 1 + below(static_cast<int>(length));
  return make<MatchCast>(grown(tensor.dtype, first, length - first, fuel), wanted);
}

}  // namespace lathe::relay
