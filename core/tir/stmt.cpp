#include "core/tir/stmt.h"

#include <algorithm>

#include "core/support/error.h"
#include "core/tir/stmt_fields.h"

namespace lathe {
LATHE_DEFINE_NODE(tir::BufferNode, Node, Identity::kName)
LATHE_DEFINE_NODE(tir::Load, ExprNode)
LATHE_DEFINE_NODE(tir::For, tir::StmtNode)
LATHE_DEFINE_NODE(tir::Block, tir::StmtNode)
LATHE_DEFINE_NODE(tir::Store, tir::StmtNode)
LATHE_DEFINE_NODE(tir::Seq, tir::StmtNode)
LATHE_DEFINE_NODE(tir::If, tir::StmtNode)
LATHE_DEFINE_NODE(tir::Alloc, tir::StmtNode)
LATHE_DEFINE_NODE(tir::FuncNode, Node)
}  // namespace lathe

namespace lathe::tir {

NodeTable tir_node_types() {
  NodeTable table = expr_node_types();
  table.insert(table.end(), {&BufferNode::kType, &Load::kType, &For::kType, &Block::kType, &Store::kType,
                             &Seq::kType, &If::kType, &Alloc::kType, &FuncNode::kType});
  return table;
}

const char* spelling(Scope scope) {
  static constexpr const char* kSpellings[] = {"global", "local", "shared"};
  static_assert(std::size(kSpellings) == reflect::kValuesOf<Scope>);
  return kSpellings[static_cast<int>(scope)];
}

const char* spelling(Iteration iteration) {
  static constexpr const char* kSpellings[] = {"serial",  "parallel", "vectorized", "unrolled", "block.x",
                                               "block.y", "block.z",  "thread.x",   "thread.y", "thread.z"};
  static_assert(std::size(kSpellings) == reflect::kValuesOf<Iteration>);
  return kSpellings[static_cast<int>(iteration)];
}

const char* spelling(IterKind kind) {
  static constexpr const char* kSpellings[] = {"spatial", "reduce", "opaque"};
  static_assert(std::size(kSpellings) == reflect::kValuesOf<IterKind>);
  return kSpellings[static_cast<int>(kind)];
}

Buffer buffer(std::string name, std::vector<Expr> shape, DataType dtype, Scope scope) {
  return make<BufferNode>(std::move(name), dtype, std::move(shape), scope);
}

std::vector<int64_t> constant_shape(const Buffer& buffer) {
  std::vector<int64_t> shape;
  for (const Expr& dim : buffer->shape) shape.push_back(int_value(dim));
  return shape;
}

// Checked against overflow where models enter (tuner/dataflow.cpp), not here.
int64_t byte_size(const Buffer& buffer) { return shape_size(constant_shape(buffer)) * buffer->dtype.bytes(); }

int lanes_of(std::span<const Expr> indices) {
  int lanes = 1;
  for (const Expr& index : indices) lanes = std::max<int>(lanes, index.dtype().lanes);
  return lanes;
}

Expr load(Buffer buffer, std::vector<Expr> indices) {
  CHECK(indices.size() == buffer->shape.size(), "{} of rank {} loaded with {} indices", buffer->name,
        buffer->shape.size(), indices.size());
  DataType dtype = buffer->dtype.with_lanes(lanes_of(indices));
  return make<Load>(std::move(buffer), std::move(indices), dtype);
}

Stmt store(Buffer buffer, std::vector<Expr> indices, Expr value) {
  CHECK(indices.size() == buffer->shape.size(), "{} of rank {} stored with {} indices", buffer->name,
        buffer->shape.size(), indices.size());
  CHECK(value.dtype().element() == buffer->dtype, "{} is {}, stored value is {}", buffer->name,
        to_string(buffer->dtype), to_string(value.dtype()));
  return make<Store>(std::move(buffer), std::move(indices), std::move(value));
}

/// So that passes meet one level of statements, however they were put together.
Stmt seq(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  for (Stmt& stmt : stmts) {
    if (!stmt) continue;
    if (const Seq* inner = stmt.as<Seq>())
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    else
      flat.push_back(std::move(stmt));
  }
  return flat.size() == 1 ? flat[0] : Stmt(make<Seq>(std::move(flat)));
}

Stmt for_loop(Var var, Expr extent, Stmt body, Iteration iteration) {
  return make<For>(std::move(var), std::move(extent), iteration, std::move(body));
}

namespace {
/// Through the builders of operations: an index of which a variable becomes a constant folds at once.
NodeRef substitute_node(const NodeRef& root, const VarMap& vars, const BufferMap& buffers) {
  if (!root || (vars.empty() && buffers.empty())) return root;
  return rewrite(root, [&](const NodeRef& node) -> NodeRef {
    if (const VarNode* v = node.as<VarNode>()) {
      auto found = vars.find(v);
      return found == vars.end() ? node : NodeRef(found->second);
    }
    if (const BufferNode* b = node.as<BufferNode>()) {
      auto found = buffers.find(b);
      return found == buffers.end() ? node : NodeRef(found->second);
    }
    if (const Binary* b = node.as<Binary>()) {
      Expr built = binary(b->op, b->a, b->b);
      // The same again: a buffer of an open shape stays itself, since nothing of it changed.
      const Binary* same = built.as<Binary>();
      return same && same->op == b->op && same->a == b->a && same->b == b->b ? node : NodeRef(built);
    }
    if (const Select* s = node.as<Select>()) return select(s->condition, s->if_true, s->if_false);
    return node;
  });
}
}  // namespace

Stmt substitute(const Stmt& stmt, const VarMap& vars, const BufferMap& buffers) {
  return substitute_node(stmt, vars, buffers).cast<StmtNode>();
}

Expr substitute(const Expr& expr, const VarMap& vars, const BufferMap& buffers) {
  return substitute_node(expr, vars, buffers).cast<ExprNode>();
}

}  // namespace lathe::tir
