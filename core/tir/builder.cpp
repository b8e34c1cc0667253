#include "core/tir/builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/support/error.h"
#include "core/tir/regions.h"

namespace lathe::tir {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The lowest (highest) value of a type.
Expr extreme(DataType dtype, bool highest) {
  // Not the lowest finite number: the maximum of -infinity alone is that.
  if (dtype.is_float()) return fimm(dtype, highest ? kInfinity : -kInfinity);
  if (dtype.is_bool()) return imm(dtype, highest);
  if (dtype.code == TypeCode::kUInt) {
    // A constant of 64 unsigned bits is kept in int64: all ones are -1 there.
    int64_t all_ones = dtype.bits >= 64 ? -1 : (int64_t{1} << dtype.bits) - 1;
    return imm(dtype, highest ? all_ones : 0);
  }
  int64_t top = dtype.bits >= 64 ? INT64_MAX : (int64_t{1} << (dtype.bits - 1)) - 1;
  return imm(dtype, highest ? top : -top - 1);
}

/// One loop an iterator around a block whose iterators are bound to the loops.
Stmt nest(std::string name, std::vector<BlockIter> iters, const Stmt& init, const Stmt& body) {
  // Declared by what the statements do, so that no caller of the builder can declare too little.
  auto [reads, writes] = block_accesses(iters, init, body);
  // Loops have variables of their own: schedules rewrite loops and leave iterators alone.
  std::vector<Var> loops;
  for (BlockIter& iter : iters) {
    loops.push_back(var(iter.var->name));
    iter.value = loops.back();
  }
  std::vector<Expr> extents;
  for (const BlockIter& iter : iters) extents.push_back(iter.extent);
  auto block = std::make_unique<Block>();
  block->name = std::move(name);
  block->iters = std::move(iters);
  block->reads = std::move(reads);
  block->writes = std::move(writes);
  block->init = init;
  block->body = body;
  // From the inside out: the first iterator is the outermost loop.
  Stmt result = seal(std::move(block));
  for (size_t i = loops.size(); i-- > 0;) result = for_loop(loops[i], extents[i], result);
  return result;
}

/// One iterator of `kind` for each extent, named prefix0, prefix1, ...; nest() gives them their values.
void append_iters(std::vector<BlockIter>& iters, const std::vector<Expr>& extents, const char* prefix,
                  IterKind kind) {
  for (size_t i = 0; i < extents.size(); ++i)
    iters.push_back({var(fmt::format("{}{}", prefix, i)), extents[i], kind, {}});
}

/// In the order of the iterators.
std::vector<Var> vars_of(std::span<const BlockIter> iters) {
  std::vector<Var> vars;
  for (const BlockIter& iter : iters) vars.push_back(iter.var);
  return vars;
}

std::vector<Expr> indices_of(std::span<const Var> vars) { return {vars.begin(), vars.end()}; }
}  // namespace

Expr identity_of(Combiner combiner, DataType dtype) {
  switch (combiner) {
    case Combiner::kSum:
      return constant(dtype, 0);
    case Combiner::kProd:
      return constant(dtype, 1);
    case Combiner::kMax:
      return extreme(dtype, false);
    case Combiner::kMin:
      return extreme(dtype, true);
    case Combiner::kAnd:
      return imm(kBool, 1);
    case Combiner::kOr:
      return imm(kBool, 0);
  }
  return {};
}

std::optional<Combiner> combiner_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return Combiner::kSum;
    case BinaryOp::kMul:
      return Combiner::kProd;
    case BinaryOp::kMax:
      return Combiner::kMax;
    case BinaryOp::kMin:
      return Combiner::kMin;
    case BinaryOp::kAnd:
      return Combiner::kAnd;
    case BinaryOp::kOr:
      return Combiner::kOr;
    default:
      return std::nullopt;
  }
}

bool accumulates(const Store& store) {
  const Binary* update = store.value.as<Binary>();
  // The old value stands on the left, as reduce() and the schedules write it.
  const Load* old = update ? update->a.as<Load>() : nullptr;
  if (!old || old->buffer != store.buffer) return false;
  for (size_t d = 0; d < store.indices.size(); ++d)
    if (!structural_equal(old->indices[d], store.indices[d])) return false;
  return true;
}

Expr combine(Combiner combiner, Expr a, Expr b) {
  switch (combiner) {
    case Combiner::kSum:
      return a + b;
    case Combiner::kProd:
      return a * b;
    case Combiner::kMax:
      return max(a, b);
    case Combiner::kMin:
      return min(a, b);
    case Combiner::kAnd:
      return logical_and(a, b);
    case Combiner::kOr:
      return logical_or(a, b);
  }
  return {};
}

std::string FuncBuilder::unique(const std::string& name) {
  // The root block has this name.
  std::string candidate = name == "root" ? "root_block" : name;
  // O(1) mostly: the number to try next is kept with the name.
  while (names_.count(candidate)) candidate = fmt::format("{}_{}", name, names_[name]++);
  names_[candidate] = 1;
  return candidate;
}

Buffer FuncBuilder::input(std::string name, std::vector<Expr> shape, DataType dtype) {
  inputs_.push_back(buffer(unique(name), std::move(shape), dtype));
  return inputs_.back();
}

Buffer FuncBuilder::compute(const std::string& name, std::vector<Expr> shape,
                            const std::function<Expr(Vars)>& value) {
  std::vector<BlockIter> iters;
  append_iters(iters, shape, "i", IterKind::kSpatial);
  std::vector<Var> vars = vars_of(iters);
  // First, since its type is that of the buffer.
  Expr element = value(vars);
  Buffer out = buffer(unique(name), std::move(shape), element.dtype());
  nests_.push_back(nest(out->name, std::move(iters), {}, store(out, indices_of(vars), element)));
  intermediates_.push_back(out);
  return out;
}

DataType dtype_of_sums(DataType dtype) {
  if (dtype.is_float()) return dtype.bits == 16 ? kFloat32 : dtype;
  // 2^24 terms of 8 bits, 2^32 of the wider ones.
  return dtype.bits == 8 ? kInt32 : dtype.bits < 64 ? kInt64 : dtype;
}

namespace {
/// e as float32; of a product its operands, so that it is exact.
Expr widened(const Expr& e) {
  const Binary* product = e.as<Binary>();
  if (!product || product->op != BinaryOp::kMul) return cast(kFloat32, e);
  return cast(kFloat32, product->a) * cast(kFloat32, product->b);
}
}  // namespace

// Init and update in one block: a schedule splits them (decompose_reduction) where it pays.
Buffer FuncBuilder::reduce(const std::string& name, std::vector<Expr> shape, std::vector<Expr> reduce_extents,
                           Combiner combiner, const std::function<Expr(Vars, Vars)>& value) {
  std::vector<BlockIter> iters;
  append_iters(iters, shape, "i", IterKind::kSpatial);
  append_iters(iters, reduce_extents, "r", IterKind::kReduce);
  std::vector<Var> vars = vars_of(iters);
  Vars spatial = Vars(vars).first(shape.size()), reduced = Vars(vars).subspan(shape.size());
  Expr element = value(spatial, reduced);
  const DataType given = element.dtype();
  // A nest over no elements would not even start its result.
  if (std::any_of(reduce_extents.begin(), reduce_extents.end(),
                  [](const Expr& extent) { return is_int(extent, 0); }))
    return compute(name, std::move(shape), [&](Vars) { return identity_of(combiner, given); });
  const bool is_sum = combiner == Combiner::kSum || combiner == Combiner::kProd;
  if (is_sum && given.is_float() && dtype_of_sums(given) != given) element = widened(element);
  std::vector<Expr> indices = indices_of(spatial);
  Buffer out = buffer(unique(name), std::move(shape), element.dtype());
  Stmt init = store(out, indices, identity_of(combiner, element.dtype()));
  Stmt update = store(out, indices, combine(combiner, load(out, indices), element));
  nests_.push_back(nest(out->name, std::move(iters), init, update));
  intermediates_.push_back(out);
  if (given == out->dtype) return out;
  return compute(name + "_rounded", out->shape, [&](Vars i) {
    return cast(given, load(out, indices_of({i.begin(), i.end()})));
  });
}

Buffer FuncBuilder::ordered(const std::string& name, std::vector<Expr> shape, size_t axis, DataType dtype,
                            const std::function<Expr(const Buffer& out, Vars)>& value) {
  std::vector<BlockIter> iters;
  append_iters(iters, shape, "i", IterKind::kSpatial);
  // It reads what it wrote: neither parallel nor reordered.
  iters[axis].kind = IterKind::kOpaque;
  std::vector<Var> vars = vars_of(iters);
  // Before the value, which may read it.
  Buffer out = buffer(unique(name), std::move(shape), dtype);
  Stmt body = store(out, indices_of(vars), value(out, vars));
  nests_.push_back(nest(out->name, std::move(iters), {}, body));
  intermediates_.push_back(out);
  return out;
}

Buffer FuncBuilder::opaque(const std::string& name, std::vector<Expr> shape, DataType dtype,
                           std::vector<Buffer> reads, const std::function<Stmt(const Buffer& out)>& body) {
  Buffer out = buffer(unique(name), std::move(shape), dtype);
  auto block = std::make_unique<Block>();
  block->name = out->name;
  // Nobody looks into the statement: it may touch everything.
  for (const Buffer& read : reads) block->reads.push_back(whole(read));
  block->writes.push_back(whole(out));
  block->body = body(out);
  nests_.push_back(seal(std::move(block)));
  intermediates_.push_back(out);
  return out;
}

Func FuncBuilder::finish(std::string name, const std::vector<Buffer>& outputs) {
  std::vector<Buffer> params = inputs_, allocs;
  for (const Buffer& out : outputs) {
    CHECK(std::find(params.begin(), params.end(), out) == params.end(), "{} is an input or given twice",
          out->name);
    params.push_back(out);
  }
  // What nothing reads is left out: the parts of a split that only others use, say.
  std::set<const BufferNode*> needed;
  for (const Buffer& out : outputs) needed.insert(out.get());
  std::vector<Stmt> nests;
  // In program order a buffer's readers stand behind its writer.
  for (size_t i = nests_.size(); i-- > 0;) {  // readers before what they read
    const Buffer& out = intermediates_[i];
    if (!outputs.empty() && !needed.count(out.get())) continue;
    nests.push_back(nests_[i]);
    if (std::find(params.begin(), params.end(), out) == params.end()) allocs.push_back(out);
    post_order(nests_[i], [&](const NodeRef& node) {
      if (const auto* block = node.as<Block>())
        for (const Region& read : block->reads) needed.insert(read.buffer.get());
    });
  }
  std::reverse(nests.begin(), nests.end());
  std::reverse(allocs.begin(), allocs.end());
  auto root = std::make_unique<Block>();
  root->name = "root";
  root->allocs = std::move(allocs);
  // In the order in which they were made, so each reads what those before it have written.
  root->body = seq(nests);
  return make<FuncNode>(std::move(name), std::move(params), static_cast<int64_t>(outputs.size()),
                        Stmt(seal(std::move(root))));
}

}  // namespace lathe::tir
