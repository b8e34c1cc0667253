// Operands packed for the block that reads them.
#include <algorithm>
#include <unordered_map>

#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Without the conversions around it.
const Expr& unconverted(const Expr& e) {
  const Expr* inner = &e;
  while (const Cast* cast = inner->as<Cast>()) inner = &cast->value;
  return *inner;
}

bool is_zero(const Expr& e) {
  const FloatImm* real = e.as<FloatImm>();
  return is_int(e, 0) || (real && real->value == 0);
}

/// What is loaded of `buffer` in `value`, with the selects between it and a constant around it: they may keep
/// it in bounds. Between it, converted, and zero too, which stays one. All of its occurrences, which are
/// equal: a square has two.
std::vector<Expr> operand_of(const Application& a, const Expr& value, const Buffer& buffer) {
  std::vector<Expr> operands;
  post_order(value, [&](const NodeRef& node) {
    const Load* l = node.as<Load>();
    if (l && l->buffer == buffer) operands.push_back(node.cast<ExprNode>());
    const Select* s = node.as<Select>();
    if (!s || !(as_int(s->if_false) || s->if_false.as<FloatImm>())) return;
    for (Expr& operand : operands)
      if (s->if_true == operand || (is_zero(s->if_false) && unconverted(s->if_true) == operand))
        operand = node.cast<ExprNode>();
  });
  const auto is_other = [&](const Expr& operand) { return !structural_equal(operand, operands[0]); };
  const auto others = std::count_if(operands.begin(), operands.end(), is_other);
  if (operands.empty() || others > 0)
    a.fail("{} is loaded at {} places, must be loaded at 1", buffer->name, operands.empty() ? 0 : others + 1);
  return operands;
}

/// Finds under which conditions of selects operands are computed.
class Guards {
 public:
  explicit Guards(const std::vector<Expr>& operands) : operands_(operands) {}

  /// False where none is in `node`.
  Expr of(const NodeRef& node) {
    auto [place, is_new] = guards_.try_emplace(node.get(), imm(kBool, 0));
    if (!is_new) return place->second;
    Expr guard = place->second;
    const Select* s = node.as<Select>();
    if (std::any_of(operands_.begin(), operands_.end(), [&](const Expr& each) { return node == each; })) {
      guard = imm(kBool, 1);
    } else if (s) {
      const Expr first = of(s->if_true), second = of(s->if_false);
      guard = either(of(s->condition), structural_equal(first, second)
                                           ? first
                                           : either(logical_and(s->condition, first),
                                                    logical_and(logical_not(s->condition), second)));
    } else {
      node->for_each_child([&](const NodeRef& child) { guard = either(guard, of(child)); });
    }
    return guards_[node.get()] = guard;
  }

 private:
  static Expr either(const Expr& a, const Expr& b) { return structural_equal(a, b) ? a : logical_or(a, b); }

  const std::vector<Expr>& operands_;
  std::unordered_map<const Node*, Expr> guards_;
};

/// The condition under which `operands` are computed in `value`, which may keep what they load in bounds. Of
/// what loads nothing, and of no variable that they are not of: a copy would have an element for each.
Expr guard_of(const Application& a, const Expr& value, const std::vector<Expr>& operands) {
  const Expr guard = Guards(operands).of(value);
  post_order(guard, [&](const NodeRef& node) {
    const VarNode* v = node.as<VarNode>();
    if (node.as<Load>() || (v && !uses_var(operands[0], v)))
      a.fail("an operand is loaded under a condition of more than its place");
  });
  return guard;
}

/// What is stored of an operand before conversions that a select has inside, and what follows from that.
struct Unconverted {
  Expr stored;
  const Cast* conversion = nullptr;  // the outermost; its innermost value is what is stored
};

Unconverted unconverted_operand(const Expr& operand) {
  const Select* s = operand.as<Select>();
  const Cast* conversion = s ? s->if_true.as<Cast>() : nullptr;
  if (!conversion) return {operand};
  const Expr& inner = unconverted(s->if_true);
  return {select(s->condition, inner, constant(inner.dtype(), 0)), conversion};
}

/// `e` converted as it is under the conversions that begin at `outermost`.
Expr converted(const Cast* outermost, const Expr& e) {
  if (!outermost) return e;
  return cast(outermost->dtype, converted(outermost->value.as<Cast>(), e));
}

void reindex(Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  auto block = path.back().cast<Block>();
  int64_t read = a.number(1);
  if (read < 0 || read >= static_cast<int64_t>(block->reads.size()))
    a.fail("buffer {} of the {} that block `{}` reads", read, block->reads.size(), block->name);
  Buffer source = block->reads[static_cast<size_t>(read)].buffer;
  const Store* update = block->body.as<Store>();
  if (!update || update->buffer == source) a.fail("block `{}` also writes {}", block->name, source->name);
  const std::vector<Expr> operands = operand_of(a, update->value, source);
  const Unconverted kept = unconverted_operand(operands[0]);
  // The reader goes on choosing what it computes of the operand.
  const Expr guard = guard_of(a, update->value, operands);
  const Expr operand = select(guard, kept.stored, constant(kept.stored.dtype(), 0));
  Block copy;
  copy.name = fresh_block_name(a.func, block->name + "_" + source->name + "_reindex");
  std::vector<std::pair<Var, Expr>> loops;
  // The packed buffer has a dimension for each variable that the operand depends on, in the block's order;
  // `own` are its indices in the copy, `theirs` in the reader.
  std::vector<Expr> shape, own, theirs;
  VarMap at;
  for (const BlockIter& iter : block->iters) {
    if (!uses_var(operand, iter.var.get())) continue;
    Var v = var(iter.var->name), loop = var(iter.var->name + "_re");
    copy.iters.push_back({v, iter.extent, IterKind::kSpatial, loop});
    loops.emplace_back(loop, iter.extent);
    shape.push_back(iter.extent);
    own.emplace_back(v);
    theirs.emplace_back(iter.var);
    at[iter.var.get()] = v;
  }
  if (shape.empty()) a.fail("block `{}` reads {} at one place", block->name, source->name);
  Buffer packed = buffer(fresh_buffer_name(a.func, source->name + "_reindex"), shape, source->dtype);
  copy.body = store(packed, own, substitute(operand, at));
  declare_accesses(copy);
  Stmt reader = changed(block, [&](Block& changed) {
    changed.body = rewrite(block->body, [&](const NodeRef& node) -> NodeRef {
                     const bool found = std::any_of(operands.begin(), operands.end(),
                                                    [&](const Expr& each) { return node == each; });
                     return found ? NodeRef(converted(kept.conversion, load(packed, theirs))) : node;
                   }).cast<StmtNode>();
    declare_accesses(changed);
  });
  std::string name = copy.name;
  Stmt nests = seq({nest(loops, seal(std::make_unique<Block>(std::move(copy)))),
                    replace(top_statement(path), block, reader)});
  a.func = with_algorithm(a, *block, nests, {packed});
  a.give_block(name);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"reindex",
     "for i, j, k: c[i, j] += a[i, k] * b[2*j + k]  ->  for j, k: r[j, k] = b[2*j + k]; for i, j, k: c[i, j] "
     "+= a[i, k] * r[j, k], for the given one of the buffers read",
     {{kBlock, kInt}},
     reindex},
};
}  // namespace

std::span<const Primitive> reindex_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
