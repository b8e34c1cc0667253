#include <algorithm>
#include <charconv>

#include "core/tir/parser.h"
#include "core/tir/precedence.h"
#include "core/tir/text.h"

namespace lathe::tir {
namespace {
constexpr int kIterations = static_cast<int>(Iteration::kThreadZ) + 1;
constexpr int kIterKinds = static_cast<int>(IterKind::kOpaque) + 1;
constexpr int kScopes = static_cast<int>(Scope::kShared) + 1;

template <typename Enum>
std::optional<Enum> enum_named(std::string_view name, int count) {
  for (int i = 0; i < count; ++i)
    if (name == spelling(static_cast<Enum>(i))) return static_cast<Enum>(i);
  return std::nullopt;
}

/// What braces of a body hold: one statement, or the sequence of several (or none).
Stmt one_or_sequence(std::vector<Stmt> list) {
  return list.size() == 1 ? list[0] : Stmt(make<Seq>(std::move(list)));
}

/// The longest path from the root, without recursion: the point is to find trees too deep for it.
int depth_of(const NodeRef& root) {
  // Shared nodes count once: text has none, but the walk is over nodes.
  std::unordered_map<const Node*, int> depths;
  post_order(root, [&](const NodeRef& node) {
    int deepest = 0;
    node->for_each_child([&](const NodeRef& child) { deepest = std::max(deepest, depths.at(child.get())); });
    depths[node.get()] = deepest + 1;
  });
  return depths.at(root.get());
}
}  // namespace

Parser::Parser(const Source& source) : source_(source) {
  // Texts come from files, databases and the wire: a bound before any memory is asked for.
  if (source.text.size() > kMaxTextBytes)
    fail("{}: error: {} bytes of text, at most {} are read", source.name, source.text.size(), kMaxTextBytes);
  tokens_ = tokenize(source);
}

Parser::Nesting::Nesting(Parser& p) : parser(p) {
  if (++parser.depth_ > kMaxNesting) {
    --parser.depth_;
    parser.fail_here(fmt::format("nested more than {} deep", kMaxNesting));
  }
}

// The end of the text stands for whatever is asked for beyond it.
const Token& Parser::peek(size_t ahead) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }

Token Parser::take() {
  Token token = peek();
  if (token.kind != TokenKind::kEnd) ++at_;
  return token;
}

/// A quoted name is no keyword, whatever it says.
bool Parser::at(std::string_view text) const {
  const Token& token = peek();
  return (token.kind == TokenKind::kSymbol || token.kind == TokenKind::kName) && token.text == text;
}

bool Parser::accept(std::string_view text) {
  if (!at(text)) return false;
  take();
  return true;
}

Token Parser::expect(std::string_view text) {
  if (!at(text)) {
    const Token& token = peek();
    fail_here(token.kind == TokenKind::kEnd
                  ? fmt::format("expected `{}`, the text ends", text)
                  : fmt::format("expected `{}`, got `{}`", text, token.text.substr(0, 40)));
  }
  return take();
}

void Parser::fail_here(const std::string& message) const { source_.fail_at(peek(), message); }

std::string Parser::name_or_quoted(const char* what) {
  const Token& token = peek();
  bool name = token.kind == TokenKind::kName && !is_reserved(token.text);
  if (!name && token.kind != TokenKind::kQuoted) fail_here(fmt::format("expected the name of {}", what));
  std::string text(take().text);
  if (name) return text;
  // As print() escapes them.
  for (size_t at = 0; (at = text.find('\\', at)) != std::string::npos; ++at) {
    text.erase(at, 1);
    if (text[at] == 'n') text[at] = '\n';
  }
  return text;
}

int64_t Parser::integer() {
  bool negative = accept("-");
  Token token = peek();
  if (token.kind != TokenKind::kInt || !token.suffix.empty()) fail_here("expected a whole number");
  take();
  std::string digits = (negative ? "-" : "") + std::string(token.text);
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    source_.fail_at(token, "the number does not fit 64 bits");
  return value;
}

void Parser::define(const Token& name, NodeRef node) {
  // No shadowing: a name means one thing in its whole scope, so that a text can be cut anywhere and read on.
  if (!names_.emplace(name.text, std::move(node)).second)
    source_.fail_at(name, fmt::format("`{}` is defined already", name.text));
  defined_.push_back(name.text);
}

/// What `name` stands for, when it is of that type.
NodeRef Parser::lookup(const Token& name, const NodeType& type, const char* what) const {
  auto found = names_.find(name.text);
  if (found != names_.end() && &found->second->type() == &type) return found->second;
  std::vector<std::string> names;
  // Only of what is in scope: a suggestion must be one that would work.
  for (std::string_view defined : defined_)
    if (&names_.at(defined)->type() == &type) names.emplace_back(defined);
  source_.fail_at(name,
                  fmt::format("no {} is called `{}`{}", what, name.text, did_you_mean(name.text, names)));
}

// Names are views of the text, which outlives the parser.
void Parser::leave(size_t mark) {
  for (; defined_.size() > mark; defined_.pop_back()) names_.erase(defined_.back());
}

DataType Parser::type() {
  Token token = peek();
  auto type = token.kind == TokenKind::kName ? parse_dtype(token.text) : std::nullopt;
  if (!type) fail_here("expected an element type, float32 say");
  take();
  return *type;
}

Var Parser::variable() {
  Token name = peek();
  if (name.kind != TokenKind::kName || is_reserved(name.text)) fail_here("expected the name of a variable");
  take();
  Token place = peek(1);
  DataType dtype = accept(":") ? type() : kInt64;
  if (!dtype.is_int() || dtype.lanes != 1)
    source_.fail_at(place, fmt::format("{} is {}, must be an integer", name.text, to_string(dtype)));
  Var v = var(std::string(name.text), dtype);
  define(name, v);
  return v;
}

Buffer Parser::declaration() {
  Token name = peek();
  if (name.kind != TokenKind::kName || is_reserved(name.text)) fail_here("expected the name of a buffer");
  take();
  expect(":");
  Token place = peek();
  DataType dtype = type();
  if (dtype.lanes != 1) source_.fail_at(place, "the elements of a buffer must be scalars");
  expect("[");
  std::vector<Expr> shape;
  while (!at("]")) {
    if (!shape.empty()) expect(",");
    shape.push_back(extent_expression("a dimension"));
  }
  expect("]");
  Scope scope = Scope::kGlobal;
  if (auto named = enum_named<Scope>(peek().text, kScopes); named && peek().kind == TokenKind::kName) {
    scope = *named;
    take();
  }
  Buffer b = buffer(std::string(name.text), std::move(shape), dtype, scope);
  define(name, b);
  return b;
}

Annotations Parser::annotations() {
  Annotations list;
  while (accept("@")) {
    std::string name = name_or_quoted("an annotation");
    expect("=");
    list[name] = integer();
  }
  return list;
}

std::vector<Buffer> Parser::params() {
  std::vector<Buffer> list;
  expect("(");
  while (!at(")")) {
    if (!list.empty()) expect(",");
    list.push_back(declaration());
  }
  expect(")");
  return list;
}

Func Parser::func() {
  size_t mark = enter();
  expect("func");
  std::string name = name_or_quoted("a function");
  if (accept("[")) {
    do variable();
    while (accept(","));
    expect("]");
  }
  std::vector<Buffer> inputs = params();
  expect("->");
  std::vector<Buffer> outputs = params();
  Annotations notes = annotations();
  Stmt body = braces();
  leave(mark);
  auto count = static_cast<int64_t>(outputs.size());
  inputs.insert(inputs.end(), outputs.begin(), outputs.end());
  // Nesting is limited while parsing, but chains grow to the left without nesting.
  // Passes walk expressions by recursion: the depth is bounded once, here, for all of them.
  Func result = make<FuncNode>(name, inputs, count, body, notes);
  if (depth_of(result) > kMaxDepth)
    fail("{}: error: expressions nested more than {} deep", source_.name, kMaxDepth);
  return result;
}

void Parser::end() const {
  if (!at_end()) fail_here("expected the end of the text after the function");
}

Stmt Parser::braces() {
  expect("{");
  size_t mark = enter();
  Stmt body = one_or_sequence(statements_until_brace());
  leave(mark);
  return body;
}

std::vector<Stmt> Parser::statements_until_brace() {
  std::vector<Stmt> list;
  while (!at("}")) {
    if (peek().kind == TokenKind::kEnd) expect("}");
    list.push_back(statement());
  }
  expect("}");
  return list;
}

Stmt Parser::statement() {
  Nesting nesting(*this);
  if (at("for")) return for_loop();
  if (at("block")) return block();
  if (accept("if")) {
    Token place = peek();
    Expr condition = expression();
    if (!condition.dtype().is_bool())
      source_.fail_at(place, fmt::format("the condition is {}, must be bool", to_string(condition.dtype())));
    Stmt then_case = braces();
    return make<If>(condition, then_case, accept("else") ? braces() : Stmt());
  }
  if (accept("alloc")) {
    size_t mark = enter();
    Buffer b = declaration();
    Stmt body = braces();
    leave(mark);
    return make<Alloc>(b, body);
  }
  if (accept("{")) {
    size_t mark = enter();
    std::vector<Stmt> list = statements_until_brace();
    leave(mark);
    return make<Seq>(std::move(list));
  }
  return store();
}

Stmt Parser::for_loop() {
  expect("for");
  size_t mark = enter();
  Token name = peek();
  Var v = variable();
  leave(mark);  // not visible in its own extent
  expect("in");
  if (integer() != 0) source_.fail_at(name, "a loop runs from 0");
  expect("..");
  Expr extent = extent_expression("the extent of a loop");
  Iteration iteration = Iteration::kSerial;
  if (peek().kind == TokenKind::kName) {
    auto named = enum_named<Iteration>(peek().text, kIterations);
    std::vector<std::string> all;
    for (int i = 0; i < kIterations; ++i) all.push_back(spelling(static_cast<Iteration>(i)));
    if (!named)
      fail_here(fmt::format("`{}` is no way to run a loop{}", peek().text, did_you_mean(peek().text, all)));
    iteration = *named;
    take();
  }
  Annotations notes = annotations();
  define(name, v);
  Stmt body = braces();
  leave(mark);
  return make<For>(v, extent, iteration, body, notes);
}

BlockIter Parser::iterator() {
  BlockIter iter;
  auto kind = enum_named<IterKind>(peek().text, kIterKinds);
  if (!kind) fail_here("expected spatial, reduce or opaque");
  take();
  iter.kind = *kind;
  iter.var = variable();
  expect("in");
  Token place = peek();
  if (integer() != 0) source_.fail_at(place, "an iterator runs from 0");
  expect("..");
  iter.extent = extent_expression("the extent of an iterator");
  expect("=");
  iter.value = index_expression("the value of an iterator");
  return iter;
}

std::vector<Region> Parser::regions() {
  std::vector<Region> list;
  do {
    Token name = take();
    Region region{lookup(name, BufferNode::kType, "buffer").cast<BufferNode>(), {}};
    expect("[");
    while (!at("]")) {
      if (!region.ranges.empty()) expect(",");
      Expr low = index_expression("the start of a region");
      region.ranges.push_back(
          {low, accept(":") ? extent_expression("the extent of a region") : imm(kInt64, 1)});
    }
    expect("]");
    if (region.ranges.size() != region.buffer->shape.size())
      source_.fail_at(name, fmt::format("{} has {} dimensions, the region {}", name.text,
                                        region.buffer->shape.size(), region.ranges.size()));
    list.push_back(std::move(region));
  } while (accept(","));
  return list;
}

Stmt Parser::block() {
  expect("block");
  auto block = std::make_unique<Block>();
  size_t mark = enter();
  block->name = name_or_quoted("a block");
  if (accept("(")) {
    do block->iters.push_back(iterator());
    while (accept(","));
    expect(")");
  }
  if (accept("where")) {
    Token place = peek();
    block->predicate = expression();
    if (block->predicate.dtype() != kBool) source_.fail_at(place, "the condition of a block must be bool");
  }
  block->annotations = annotations();
  expect("{");
  // An alloc with braces is a statement, one without is the block's: what follows the declaration tells, so a
  // declaration read for nothing is taken back.
  // The name and its colon; the type and the shape may be of any length.
  while (at("alloc") && peek(2).text == ":") {
    size_t start = at_;
    take();
    Buffer b = declaration();
    if (at("{")) {  // a statement, not one of the block's own buffers
      at_ = start;
      leave(defined_.size() - 1);
      break;
    }
    block->allocs.push_back(b);
  }
  if (accept("reads")) block->reads = regions();
  if (accept("writes")) block->writes = regions();
  if (accept("init")) block->init = braces();
  block->body = one_or_sequence(statements_until_brace());
  leave(mark);
  return seal(std::move(block));
}

Stmt Parser::store() {
  Token name = peek();
  if (name.kind != TokenKind::kName || is_reserved(name.text)) fail_here("expected a statement");
  take();
  Buffer buffer = lookup(name, BufferNode::kType, "buffer").cast<BufferNode>();
  std::vector<Expr> where = indices(buffer, name);
  Token equals = expect("=");
  Expr value = expression();
  int lanes = lanes_of(where);
  // No conversion is implied anywhere in the language: text says all that programs do.
  if (value.dtype() != buffer->dtype.with_lanes(lanes))
    source_.fail_at(equals,
                    fmt::format("{} holds {}, the value is {}", name.text,
                                to_string(buffer->dtype.with_lanes(lanes)), to_string(value.dtype())));
  return make<Store>(buffer, where, value);
}

Func parse_func(std::string_view text, const std::string& source) {
  Source from{text, source};
  Parser parser(from);
  Func func = parser.func();
  parser.end();
  return func;
}

std::vector<Func> parse_funcs(std::string_view text, const std::string& source) {
  Source from{text, source};
  Parser parser(from);
  std::vector<Func> funcs = {parser.func()};
  while (!parser.at_end()) funcs.push_back(parser.func());
  return funcs;
}

}  // namespace lathe::tir
