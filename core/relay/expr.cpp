#include "core/relay/expr.h"

#include <algorithm>

#include "core/relay/op.h"
#include "core/relay/type_fields.h"

namespace lathe {
LATHE_DEFINE_NODE(relay::Constant, relay::RelayNode)
LATHE_DEFINE_NODE(relay::VarNode, relay::RelayNode, Identity::kName)
LATHE_DEFINE_NODE(relay::GlobalVarNode, relay::RelayNode)
LATHE_DEFINE_NODE(relay::OpNode, relay::RelayNode)
LATHE_DEFINE_NODE(relay::ConstructorNode, relay::RelayNode)
LATHE_DEFINE_NODE(relay::Call, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Let, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Function, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Tuple, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Projection, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::If, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Match, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::RefCreate, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::RefRead, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::RefWrite, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Grad, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::PrimFunc, relay::RelayNode)
LATHE_DEFINE_NODE(relay::ExternFunc, relay::RelayNode)
LATHE_DEFINE_NODE(relay::MatchCast, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::Dataflow, relay::RelayNode, Identity::kGraph)
LATHE_DEFINE_NODE(relay::WildcardPattern, relay::PatternNode)
LATHE_DEFINE_NODE(relay::VarPattern, relay::PatternNode)
LATHE_DEFINE_NODE(relay::ConstructorPattern, relay::PatternNode)
LATHE_DEFINE_NODE(relay::TuplePattern, relay::PatternNode)
LATHE_DEFINE_NODE(relay::TypeDataNode, Node)
LATHE_DEFINE_NODE(relay::ModuleNode, Node)
}  // namespace lathe

namespace lathe::relay {

const Op& OpNode::row() const {
  const Op* op = find_op(name);
  CHECK(op, "operator {} is not in the table", name);
  return *op;
}

Var make_var(std::string name, Type annotation) {
  return make<VarNode>(std::move(name), std::move(annotation));
}

Expr constant(Tensor value) { return make<Constant>(std::move(value)); }

Expr op_expr(std::string_view name) {
  const Op* op = find_op(name);
  CHECK(op, "operator {} is not in the table", name);
  return make<OpNode>(std::string(name));
}

Expr call(std::string_view op, std::vector<Expr> args, Attrs attrs) {
  Ref<OpNode> callee = op_expr(op).cast<OpNode>();
  // The defaults, written out.
  if (const NodeType* type = callee->row().attrs; !attrs && type)
    attrs = Attrs(static_cast<AttrsNode*>(type->create()));
  return make<Call>(std::move(callee), std::move(args), std::move(attrs));
}

Expr tuple(std::vector<Expr> items) { return make<Tuple>(std::move(items)); }

Expr project(Expr tuple, int64_t index) { return make<Projection>(std::move(tuple), index); }

Module make_module(Ref<Function> main) {
  return make<ModuleNode>(std::map<std::string, TypeData>{},
                          std::map<std::string, Ref<Function>>{{"main", std::move(main)}});
}

namespace {
template <typename T>
Expr copy_with_type(const Expr& e, Type type) {
  auto copy = mutate(*e.as<T>());
  copy->checked_type = std::move(type);
  return seal(std::move(copy));
}

using CopyWithType = Expr (*)(const Expr&, Type);
constexpr CopyWithType kCopyWithType[] = {
    // in the order of ExprKind
    copy_with_type<Constant>,
    copy_with_type<VarNode>,
    copy_with_type<GlobalVarNode>,
    copy_with_type<OpNode>,
    copy_with_type<ConstructorNode>,
    copy_with_type<Call>,
    copy_with_type<Let>,
    copy_with_type<Function>,
    copy_with_type<Tuple>,
    copy_with_type<Projection>,
    copy_with_type<If>,
    copy_with_type<Match>,
    copy_with_type<RefCreate>,
    copy_with_type<RefRead>,
    copy_with_type<RefWrite>,
    copy_with_type<Grad>,
    copy_with_type<PrimFunc>,
    copy_with_type<ExternFunc>,
    copy_with_type<MatchCast>,
    copy_with_type<Dataflow>};
}  // namespace

Expr with_checked_type(const Expr& e, Type type) {
  return kCopyWithType[static_cast<size_t>(e->kind())](e, std::move(type));
}

NodeTable relay_node_types() {
  NodeTable table = tir::tir_node_types();
  table.insert(table.end(), {&TensorType::kType,   &TupleType::kType,
                             &TypeVarNode::kType,  &HoleType::kType,
                             &ShapeType::kType,    &GenericTensorType::kType,
                             &RelationType::kType, &FuncType::kType,
                             &RefType::kType,      &GlobalTypeVarNode::kType,
                             &TypeCall::kType,     &Constant::kType,
                             &VarNode::kType,      &GlobalVarNode::kType,
                             &OpNode::kType,       &ConstructorNode::kType,
                             &Call::kType,         &Let::kType,
                             &Function::kType,     &Tuple::kType,
                             &Projection::kType,   &If::kType,
                             &Match::kType,        &RefCreate::kType,
                             &RefRead::kType,      &RefWrite::kType,
                             &Grad::kType,         &PrimFunc::kType,
                             &ExternFunc::kType,   &MatchCast::kType,
                             &Dataflow::kType,     &WildcardPattern::kType,
                             &VarPattern::kType,   &ConstructorPattern::kType,
                             &TuplePattern::kType, &TypeDataNode::kType,
                             &ModuleNode::kType});
  for (std::span<const Op> family : op_families())
    for (const Op& op : family)
      if (op.attrs && std::find(table.begin(), table.end(), op.attrs) == table.end())
        table.push_back(op.attrs);
  return table;
}

}  // namespace lathe::relay
