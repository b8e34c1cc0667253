// How an intermediate is laid out in memory, and in which type.
#include <algorithm>

#include "core/arith/exact_cast.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// One dimension of the new layout: (index of `dimension` // divisor) % extent, without the remainder for the
/// outermost axis of the dimension, as the index is below its extent.
struct Axis {
  size_t dimension;
  int64_t divisor;
  Expr extent;
  bool outermost = false;
};

/// The axes from pairs (dimension, extent), outermost first: the axes of one dimension cut it from the
/// outside in, so that the last of them is its innermost part. The outermost axis of an open dimension is as
/// long as the others leave it, whatever is given.
std::vector<Axis> axes_of(const Application& a, const Buffer& buffer) {
  size_t rank = buffer->shape.size(), pairs = (a.size() - 2) / 2;
  if (a.size() % 2 != 0 || pairs == 0) a.fail("the layout must be pairs of a dimension and an extent");
  std::vector<int64_t> inner(rank, 1);
  std::vector<Axis> axes(pairs);
  // From the innermost axis outwards: `inner` counts the places of each dimension that the axes so far can
  // tell apart.
  for (size_t i = pairs; i-- > 0;) {
    int64_t d = a.number(2 + 2 * i), extent = a.number(3 + 2 * i);
    if (d < 0 || d >= static_cast<int64_t>(rank)) a.fail("{} has no dimension {}", buffer->name, d);
    if (extent < 1) a.fail("extent is {}, must be at least 1", extent);
    axes[i] = {static_cast<size_t>(d), inner[static_cast<size_t>(d)], Expr(extent)};
    if (__builtin_mul_overflow(inner[static_cast<size_t>(d)], extent, &inner[static_cast<size_t>(d)]))
      a.fail("the extents of dimension {} are too large", d);
  }
  // Exactly all places: a layout is a bijection, so nothing is lost and no store needs a guard. Of an open
  // dimension there may be places that nothing lies in.
  for (size_t d = 0; d < rank; ++d) {
    const int64_t* extent = as_int(buffer->shape[d]);
    if (extent && inner[d] != *extent)
      a.fail("the axes of dimension {} have {} places, {} has {}", d, inner[d], buffer->name, *extent);
    auto outermost =
        std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.dimension == d; });
    if (outermost == axes.end()) {
      if (!extent) a.fail("the layout leaves out dimension {} of {}", d, buffer->name);
      continue;
    }
    if (!extent) outermost->extent = simplify(ceildiv(buffer->shape[d], Expr(outermost->divisor)));
    outermost->outermost = !extent || outermost->divisor * int_value(outermost->extent) == *extent;
  }
  return axes;
}

/// `indices` into `old` as indices into the new buffer.
std::vector<Expr> mapped(const std::vector<Axis>& axes, const std::vector<Expr>& indices) {
  std::vector<Expr> result;
  for (const Axis& axis : axes) {
    Expr index = floordiv(indices[axis.dimension], axis.divisor);
    result.push_back(axis.outermost ? index : floormod(index, axis.extent));
  }
  return result;
}

/// The intermediate that input 0 of the application writes, by its number in input 1.
Buffer written_intermediate(const Application& a, const char* fixed) {
  auto block = a.block(0).back().cast<Block>();
  int64_t write = a.number(1);
  if (write < 0 || write >= static_cast<int64_t>(block->writes.size()))
    a.fail("buffer {} of the {} that block `{}` writes", write, block->writes.size(), block->name);
  const Buffer& buffer = block->writes[static_cast<size_t>(write)].buffer;
  if (is_param(a.func, buffer))
    a.fail("{} is a parameter; its {} is part of the interface", buffer->name, fixed);
  return buffer;
}

/// Every access to `old` becomes one to `made`, as the two functions say.
void replace_buffer(Application& a, const Buffer& old, const Buffer& made,
                    FunctionRef<Expr(const Load&)> load_of, FunctionRef<Stmt(const Store&)> store_of) {
  auto rewritten = [&](const Stmt& stmt) {
    if (!stmt) return stmt;
    return rewrite(stmt,
                   [&](const NodeRef& node) -> NodeRef {
                     if (const Load* l = node.as<Load>(); l && l->buffer == old) return load_of(*l);
                     const Store* s = node.as<Store>();
                     return s && s->buffer == old ? NodeRef(store_of(*s)) : node;
                   })
        .cast<StmtNode>();
  };
  Func func = a.func;
  for (const Ref<Block>& other : all_blocks(a.func)) {
    bool allocates = std::count(other->allocs.begin(), other->allocs.end(), old) > 0;
    bool touches = reads_buffer(*other, old.get()) || writes_buffer(*other, old.get());
    if (!touches && !allocates) continue;
    // The outer block's regions speak of the old dimensions.
    if (!blocks_in(other->body).empty())
      a.fail("block `{}` holds blocks; do this before blockize", other->name);
    func = change_block(func, other->name, [&](Block& copy) {
      copy.init = rewritten(copy.init);
      copy.body = rewritten(copy.body);
      declare_accesses(copy);
    });
  }
  a.func = with_body(func, changed(func->body.cast<Block>(), [&](Block& root) {
                       std::replace(root.allocs.begin(), root.allocs.end(), old, made);
                     }));
}

void transform_layout(Application& a) {
  Buffer old = written_intermediate(a, "layout");
  std::vector<Axis> axes = axes_of(a, old);
  std::vector<Expr> shape;
  for (const Axis& axis : axes) shape.push_back(axis.extent);
  Buffer laid = buffer(old->name, shape, old->dtype, old->scope);
  replace_buffer(
      a, old, laid, [&](const Load& l) { return load(laid, mapped(axes, l.indices)); },
      [&](const Store& s) { return store(laid, mapped(axes, s.indices), s.value); });
}

bool loads(const Stmt& stmt, const Buffer& buffer) {
  bool found = false;
  post_order(stmt, [&](const NodeRef& node) {
    const Load* l = node.as<Load>();
    found |= l && l->buffer == buffer;
  });
  return found;
}

void store_as(Application& a) {
  Buffer old = written_intermediate(a, "type");
  int64_t bits = a.number(2);
  if (!old->dtype.is_float() || old->dtype.bits < 32) a.fail("{} is no float of 32 or 64 bits", old->name);
  if (bits != 16 && bits != 32 && bits != 64) a.fail("floats of {} bits, must be 16, 32 or 64", bits);
  for (const Ref<Block>& block : all_blocks(a.func))
    if (writes_buffer(*block, old.get()) && loads(block->body, old))
      a.fail("block `{}` sums in {}: it would round at each step", block->name, old->name);
  // Also a step that was sampled: choosing the type as it is has to be possible.
  if (bits >= old->dtype.bits) return;
  DataType wide = old->dtype, narrow = wide;
  narrow.bits = static_cast<uint8_t>(bits);
  Buffer stored = buffer(old->name, old->shape, narrow, old->scope);
  replace_buffer(
      a, old, stored, [&](const Load& l) { return cast(wide, load(stored, l.indices)); },
      [&](const Store& s) {
        const Expr exact = exact_cast(narrow, s.value);
        return store(stored, s.indices, exact ? exact : cast(narrow, s.value));
      });
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"transform_layout",
     "b[i, j] = f(i, j)  ->  b[j // 16, i, j % 16] = f(i, j), for the axes (1, n/16), (0, m), (1, 16)",
     {{kBlock, kInt}, kInt},
     transform_layout},
    {"store_as",
     "alloc b: float32; b[i] = x; y = b[i]  ->  alloc b: float16; b[i] = float16(x); y = float32(b[i])",
     {{kBlock, kInt, kInt}},
     store_as},
};
}  // namespace

std::span<const Primitive> layout_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
