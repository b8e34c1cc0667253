// Expressions and patterns.
#include <algorithm>

#include "core/relay/op.h"
#include "core/relay/text/parser.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// Operators between operands; the higher `precedence` binds tighter.
struct Infix {
  std::string_view text, op;
  int precedence;
};
constexpr Infix kInfixes[] = {
    {"==", "equal", 1},   {"!=", "not_equal", 1}, {"<=", "less_equal", 2}, {">=", "greater_equal", 2},
    {"<", "less", 2},     {">", "greater", 2},    {"+", "add", 3},         {"-", "subtract", 3},
    {"*", "multiply", 4}, {"/", "divide", 4}};

constexpr int kPrefix = 5;  // binds tighter than all of them

bool starts_upper(std::string_view name) { return name[0] >= 'A' && name[0] <= 'Z'; }

}  // namespace

/// What the grammar nests expressions by: all recursion comes by here.
Expr Parser::expr(int precedence) {
  Nesting nesting = nested_expr();
  Expr result;
  with_enough_stack([&] { result = infixes(precedence); });
  return result;
}

/// Operators of higher precedence than given; all associate to the left. A reference is written last: r := a
/// + b.
Expr Parser::infixes(int precedence) {
  Expr left = postfix();
  for (;;) {
    const Token& token = peek();
    if (precedence == 0 && accept(":=")) return with_span(make<RefWrite>(left, expr()), span(token));
    auto infix = std::find_if(std::begin(kInfixes), std::end(kInfixes), [&](const Infix& each) {
      return is(each.text) && each.precedence > precedence;
    });
    if (infix == std::end(kInfixes)) return left;
    if (!find_op(infix->op)) error(token, fmt::format("there is no operator `{}`", infix->op));
    next();
    // Only what binds tighter than this operator belongs to its right side: a - b - c is (a - b) - c.
    Expr right = expr(infix->precedence);
    // The span is the operator's own: types that do not fit are reported there.
    left = with_span(call(infix->op, {left, right}).cast<Call>(), span(token));
  }
}

/// Items and calls behind an atom: f(x)(y).0
Expr Parser::postfix() {
  const Token& start = peek();
  Expr e = atom();
  for (;;) {
    if (peek().kind == TokenKind::kDotIndex) {
      const Token& token = next();
      // More digits than that would not fit std::stoi.
      if (token.text.size() > 6)
        error(token, fmt::format("`{}` is not the index of a tuple's item", token.text));
      e = with_span(make<Projection>(e, std::stoi(std::string(token.text))), span(start));
    } else if (is("(") || is("[")) {
      e = finish_call(std::move(e), start);
    } else {
      return e;
    }
  }
}

/// What no operator stands in: a name, a literal, a form, or something in parentheses or braces.
Expr Parser::atom() {
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::kLocal:
    case TokenKind::kGraph:
      return local();
    case TokenKind::kGlobal:
      next();
      global_uses_.emplace_back(token, token.text);
      return with_span(make<GlobalVarNode>(std::string(token.text)), span(token));
    case TokenKind::kIdentifier:
      return keyword();
    case TokenKind::kNumber:
      return literal();
    default:
      break;
  }
  if (is("[")) return begins_literal() ? literal() : stacked();
  if (is("{")) return block();
  if (is("-")) {
    if (is_number(1)) return literal();
    if (!find_op("negative")) error(token, "there is no operator `negative`");
    next();
    return with_span(call("negative", {expr(kPrefix)}).cast<Call>(), span(token));
  }
  if (accept("!")) return with_span(make<RefRead>(expr(kPrefix)), span(token));
  if (accept("(")) {
    // TVM writes lets that are operands in parentheses.
    if (is("let") || (peek().kind == TokenKind::kGraph && is("=", 1))) {
      Expr result = scope();
      expect(")");
      return result;
    }
    std::vector<Expr> items = expr_list(")");
    // (e) is e, (e,) a tuple of one: the token before the closing parenthesis tells.
    if (items.size() == 1 && tokens_[at_ - 2].text != ",") return items[0];
    return with_span(make<Tuple>(std::move(items)), span(token));
  }
  if (token.kind == TokenKind::kEnd) error(token, "expected an expression, the text ends");
  error(token, fmt::format("expected an expression, got `{}`", text_at(token)));
}

/// Whether the brackets that begin here hold numbers alone.
bool Parser::begins_literal() const {
  int open = 0;
  for (size_t ahead = 0;; ++ahead) {
    const Token& token = peek(ahead);
    open += token.text == "[" ? 1 : token.text == "]" ? -1 : 0;
    const bool is_item = is_number(ahead) || is("True", ahead) || is("False", ahead);
    const bool between = is("[", ahead) || is("]", ahead) || is(",", ahead) || is("-", ahead);
    // What is no expression either is reported as a literal that is wrong.
    if (!is_item && !between) return token.kind == TokenKind::kEnd;
    if (open == 0) return true;
  }
}

/// [a, b]: tensors of one type, one behind the other along a new first axis.
Expr Parser::stacked() {
  const Token& start = next();
  std::vector<Expr> items = expr_list("]");
  if (items.empty()) error(start, "a tensor of no items; its element type is not known");
  Expr tuple = with_span(make<Tuple>(std::move(items)), span(start));
  return with_span(call("stack", {std::move(tuple)}).cast<Call>(), span(start));
}

Expr Parser::keyword() {
  const Token& token = peek();
  std::string_view name = token.text;
  if (name == "True" || name == "False" || is_number()) return literal();
  if (name == "meta" && is("[", 1)) return meta();
  if (name == "call_tir" || name == "call_dps_library") return foreign_call();
  next();
  if (name == "fn") return function(token);
  if (name == "if") return branch();
  if (name == "match") return match();
  if (name == "dataflow" && is("{")) return dataflow();
  if (name == "extern" && accept("(")) {
    std::string symbol = string_value("a symbol in quotes");
    expect(")");
    return with_span(make<ExternFunc>(std::move(symbol)), span(token));
  }
  // Words of forms are names like others where no parenthesis follows.
  bool is_form = is("(") && (name == "ref" || name == "ref_read" || name == "ref_write" || name == "grad" ||
                             name == "match_cast");
  if (!is_form) {
    Expr e = named(token);
    const ConstructorNode* constructor = e.as<ConstructorNode>();
    if (!constructor || !constructor->inputs.empty() || is("(") || is("[")) return e;
    return with_span(make<Call>(e), span(token));  // Nil is short for Nil()
  }
  expect("(");
  Expr first = expr();
  Expr result;
  if (name == "ref") result = with_span(make<RefCreate>(first), span(token));
  if (name == "ref_read") result = with_span(make<RefRead>(first), span(token));
  if (name == "grad") result = with_span(make<Grad>(first), span(token));
  if (name == "ref_write") {
    expect(",");
    result = with_span(make<RefWrite>(first, expr()), span(token));
  }
  if (name == "match_cast") {
    expect(",");
    result = with_span(make<MatchCast>(first, type()), span(token));
  }
  expect(")");
  return result;
}

/// A constructor or an operator.
Expr Parser::named(const Token& token) {
  auto constructor = constructors_.find(std::string(token.text));
  if (constructor != constructors_.end()) return constructor->second;
  if (find_op(token.text)) return with_span(op_expr(token.text).cast<OpNode>(), span(token));
  if (starts_upper(token.text)) {
    std::vector<std::string> known;
    for (const auto& each : constructors_) known.push_back(each.first);
    error(token, fmt::format("unknown constructor `{}`{}", token.text, did_you_mean(token.text, known)));
  }
  error(token, fmt::format("unknown operator `{}`{}", token.text, did_you_mean(token.text, op_names())));
}

/// %x or %0. A name may hold dots, so %t.0 is first looked up as a whole, then as an item of %t.
Expr Parser::local() {
  const Token& token = next();
  std::string name(token.text);
  // Items are read from the last dot forwards: of %t.0.1, %t.0.1, %t.0 and %t are looked up in turn.
  std::vector<int> indices;
  for (;;) {
    if (const Expr* found = locals_.find(name)) {
      Expr e = *found;
      for (; !indices.empty(); indices.pop_back())
        e = with_span(make<Projection>(e, indices.back()), span(token));
      return e;
    }
    size_t dot = name.rfind('.');
    bool is_index = token.kind == TokenKind::kLocal && dot != std::string::npos && name.size() - dot <= 7 &&
                    name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
    if (!is_index) break;
    indices.push_back(std::stoi(name.substr(dot + 1)));
    name.resize(dot);
  }
  std::vector<std::string> known;
  for (const std::string& each : locals_.names()) known.push_back("%" + each);
  std::string written = fmt::format("%{}", token.text);
  error(token, fmt::format("unknown variable `{}`{}", written, did_you_mean(written, known)));
}

/// let %x = e; ... %0 = e; ... e. Of a dataflow block it ends in its outputs.
Expr Parser::scope(bool is_dataflow) {
  size_t mark = locals_.mark();
  struct Binding {
    Var var;
    Expr value;
    Span span;
  };
  // A chain of lets is read by this loop and put together from its end afterwards: it may be 100,000 long.
  std::vector<Binding> lets;
  Expr result;
  for (;;) {
    const Token& start = peek();
    if (accept("let")) {
      Var variable = param();
      // Only a function may mention its own variable.
      bool recursive = is("=") && is("fn", 1);
      if (recursive) locals_.bind(variable->name, variable);
      expect("=");
      Expr value = expr();
      if (!recursive) locals_.bind(variable->name, variable);
      expect(";");
      lets.push_back({std::move(variable), std::move(value), span(start)});
    } else if (start.kind == TokenKind::kGraph && is("=", 1)) {
      next();
      next();
      // A graph binding is the expression itself, shared by all who name it; no node is made for it.
      locals_.bind(std::string(start.text), expr());
      expect(";");
    } else if (is_dataflow && is("output") && is("(", 1)) {
      result = output_list();
      accept(";");
      break;
    } else {
      result = expr();
      if (is_dataflow && !is(";"))
        error(peek(), "a dataflow block must end in output(...), which says what is seen outside");
      if (!accept(";")) break;
      if (result.as<Dataflow>()) {
        // As a statement it binds its outputs: `let %t = dataflow { ... }; let %a = %t.0; ...`.
        std::vector<Var> names = outputs_of(result, start);
        Var block = names.size() == 1 ? names[0] : make_var("dataflow");
        lets.push_back({block, std::move(result), span(start)});
        for (size_t i = 0; i < names.size(); ++i) {
          locals_.bind(names[i]->name, names[i]);
          if (names.size() == 1) break;
          Expr item = with_span(make<Projection>(block, static_cast<int64_t>(i)), span(start));
          lets.push_back({names[i], std::move(item), span(start)});
        }
        continue;
      }
      // `e; rest` evaluates e for its effect: a let that nobody reads.
      lets.push_back({make_var("_"), std::move(result), span(start)});
    }
  }
  locals_.leave(mark);
  for (; !lets.empty(); lets.pop_back()) {
    Binding& let = lets.back();
    result = with_span(make<Let>(std::move(let.var), std::move(let.value), std::move(result)),
                       std::move(let.span));
  }
  return result;
}

/// dataflow { let %x = e; ... output(%x, %y) }, from its brace on. Its variables are not seen outside.
Expr Parser::dataflow() {
  const Token& start = tokens_[at_ - 1];
  expect("{");
  Expr body = scope(/*is_dataflow=*/true);
  expect("}");
  return with_span(make<Dataflow>(std::move(body)), span(start));
}

/// output(%x, %y): what a dataflow block shows. One is the value itself, several are a tuple.
Expr Parser::output_list() {
  const Token& start = next();
  expect("(");
  std::vector<Expr> items = expr_list(")");
  if (items.empty()) error(start, "a dataflow block without outputs");
  return items.size() == 1 ? items[0] : with_span(make<Tuple>(std::move(items)), span(start));
}

/// New variables of the names that a block's outputs have, for the statement at `start`.
std::vector<Var> Parser::outputs_of(const Expr& block, const Token& start) const {
  const Expr* end = &block.as<Dataflow>()->body;
  while (const Let* let = end->as<Let>()) end = &let->body;
  const Tuple* several = end->as<Tuple>();
  std::vector<Var> names;
  for (const Expr& each : several ? several->items : std::vector{*end}) {
    const VarNode* variable = each.as<VarNode>();
    if (!variable)
      error(start, "an output that the rest of the scope sees must be a variable; bind it by let");
    names.push_back(with_span(make_var(variable->name).cast<VarNode>(), span(start)));
  }
  return names;
}

Expr Parser::block() {
  expect("{");
  Expr result = scope();
  expect("}");
  return result;
}

/// %x, or %x: type. Not bound yet.
Var Parser::param() {
  const Token& name = expect(TokenKind::kLocal, "a variable");
  Type annotation = accept(":") ? type() : nullptr;
  return with_span(make_var(std::string(name.text), std::move(annotation)).cast<VarNode>(), span(name));
}

/// What follows `fn` or `def @name`: [A](%x: A, Primitive=1) -> A { ... }
Expr Parser::function(const Token& start) {
  size_t mark = locals_.mark(), type_mark = type_vars_.mark();
  std::vector<TypeVar> variables = type_params();
  std::vector<Var> params;
  FunctionAttrs attrs;
  expect("(");
  while (!accept(")")) {
    if (peek().kind == TokenKind::kIdentifier) {
      function_attr(attrs);
    } else {
      params.push_back(param());
      locals_.bind(params.back()->name, params.back());
    }
    if (!is(")")) expect(",");
  }
  Type result = accept("->") ? type() : nullptr;
  std::vector<Type> given = constraints();
  Expr body = block();
  locals_.leave(mark);
  type_vars_.leave(type_mark);
  return with_span(make<Function>(std::move(variables), std::move(params), std::move(result), std::move(body),
                                  std::move(attrs), std::move(given)),
                   span(start));
}

/// if (c) { a } else if (d) { b } else { e }
Expr Parser::branch() {
  struct Case {
    Expr condition, value;
    Span span;
  };
  // Read by this loop and put together from its end afterwards, as a chain of lets is. Shorter, since what
  // visits the branches of an `if` nests.
  constexpr size_t kMaxCases = 10'000;
  std::vector<Case> cases;
  do {
    if (cases.size() == kMaxCases)
      error(tokens_[at_ - 1], fmt::format("a chain of more than {} cases", kMaxCases));
    Span start = span(tokens_[at_ - 1]);
    expect("(");
    Expr condition = expr();
    expect(")");
    cases.push_back({std::move(condition), block(), std::move(start)});
    expect("else");
  } while (accept("if"));
  Expr result = block();
  for (; !cases.empty(); cases.pop_back()) {
    Case& last = cases.back();
    result = with_span(make<If>(std::move(last.condition), std::move(last.value), std::move(result)),
                       std::move(last.span));
  }
  return result;
}

/// match (e) { Cons(%h, _) => a, Nil => { b }, }
Expr Parser::match() {
  const Token& start = tokens_[at_ - 1];
  bool complete = !accept("?");
  expect("(");
  Expr value = expr();
  expect(")");
  expect("{");
  std::vector<Clause> clauses;
  while (!accept("}")) {
    size_t mark = locals_.mark();
    // Its variables are seen in this clause alone.
    Pattern left = pattern();
    expect("=>");
    clauses.push_back({std::move(left), is("{") ? block() : expr()});
    locals_.leave(mark);
    if (!is("}")) expect(",");
  }
  return with_span(make<Match>(std::move(value), std::move(clauses), complete), span(start));
}

Pattern Parser::pattern() {
  Nesting nesting = nested_type();
  auto list = [&] {
    std::vector<Pattern> items;
    while (!accept(")")) {
      items.push_back(pattern());
      if (!is(")")) expect(",");
    }
    return items;
  };
  if (accept("_")) return make<WildcardPattern>();
  if (accept("(")) return make<TuplePattern>(list());
  if (peek().kind == TokenKind::kLocal) {
    Var variable = param();
    locals_.bind(variable->name, variable);
    return make<VarPattern>(variable);
  }
  const Token& token = expect(TokenKind::kIdentifier, "a pattern");
  Expr constructor = named(token);
  if (constructor->kind() != ExprKind::kConstructor)
    error(token, fmt::format("`{}` is not a constructor", token.text));
  std::vector<Pattern> items;
  if (accept("(")) items = list();
  return make<ConstructorPattern>(constructor.cast<ConstructorNode>(), std::move(items));
}

/// call_tir(prim, (args), type) and call_dps_library("symbol", (args), type).
Expr Parser::foreign_call() {
  const Token& start = next();
  expect("(");
  Expr callee;
  if (start.text == "call_tir") {
    const Token& token = peek();
    callee = expr();
    if (callee->kind() != ExprKind::kPrimFunc)
      error(token, "call_tir needs a tensor program, as in meta[tir.Func][0]");
  } else {
    callee = make<ExternFunc>(string_value("a symbol in quotes"));
  }
  expect(",");
  expect("(");
  std::vector<Expr> args = expr_list(")");
  expect(",");
  Type out = type();
  expect(")");
  return with_span(
      make<Call>(std::move(callee), std::move(args), Attrs(), std::vector<Type>{}, std::move(out)),
      span(start));
}

/// The expressions up to `close`, which is read. A comma may follow the last.
std::vector<Expr> Parser::expr_list(std::string_view close) {
  std::vector<Expr> items;
  while (!accept(close)) {
    items.push_back(expr());
    if (!is(close)) expect(",");
  }
  return items;
}

/// What follows the callee: [type arguments](arguments, attribute=value).
Expr Parser::finish_call(Expr callee, const Token& start) {
  std::vector<Type> type_args;
  if (accept("[")) type_args = type_list("]");
  expect("(");
  std::vector<Expr> args;
  // Attributes follow the arguments; the first `name =` begins them.
  while (!is(")") && !(peek().kind == TokenKind::kIdentifier && is("=", 1))) {
    args.push_back(expr());
    if (!is(")")) expect(",");
  }
  Attrs attrs = attributes(callee, start);
  expect(")");
  return with_span(make<Call>(std::move(callee), std::move(args), std::move(attrs), std::move(type_args)),
                   span(start));
}

}  // namespace lathe::relay
