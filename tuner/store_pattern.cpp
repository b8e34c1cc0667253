#include "tuner/store_pattern.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/arith/fold.h"
#include "core/support/error.h"
#include "core/tir/machine.h"

namespace lathe::tuner {

using namespace tir;

namespace {

/// Values of index expressions for given values of the loops.
class Evaluator {
 public:
  void set(const VarNode* var, int64_t value) { values_[var] = value; }

  /// Loaded and floating values count as 0: an index that depends on them is anywhere.
  int64_t operator()(const Expr& e) const {
    switch (e->kind()) {
      case ExprKind::kInt:
        return e.as<IntImm>()->value;
      case ExprKind::kVar: {
        auto found = values_.find(e.as<VarNode>());
        return found == values_.end() ? 0 : found->second;
      }
      case ExprKind::kBinary: {
        const Binary& binary = *e.as<Binary>();
        // nullopt for a division by 0, which the guarding condition would have kept from happening.
        return fold(binary.op, (*this)(binary.a), (*this)(binary.b)).value_or(0);
      }
      case ExprKind::kNot:
        return !(*this)(e.as<Not>()->a);
      case ExprKind::kSelect: {
        // Only the branch that is taken: the other may divide by 0.
        const Select& select = *e.as<Select>();
        return (*this)((*this)(select.condition) ? select.if_true : select.if_false);
      }
      case ExprKind::kCast:
        return (*this)(e.as<Cast>()->value);
      default:
        return 0;
    }
  }

 private:
  std::unordered_map<const VarNode*, int64_t> values_;
};

/// A store and what is around it.
struct Site {
  const Store* store;
  std::vector<const For*> loops;
  std::vector<const BlockIter*> iters;  // of all blocks around it, outermost first
  bool predicated;
};

/// Finds the stores in program order. `around_` is what stands around the statement that is visited; each
/// store takes a copy. A block's init is not visited: it runs once for many executions of the body.
class SiteFinder {
 public:
  std::vector<Site> sites;

  void visit(const Stmt& stmt) {
    switch (stmt->kind()) {
      case StmtKind::kFor:
        around_.loops.push_back(stmt.as<For>());
        visit(stmt.as<For>()->body);
        around_.loops.pop_back();
        break;
      case StmtKind::kBlock:
        visit_block(*stmt.as<Block>());
        break;
      case StmtKind::kStore:
        sites.push_back(around_);
        sites.back().store = stmt.as<Store>();
        break;
      case StmtKind::kSeq:
        for (const Stmt& part : stmt.as<Seq>()->stmts) visit(part);
        break;
      case StmtKind::kIf: {
        bool before = std::exchange(around_.predicated, true);
        visit(stmt.as<If>()->then_case);
        if (stmt.as<If>()->else_case) visit(stmt.as<If>()->else_case);
        around_.predicated = before;
        break;
      }
      case StmtKind::kAlloc:
        visit(stmt.as<Alloc>()->body);
        break;
    }
  }

 private:
  void visit_block(const Block& block) {
    bool before = around_.predicated;
    size_t iters = around_.iters.size();
    for (const BlockIter& iter : block.iters) around_.iters.push_back(&iter);
    around_.predicated |= !is_int(block.predicate, 1);
    visit(block.body);
    around_.iters.resize(iters);
    around_.predicated = before;
  }

  Site around_{};
};

/// Loads of a value, and its operations into `counts`.
void collect(const Expr& e, OperationCounts& counts, std::vector<const Load*>& loads) {
  switch (e->kind()) {
    // Not into its indices: address arithmetic is the code generator's, and mostly costs nothing.
    case ExprKind::kLoad:
      ++counts.loads;
      loads.push_back(e.as<Load>());
      break;
    case ExprKind::kBinary: {
      const Binary& binary = *e.as<Binary>();
      collect(binary.a, counts, loads);
      collect(binary.b, counts, loads);
      if (!binary.a.dtype().is_float())
        ++counts.integers;
      else if (binary.op == BinaryOp::kAdd || binary.op == BinaryOp::kSub)
        ++counts.adds;
      else if (binary.op == BinaryOp::kMul)
        ++counts.multiplies;
      else if (binary.op == BinaryOp::kDiv || binary.op == BinaryOp::kMod)
        ++counts.divides;
      else if (binary.op == BinaryOp::kPow)
        ++counts.intrinsics;
      else
        ++counts.compares;
      break;
    }
    case ExprKind::kNot:
      collect(e.as<Not>()->a, counts, loads);
      break;
    case ExprKind::kSelect:
      ++counts.compares;
      collect(e.as<Select>()->condition, counts, loads);
      collect(e.as<Select>()->if_true, counts, loads);
      collect(e.as<Select>()->if_false, counts, loads);
      break;
    case ExprKind::kCast:
      ++counts.casts;
      collect(e.as<Cast>()->value, counts, loads);
      break;
    case ExprKind::kIntrinsic:
      ++counts.intrinsics;
      collect(e.as<IntrinsicCall>()->a, counts, loads);
      break;
    default:
      break;
  }
}

/// Never read or written, whatever stands there: a concatenation with a cache that is empty still.
bool has_no_elements(const Buffer& buffer) {
  return std::any_of(buffer->shape.begin(), buffer->shape.end(), [](const Expr& extent) {
    const int64_t* size = as_int(extent);
    return size && *size == 0;
  });
}

bool never_runs(const Site& site) {
  return has_no_elements(site.store->buffer) ||
         std::any_of(site.loops.begin(), site.loops.end(), [](const For* loop) {
           const int64_t* extent = as_int(loop->extent);
           return extent && *extent == 0;
         });
}

/// How many outer loops all accesses of each buffer share: where lowering will allocate an intermediate.
using Lifetimes = std::unordered_map<const BufferNode*, std::vector<const For*>>;

/// Cuts the shared loops down to the common prefix of what was known and `loops`.
void live_here(Lifetimes& lifetimes, const Buffer& buffer, const std::vector<const For*>& loops) {
  // The first access has the whole chain of loops around it; each further one cuts it.
  auto [found, added] = lifetimes.emplace(buffer.get(), loops);
  if (added) return;
  std::vector<const For*>& shared = found->second;
  shared.erase(std::mismatch(shared.begin(), shared.end(), loops.begin(), loops.end()).first, shared.end());
}

/// Evaluates all index expressions with every loop at 0, then with one loop at a time at 1 and at its last
/// value: the differences are that loop's stride and span. Costs two evaluations an index and loop, however
/// large the loops are.
class PatternBuilder {
 public:
  PatternBuilder(const Site& site, const Lifetimes& lifetimes, const std::set<const BufferNode*>& params)
      : site_(site), lifetimes_(lifetimes), params_(params) {}

  /// To be called once. The store comes first among the accesses, and the origin before all probes.
  StorePattern build() {
    pattern_.predicated = site_.predicated;
    for (const For* loop : site_.loops) {
      const int64_t* extent = as_int(loop->extent);
      pattern_.loops.push_back({.extent = extent ? *extent : 1, .iteration = loop->iteration});
    }
    add_access(site_.store->buffer, site_.store->indices, /*writes=*/true);
    std::vector<const Load*> loads;
    collect(site_.store->value, pattern_.operations, loads);
    for (const Load* load : loads)
      if (!has_no_elements(load->buffer)) add_access(load->buffer, load->indices, /*writes=*/false);
    // After all accesses are known, so that one evaluation serves them all.
    at_origin();
    origin_ = positions();
    std::vector<int64_t> iters = iter_values();
    for (size_t l = 0; l < site_.loops.size(); ++l) probe(l, iters);
    return std::move(pattern_);
  }

 private:
  using Positions = std::vector<std::vector<int64_t>>;  // [access][dimension]

  /// The same element read and written, as a sum's is, is one access with both flags: it takes one register
  /// and one line.
  void add_access(const Buffer& buffer, const std::vector<Expr>& indices, bool writes) {
    for (size_t i = 0; i < indices_.size(); ++i) {
      // O(accesses^2), of a handful.
      if (pattern_.accesses[i].buffer != buffer) continue;
      bool same = true;
      for (size_t d = 0; d < indices.size(); ++d) same &= structural_equal((*indices_[i])[d], indices[d]);
      if (!same) continue;
      pattern_.accesses[i].reads = true;
      return;
    }
    // Parameters live as long as the program; an intermediate is allocated inside the loops that all its
    // accesses share, and begins anew with each iteration of these.
    bool intermediate = !params_.count(buffer.get());
    size_t loops = site_.loops.size();
    pattern_.accesses.push_back({.buffer = buffer,
                                 .writes = writes,
                                 .reads = !writes,
                                 .intermediate = intermediate,
                                 .alive_from = intermediate ? lifetimes_.at(buffer.get()).size() : 0,
                                 .stride = std::vector<int64_t>(loops),
                                 .spans = {loops, std::vector<int64_t>(indices.size())}});
    indices_.push_back(&indices);
  }

  void at_origin() {
    for (const For* loop : site_.loops) evaluate_.set(loop->var.get(), 0);
    bind_iters();
  }

  /// Outer blocks' variables come first, and inner ones are bound to expressions of them.
  void bind_iters() {
    for (const BlockIter* iter : site_.iters) evaluate_.set(iter->var.get(), evaluate_(iter->value));
  }

  std::vector<int64_t> iter_values() const {
    std::vector<int64_t> values;
    for (const BlockIter* iter : site_.iters) values.push_back(evaluate_(iter->value));
    return values;
  }

  /// Where each access stands for the values that the loops have now.
  Positions positions() const {
    Positions result;
    for (const std::vector<Expr>* indices : indices_) {
      std::vector<int64_t>& position = result.emplace_back();
      for (const Expr& index : *indices) position.push_back(evaluate_(index));
    }
    return result;
  }

  /// The offset in elements, row-major. A dimension that is not constant counts as 1: what lies outside it is
  /// too close then.
  static int64_t flat(const Buffer& buffer, const std::vector<int64_t>& position) {
    int64_t offset = 0;
    for (size_t d = 0; d < position.size(); ++d) {
      const int64_t* size = as_int(buffer->shape[d]);
      offset = offset * (size ? *size : 1) + position[d];
    }
    return offset;
  }

  void probe(size_t l, const std::vector<int64_t>& iters_at_origin) {
    PatternLoop& loop = pattern_.loops[l];
    // Strides and spans stay 0.
    if (loop.extent <= 1) return;
    const VarNode* var = site_.loops[l]->var.get();
    evaluate_.set(var, 1);
    bind_iters();
    // The second iteration tells the stride, the last one the span. Along a quotient such as i // 8 the
    // former is 0; along a remainder the last may be no farther than the second, so the span is the larger of
    // both.
    Positions first = positions();
    evaluate_.set(var, loop.extent - 1);
    bind_iters();
    Positions last = positions();
    std::vector<int64_t> iters = iter_values();
    for (size_t i = 0; i < iters.size(); ++i)
      // A loop that moves a reduction variable adds to elements again instead of writing others.
      loop.reduces |= site_.iters[i]->kind == IterKind::kReduce && iters[i] != iters_at_origin[i];
    pattern_.reduction |= loop.reduces;
    // Back to the origin, for the next loop. The block's variables need not be: bind_iters() sets them all.
    evaluate_.set(var, 0);
    for (size_t a = 0; a < pattern_.accesses.size(); ++a) {
      PatternAccess& access = pattern_.accesses[a];
      access.stride[l] = flat(access.buffer, first[a]) - flat(access.buffer, origin_[a]);
      if (l < access.alive_from) continue;  // another life of the buffer
      for (size_t d = 0; d < last[a].size(); ++d)
        access.spans[l][d] =
            std::max(std::abs(last[a][d] - origin_[a][d]), std::abs(first[a][d] - origin_[a][d]));
    }
  }

  const Site& site_;
  const Lifetimes& lifetimes_;
  const std::set<const BufferNode*>& params_;
  StorePattern pattern_;
  std::vector<const std::vector<Expr>*> indices_;  // of each access
  Evaluator evaluate_;
  Positions origin_;
};

/// Elements touched in dimension `d` while the loops from `depth` on run.
int64_t width(const PatternAccess& access, size_t d, size_t depth) {
  // Spans of several loops add up, as they do for i * 8 + j and for a window's i + k. The count of elements
  // between the first and the last is an upper bound where steps skip some.
  int64_t elements = 1;
  // Loops outside `depth` stand still.
  for (size_t l = depth; l < access.spans.size(); ++l) elements += access.spans[l][d];
  const int64_t* size = as_int(access.buffer->shape[d]);
  return size ? std::min(elements, *size) : elements;
}

}  // namespace

int64_t PatternAccess::elements(size_t depth) const {
  int64_t product = 1;
  for (size_t d = 0; d < buffer->shape.size(); ++d) product *= width(*this, d, depth);
  return product;
}

int64_t PatternAccess::lines(size_t depth) const {
  // Whole inner dimensions make longer runs.
  int64_t run = 1, runs = 1;
  bool contiguous = true;
  for (size_t d = buffer->shape.size(); d-- > 0;) {
    int64_t touched = width(*this, d, depth);
    // The dimension itself still belongs to the run when it is not touched as a whole; those outside of it no
    // longer do.
    (contiguous ? run : runs) *= touched;
    const int64_t* size = as_int(buffer->shape[d]);
    contiguous &= size && touched == *size;
  }
  int64_t bytes = run * buffer->dtype.bytes();
  return runs * ((bytes + kLineBytes - 1) / kLineBytes);
}

double StorePattern::iterations(size_t depth) const {
  double product = 1;
  for (size_t l = depth; l < loops.size(); ++l) product *= static_cast<double>(loops[l].extent);
  return product;
}

std::vector<StorePattern> store_patterns(const Func& scheduled) {
  SiteFinder finder;
  finder.visit(scheduled->body);
  // All stores first: where a buffer lives depends on every access to it.
  Lifetimes lifetimes;
  for (const Site& site : finder.sites) {
    OperationCounts unused;
    std::vector<const Load*> loads;
    collect(site.store->value, unused, loads);
    live_here(lifetimes, site.store->buffer, site.loops);
    for (const Load* load : loads) live_here(lifetimes, load->buffer, site.loops);
  }
  std::set<const BufferNode*> params;
  for (const Buffer& param : scheduled->params) params.insert(param.get());
  std::vector<StorePattern> patterns;
  for (const Site& site : finder.sites)
    if (!never_runs(site)) patterns.push_back(PatternBuilder(site, lifetimes, params).build());
  return patterns;
}

}  // namespace lathe::tuner
