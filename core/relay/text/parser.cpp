#include "core/relay/text/parser.h"

#include <mutex>

#include "core/relay/op.h"
#include "core/relay/prelude/prelude.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// Parsed once: what is imported twice, by way of other parts too, are the same definitions.
Module prelude_module(const std::string& name, std::string_view text) {
  static std::recursive_mutex mutex;  // parts import parts
  static std::map<std::string, Module> modules;
  std::scoped_lock lock(mutex);
  auto found = modules.find(name);
  if (found == modules.end()) found = modules.emplace(name, parse_module(text, name + ".relay")).first;
  return found->second;
}

}  // namespace

Parser::Nesting::Nesting(const Parser& parser, int& depth, int limit) : depth_(depth) {
  if (depth_ == limit) parser.error(parser.peek(), fmt::format("nested more than {} levels deep", limit));
  ++depth_;
}

Parser::Parser(std::string_view text, const std::string& source)
    : text_(text), source_(source), tokens_(tokenize(text, source_)) {
  // Metadata stands at the end of the text but is read first: what refers to it comes before.
  if (tokens_.size() < 2 || tokens_[tokens_.size() - 2].kind != TokenKind::kMetadata) return;
  Token token = tokens_[tokens_.size() - 2];
  tokens_.erase(tokens_.end() - 2);
  try {
    metadata_ = read_metadata(token.text);
  } catch (const Error& e) {
    error(token, e.what());
  }
}

/// By text alone, but not for tokens whose text leaves a character out: the string "def" is no `def`.
bool Parser::is(std::string_view text, size_t ahead) const {
  const Token& token = peek(ahead);
  return token.text == text &&
         (token.kind == TokenKind::kPunctuation || token.kind == TokenKind::kIdentifier);
}

bool Parser::accept(std::string_view text) {
  if (!is(text)) return false;
  next();
  return true;
}

void Parser::expect(std::string_view text) {
  if (accept(text)) return;
  const Token& token = peek();
  if (token.kind == TokenKind::kEnd) error(token, fmt::format("expected `{}`, the text ends", text));
  error(token, fmt::format("expected `{}`, got `{}`", text, text_at(token)));
}

const Token& Parser::expect(TokenKind kind, std::string_view what) {
  if (peek().kind == kind) return next();
  if (peek().kind == TokenKind::kEnd) error(peek(), fmt::format("expected {}, the text ends", what));
  error(peek(), fmt::format("expected {}, got `{}`", what, text_at(peek())));
}

std::string_view Parser::text_at(const Token& token) const {
  if (token.kind == TokenKind::kMetadata) return "#[metadata]";
  // Tokens of other kinds leave out their first character, a %, @, quote or dot.
  size_t lead = token.kind == TokenKind::kPunctuation || token.kind == TokenKind::kIdentifier ||
                        token.kind == TokenKind::kNumber
                    ? 0
                    : 1;
  return {token.text.data() - lead, static_cast<size_t>(token.length)};
}

Span Parser::span(const Token& token) const {
  return {source_, token.line, token.column, token.column + token.length};
}

void Parser::error(const Token& token, std::string_view message) const {
  throw Error(caret_message(span(token), text_, message));
}

void Parser::end() {
  if (peek().kind != TokenKind::kEnd)
    error(peek(), fmt::format("expected the end of the text, got `{}`", text_at(peek())));
  check_names();
}

/// Functions and types may be used before they are defined: their names are checked when all is read.
void Parser::check_names() const {
  for (const auto& [token, name] : type_uses_) {
    if (types_.count(name)) continue;
    std::vector<std::string> known{"Tensor"};
    for (const auto& each : types_) known.push_back(each.first);
    error(token, fmt::format("unknown type `{}`{}", name, did_you_mean(name, known)));
  }
  for (const auto& [token, name] : global_uses_) {
    if (functions_.count(name)) continue;
    std::vector<std::string> known;
    for (const auto& each : functions_) known.push_back(each.first);
    error(token, fmt::format("unknown function `@{}`{}", name, did_you_mean(name, known)));
  }
}

/// Types and imports of the whole text, before its functions: these may use constructors that are defined
/// below them.
void Parser::read_types_ahead() {
  int open = 0;
  while (peek().kind != TokenKind::kEnd) {
    size_t begin = at_;
    bool is_type = (is("type") && peek(1).kind == TokenKind::kIdentifier) || (is("extern") && is("type", 1));
    bool is_import = is("import") && peek(1).kind == TokenKind::kString;
    if (open == 0 && (is_type || is_import)) {
      is_type ? type_definition() : import();
      read_ahead_[begin] = at_;
      continue;
    }
    open += is("(") || is("[") || is("{") ? 1 : is(")") || is("]") || is("}") ? -1 : 0;
    next();
  }
  at_ = 0;
}

Module Parser::module() {
  read_types_ahead();
  while (peek().kind != TokenKind::kEnd) {
    auto read = read_ahead_.find(at_);
    if (read != read_ahead_.end())
      at_ = read->second;
    else if (is("def"))
      definition();
    else
      error(peek(), fmt::format("expected `def`, `type` or `import`, got `{}`", text_at(peek())));
  }
  end();
  return make<ModuleNode>(std::move(types_), std::move(functions_));
}

Type Parser::only_type() {
  Type result = type();
  end();
  return result;
}

/// Two definitions of one name; what is imported twice is one.
template <typename Known, typename Imported>
void Parser::refuse_other(const Token& token, std::string_view what, const Known& known,
                          const Imported& imported) const {
  for (const auto& [name, definition] : imported)
    if (auto found = known.find(name); found != known.end() && found->second != definition)
      error(token, fmt::format("{} `{}` is defined twice", what, name));
}

/// import "list": the definitions of a part of the prelude, and of what that imports. Once each.
void Parser::import() {
  next();
  const Token& token = peek();
  std::string name = string_value("the name of a part of the prelude");
  std::optional<std::string_view> text = prelude_text(name);
  if (!text)
    error(token, fmt::format("there is no `{}` to import{}", name, did_you_mean(name, prelude_names())));
  Module module = prelude_module(name, *text);
  refuse_other(token, "type", types_, module->types);
  types_.insert(module->types.begin(), module->types.end());
  functions_.insert(module->functions.begin(), module->functions.end());
  std::map<std::string, Constructor> constructors;
  for (const auto& each : module->types)
    for (const Constructor& constructor : each.second->constructors)
      constructors.emplace(constructor->name, constructor);
  refuse_other(token, "constructor", constructors_, constructors);
  constructors_.insert(constructors.begin(), constructors.end());
}

/// type List[A] { Cons(A, List[A]), Nil, }
void Parser::type_definition() {
  bool is_extern = accept("extern");
  expect("type");
  const Token& name = expect(TokenKind::kIdentifier, "the name of a type");
  if (types_.count(std::string(name.text))) error(name, fmt::format("type `{}` is defined twice", name.text));
  auto header = make<GlobalTypeVarNode>(std::string(name.text));
  size_t mark = type_vars_.mark();
  std::vector<TypeVar> params = type_params();
  std::vector<Constructor> constructors;
  if (!is_extern) {
    expect("{");
    while (!accept("}")) {
      const Token& constructor = expect(TokenKind::kIdentifier, "a constructor");
      std::vector<Type> inputs;
      if (accept("(")) inputs = type_list(")");
      auto node = make<ConstructorNode>(std::string(constructor.text), std::move(inputs), header);
      constructors.push_back(with_span(node, span(constructor)));
      if (!constructors_.emplace(constructor.text, constructors.back()).second)
        error(constructor, fmt::format("constructor `{}` is defined twice", constructor.text));
      if (!is("}")) expect(",");
    }
  }
  type_vars_.leave(mark);
  types_[header->name] = make<TypeDataNode>(header, std::move(params), std::move(constructors));
}

/// def @main[A](%x: A, Key="value") -> A { ... }
void Parser::definition() {
  const Token& start = next();
  const Token& name = expect(TokenKind::kGlobal, "the name of a function, as in @main");
  if (functions_.count(std::string(name.text)))
    error(name, fmt::format("function `@{}` is defined twice", name.text));
  // A dimension `n` means the same in all types of one definition, and another in the next.
  dims_.clear();
  functions_[std::string(name.text)] = function(start).cast<Function>();
}

/// meta[relay.Constant][0]
Expr Parser::meta() {
  const Token& start = next();
  expect("[");
  const Token& key = expect(TokenKind::kIdentifier, "relay.Constant or tir.Func");
  expect("]");
  expect("[");
  const Token& index = expect(TokenKind::kNumber, "an index");
  expect("]");
  bool is_constant = key.text == "relay.Constant";
  if (!is_constant && key.text != "tir.Func")
    error(key, fmt::format("unknown metadata `{}`; relay.Constant and tir.Func are known", key.text));
  size_t size = is_constant ? metadata_.constants.size() : metadata_.funcs.size();
  size_t at = 0;
  for (char c : index.text)
    // A suffix or too many digits give an index beyond any table.
    at = c >= '0' && c <= '9' && at < 1'000'000'000 ? at * 10 + (c - '0') : SIZE_MAX / 100;
  if (at >= size)
    error(index, fmt::format("meta[{}] has {} entries; is #[metadata] missing?", key.text, size));
  if (is_constant) return with_span(make<Constant>(metadata_.constants[at]), span(start));
  return with_span(make<PrimFunc>(metadata_.funcs[at]), span(start));
}

Module parse_module(std::string_view text, const std::string& source) {
  return Parser(text, source).module();
}
Type parse_type(std::string_view text, const std::string& source) { return Parser(text, source).only_type(); }

}  // namespace lathe::relay
