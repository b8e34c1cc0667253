// The recursive-descent parser of tensor programs. Internal to core/tir: parse.cpp has statements,
// parse_expr.cpp expressions.
#pragma once

#include <unordered_map>

#include "core/tir/lexer.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

/// Limits that keep any text safe to parse and what it gives safe to walk recursively.
inline constexpr size_t kMaxTextBytes = 16 << 20;
inline constexpr int kMaxNesting = 500;
inline constexpr int kMaxDepth = 3000;  // of the tree: chains a + b + c + ... lean to the left

class Parser {
 public:
  explicit Parser(const Source& source);
  Func func();
  bool at_end() const { return peek().kind == TokenKind::kEnd; }
  /// Throws Error when text is left.
  void end() const;

 private:
  // Tokens.
  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool at(std::string_view symbol_or_word) const;
  bool accept(std::string_view symbol_or_word);
  Token expect(std::string_view symbol_or_word);
  [[noreturn]] void fail_here(const std::string& message) const;
  std::string name_or_quoted(const char* what);
  int64_t integer();

  // Names: visible until the scope they were defined in is left.
  void define(const Token& name, NodeRef node);
  NodeRef lookup(const Token& name, const NodeType& type, const char* what) const;
  size_t enter() const { return defined_.size(); }
  void leave(size_t mark);

  // Statements.
  Var variable();
  DataType type();
  Buffer declaration();
  std::vector<Buffer> params();
  Annotations annotations();
  Stmt statement();
  Stmt braces();
  std::vector<Stmt> statements_until_brace();
  Stmt for_loop();
  Stmt block();
  BlockIter iterator();
  std::vector<Region> regions();
  Stmt store();

  // Expressions.
  Expr expression(int level = 1);
  Expr unary();
  Expr primary();
  Expr number(bool negative);
  Expr special_float(bool negative);
  Expr call(const Token& name);
  Expr combine(const Token& op, BinaryOp kind, Expr a, Expr b) const;
  Expr index_expression(const char* what);
  Expr extent_expression(const char* what);
  std::vector<Expr> indices(const Buffer& buffer, const Token& name);
  int lanes();

  struct Nesting {  // counts depth while it lives
    explicit Nesting(Parser& p);
    ~Nesting() { --parser.depth_; }
    Parser& parser;
  };

  const Source& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::unordered_map<std::string_view, NodeRef> names_;
  std::vector<std::string_view> defined_;
};

}  // namespace lathe::tir
