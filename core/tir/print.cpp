#include <bit>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "core/support/text.h"
#include "core/tir/lexer.h"
#include "core/tir/precedence.h"
#include "core/tir/text.h"

namespace lathe::tir {
namespace {
constexpr uint64_t kUsualNan = 0x7ff8000000000000;

/// What is no plain name, such as some operators of models have, is quoted, and what would end the quote or
/// the line escaped by a backslash.
std::string written_name(const std::string& name) {
  if (is_plain_name(name)) return name;
  std::string text = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\' || c == '\n') text += '\\';
    text += c == '\n' ? 'n' : c;
  }
  return text + '"';
}

/// Appends to one text; expressions come as strings, since where parentheses stand depends on what is around.
class Printer {
 public:
  std::string text() { return std::move(out_); }

  void func(const FuncNode& f) {
    // Before the parameters, whose shapes name them.
    std::vector<Var> dims = symbolic_dims(f);
    std::vector<std::string> names;
    for (const Var& dim : dims) names.push_back(definition(dim));
    out_ += "func " + written_name(f.name) + (dims.empty() ? "" : "[" + join_text(names, ", ") + "]");
    size_t inputs = f.params.size() - static_cast<size_t>(f.outputs);
    std::vector<std::string> in, out;
    for (size_t p = 0; p < f.params.size(); ++p) (p < inputs ? in : out).push_back(declaration(f.params[p]));
    out_ += fmt::format("({}) -> ({})", join_text(in, ", "), join_text(out, ", "));
    annotations(f.annotations);
    braces(f.body);
    out_ += '\n';
  }

  void stmt(const Stmt& s) {
    switch (s->kind()) {
      case StmtKind::kFor:
        return for_loop(*s.as<For>());
      case StmtKind::kBlock:
        return block(*s.as<Block>());
      case StmtKind::kStore: {
        const Store& store = *s.as<Store>();
        begin_line();
        out_ += access(store.buffer, store.indices) + " = " + expr(store.value);
        return;
      }
      case StmtKind::kSeq:
        begin_line();
        out_ += "{";
        return statements(s.as<Seq>()->stmts);
      case StmtKind::kIf: {
        const If& branch = *s.as<If>();
        begin_line();
        out_ += "if " + expr(branch.condition);
        braces(branch.then_case);
        if (!branch.else_case) return;
        out_ += " else";
        return braces(branch.else_case);
      }
      case StmtKind::kAlloc:
        begin_line();
        out_ += "alloc " + declaration(s.as<Alloc>()->buffer);
        return braces(s.as<Alloc>()->body);
    }
  }

  /// `outer`: how tightly the operator around binds, for parentheses.
  std::string expr(const Expr& e, int outer = 0) {
    switch (e->kind()) {
      case ExprKind::kVar:
        return name_of(e.get(), e.as<VarNode>()->name);
      case ExprKind::kInt:
        return integer(*e.as<IntImm>());
      case ExprKind::kFloat:
        return real(*e.as<FloatImm>());
      case ExprKind::kAny:
        return "?";
      case ExprKind::kBinary:
        return binary(*e.as<Binary>(), outer);
      case ExprKind::kNot:
        return "!" + expr(e.as<Not>()->a, kUnaryPrecedence);
      case ExprKind::kSelect: {
        const Select& s = *e.as<Select>();
        return fmt::format("select({}, {}, {})", expr(s.condition), expr(s.if_true), expr(s.if_false));
      }
      case ExprKind::kCast:
        return fmt::format("cast({}, {})", to_string(e.dtype()), expr(e.as<Cast>()->value));
      case ExprKind::kIntrinsic:
        return fmt::format("{}({})", spelling(e.as<IntrinsicCall>()->intrinsic),
                           expr(e.as<IntrinsicCall>()->a));
      case ExprKind::kRamp:
        return fmt::format("ramp({}, {}, {})", expr(e.as<Ramp>()->base), expr(e.as<Ramp>()->stride),
                           e.dtype().lanes);
      case ExprKind::kBroadcast:
        return fmt::format("broadcast({}, {})", expr(e.as<Broadcast>()->value), e.dtype().lanes);
      case ExprKind::kLoad:
        return access(e.as<Load>()->buffer, e.as<Load>()->indices);
    }
    return "";
  }

 private:
  /// The variables of the params' shapes, in order of first use: what stands in brackets behind the name.
  static std::vector<Var> symbolic_dims(const FuncNode& f) {
    std::vector<Var> dims;
    std::unordered_set<const Node*> seen;
    for (const Buffer& param : f.params)
      post_order(param, [&](const NodeRef& node) {
        if (node.as<VarNode>() && seen.insert(node.get()).second) dims.push_back(node.cast<VarNode>());
      });
    return dims;
  }

  /// One name a node, the wanted one where it is free. Nothing but what is written depends on addresses.
  /// Numbers follow the order of appearance, so that one program has one text; addresses have no say.
  const std::string& name_of(const Node* node, const std::string& wanted) {
    auto found = names_.find(node);
    if (found != names_.end()) return found->second;
    // Characters that a name cannot have become `_`; two names that are one then get numbers.
    std::string base;
    for (char c : wanted)
      base += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
    if (!is_plain_name(base)) base = "_" + base;
    if (!is_plain_name(base)) base = "_";
    std::string name = base;
    // A name with a number may itself be wanted by another node: it goes on until one is free.
    for (int& number = numbers_[base]; !used_.insert(name).second;)
      name = fmt::format("{}_{}", base, ++number);
    return names_[node] = name;
  }

  /// A variable where it is defined: with its type, unless that is int64.
  std::string definition(const Var& v) {
    std::string type = v->dtype == kInt64 ? "" : ": " + to_string(v->dtype);
    return name_of(v.get(), v->name) + type;
  }

  std::string list(const std::vector<Expr>& items) {
    std::string text;
    for (const Expr& item : items) text += (text.empty() ? "" : ", ") + expr(item);
    return text;
  }

  std::string access(const Buffer& buffer, const std::vector<Expr>& indices) {
    return fmt::format("{}[{}]", name_of(buffer.get(), buffer->name), list(indices));
  }

  std::string declaration(const Buffer& b) {
    std::string scope = b->scope == Scope::kGlobal ? "" : std::string(" ") + spelling(b->scope);
    return fmt::format("{}: {}[{}]{}", name_of(b.get(), b->name), to_string(b->dtype), list(b->shape), scope);
  }

  static std::string integer(const IntImm& i) {
    // A bool of another value would be read back as one of these two.
    if (i.dtype == kBool && (i.value == 0 || i.value == 1)) return i.value ? "true" : "false";
    return fmt::format("{}{}", i.value, number_suffix(i.dtype));
  }

  static std::string real(const FloatImm& f) {
    std::string sign = std::signbit(f.value) ? "-" : "",
                type = f.dtype == kFloat32 ? "" : "(" + to_string(f.dtype) + ")";
    // The sign is written apart, so that of -0.0 and of NaN survives.
    uint64_t magnitude = std::bit_cast<uint64_t>(f.value) & ~(uint64_t{1} << 63);
    if (std::isinf(f.value)) return sign + "inf" + type;
    if (magnitude == kUsualNan) return sign + "nan" + type;
    // Its bits, which no other text tells.
    if (std::isnan(f.value)) return fmt::format("{}nan({}, {})", sign, to_string(f.dtype), magnitude);
    std::string digits = fmt::format("{}", f.value);  // the shortest that give the same number
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    return digits + number_suffix(f.dtype);
  }

  std::string binary(const Binary& b, int outer) {
    int level = precedence(b.op);
    if (level == 0) return fmt::format("{}({}, {})", spelling(b.op), expr(b.a), expr(b.b));
    // All operators are left-associative: on the right an operator of the same level needs parentheses.
    // a - b - c is (a - b) - c, and a - (b - c) keeps its parentheses: text and tree are one to one.
    std::string text = fmt::format("{} {} {}", expr(b.a, level), spelling(b.op), expr(b.b, level + 1));
    return level < outer ? "(" + text + ")" : text;
  }

  void begin_line() {
    if (!out_.empty()) out_ += '\n';
    out_.append(static_cast<size_t>(depth_) * 2, ' ');
  }

  void annotations(const Annotations& list) {
    for (const auto& [name, value] : list) out_ += fmt::format(" @{}={}", written_name(name), value);
  }

  void statements(const std::vector<Stmt>& list) {
    ++depth_;
    for (const Stmt& s : list) stmt(s);
    --depth_;
    begin_line();
    out_ += "}";
  }

  void braces(const Stmt& body) {
    out_ += " {";
    const Seq* seq = body.as<Seq>();
    // Braces hold a sequence, unless there is one statement: a sequence of one is written with its own
    // braces.
    if (seq && seq->stmts.size() != 1)
      statements(seq->stmts);
    else
      statements({body});
  }

  void for_loop(const For& loop) {
    begin_line();
    out_ += fmt::format("for {} in 0..", definition(loop.var)) + expr(loop.extent, kRangePrecedence);
    if (loop.iteration != Iteration::kSerial) out_ += std::string(" ") + spelling(loop.iteration);
    annotations(loop.annotations);
    braces(loop.body);
  }

  void block(const Block& b) {
    begin_line();
    out_ += "block " + written_name(b.name);
    if (!b.iters.empty()) {
      std::string text;
      for (const BlockIter& iter : b.iters)
        text += fmt::format("{}{} {} in 0..{} = {}", text.empty() ? "" : ", ", spelling(iter.kind),
                            definition(iter.var), expr(iter.extent, kRangePrecedence), expr(iter.value));
      out_ += "(" + text + ")";
    }
    if (!is_int(b.predicate, 1)) out_ += " where " + expr(b.predicate);
    annotations(b.annotations);
    out_ += " {";
    ++depth_;
    for (const Buffer& buffer : b.allocs) begin_line(), out_ += "alloc " + declaration(buffer);
    regions("reads", b.reads);
    regions("writes", b.writes);
    if (b.init) begin_line(), out_ += "init", braces(b.init);
    --depth_;
    const Seq* seq = b.body.as<Seq>();
    // As in braces().
    seq && seq->stmts.size() != 1 ? statements(seq->stmts) : statements({b.body});
  }

  void regions(const char* keyword, const std::vector<Region>& list) {
    if (list.empty()) return;
    begin_line();
    out_ += keyword;
    for (size_t r = 0; r < list.size(); ++r) {
      std::string ranges;
      for (const Range& range : list[r].ranges) {
        ranges += (ranges.empty() ? "" : ", ") + expr(range.min);
        if (!is_int(range.extent, 1)) ranges += ":" + expr(range.extent);
      }
      out_ +=
          fmt::format("{} {}[{}]", r ? "," : "", name_of(list[r].buffer.get(), list[r].buffer->name), ranges);
    }
  }

  std::string out_;
  int depth_ = 0;
  std::unordered_map<const Node*, std::string> names_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int> numbers_;
};
}  // namespace

std::string print(const Func& func) {
  Printer printer;
  printer.func(*func);
  return printer.text();
}

std::string print(const Stmt& stmt) {
  Printer printer;
  printer.stmt(stmt);
  return printer.text() + "\n";
}

std::string print(const Expr& expr) { return Printer().expr(expr); }

}  // namespace lathe::tir
