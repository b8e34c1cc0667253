// Where in the loops of other blocks a block is computed.
#include <algorithm>

#include "schedules/coverage.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The values that variables of a block take.
using Domains = std::map<const VarNode*, Range>;

/// The topmost statement that holds the block at the end of `path` and no other.
Stmt own_nest(const Path& path) {
  Stmt nest = path.back();
  for (size_t i = path.size() - 1; i-- > 0 && path[i].as<For>() && blocks_in(path[i]).size() == 1;)
    nest = path[i];
  return nest;
}

bool contains(const Stmt& stmt, const Stmt& wanted) {
  for (const Ref<Block>& block : blocks_in(stmt))
    if (block == wanted) return true;
  return false;
}

/// `box` grown by `part`; the first part makes it.
void grow(std::optional<Region>& box, Region part, const Analyzer& context) {
  box = box ? unite(*box, part, context) : std::move(part);
}

/// The largest value `e` may have; INT64_MAX when there is no bound.
int64_t upper_bound(const Expr& e, const Analyzer& context) { return context.bound(context.simplify(e)).max; }

/// What both directions need of the block that moves and the loop it moves to.
struct Move {
  Path block_path, loop_path;
  Ref<Block> block;
  Ref<For> loop;
  Expr condition;  // when the writers run at all, where that depends on the loops around; null: not known yet
};

Move movable(const Application& a) {
  Move move{a.block(0), a.loop(1), nullptr, nullptr, {}};
  move.block = move.block_path.back().cast<Block>();
  move.loop = move.loop_path.back().cast<For>();
  if (scope_of(move.block_path) != scope_of(move.loop_path))
    a.fail("block `{}` and loop {} are in different scopes", move.block->name, move.loop->var->name);
  if (contains(move.loop, move.block))
    a.fail("block `{}` is inside loop {} already", move.block->name, move.loop->var->name);
  for (const BlockIter& iter : move.block->iters)
    if (iter.kind == IterKind::kOpaque)
      a.fail("variable {} of block `{}` is opaque; its iterations may not move", iter.var->name,
             move.block->name);
  if (move.block->writes.size() != 1)
    a.fail("block `{}` writes {} buffers, must write 1", move.block->name, move.block->writes.size());
  // Blocks that write the border of a padded buffer may stay: they never touch what moves.
  Region written = written_in_all(path_to(a.func, move.block));
  for (const Ref<Block>& other : all_blocks(a.func))
    if (other != move.block && writes_buffer(*other, written.buffer.get()) &&
        !writes_outside(*other, written))
      a.fail("buffer {} is written by block `{}` too", written.buffer->name, other->name);
  return move;
}

/// `values` are at least `extent`: that, or whole tiles of which the last may stick out.
bool covers(const Expr& values, const Expr& extent, const Analyzer& context) {
  if (context.can_prove(less_equal(extent, values))) return true;
  const Expr simple = context.simplify(values);
  const Binary* tiles = simple.as<Binary>();
  return tiles && tiles->op == BinaryOp::kMul && as_int(tiles->b) && int_value(tiles->b) > 0 &&
         context.can_prove_equal(tiles->a, ceildiv(extent, tiles->b));
}

/// The block with new loops over `domains` of its variables (others run over all their values). Iterations
/// outside the block's own domain are guarded by its predicate. `may_repeat`: more than the domains is as
/// good.
Stmt placed(const Application& a, const Move& move, const Domains& domains, const Analyzer& context,
            bool may_repeat) {
  const Ref<Block>& block = move.block;
  std::vector<std::pair<Var, Expr>> loops;
  Analyzer inside = context;
  Stmt result = changed(block, [&](Block& copy) {
    copy.predicate = move.condition ? move.condition : imm(kBool, 1);
    for (BlockIter& iter : copy.iters) {
      auto found = domains.find(iter.var.get());
      Range domain = found == domains.end() ? Range{Expr(0), iter.extent} : found->second;
      // Boxes are over-approximations: where they say more than the variable has, it runs through all it has.
      int64_t whole = as_int(iter.extent) ? int_value(iter.extent) : INT64_MAX;
      const int64_t bound = upper_bound(domain.extent, context);
      // All of an open dimension is as many values as it has, however far the tiles of its reader reach.
      const bool all = bound == INT64_MAX && (may_repeat || (is_int(context.simplify(domain.min), 0) &&
                                                             covers(domain.extent, iter.extent, context)));
      if (bound > whole || all) domain = {Expr(0), iter.extent};
      if (bound == INT64_MAX && !all && whole == INT64_MAX)
        a.fail("the extent of {} in block `{}` has no constant bound", iter.var->name, block->name);
      const Expr extent = all ? iter.extent : Expr(std::min(bound, whole));
      // A loop for each variable, of one iteration too: how many there are doesn't depend on sampled sizes.
      loops.emplace_back(var(iter.var->name + "_at"), extent);
      inside.bind_range(loops.back().first, extent);
      iter.value = inside.simplify(domain.min + loops.back().first);
      for (const Expr& condition : {less_equal(0, iter.value), less(iter.value, iter.extent)})
        if (!inside.can_prove(condition)) copy.predicate = logical_and(copy.predicate, condition);
    }
  });
  return nest(loops, result);
}

/// `loop` with `nest` added to its body before the first (after the last) of its statements that holds one of
/// `blocks`.
Stmt with_inserted(const Ref<For>& loop, const Stmt& nest, const std::vector<Ref<Block>>& blocks,
                   bool before) {
  std::vector<Stmt> stmts;
  if (const Seq* sequence = loop->body.as<Seq>())
    stmts = sequence->stmts;
  else
    stmts = {loop->body};
  auto holds = [&](const Stmt& stmt) {
    for (const Ref<Block>& block : blocks)
      if (contains(stmt, block)) return true;
    return false;
  };
  if (before) {
    stmts.insert(std::find_if(stmts.begin(), stmts.end(), holds), nest);
  } else {
    auto last = std::find_if(stmts.rbegin(), stmts.rend(), holds);
    stmts.insert(last.base(), nest);
  }
  return changed(loop, [&](For& copy) { copy.body = seq(stmts); });
}

/// The dimension's own variable of the block, when the block writes one element along it.
Domains domains_of_writes(const Application& a, const Block& block, const Region& box) {
  Domains domains;
  const Region& region = block.writes[0];
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const VarNode* v = region.ranges[d].min.as<VarNode>();
    if (is_int(region.buffer->shape[d], 1)) continue;
    if (!v || !is_int(region.ranges[d].extent, 1) || domains.count(v))
      a.fail("block `{}` does not index dimension {} of {} by a variable of its own", block.name, d,
             region.buffer->name);
    domains[v] = box.ranges[d];
  }
  return domains;
}

/// `whole_rows`: all that the block writes along the last dimension, needed or not.
void compute_part_at(Application& a, bool whole_rows) {
  if (a.is_root_place(1)) return;
  Move move = movable(a);
  const Ref<Block>& block = move.block;
  const Buffer& buffer = block->writes[0].buffer;
  if (is_param(a.func, buffer)) a.fail("block `{}` writes the output {}", block->name, buffer->name);
  std::vector<Ref<Block>> consumers = consumers_of(a.func, block);
  if (consumers.empty()) a.fail("nothing reads what block `{}` writes", block->name);
  // What all consumers together read in one iteration of the loop; computing more than each needs is allowed,
  // less is not.
  std::optional<Region> box;
  for (const Ref<Block>& consumer : consumers) {
    if (!contains(move.loop, consumer))
      a.fail("block `{}` reads {} outside loop {}", consumer->name, buffer->name, move.loop->var->name);
    Path path = path_to(a.func, consumer);
    Analyzer context = analyzer_at(path);
    for (const Region& region : consumer->reads)
      if (region.buffer == buffer)
        grow(box, relaxed(region, path, loops_below(path, move.loop), context), context);
  }
  if (whole_rows) box->ranges.back() = {Expr(0), buffer->shape.back()};
  Stmt nest = placed(a, move, domains_of_writes(a, *block, *box), analyzer_at(move.loop_path),
                     /*may_repeat=*/true);
  // The removal made new nodes of all that was around the block: the loop is looked up by its variable.
  Func func = replace(a.func, own_nest(move.block_path), nullptr);
  auto loop = path_to_loop(func, move.loop->var)->back().cast<For>();
  a.func = replace(func, loop, with_inserted(loop, nest, consumers, true));
}

void compute_at(Application& a) { compute_part_at(a, /*whole_rows=*/false); }
void compute_rows_at(Application& a) { compute_part_at(a, /*whole_rows=*/true); }

/// A variable of a writer that its predicate keeps below `end`, which is the same for all loops that run.
struct Cut {
  const VarNode* variable;
  Expr end;
};

/// The condition as a bound of one of the block's variables: x < c where a variable is x + what the loops
/// outside say.
std::optional<Cut> cut_of(const Expr& condition, const Block& writer, const Domain& below,
                          const Analyzer& context) {
  const Binary* less = condition.as<Binary>();
  if (!less || less->op != BinaryOp::kLt || !as_int(less->b)) return std::nullopt;
  for (const BlockIter& iter : writer.iters) {
    const Expr base = context.simplify(iter.value - less->a);
    bool moves = std::any_of(below.begin(), below.end(),
                             [&](const auto& loop) { return uses_var(base, loop.first.get()); });
    if (iter.kind == IterKind::kSpatial && !moves)
      return Cut{iter.var.get(), context.simplify(base + less->b)};
  }
  return std::nullopt;
}

/// Less than nothing where a < b. Simplification may have divided: of x < y // 16 + 2 this is 16 * x - y -
/// 17, as it is of what was divided.
Expr excess_of(const Binary& less) {
  const Binary* sum = less.b.as<Binary>();
  const bool has_more = sum && sum->op == BinaryOp::kAdd && as_int(sum->b);
  const Binary* quotient = has_more ? sum->a.as<Binary>() : sum;
  if (!quotient || quotient->op != BinaryOp::kFloorDiv || !as_int(quotient->b)) return less.a - less.b;
  const Expr more = has_more ? sum->b : Expr(0);
  return (less.a - more + 1) * quotient->b - quotient->a - 1;
}

/// Where `kept` holds, `condition` does: of the two differences that are less than nothing, the latter's is
/// no more. A vector begins inside where each of its lanes is.
bool follows(const Expr& condition, const Expr& kept, const Analyzer& context) {
  const Binary *c = condition.as<Binary>(), *k = kept.as<Binary>();
  if (!c || !k || c->op != BinaryOp::kLt || k->op != BinaryOp::kLt) return false;
  return context.bound(context.simplify(excess_of(*k) - excess_of(*c))).min >= 0;
}

/// The part of the writer's predicate that does not depend on loops below the one its consumer moves to. The
/// rest must say that a variable stays in its range, as the split of a loop does: then the consumer's own
/// range cuts its box alike; or that it stays in a part of it, of which `cuts` are told.
Expr condition_outside(const Application& a, const Path& path, const Domain& below, const Analyzer& context,
                       std::vector<Cut>& cuts) {
  const Block& writer = *path.back().as<Block>();
  Expr outside = imm(kBool, 1);
  for (const Expr& condition : conjuncts(writer.predicate)) {
    bool inner = std::any_of(below.begin(), below.end(),
                             [&](const auto& loop) { return uses_var(condition, loop.first.get()); });
    bool range = std::any_of(writer.iters.begin(), writer.iters.end(), [&](const BlockIter& iter) {
      Expr kept = less(iter.value, iter.extent);
      return iter.kind == IterKind::kReduce
                 ? structural_equal(condition, kept)
                 : !is_int(iter.extent, 1) &&
                       follows(context.simplify(condition), context.simplify(kept), context);
    });
    if (!inner)
      outside = logical_and(outside, condition);
    else if (std::optional<Cut> cut = range ? std::nullopt : cut_of(condition, writer, below, context))
      cuts.push_back(*cut);
    else if (!range)
      a.fail("the predicate of block `{}` cuts the box it writes", writer.name);
  }
  return outside;
}

/// `region` of the block, relaxed to `box`, as far as the cuts leave it.
Region cut_off(const Region& region, Region box, const std::vector<Cut>& cuts, const Analyzer& context) {
  for (const Cut& cut : cuts)
    for (size_t d = 0; d < box.ranges.size(); ++d)
      if (region.ranges[d].min.same_as(cut.variable))
        box.ranges[d].extent = context.simplify(min(box.ranges[d].extent, cut.end - box.ranges[d].min));
  return box;
}

/// The box that `writers`, all inside the loop, write in one iteration of it; each of its elements exactly
/// once.
Region written_box(const Application& a, Move& move, const std::vector<Ref<Block>>& writers,
                   const Buffer& buffer) {
  std::optional<Region> box;
  for (const Ref<Block>& writer : writers) {
    Path path = path_to(a.func, writer);
    Domain below = loops_below(path, move.loop);
    for (const Ref<For>& loop : loops_around(path)) {
      bool inside =
          std::any_of(below.begin(), below.end(), [&](const auto& each) { return each.first == loop->var; });
      if (!inside && carries(*writer, loop->var, IterKind::kReduce))
        a.fail("loop {} carries a reduction of block `{}`, which is not complete inside loop {}",
               loop->var->name, writer->name, move.loop->var->name);
    }
    if (!writes_once(path, below))
      a.fail("block `{}` does not write the elements of a box of {} once each in an iteration of loop {}",
             writer->name, buffer->name, move.loop->var->name);
    Analyzer context = analyzer_at(path);
    std::vector<Cut> cuts;
    Expr condition = condition_outside(a, path, below, context, cuts);
    if (move.condition && !structural_equal(condition, move.condition))
      a.fail("the writers of {} run under different conditions", buffer->name);
    move.condition = condition;
    for (const Region& region : writer->writes)
      if (region.buffer == buffer)
        grow(box, cut_off(region, relaxed(region, path, below, context), cuts, context), context);
  }
  return *box;
}

/// A variable read as v // n along one dimension, v % n along another, or both.
struct Divided {
  struct Part {
    Range range;
    int64_t divisor;
    /// Tiles may stick out.
    bool is_whole() const {
      return is_int(range.min, 0) && as_int(range.extent) && int_value(range.extent) >= divisor;
    }
  };
  std::optional<Part> quotient, remainder;
  /// Not all remainders are read.
  bool is_cut() const { return remainder && !remainder->is_whole(); }
};

/// The values that the variable may have; nothing when that is all of them.
std::optional<Range> undivided(const Application& a, const Block& block, const Divided& parts,
                               const Analyzer& context) {
  if (!parts.is_cut()) {
    if (!parts.quotient) return std::nullopt;
    const auto& [high, divisor] = *parts.quotient;
    return Range{context.simplify(high.min * divisor), context.simplify(high.extent * divisor)};
  }
  const auto& [low, divisor] = *parts.remainder;
  // A predicate of the writer may cut the box: beyond the divisor it would reach into the next quotient.
  bool within = context.can_prove(less_equal(0, low.min)) &&
                context.can_prove(less_equal(low.min + low.extent, divisor));
  if (within && parts.quotient && parts.quotient->divisor == divisor &&
      is_int(parts.quotient->range.extent, 1))
    return Range{context.simplify(parts.quotient->range.min * divisor + low.min), low.extent};
  a.fail("block `{}` reads a quotient and a remainder that together cover no range", block.name);
}

/// Each variable that follows a dimension takes at most as many values as the dimension has: a block that
/// pads a buffer has iterations that no part of the buffer stands for.
void require_covered_extents(const Application& a, const Block& block, const Region& read,
                             const std::map<const VarNode*, Divided>& divided) {
  for (const BlockIter& iter : block.iters) {
    auto found = divided.find(iter.var.get());
    const Divided* parts = found == divided.end() || found->second.is_cut() ? nullptr : &found->second;
    Expr covered = parts && parts->quotient ? parts->quotient->divisor : 1;
    bool follows = false;
    for (size_t d = 0; d < read.ranges.size(); ++d) {
      const Expr& index = read.ranges[d].min;
      if (is_int(read.buffer->shape[d], 1) || !uses_var(index, iter.var.get())) continue;
      const Binary* binary = index.as<Binary>();
      if (parts && binary && binary->op == BinaryOp::kFloorMod) continue;
      covered = covered * read.buffer->shape[d];
      follows = true;
    }
    if (follows && !covers(covered, iter.extent, {}))
      a.fail("variable {} of block `{}` does not take the values that {} has", iter.var->name, block.name,
             read.buffer->name);
  }
}

/// The same for all iterations, and complete in the box.
bool lies_in(const Range& part, const Range& box, const Analyzer& context) {
  return as_int(part.min) && as_int(part.extent) && context.can_prove(less_equal(box.min, part.min)) &&
         context.can_prove(less_equal(part.min + part.extent, box.min + box.extent));
}

/// The values of the block's variables for which it reads `box`, dimension by dimension.
Domains domains_of_reads(const Application& a, const Block& block, const Region& read, const Region& box,
                         const Analyzer& context) {
  Domains domains;
  std::map<const VarNode*, Divided> divided;
  for (size_t d = 0; d < read.ranges.size(); ++d) {
    const Expr& index = read.ranges[d].min;
    if (is_int(read.buffer->shape[d], 1)) continue;
    bool point = is_int(read.ranges[d].extent, 1);
    const VarNode* v = index.as<VarNode>();
    const Binary* binary = index.as<Binary>();
    if (point && v && !domains.count(v)) {
      domains[v] = box.ranges[d];
    } else if (point && binary && binary->a.as<VarNode>() && as_int(binary->b) &&
               (binary->op == BinaryOp::kFloorDiv || binary->op == BinaryOp::kFloorMod)) {
      Divided& parts = divided[binary->a.as<VarNode>()];
      (binary->op == BinaryOp::kFloorDiv ? parts.quotient : parts.remainder) =
          Divided::Part{box.ranges[d], int_value(binary->b)};
    } else if (!lies_in(read.ranges[d], box.ranges[d], context)) {
      a.fail("block `{}` does not read dimension {} of {} at a variable of its own", block.name, d,
             read.buffer->name);
    }
  }
  for (const auto& [v, parts] : divided)
    if (auto range = undivided(a, block, parts, context)) domains[v] = *range;
  require_covered_extents(a, block, read, divided);
  return domains;
}

bool same_domains(const Domains& x, const Domains& y, const Analyzer& context) {
  return std::all_of(y.begin(), y.end(), [&](const auto& each) {
    auto found = x.find(each.first);
    return found != x.end() && context.can_prove_equal(found->second.min, each.second.min) &&
           context.can_prove_equal(found->second.extent, each.second.extent);
  });
}

/// Loops that run their iterations at once may not carry a reduction of the block that moves into them.
void require_serial_reductions(const Application& a, const Move& move, const Domains& domains) {
  for (size_t i = 0; i < move.loop_path.size(); ++i) {
    const For* loop = move.loop_path[i].as<For>();
    if (!loop || loop->iteration == Iteration::kSerial || loop->iteration == Iteration::kUnrolled) continue;
    for (const BlockIter& iter : move.block->iters) {
      auto found = domains.find(iter.var.get());
      if (iter.kind == IterKind::kReduce && found != domains.end() &&
          uses_var(found->second.min, loop->var.get()))
        a.fail("the {} loop {} would carry the reduction of block `{}`", spelling(loop->iteration),
               loop->var->name, move.block->name);
    }
  }
}

void reverse_compute_at(Application& a) {
  if (a.is_root_place(1)) return;
  Move move = movable(a);
  const Ref<Block>& block = move.block;
  Analyzer context = analyzer_at(move.loop_path);
  std::vector<Ref<Block>> inside;
  std::optional<Domains> domains;
  // Each tensor that blocks in the loop write says which values of this block's variables an iteration
  // completes; all of them have to agree, for the block runs once there.
  for (const Region& region : block->reads) {
    std::vector<Ref<Block>> writers;
    for (const Ref<Block>& producer : producers_of(a.func, block))
      if (writes_buffer(*producer, region.buffer.get()) && contains(move.loop, producer))
        writers.push_back(producer);
    if (writers.empty()) continue;
    Domains needed =
        domains_of_reads(a, *block, region, written_box(a, move, writers, region.buffer), context);
    if (domains && !same_domains(*domains, needed, context))
      a.fail("block `{}` needs different parts of its inputs in an iteration of loop {}", block->name,
             move.loop->var->name);
    if (!domains) domains = std::move(needed);
    inside.insert(inside.end(), writers.begin(), writers.end());
  }
  if (!domains) a.fail("loop {} computes nothing that block `{}` reads", move.loop->var->name, block->name);
  require_serial_reductions(a, move, *domains);
  Stmt nest = placed(a, move, *domains, context, /*may_repeat=*/false);
  Func func = replace(a.func, own_nest(move.block_path), nullptr);
  auto loop = path_to_loop(func, move.loop->var)->back().cast<For>();
  // The other producers must run before the loop.
  std::vector<Ref<Block>> order = all_blocks(func);
  auto first_inside =
      std::find_if(order.begin(), order.end(), [&](const auto& each) { return contains(loop, each); });
  for (const Ref<Block>& producer : producers_of(a.func, block)) {
    auto at = std::find(order.begin(), order.end(), producer);
    if (!contains(loop, producer) && at >= first_inside)
      a.fail("block `{}` reads what block `{}` computes after loop {}", block->name, producer->name,
             move.loop->var->name);
  }
  a.func = replace(func, loop, with_inserted(loop, nest, inside, false));
}

void sample_compute_location(Application& a) {
  auto block = a.block(0).back().cast<Block>();
  auto places = static_cast<int64_t>(a.size());  // outside all loops, or a loop of the list
  if (a.decision.empty()) a.decision = {a.random->below(places)};
  if (a.decision.size() != 1 || a.decision[0] < 0 || a.decision[0] >= places)
    a.fail("recorded choice {} for block `{}` is not among {} places", a.decision[0], block->name, places);
  a.give_loop(a.decision[0] == 0 ? Var() : a.loop(static_cast<size_t>(a.decision[0])).back().as<For>()->var);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"compute_at",
     "for i: b[i] = f(i); for j: c[j] = g(b[j..j+k])  ->  for j: { for i in 0..k: b[j+i] = f(j+i); c[j] = "
     "g(b[j..j+k]) }",
     {{kBlock, kLoop}},
     compute_at},
    {"compute_rows_at",
     "compute_at, but whole rows: along the last dimension all that the block writes",
     {{kBlock, kLoop}},
     compute_rows_at},
    {"reverse_compute_at",
     "for i: b[i] = f(i); for j: c[j] = g(b[j])  ->  for i: { b[i] = f(i); c[i] = g(b[i]) }",
     {{kBlock, kLoop}},
     reverse_compute_at},
    {"sample_compute_location",
     "one of the given loops, or the place outside all loops, for compute_at and reverse_compute_at",
     {{kBlock}, kLoop},
     sample_compute_location,
     true},
};
}  // namespace

std::span<const Primitive> location_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
