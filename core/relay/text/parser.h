// The recursive-descent parser behind parse_module. Chains (let, %0 = ..., else if) are loops; what nests is
// limited in depth: expressions, types and patterns, and what is inside of these (dimensions, literals,
// attributes).
#pragma once

#include <algorithm>
#include <nlohmann/json_fwd.hpp>
#include <unordered_map>

#include "core/relay/expr.h"
#include "core/relay/text/lexer.h"
#include "core/relay/text/metadata.h"

namespace lathe::relay {

class Parser {
 public:
  Parser(std::string_view text, const std::string& source);
  Module module();
  Type only_type();

 private:
  /// Names bound to T, with scopes: what is bound after mark() goes with leave(mark).
  template <typename T>
  class Scope {
   public:
    size_t mark() const { return bound_.size(); }
    void bind(const std::string& name, T value) {
      values_[name].push_back(std::move(value));
      bound_.push_back(name);
    }
    void leave(size_t mark) {
      for (; bound_.size() > mark; bound_.pop_back()) values_[bound_.back()].pop_back();
    }
    const T* find(const std::string& name) const {
      auto found = values_.find(name);
      return found == values_.end() || found->second.empty() ? nullptr : &found->second.back();
    }
    std::vector<std::string> names() const { return bound_; }

   private:
    std::unordered_map<std::string, std::vector<T>> values_;
    std::vector<std::string> bound_;
  };
  /// Counts while it lives; hostile text must not fill the memory.
  class Nesting {
   public:
    Nesting(const Parser& parser, int& depth, int limit);
    ~Nesting() { --depth_; }

   private:
    int& depth_;
  };
  Nesting nested_expr() { return {*this, expr_depth_, 1000}; }
  Nesting nested_type() { return {*this, type_depth_, 1000}; }
  Nesting nested_value() { return {*this, value_depth_, 200}; }

  // parser.cpp: tokens, definitions
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(std::string_view text, size_t ahead = 0) const;
  bool accept(std::string_view text);
  void expect(std::string_view text);
  const Token& expect(TokenKind kind, std::string_view what);
  Span span(const Token& token) const;
  std::string_view text_at(const Token& token) const;  // as written
  [[noreturn]] void error(const Token& token, std::string_view message) const;
  void end();
  void read_types_ahead();
  void import();
  template <typename Known, typename Imported>
  void refuse_other(const Token& token, std::string_view what, const Known& known,
                    const Imported& imported) const;
  void type_definition();
  void definition();
  void check_names() const;
  Expr meta();

  // parse_type.cpp
  Type type();
  Type one_type();
  Type tensor();
  Type tensor_shape();
  Type tensor_base();
  Type relation();
  std::vector<Type> constraints();
  std::vector<lathe::Expr> dims();
  std::vector<Type> type_list(std::string_view close);
  std::vector<TypeVar> type_params();
  lathe::Expr dim(int precedence = 0);
  lathe::Expr dim_atom();

  // parse_expr.cpp
  Expr expr(int precedence = 0);
  Expr infixes(int precedence);
  Expr postfix();
  Expr atom();
  bool begins_literal() const;
  /// Whether a number that is none of a sign stands there: 1f, inff.
  bool is_number(size_t ahead = 0) const;
  Expr stacked();
  Expr keyword();
  Expr named(const Token& token);
  Expr local();
  Expr scope(bool is_dataflow = false);
  Expr output_list();
  std::vector<Var> outputs_of(const Expr& block, const Token& start) const;
  Expr block();
  Expr function(const Token& start);
  Expr branch();
  Expr match();
  Expr foreign_call();
  Expr dataflow();
  Pattern pattern();
  Var param();
  Expr finish_call(Expr callee, const Token& start);
  std::vector<Expr> expr_list(std::string_view close);

  // parse_value.cpp: literals and attributes
  Expr literal();
  void literal_items(std::vector<Token>& numbers, std::vector<bool>& negative, std::vector<int64_t>& shape,
                     size_t depth);
  std::string string_value(std::string_view what);
  nlohmann::json attr_value();
  nlohmann::json boxed_value();
  void function_attr(FunctionAttrs& attrs);
  Attrs attributes(const Expr& callee, const Token& start);

  std::string_view text_;
  std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int expr_depth_ = 0, type_depth_ = 0, value_depth_ = 0;
  Metadata metadata_;
  std::map<std::string, TypeData> types_;
  std::map<std::string, Ref<Function>> functions_;
  std::unordered_map<std::string, Constructor> constructors_;
  std::map<size_t, size_t> read_ahead_;  // types and imports: the token after each, by its first
  std::vector<std::pair<Token, std::string>> type_uses_, global_uses_;  // checked when all is read
  Scope<Expr> locals_;  // variables by name, graph bindings by number
  Scope<TypeVar> type_vars_;
  std::unordered_map<std::string, lathe::Expr> dims_;  // of the current definition
};

}  // namespace lathe::relay
