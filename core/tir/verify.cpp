#include "core/tir/verify.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "core/support/error.h"
#include "core/tir/bindings.h"
#include "core/tir/prologue.h"
#include "core/tir/regions.h"
#include "core/tir/text.h"
#include "core/tir/verify_expr.h"

namespace lathe::tir {
namespace {
/// Thrown inside the verifier only, to leave the walk at the first fault.
struct Found {
  std::string fault;
};

template <typename... Args>
[[noreturn]] void report(fmt::format_string<Args...> format, Args&&... args) {
  throw Found{fmt::format(format, std::forward<Args>(args)...)};
}

/// One walk over the program with what is visible, and the loops and guards around, at hand. A check passes
/// what it cannot decide: a fault is reported only where it is sure.
class Verifier {
 public:
  explicit Verifier(Level level) : level_(level), lowered_(level != Level::kScheduled) {}

  void func(const FuncNode& f) {
    if (f.outputs < 0 || f.outputs > static_cast<int64_t>(f.params.size()))
      report("function {} has {} parameters and {} outputs", f.name, f.params.size(), f.outputs);
    if (!f.body) report("function {} has no body", f.name);
    constants(f);
    for (const Buffer& param : f.params) {
      // A shape may be an expression (4 * n): all variables in it count as given.
      post_order(param, [&](const NodeRef& node) {
        if (node.as<VarNode>()) visible_.insert(node.get());  // symbolic dimensions
      });
      define(param.get(), param->name);
    }
    // What schedules and the prologue take for granted.
    const Block* root = f.body.as<Block>();
    if (!lowered_ && (!root || root->name != "root" || !root->iters.empty()))
      report("the body of {} is not a block named root without iterators", f.name);
    stmt(f.body);
  }

 private:
  /// The annotation is a mask of inputs: positive, and without bits beyond them.
  void constants(const FuncNode& f) {
    auto found = f.annotations.find(kConstantsKey);
    if (found == f.annotations.end()) return;
    // The subtraction is safe: func() has compared the two.
    size_t markable = std::min(f.params.size() - static_cast<size_t>(f.outputs), kMaxMarkedParams);
    if (found->second <= 0 || found->second >> markable)
      report("function {} marks constants {} among {} inputs", f.name, found->second,
             f.params.size() - static_cast<size_t>(f.outputs));
  }

  /// `name` can be used from here on.
  void define(const Node* node, const std::string& name) {
    bool is_new = defined_.insert(node).second;
    // Lowering copies statements, so one loop may stand in several branches, though not inside itself.
    // One definition in each scope; at the scheduled level one in the whole program, since schedules find
    // loops by their variables (path_to_loop).
    if (!visible_.insert(node).second || !(is_new || lowered_)) report("{} is defined twice", name);
  }

  void stmt(const Stmt& s) {
    if (!s) report("a statement is missing");
    switch (s->kind()) {
      case StmtKind::kFor:
        return for_loop(*s.as<For>());
      case StmtKind::kBlock:
        if (lowered_) report("block {} at the lowered level", s.as<Block>()->name);
        return block(*s.as<Block>());
      case StmtKind::kStore:
        return store(*s.as<Store>());
      case StmtKind::kSeq:
        for (const Stmt& inner : s.as<Seq>()->stmts) stmt(inner);
        return;
      case StmtKind::kIf: {
        const If& branch = *s.as<If>();
        expr(branch.condition, "a condition");
        if (!branch.condition.dtype().is_bool())
          report("a condition is {}", to_string(branch.condition.dtype()));
        if (int lanes = branch.condition.dtype().lanes; lanes > 1) masked(branch, lanes);
        // A condition may keep its statements from running: what they access out of bounds proves nothing.
        ++guards_;
        stmt(branch.then_case);
        if (branch.else_case) stmt(branch.else_case);
        --guards_;
        return;
      }
      case StmtKind::kAlloc: {
        const Buffer& b = s.as<Alloc>()->buffer;
        if (!lowered_) report("alloc of {} at the scheduled level", b->name);
        allocate(b);
        stmt(s.as<Alloc>()->body);
        // Buffers of one name in two branches are two nodes, so nothing comes back into sight by this.
        visible_.erase(b.get());
        return;
      }
    }
  }

  /// What a mask holds back are stores of as many lanes.
  void masked(const If& branch, int lanes) {
    if (branch.else_case) report("a condition of {} lanes has an else case", lanes);
    post_order(branch.then_case, [&](const NodeRef& node) {
      const Store* s = node.as<Store>();
      if (s && lanes_of(s->indices) != lanes)
        report("a mask of {} lanes is around a store of {}", lanes, lanes_of(s->indices));
    });
  }

  void allocate(const Buffer& b) {
    // Before the name is defined: a buffer cannot be as long as one of its own elements says.
    for (const Expr& dim : b->shape) index(dim, "a dimension");
    define(b.get(), b->name);
  }

  void for_loop(const For& loop) {
    index(loop.extent, "the extent of a loop");
    bool constant = as_int(loop.extent) != nullptr;
    bool needs_constant = loop.iteration == Iteration::kVectorized || loop.iteration == Iteration::kUnrolled;
    if (needs_constant && !constant)
      report("loop {} is {} but its extent is not constant", loop.var->name, spelling(loop.iteration));
    if (level_ == Level::kVectors && loop.iteration == Iteration::kVectorized)
      report("loop {} is vectorized at the lowered level", loop.var->name);
    // Lanes have one dimension, code generation knows no vectors of vectors; nor are they on several cores.
    bool spreads = loop.iteration == Iteration::kVectorized || loop.iteration == Iteration::kParallel;
    for (const For* outer : loops_)
      if (spreads && outer->iteration == Iteration::kVectorized)
        report("{} loop {} is inside vectorized loop {}", spelling(loop.iteration), loop.var->name,
               outer->var->name);
    // As in an empty model's loops (a batch of 0): their indices are outside of every buffer. Where loops
    // around say how far it runs, that may be nowhere in each of them but some.
    const bool never = is_int(loop.extent, 0) ||  // over an empty tensor: no access is one
                       std::any_of(loops_.begin(), loops_.end(),
                                   [&](const For* outer) { return uses_var(loop.extent, outer->var.get()); });
    define(loop.var.get(), loop.var->name);
    analyzer_.bind_range(loop.var, loop.extent);
    loops_.push_back(&loop);
    domain_.emplace_back(loop.var, loop.extent);
    guards_ += never;
    stmt(loop.body);
    guards_ -= never;
    domain_.pop_back();
    loops_.pop_back();
    visible_.erase(loop.var.get());
  }

  /// What belongs to the loops around (bindings, the reduction's initial value) is checked outside, the rest
  /// with nothing but the block's own iterators in sight.
  void block(const Block& b) {
    if (!names_.insert(b.name).second) report("two blocks are named {}", b.name);
    expr(b.predicate, "a predicate");
    if (b.predicate.dtype() != kBool)
      report("the predicate of block {} is {}", b.name, to_string(b.predicate.dtype()));
    for (const BlockIter& iter : b.iters) {
      index(iter.extent, "the extent of an iterator");
      index(iter.value, "the value of an iterator");
    }
    // Here, while the loops around are still known.
    const bool always = analyzer_.can_prove(b.predicate);
    if (auto fault = find_binding_fault(b, domain_, analyzer_)) throw Found{*fault};
    reductions(b);
    // Inside, the loops around are out of sight.
    // A block is the same wherever a schedule moves it, so nothing in it may know of the loops around.
    std::vector<const For*> outer_loops = std::exchange(loops_, {});
    Domain outer_domain = std::exchange(domain_, {});
    // A predicate limits what the iterators are, so accesses inside prove nothing.
    int outer_guards = std::exchange(guards_, always ? 0 : 1);
    std::string outer_name = std::exchange(block_, b.name);
    for (const For* loop : outer_loops) visible_.erase(loop->var.get());
    for (const BlockIter& iter : b.iters) {
      define(iter.var.get(), iter.var->name);
      analyzer_.bind_range(iter.var, iter.extent);
      domain_.emplace_back(iter.var, iter.extent);
    }
    for (const Buffer& buffer : b.allocs) allocate(buffer);
    for (const std::vector<Region>* list : {&b.reads, &b.writes})
      for (const Region& region : *list) check_region(region);
    if (b.init) stmt(b.init);
    stmt(b.body);
    declared_accesses(b);
    for (const BlockIter& iter : b.iters) visible_.erase(iter.var.get());
    for (const Buffer& buffer : b.allocs) visible_.erase(buffer.get());
    for (const For* loop : outer_loops) visible_.insert(loop->var.get());
    block_ = outer_name;
    guards_ = outer_guards;
    domain_ = std::move(outer_domain);
    loops_ = std::move(outer_loops);
  }

  /// Blocks are met in program order, so `written_` holds what has a value when the block begins.
  void reductions(const Block& b) {
    bool reduces = false;
    for (const BlockIter& iter : b.iters) {
      if (iter.kind != IterKind::kReduce) continue;
      reduces = true;
      // Two iterations would add to one element at the same time.
      for (const For* loop : loops_)
        if (loop->iteration == Iteration::kParallel && uses_var(iter.value, loop->var.get()))
          report("loop {} is parallel but carries the reduction of block {}", loop->var->name, b.name);
    }
    for (const Region& region : b.writes) {
      if (reduces && !b.init && !written_.count(region.buffer.get()))
        report("block {} reduces into {}, which has no initial value", b.name, region.buffer->name);
    }
    // After the check: a block does not initialise its own reduction.
    for (const Region& region : b.writes) written_.insert(region.buffer.get());
  }

  /// Only its form; whether it covers the accesses is for declared_accesses.
  void check_region(const Region& region) {
    use(region.buffer);
    if (region.ranges.size() != region.buffer->shape.size())
      report("block {}: a region of {} has {} dimensions", block_, region.buffer->name, region.ranges.size());
    for (const Range& range : region.ranges) {
      index(range.min, "the start of a region");
      index(range.extent, "the extent of a region");
    }
  }

  /// A leaf block declares what it touches. A block of blocks may leave it to them (the root does).
  void declared_accesses(const Block& b) {
    // Loops and conditions inside do not matter, blocks do: they declare for themselves.
    // Quadratic in the nesting of blocks, which is two or three deep.
    bool leaf = true;
    post_order(b.body, [&](const NodeRef& node) { leaf &= node.as<Block>() == nullptr; });
    if (!leaf && b.reads.empty() && b.writes.empty()) return;
    Accesses actual = block_accesses(b.iters, b.init, b.body);
    std::erase_if(actual.reads, [&](const Region& read) {  // a reduction's own accumulator
      return std::any_of(b.writes.begin(), b.writes.end(),
                         [&](const Region& w) { return w.buffer == read.buffer; });
    });
    covered(b, actual.reads, b.reads, "reads");
    covered(b, actual.writes, b.writes, "writes");
  }

  /// Each of `actual` lies in the region declared for its buffer, as far as can be told: a part that provably
  /// sticks out is a fault.
  void covered(const Block& b, const std::vector<Region>& actual, const std::vector<Region>& declared,
               const char* verb) {
    for (const Region& access : actual) {
      // Its own buffers are nobody else's concern.
      if (std::find(b.allocs.begin(), b.allocs.end(), access.buffer) != b.allocs.end()) continue;
      auto found = std::find_if(declared.begin(), declared.end(),
                                [&](const Region& r) { return r.buffer == access.buffer; });
      if (found == declared.end())
        report("block {} {} {} but does not declare it", b.name, verb, access.buffer->name);
      for (size_t d = 0; d < access.ranges.size(); ++d) {
        const Range &touched = access.ranges[d], &said = found->ranges[d];
        // Beyond the buffer nothing is touched: a select guards it.
        // Only what is provable is a fault: regions of symbolic shapes often cannot be compared.
        Expr low = max(touched.min, 0), high = min(touched.min + touched.extent, access.buffer->shape[d]);
        if (analyzer_.can_prove(less(low, said.min)) ||
            analyzer_.can_prove(less(said.min + said.extent, high)))
          report("block {} {} more of {} than it declares, in dimension {}", b.name, verb,
                 access.buffer->name, d);
      }
    }
  }

  void use(const Buffer& b) {
    if (!visible_.count(b.get())) report("{}buffer {} is used outside its scope", where(), b->name);
  }

  std::string where() const {
    return block_.empty() || block_ == "root" ? "" : fmt::format("block {}: ", block_);
  }

  void store(const Store& s) {
    use(s.buffer);
    if (s.indices.size() != s.buffer->shape.size())
      report("{}{} of rank {} is stored with {} indices", where(), s.buffer->name, s.buffer->shape.size(),
             s.indices.size());
    for (const Expr& i : s.indices) index(i, "an index");
    expr(s.value, "a value");
    int lanes = lanes_of(s.indices);
    if (s.value.dtype() != s.buffer->dtype.with_lanes(lanes))
      report("{}{} holds {}, the stored value is {}", where(), s.buffer->name,
             to_string(s.buffer->dtype.with_lanes(lanes)), to_string(s.value.dtype()));
    in_bounds(s.buffer, s.indices);
  }

  /// An index in a place that takes nothing else: what reads programs calculates with indices and shapes,
  /// which are of one type therefore.
  void index(const Expr& e, const char* what) {
    expr(e, what);
    of_index_type(e, what);
  }

  void of_index_type(const Expr& e, const char* what) const {
    if (e.dtype().with_lanes(1) != kInt64)
      report("{}{} is {}, must be int64: {}", where(), what, to_string(e.dtype()), print(e));
  }

  /// `what` names the place in messages.
  void expr(const Expr& e, const char* what) {
    if (!e) report("{}{} is missing", where(), what);
    if (const Select* s = e.as<Select>()) {
      expr(s->condition, what);
      ++guards_;
      expr(s->if_true, what);
      expr(s->if_false, what);
      --guards_;
    } else {
      // Recursion: the parser and the front ends bound the depth of expressions (kMaxDepth).
      e->for_each_child([&](const NodeRef& child) {
        if (!child.as<BufferNode>()) expr(child.cast<ExprNode>(), what);
      });
    }
    if (e.as<VarNode>() && !visible_.count(e.get())) {
      // It was seen, but not from here.
      // The likeliest mistake of a pass that moves statements; worth a message of its own.
      bool outer = defined_.count(e.get());
      report("{}variable {} is {}", where(), e.as<VarNode>()->name,
             outer ? "used outside its scope" : "not defined");
    }
    if (auto fault = find_type_fault(e, level_ == Level::kVectors)) report("{}{}", where(), *fault);
    if (const Load* load = e.as<Load>()) {
      use(load->buffer);
      for (const Expr& i : load->indices) of_index_type(i, "an index");
      in_bounds(load->buffer, load->indices);
    }
  }

  /// Linear indices take both ends of their range: the check is exact where nothing guards the access.
  void in_bounds(const Buffer& buffer, const std::vector<Expr>& indices) {
    for (const Expr& i : indices)
      if (int lanes = i.dtype().lanes; lanes != 1 && lanes != lanes_of(indices))
        report("{}{} has vector indices of {} and {} lanes", where(), buffer->name, lanes, lanes_of(indices));
    if (guards_ > 0) return;
    for (size_t d = 0; d < indices.size(); ++d) {
      const int64_t* dim = as_int(buffer->shape[d]);
      if (!dim || indices[d].dtype() != kInt64) continue;
      // Exact ranges only: an interval that is too wide would report accesses that never happen.
      // A linear form reaches both ends of its range; others are left to the interpreter and to
      // the check of results.
      auto range = exact_range(indices[d], domain_);
      if (range && (range->min < 0 || range->max >= *dim))
        report("{}index {} of {} takes values {}..{}, outside 0..{}", where(), print(indices[d]),
               buffer->name, range->min, range->max, *dim);
    }
  }

  Level level_;
  bool lowered_;
  Analyzer analyzer_;
  // What was defined anywhere so far; what is in scope here; buffers that blocks so far have written.
  std::unordered_set<const Node*> defined_, visible_, written_;
  std::set<std::string> names_;
  std::vector<const For*> loops_;  // since the innermost block
  Domain domain_;                  // its iterators and these loops
  std::string block_;
  int guards_ = 0;  // selects and conditions around
};

/// Vectors show in stores: a load of several lanes is stored in the end.
bool has_vectors(const Stmt& stmt) {
  if (!stmt) return false;
  switch (stmt->kind()) {
    case StmtKind::kFor:
      return has_vectors(stmt.as<For>()->body);
    case StmtKind::kBlock:
      return false;
    case StmtKind::kStore:
      return lanes_of(stmt.as<Store>()->indices) > 1;
    case StmtKind::kSeq: {
      const std::vector<Stmt>& stmts = stmt.as<Seq>()->stmts;
      return std::any_of(stmts.begin(), stmts.end(), has_vectors);
    }
    case StmtKind::kIf:
      return has_vectors(stmt.as<If>()->then_case) || has_vectors(stmt.as<If>()->else_case);
    case StmtKind::kAlloc:
      return has_vectors(stmt.as<Alloc>()->body);
  }
  CHECK(false, "a statement of no kind");
  return false;
}
}  // namespace

Level level_of(const Func& func) {
  if (func->body.as<Block>()) return Level::kScheduled;
  return has_vectors(func->body) ? Level::kVectors : Level::kLoops;
}

const char* spelling(Level level) {
  constexpr const char* kNames[] = {"blocks", "loops", "vectors"};
  return kNames[static_cast<size_t>(level)];
}

std::optional<std::string> find_hole(const Func& func) {
  std::optional<std::string> found;
  // Before anything else may walk the program: all walks take operands for granted.
  post_order(func, [&](const NodeRef& node) {
    std::vector<Cell> cells;
    node->append_cells(cells);
    auto holes = std::count_if(cells.begin(), cells.end(),
                               [](const Cell& cell) { return cell.tag == Cell::Tag::kNode && !cell.node; });
    if (const Block* block = node.as<Block>()) holes -= !block->init;
    if (const If* choice = node.as<If>()) holes -= !choice->else_case;
    if (holes > 0 && !found) found = fmt::format("a {} without an operand", node->type().name);
  });
  return found;
}

std::optional<std::string> find_fault(const Func& func, Level level) {
  try {
    Verifier(level).func(*func);
  } catch (const Found& found) {
    return found.fault;
  }
  return std::nullopt;
}

void verify(const Func& func, Level level) {
  if (auto fault = find_fault(func, level)) fail("invalid tensor program: {}\n{}", *fault, print(func));
}

}  // namespace lathe::tir
