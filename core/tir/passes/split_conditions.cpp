#include "core/tir/passes/split_conditions.h"

#include <algorithm>
#include <set>

#include "core/tir/builder.h"
#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
/// A loop is cut into at most this many; more cuts would only make code.
constexpr size_t kMostPieces = 3;

/// The conjuncts of the conditions of all selects below, each once.
std::vector<Expr> tests_of(const Stmt& body) {
  std::vector<Expr> tests;
  post_order(body, [&](const NodeRef& node) {
    const Select* select = node.as<Select>();
    // Conditions by lanes are masks, which no cut of a loop removes.
    if (!select || select->condition.dtype().lanes > 1) return;
    for (const Expr& test : conjuncts(select->condition)) {
      bool known = !test.as<Binary>();
      for (const Expr& other : tests) known |= structural_equal(test, other);
      if (!known) tests.push_back(test);
    }
  });
  return tests;
}

/// The comparisons of which one must hold for a statement below to run.
std::vector<Expr> alternatives_of(const Stmt& body) {
  std::vector<Expr> found, open;
  post_order(body, [&](const NodeRef& node) {
    if (const If* branch = node.as<If>()) open.push_back(branch->condition);
  });
  while (!open.empty()) {
    Expr condition = open.back();
    open.pop_back();
    const Binary* either = condition.as<Binary>();
    if (!either || either->op != BinaryOp::kOr) continue;
    for (const Expr& side : {either->a, either->b})
      (side.as<Binary>() && side.as<Binary>()->op == BinaryOp::kOr ? open : found).push_back(side);
  }
  return found;
}

/// All variables that occur.
std::set<const Node*> variables_of(const NodeRef& root) {
  std::set<const Node*> vars;
  post_order(root, [&](const NodeRef& node) {
    if (node.as<VarNode>()) vars.insert(node.get());
  });
  return vars;
}

/// The variables of loops below; nothing when one of them is no part of a tile.
std::optional<std::set<const Node*>> tile_variables(const Stmt& body) {
  std::set<const Node*> vars;
  bool innermost = true;
  post_order(body, [&](const NodeRef& node) {
    const For* loop = node.as<For>();
    if (!loop) return;
    vars.insert(loop->var.get());
    innermost &= loop->iteration == Iteration::kVectorized || loop->iteration == Iteration::kUnrolled;
  });
  return innermost ? std::optional(vars) : std::nullopt;
}

/// What memory decides may change between two iterations.
bool has_load(const Expr& test) {
  bool found = false;
  post_order(test, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
  return found;
}

/// `body` where `test` is known.
Stmt knowing(const Stmt& body, const Expr& test, bool value) {
  NodeRef result = rewrite(body, [&](const NodeRef& node) -> NodeRef {
    return node.as<Binary>() && structural_equal(node, test) ? NodeRef(imm(kBool, value)) : node;
  });
  return result.cast<StmtNode>();
}

/// `body` where not all of `tests` hold: selects that want them all are decided.
Stmt knowing_not_all(const Stmt& body, const std::vector<Expr>& tests) {
  NodeRef result = rewrite(body, [&](const NodeRef& node) -> NodeRef {
    const Select* select = node.as<Select>();
    if (!select) return node;
    std::vector<Expr> wanted = conjuncts(select->condition);
    for (const Expr& test : tests)
      if (std::none_of(wanted.begin(), wanted.end(),
                       [&](const Expr& each) { return structural_equal(each, test); }))
        return node;
    return select->if_false;
  });
  return result.cast<StmtNode>();
}

/// Where a comparison changes as a loop's variable grows: it holds below `at` (`rises`: from there on).
struct Change {
  bool rises;
  Expr at;
};

/// Of x < y, linear in the variable; nothing where it depends on one of `others` or on memory.
std::optional<Change> change_along(const Expr& test, const Var& var, const std::set<const Node*>& others) {
  const Binary* compare = test.as<Binary>();
  if (!compare || compare->op != BinaryOp::kLt || test.dtype().lanes > 1 || has_load(test)) return {};
  for (const Node* v : variables_of(test))
    if (v != var.get() && others.count(v)) return {};
  const auto form = linear_form(compare->b - compare->a, {&var, 1});
  if (!form || form->coefficients.empty()) return {};
  const int64_t step = form->coefficients.begin()->second;
  // step * v + rest > 0
  if (step > 0) return Change{true, floordiv(Expr(0) - form->rest, Expr(step)) + 1};
  return Change{false, ceildiv(form->rest, Expr(-step))};
}

/// Some statement below adds to what was there.
bool accumulates_below(const Stmt& body) {
  bool found = false;
  post_order(body, [&](const NodeRef& node) {
    const Store* store = node.as<Store>();
    found |= store && accumulates(*store);
  });
  return found;
}

/// For an innermost loop (but for those of a tile): tests that the loop does not change become an If around
/// it, and the loop is cut where tests of its variable alone change. Cutting a loop that is to be unrolled
/// gains nothing: each of its iterations is decided then.
class SplitConditions final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    std::optional<std::set<const Node*>> inner = tile_variables(loop->body);
    bool unrolled = loop->iteration == Iteration::kUnrolled;
    if (!inner || (loop->iteration != Iteration::kSerial && !unrolled)) return StmtMutator::visit_for(loop);
    if (Ref<For> fewer = clipped(loop, *inner); fewer != loop) return visit(fewer);
    // From here on: the loop and those of the tile inside.
    inner->insert(loop->var.get());
    Expr outside = imm(kBool, 1);
    std::vector<Expr> tests = tests_of(loop->body), fixed;
    for (const Expr& test : tests) {
      std::set<const Node*> vars = variables_of(test);
      bool varies = std::any_of(vars.begin(), vars.end(), [&](const Node* v) { return inner->count(v); });
      if (varies || has_load(test)) continue;
      fixed.push_back(test);
      outside = logical_and(outside, test);
    }
    // The conditions of statements count only where selects leave nothing to test outside.
    if (fixed.empty()) {
      for (const Expr& each : alternatives_of(loop->body)) tests.push_back(each);
      return unrolled ? Stmt(loop) : cut(loop, tests, *inner);
    }
    Stmt inside = loop->body;
    for (const Expr& test : fixed) inside = knowing(inside, test, true);
    Ref<For> known = with_body(loop, inside).cast<For>();
    // One else case for all ways to fail: it is not cut, and selects of some of the tests keep them.
    return if_then(outside, unrolled ? Stmt(known) : cut(known, tests_of(inside), *inner),
                   fresh_copy(with_body(loop, knowing_not_all(loop->body, fixed))));
  }

 private:
  /// The loop in pieces in which each test of its variable alone is the same.
  /// [0, extent) is cut at the iterations where a test changes. Within a piece every test is what it is at
  /// the piece's first iteration, since a linear comparison changes once.
  Stmt cut(const Ref<For>& loop, const std::vector<Expr>& tests, const std::set<const Node*>& inner) {
    const int64_t* extent = as_int(loop->extent);
    if (!extent) return cut_open(loop, tests, inner);
    std::vector<Expr> decided;
    std::set<int64_t> starts{0};
    for (const Expr& test : tests) {
      if (variables_of(test) != std::set<const Node*>{loop->var.get()} || has_load(test)) continue;
      std::optional<int64_t> change = change_of(test, loop->var, *extent);
      if (!change) continue;
      decided.push_back(test);
      starts.insert(*change);
    }
    // What never changes is decided without a cut.
    starts.erase(*extent);
    if (decided.empty() || starts.size() > kMostPieces) return cut_open(loop, tests, inner);
    std::vector<Stmt> pieces;
    for (auto start = starts.begin(); start != starts.end(); ++start) {
      int64_t end = std::next(start) == starts.end() ? *extent : *std::next(start);
      Stmt body = loop->body;
      for (const Expr& test : decided) body = knowing(body, test, *holds(test, loop->var, *start));
      Var var = lathe::var(loop->var->name);
      body = fresh_copy(body, {{loop->var.get(), Expr(var) + *start}});
      pieces.push_back(make<For>(var, Expr(end - *start), loop->iteration, body, loop->annotations));
    }
    return seq(std::move(pieces));
  }

  /// The loop as far as its body does anything: up to where a condition around all of it stops to hold.
  /// Unrolled ones stay: they are code, of which that much is there.
  Ref<For> clipped(const Ref<For>& loop, const std::set<const Node*>& inner) const {
    const If* guard = loop->body.as<If>();
    if (!guard || guard->else_case || loop->iteration != Iteration::kSerial) return loop;
    Expr extent = loop->extent, rest = imm(kBool, 1);
    for (const Expr& test : conjuncts(guard->condition)) {
      const auto change = change_along(test, loop->var, inner);
      if (change && !change->rises)
        extent = min(extent, change->at);
      else
        rest = logical_and(rest, test);
    }
    if (extent == loop->extent) return loop;
    return make<For>(loop->var, analyzer_.simplify(max(extent, Expr(0))), loop->iteration,
                     if_then(rest, guard->then_case), loop->annotations);
  }

  /// The same where the places are not known before the program runs, two at most: what lies in front of an
  /// image, inside and behind it. Of copies alone, which are little code.
  Stmt cut_open(const Ref<For>& loop, const std::vector<Expr>& tests, const std::set<const Node*>& inner) {
    constexpr int64_t kFewest = 8;
    std::set<const Node*> others = inner;
    others.erase(loop->var.get());
    const int64_t* known = as_int(loop->extent);
    if ((known && *known < kFewest) || accumulates_below(loop->body)) return loop;
    struct Cut {
      Expr test;
      Change change;
    };
    std::vector<Cut> cuts;
    for (const Expr& test : tests)
      if (auto change = change_along(test, loop->var, others)) cuts.push_back({test, *change});
    if (cuts.empty()) return loop;
    const auto rises = [](const Cut& cut) { return cut.change.rises; };
    const auto rising = std::find_if(cuts.begin(), cuts.end(), rises),
               falling = std::find_if_not(cuts.begin(), cuts.end(), rises);
    // Of two that change alike the one met last is asked first: the other's select is its second choice.
    if (rising != cuts.end() && falling != cuts.end())
      cuts = {*rising, *falling};
    else if (cuts.size() > 1)
      cuts = {cuts[1], cuts[0]};
    std::vector<Stmt> pieces;
    Expr begin = 0;
    Stmt body = loop->body;
    auto add = [&](const Stmt& known, const Expr& end) {
      Var var = lathe::var(loop->var->name);
      Stmt piece = fresh_copy(known, {{loop->var.get(), Expr(var) + begin}});
      pieces.push_back(
          make<For>(var, analyzer_.simplify(end - begin), loop->iteration, piece, loop->annotations));
      begin = end;
    };
    for (const auto& [test, change] : cuts) {
      // Not before the last one: there this test may be either way.
      const Expr end = analyzer_.simplify(max(min(change.at, loop->extent), begin));
      add(knowing(body, test, !change.rises), end);
      body = knowing(body, test, change.rises);
    }
    add(body, loop->extent);
    return seq(std::move(pieces));
  }

  /// The test at one value of the variable; nothing when that does not decide it.
  std::optional<bool> holds(const Expr& test, const Var& var, int64_t value) {
    const Expr known = analyzer_.simplify(substitute(test, {{var.get(), Expr(value)}}));
    const int64_t* result = as_int(known);
    return result ? std::optional(*result != 0) : std::nullopt;
  }

  /// Where a linear comparison changes within 0..extent (extent: nowhere), by bisection.
  std::optional<int64_t> change_of(const Expr& test, const Var& var, int64_t extent) {
    const Binary* compare = test.as<Binary>();
    if (!compare || (compare->op != BinaryOp::kLt && compare->op != BinaryOp::kLe)) return {};
    if (!linear_form(compare->a, {&var, 1}) || !linear_form(compare->b, {&var, 1})) return {};
    std::optional<bool> first = holds(test, var, 0), last = holds(test, var, extent - 1);
    if (!first || !last) return {};
    if (*first == *last) return extent;
    // At `same` the test is what it is at first, at `other` it is not.
    int64_t same = 0, other = extent - 1;
    while (other - same > 1) {
      int64_t middle = (same + other) / 2;
      std::optional<bool> now = holds(test, var, middle);
      if (!now) return {};
      (*now == *first ? same : other) = middle;
    }
    return other;
  }
};
}  // namespace

Stmt split_conditions(const Stmt& body) { return SplitConditions().visit(body); }

}  // namespace lathe::tir
