// Relay's expressions (Roesch et al. 2018, Figure 1), and the three levels they may call: operators, tensor
// programs (call_tir) and library functions (call_dps_library), after Relax.
#pragma once

#include <memory>

#include "core/relay/type.h"
#include "core/support/tensor.h"
#include "core/tir/stmt.h"

namespace lathe::relay {

struct Op;  // op.h: a row of the operator table

enum class ExprKind : uint16_t {
  kConstant,
  kVar,
  kGlobalVar,
  kOp,
  kConstructor,
  kCall,
  kLet,
  kFunction,
  kTuple,
  kProjection,
  kIf,
  kMatch,
  kRefCreate,
  kRefRead,
  kRefWrite,
  kGrad,
  kPrimFunc,
  kExternFunc,
  kMatchCast,
  kDataflow,
};

/// The base of graph expressions. `checked_type` and `span` are information, not meaning. Named RelayExpr's
/// reference `Expr` inside lathe::relay; scalar expressions are lathe::Expr.
struct RelayNode : Node {
  Type checked_type;  // set by type inference; null before
  Span span;          // where it came from: text, or the node of an imported model
  ExprKind kind() const { return static_cast<ExprKind>(kind_id()); }

 protected:
  using Node::Node;
};
using Expr = Ref<RelayNode>;

template <typename D>
using ExprOf = NodeOf<D, RelayNode, Identity::kGraph>;

/// A literal. Constants are equal by value; sharing one says nothing.
struct Constant final : NodeOf<Constant, RelayNode> {
  Tensor value;
  static constexpr auto kName = "Constant";
  static constexpr auto kKind = ExprKind::kConstant;
  static constexpr auto fields = std::tuple{field("value", &Constant::value)};
};

/// A local variable %x: a parameter, or bound by let or by a pattern.
struct VarNode final : NodeOf<VarNode, RelayNode, Identity::kName> {
  std::string name;
  Type annotation;  // may be null
  static constexpr auto kName = "RelayVar";
  static constexpr auto kKind = ExprKind::kVar;
  static constexpr auto fields =
      std::tuple{info("name", &VarNode::name), field("annotation", &VarNode::annotation)};
};
using Var = Ref<VarNode>;

/// @f: a function of the module.
struct GlobalVarNode final : NodeOf<GlobalVarNode, RelayNode> {
  std::string name;
  static constexpr auto kName = "GlobalVar";
  static constexpr auto kKind = ExprKind::kGlobalVar;
  static constexpr auto fields = std::tuple{field("name", &GlobalVarNode::name)};
};
using GlobalVar = Ref<GlobalVarNode>;

/// An operator as a value.
struct OpNode final : NodeOf<OpNode, RelayNode> {
  std::string name;
  static constexpr auto kName = "Op";
  static constexpr auto kKind = ExprKind::kOp;
  static constexpr auto fields = std::tuple{field("name", &OpNode::name)};
  const Op& row() const;  // of the operator table
};

/// Cons, Nil, ...: a constructor of an algebraic data type.
struct ConstructorNode final : NodeOf<ConstructorNode, RelayNode> {
  std::string name;
  std::vector<Type> inputs;
  GlobalTypeVar belongs_to;
  static constexpr auto kName = "Constructor";
  static constexpr auto kKind = ExprKind::kConstructor;
  static constexpr auto fields =
      std::tuple{field("name", &ConstructorNode::name), field("inputs", &ConstructorNode::inputs),
                 field("belongs_to", &ConstructorNode::belongs_to)};
};
using Constructor = Ref<ConstructorNode>;

/// callee(args) to a function value, an operator, a constructor, a tensor program or a library function. For
/// a PrimFunc and an ExternFunc, `out_type` gives the type of the result (destination-passing style).
struct Call final : ExprOf<Call> {
  Expr callee;
  std::vector<Expr> args;
  Attrs attrs;  // may be null
  std::vector<Type> type_args;
  Type out_type;
  static constexpr auto kName = "Call";
  static constexpr auto kKind = ExprKind::kCall;
  static constexpr auto fields =
      std::tuple{field("callee", &Call::callee), field("args", &Call::args), field("attrs", &Call::attrs),
                 field("type_args", &Call::type_args), field("out_type", &Call::out_type)};
};

struct Let final : ExprOf<Let> {
  Var var;
  Expr value, body;
  static constexpr auto kName = "Let";
  static constexpr auto kKind = ExprKind::kLet;
  static constexpr auto fields =
      std::tuple{def("var", &Let::var), field("value", &Let::value), field("body", &Let::body)};
};

/// What passes and back ends know about a function.
struct FunctionAttrs {
  bool primitive = false;  // fused: becomes one tensor program; a tuning task
  std::map<std::string, std::string> other;
  std::map<std::string, int64_t> integers;
  std::map<std::string, std::string> values;  // all else, as text writes it: True, [1, 2], None
  static constexpr auto fields =
      std::tuple{field("primitive", &FunctionAttrs::primitive), field("other", &FunctionAttrs::other),
                 field("integers", &FunctionAttrs::integers), field("values", &FunctionAttrs::values)};
};

/// fn<type_params>(params) -> result_type { body }: a closure. The body may rely on the constraints, which
/// each use must meet.
struct Function final : ExprOf<Function> {
  std::vector<TypeVar> type_params;
  std::vector<Var> params;
  Type result_type;  // may be null
  Expr body;
  FunctionAttrs attrs;
  std::vector<Type> constraints;  // RelationType
  static constexpr auto kName = "Function";
  static constexpr auto kKind = ExprKind::kFunction;
  static constexpr auto fields = std::tuple{def("type_params", &Function::type_params),
                                            def("params", &Function::params),
                                            field("result_type", &Function::result_type),
                                            field("body", &Function::body),
                                            field("attrs", &Function::attrs),
                                            field("constraints", &Function::constraints)};
};

struct Tuple final : ExprOf<Tuple> {
  std::vector<Expr> items;
  static constexpr auto kName = "Tuple";
  static constexpr auto kKind = ExprKind::kTuple;
  static constexpr auto fields = std::tuple{field("items", &Tuple::items)};
};

struct Projection final : ExprOf<Projection> {
  Expr tuple;
  int64_t index = 0;
  static constexpr auto kName = "Projection";
  static constexpr auto kKind = ExprKind::kProjection;
  static constexpr auto fields =
      std::tuple{field("tuple", &Projection::tuple), field("index", &Projection::index)};
};

struct If final : ExprOf<If> {
  Expr condition, then_case, else_case;
  static constexpr auto kName = "RelayIf";
  static constexpr auto kKind = ExprKind::kIf;
  static constexpr auto fields =
      std::tuple{field("condition", &If::condition), field("then_case", &If::then_case),
                 field("else_case", &If::else_case)};
};

enum class PatternKind : uint16_t { kWildcard, kVar, kConstructor, kTuple };
struct PatternNode : Node {
  PatternKind kind() const { return static_cast<PatternKind>(kind_id()); }

 protected:
  using Node::Node;
};
using Pattern = Ref<PatternNode>;

struct WildcardPattern final : NodeOf<WildcardPattern, PatternNode> {
  static constexpr auto kName = "WildcardPattern";
  static constexpr auto kKind = PatternKind::kWildcard;
  static constexpr auto fields = std::tuple{};
};
struct VarPattern final : NodeOf<VarPattern, PatternNode> {
  Var var;
  static constexpr auto kName = "VarPattern";
  static constexpr auto kKind = PatternKind::kVar;
  static constexpr auto fields = std::tuple{def("var", &VarPattern::var)};
};
struct ConstructorPattern final : NodeOf<ConstructorPattern, PatternNode> {
  Constructor constructor;
  std::vector<Pattern> items;
  static constexpr auto kName = "ConstructorPattern";
  static constexpr auto kKind = PatternKind::kConstructor;
  static constexpr auto fields = std::tuple{field("constructor", &ConstructorPattern::constructor),
                                            field("items", &ConstructorPattern::items)};
};
struct TuplePattern final : NodeOf<TuplePattern, PatternNode> {
  std::vector<Pattern> items;
  static constexpr auto kName = "TuplePattern";
  static constexpr auto kKind = PatternKind::kTuple;
  static constexpr auto fields = std::tuple{field("items", &TuplePattern::items)};
};

struct Clause {
  Pattern pattern;
  Expr body;
  static constexpr auto fields = std::tuple{field("pattern", &Clause::pattern), field("body", &Clause::body)};
};
/// match (complete: the clauses cover every value) or match?.
struct Match final : ExprOf<Match> {
  Expr value;
  std::vector<Clause> clauses;
  bool complete = true;
  static constexpr auto kName = "Match";
  static constexpr auto kKind = ExprKind::kMatch;
  static constexpr auto fields = std::tuple{field("value", &Match::value), field("clauses", &Match::clauses),
                                            field("complete", &Match::complete)};
};

struct RefCreate final : ExprOf<RefCreate> {
  Expr value;
  static constexpr auto kName = "RefCreate";
  static constexpr auto kKind = ExprKind::kRefCreate;
  static constexpr auto fields = std::tuple{field("value", &RefCreate::value)};
};
struct RefRead final : ExprOf<RefRead> {
  Expr ref;
  static constexpr auto kName = "RefRead";
  static constexpr auto kKind = ExprKind::kRefRead;
  static constexpr auto fields = std::tuple{field("ref", &RefRead::ref)};
};
struct RefWrite final : ExprOf<RefWrite> {
  Expr ref, value;
  static constexpr auto kName = "RefWrite";
  static constexpr auto kKind = ExprKind::kRefWrite;
  static constexpr auto fields = std::tuple{field("ref", &RefWrite::ref), field("value", &RefWrite::value)};
};

/// grad(f): x -> (f(x), (gradients)); section 4.2 of the 2018 paper.
struct Grad final : ExprOf<Grad> {
  Expr function;
  static constexpr auto kName = "Grad";
  static constexpr auto kKind = ExprKind::kGrad;
  static constexpr auto fields = std::tuple{field("function", &Grad::function)};
};

/// A tensor program as a callee.
struct PrimFunc final : NodeOf<PrimFunc, RelayNode> {
  tir::Func func;
  static constexpr auto kName = "PrimFunc";
  static constexpr auto kKind = ExprKind::kPrimFunc;
  static constexpr auto fields = std::tuple{field("func", &PrimFunc::func)};
};
/// A library function, by its registered name, as a callee.
struct ExternFunc final : NodeOf<ExternFunc, RelayNode> {
  std::string symbol;
  static constexpr auto kName = "ExternFunc";
  static constexpr auto kKind = ExprKind::kExternFunc;
  static constexpr auto fields = std::tuple{field("symbol", &ExternFunc::symbol)};
};

/// Asserts at run time that `value` has `type`, binding the symbolic dimensions that occur first there.
struct MatchCast final : ExprOf<MatchCast> {
  Expr value;
  Type type;
  static constexpr auto kName = "MatchCast";
  static constexpr auto kKind = ExprKind::kMatchCast;
  static constexpr auto fields = std::tuple{field("value", &MatchCast::value), field("to", &MatchCast::type)};
};

/// dataflow { lets; output(values) }: a straight line without effects (Relax's dataflow block). Its value is
/// that of `body`, a chain of lets that nothing outside sees: one output, or a tuple of several.
struct Dataflow final : ExprOf<Dataflow> {
  Expr body;
  static constexpr auto kName = "Dataflow";
  static constexpr auto kKind = ExprKind::kDataflow;
  static constexpr auto fields = std::tuple{field("body", &Dataflow::body)};
};

/// type Name[type_params] { constructors }
struct TypeDataNode final : NodeOf<TypeDataNode, Node> {
  GlobalTypeVar header;
  std::vector<TypeVar> type_params;
  std::vector<Constructor> constructors;
  static constexpr auto kName = "TypeData";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("header", &TypeDataNode::header), def("type_params", &TypeDataNode::type_params),
                 field("constructors", &TypeDataNode::constructors)};
};
using TypeData = Ref<TypeDataNode>;

/// Global functions and type definitions. Immutable like all nodes; passes return a new one.
struct ModuleNode final : NodeOf<ModuleNode, Node> {
  std::map<std::string, Ref<Function>> functions;  // by global name; "main" is the entry
  std::map<std::string, TypeData> types;
  static constexpr auto kName = "Module";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("types", &ModuleNode::types), field("functions", &ModuleNode::functions)};
};
using Module = Ref<ModuleNode>;

// Builders.
Var make_var(std::string name, Type annotation = nullptr);
Expr constant(Tensor value);
Expr op_expr(std::string_view name);  // CHECKs that the table has it
/// Null attributes become the defaults of an operator that has some.
Expr call(std::string_view op, std::vector<Expr> args, Attrs attrs = nullptr);
Expr tuple(std::vector<Expr> items);
Expr project(Expr tuple, int64_t index);
Module make_module(Ref<Function> main);
/// A copy that knows where it comes from; or what type it has.
template <typename T>
Ref<T> with_span(const Ref<T>& e, Span span) {
  auto copy = mutate(*e);
  copy->span = std::move(span);
  return seal(std::move(copy));
}
Expr with_checked_type(const Expr& e, Type type);

NodeTable relay_node_types();  // every node of Relay and below; attributes of all operators included

}  // namespace lathe::relay
