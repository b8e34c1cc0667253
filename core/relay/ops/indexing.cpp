// Elements chosen by, or written to, positions given as tensors.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

size_t wrapped(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

/// A position counted from the end when it is negative; one out of range gives the nearest element.
Expr from_end(const Expr& index, const Expr& extent) {
  return min(max(select(less(index, Expr(0)), index + extent, index), Expr(0)), extent - 1);
}

/// Throws Error when `inner` reaches beyond `outer` along an axis other than `axis`: an index out of range
/// would be one of other memory.
void require_within(RelationContext& c, const TensorType& inner, const TensorType& outer, int64_t axis) {
  for (size_t d = 0; d < outer.shape.size(); ++d) {
    // Along `axis` indices choose, as often as they like; along others they stand for themselves.
    if (static_cast<int64_t>(d) == axis || inner.shape[d].as<Any>() || outer.shape[d].as<Any>()) continue;
    const int64_t *small = as_int(inner.shape[d]), *large = as_int(outer.shape[d]);
    if (small && large && *small > *large)
      mismatch(c, "indices of {} reach beyond {} along axis {}", describe(inner.shape), describe(outer.shape),
               d);
    if (!structural_equal(inner.shape[d], outer.shape[d]))
      require_in_runs(c, simplify(min(inner.shape[d], outer.shape[d])), inner.shape[d]);
  }
}

/// Throws Error when the first dimensions of the two differ, each of which goes with one of the other's.
void require_batches(RelationContext& c, std::span<const Expr> a, std::span<const Expr> b, int64_t count) {
  for (size_t d = 0; d < static_cast<size_t>(count); ++d)
    if (!a[d].as<Any>() && !b[d].as<Any>()) c.equal_dims(a[d], b[d]);
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& dim) { return is_int(dim, 0); });
}

/// What is chosen of a tensor without elements: none in any run, though its type may not say so. A program
/// has no place to read them from.
Buffers chosen_of_none(FuncBuilder& f, const Type& result) {
  const TensorType& type = tensor_of(result);
  return {f.compute("none", type.shape, [&](Vars) { return constant(type.dtype, 0); })};
}

/// Throws Error when an element of an empty tensor would be read, or written, for each element of `chosen`.
void require_elements(RelationContext& c, const TensorType& x, const Shape& chosen) {
  if (is_empty(chosen)) return;
  // Of a size that is not known nothing can be said.
  if (std::any_of(chosen.begin(), chosen.end(), [](const Expr& dim) { return dim.as<Any>() != nullptr; }))
    return;
  const Expr any = simplify(min(dims_product(chosen, 0, chosen.size()), Expr(1)));
  if (is_empty(x.shape)) {
    if (as_int(any))
      mismatch(c, "{} has no elements, of which {} are chosen", describe(x.shape), describe(chosen));
    return require_in_runs(c, any, 0);
  }
  for (const Expr& dim : x.shape) {
    // Where it is a dimension of what is chosen, too, nothing is chosen of none.
    const auto is_this = [&](const Expr& other) { return structural_equal(dim, other); };
    if (!as_int(dim) && !dim.as<Any>() && std::none_of(chosen.begin(), chosen.end(), is_this))
      require_in_runs(c, simplify(any * min(dim, Expr(1))), any);
  }
}

/// What `take` does with positions out of range: the nearest element, or counting around.
Expr placed(const std::string& mode, const Expr& index, const Expr& extent) {
  Expr wide = cast(kInt64, index);
  if (mode == "wrap") return floormod(wide, extent);
  if (mode == "from_end") return from_end(wide, extent);
  return min(max(wide, Expr(0)), extent - 1);
}

Relation take_type(RelationContext& c, const Attrs& attrs) {
  const TakeAttrs& a = attrs_as<TakeAttrs>(attrs);
  const TensorType *x = c.tensor(0), *indices = c.tensor(1);
  if (!x || !indices) return Relation::kWaits;
  require_integers(c, 1, *indices);
  if (a.mode != "clip" && a.mode != "wrap" && a.mode != "from_end" && a.mode != "fast")
    mismatch(c, "mode is `{}`, must be clip, wrap, from_end or fast", a.mode);
  Shape shape = indices->shape;
  if (a.axis) {
    int64_t axis = front_axis(c, *a.axis, static_cast<int64_t>(x->shape.size()));
    int64_t most = std::min(axis, static_cast<int64_t>(indices->shape.size()));
    if (a.batch_dims < 0 || a.batch_dims > most)
      mismatch(c, "batch_dims is {}, must be from 0 to {}", a.batch_dims, most);
    require_batches(c, x->shape, indices->shape, a.batch_dims);
    shape.assign(x->shape.begin(), x->shape.begin() + axis);
    shape.insert(shape.end(), indices->shape.begin() + a.batch_dims, indices->shape.end());
    shape.insert(shape.end(), x->shape.begin() + axis + 1, x->shape.end());
  }
  require_elements(c, *x, shape);
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers take(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const TakeAttrs& a = attrs_as<TakeAttrs>(attrs);
  const Buffer &x = in[0], &positions = in[1];
  if (is_empty(x->shape)) return chosen_of_none(f, result);
  const Shape& shape = tensor_of(result).shape;
  if (!a.axis)
    return {f.compute("take", shape, [&](Vars i) {
      // Without an axis x is seen as one row.
      Expr flat = placed(a.mode, at(positions, i), dims_product(x->shape, 0, x->shape.size()));
      std::vector<Expr> indices(x->shape.size());
      for (size_t d = indices.size(); d-- > 0;) {
        indices[d] = d ? floormod(flat, x->shape[d]) : flat;
        flat = floordiv(flat, x->shape[d]);
      }
      return load(x, indices);
    })};
  size_t axis = wrapped(*a.axis, x->shape.size()), batch = static_cast<size_t>(a.batch_dims);
  size_t width = positions->shape.size() - batch;
  return {f.compute("take", shape, [&](Vars i) {
    // Result axes: those of x before `axis` (batch dimensions among them), those of the indices but the batch
    // dimensions, those of x behind.
    std::vector<Expr> position(i.begin(), i.begin() + static_cast<int64_t>(batch));
    position.insert(position.end(), i.begin() + static_cast<int64_t>(axis),
                    i.begin() + static_cast<int64_t>(axis + width));
    std::vector<Expr> indices(i.begin(), i.begin() + static_cast<int64_t>(axis));
    indices.push_back(placed(a.mode, load(positions, position), x->shape[axis]));
    indices.insert(indices.end(), i.begin() + static_cast<int64_t>(axis + width), i.end());
    return load(x, indices);
  })};
}

Relation gather_type(RelationContext& c, const Attrs& attrs) {
  const TensorType *x = c.tensor(0), *indices = c.tensor(1);
  if (!x || !indices) return Relation::kWaits;
  require_integers(c, 1, *indices);
  require_rank(c, 1, *indices, x->shape.size());
  int64_t rank = static_cast<int64_t>(x->shape.size());
  require_within(c, *indices, *x, front_axis(c, attrs_as<GatherAttrs>(attrs).axis, rank));
  require_elements(c, *x, indices->shape);
  c.result(tensor_type(indices->shape, x->dtype));
  return Relation::kSolved;
}

Buffers gather(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  size_t axis = wrapped(attrs_as<GatherAttrs>(attrs).axis, in[0]->shape.size());
  if (is_empty(in[0]->shape)) return chosen_of_none(f, result);
  return {f.compute("gather", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = from_end(cast(kInt64, at(in[1], i)), in[0]->shape[axis]);
    return load(in[0], indices);
  })};
}

/// indices (M, ...): the first dimension holds the coordinates of one element or slice.
Relation gather_nd_type(RelationContext& c, const Attrs& attrs) {
  const GatherNdAttrs& a = attrs_as<GatherNdAttrs>(attrs);
  const TensorType *x = c.tensor(0), *indices = c.tensor(1);
  if (!x || !indices) return Relation::kWaits;
  require_integers(c, 1, *indices);
  // The rank of the result depends on it.
  if (indices->shape.empty() || !as_int(indices->shape[0]))
    mismatch(c, "the first dimension of indices {} must be known", describe(indices->shape));
  if (a.batch_dims < 0 || a.batch_dims > static_cast<int64_t>(indices->shape.size()) - 1)
    mismatch(c, "batch_dims is {}, must be from 0 to {}", a.batch_dims, indices->shape.size() - 1);
  int64_t depth = int_value(indices->shape[0]) + a.batch_dims;
  if (depth > static_cast<int64_t>(x->shape.size()))
    mismatch(c, "indices of {} name {} axes, {} has fewer", describe(indices->shape), depth,
             describe(x->shape));
  require_batches(c, x->shape, std::span(indices->shape).subspan(1), a.batch_dims);
  Shape shape{indices->shape.begin() + 1, indices->shape.end()};
  shape.insert(shape.end(), x->shape.begin() + depth, x->shape.end());
  require_elements(c, *x, shape);
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers gather_nd(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  size_t batch = static_cast<size_t>(attrs_as<GatherNdAttrs>(attrs).batch_dims),
         width = in[1]->shape.size() - 1;
  int64_t depth = int_value(in[1]->shape[0]);
  if (is_empty(in[0]->shape)) return chosen_of_none(f, result);
  return {f.compute("gather_nd", tensor_of(result).shape, [&](Vars i) {
    // Result axes: those of the tuples of indices, then those of x that the tuples do not name.
    std::vector<Expr> indices(i.begin(), i.begin() + static_cast<int64_t>(batch)), position{Expr(0)};
    position.insert(position.end(), i.begin(), i.begin() + static_cast<int64_t>(width));
    for (int64_t m = 0; m < depth; ++m) {
      position[0] = m;
      indices.push_back(from_end(cast(kInt64, load(in[1], position)), in[0]->shape[indices.size()]));
    }
    indices.insert(indices.end(), i.begin() + static_cast<int64_t>(width), i.end());
    return load(in[0], indices);
  })};
}

bool is_reduction(const std::string& name) {
  return name == "update" || name == "add" || name == "mul" || name == "min" || name == "max";
}

Expr reduced(const std::string& reduction, const Expr& old, const Expr& update) {
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  if (reduction == "min") return min(old, update);
  return reduction == "max" ? max(old, update) : update;
}

/// Loops over every element of `shape` around body(indices). `keeps(d)`: what body writes for different
/// indices d is at different places, so that all cores may run the loop, if it is the outermost.
tir::Stmt loops_over(const Shape& shape, const char* name, const std::function<bool(size_t d)>& keeps,
                     const std::function<tir::Stmt(const std::vector<Expr>&)>& body) {
  std::vector<Var> vars;
  for (size_t d = 0; d < shape.size(); ++d) vars.push_back(var(fmt::format("{}{}", name, d)));
  tir::Stmt nest = body({vars.begin(), vars.end()});
  size_t outermost = 0;
  while (outermost < shape.size() && is_int(shape[outermost], 1)) ++outermost;
  if (outermost < shape.size() && keeps(outermost))
    return for_all(
        shape, vars, [](size_t) { return false; }, std::move(nest));
  for (size_t d = shape.size(); d-- > 0;) nest = tir::for_loop(vars[d], shape[d], nest);
  return nest;
}

/// A copy of `x`, then one update an element of `updates`, in order (later ones win). `keeps(d)`: dimension d
/// of `updates` is one of the result, whose indices target(indices) keeps.
Buffer scattered(FuncBuilder& f, const Buffer& x, const Buffer& indices, const Buffer& updates,
                 const std::string& reduction, const std::function<bool(size_t d)>& keeps,
                 const std::function<std::vector<Expr>(const std::vector<Expr>&)>& target) {
  // Opaque: which elements are written is known when it runs, so schedules must not split or reorder it.
  return f.opaque("scatter", x->shape, x->dtype, {x, indices, updates}, [&](const Buffer& out) {
    tir::Stmt copy = loops_over(
        x->shape, "i", [](size_t) { return true; },
        [&](const std::vector<Expr>& i) { return tir::store(out, i, load(x, i)); });
    if (is_empty(x->shape)) return copy;  // nothing is put there in any run
    // In the order of `updates`: where two go to one place, the last stays.
    tir::Stmt update = loops_over(updates->shape, "u", keeps, [&](const std::vector<Expr>& u) {
      std::vector<Expr> to = target(u);
      return tir::store(out, to, reduced(reduction, load(out, to), load(updates, u)));
    });
    return tir::seq({copy, update});
  });
}

Relation scatter_elements_type(RelationContext& c, const Attrs& attrs) {
  const ScatterElementsAttrs& a = attrs_as<ScatterElementsAttrs>(attrs);
  const TensorType *x = c.tensor(0), *indices = c.tensor(1), *updates = c.tensor(2);
  if (!x || !indices || !updates) return Relation::kWaits;
  if (!is_reduction(a.reduction))
    mismatch(c, "reduction is `{}`, must be update, add, mul, min or max", a.reduction);
  require_integers(c, 1, *indices);
  require_rank(c, 1, *indices, x->shape.size());
  require_elements(c, *x, indices->shape);
  demand(c, 2, indices->shape, x->dtype);
  require_within(c, *indices, *x, front_axis(c, a.axis, static_cast<int64_t>(x->shape.size())));
  return same_as_input(c, attrs);
}

Buffers scatter_elements(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const ScatterElementsAttrs& a = attrs_as<ScatterElementsAttrs>(attrs);
  size_t axis = wrapped(a.axis, in[0]->shape.size());
  return {scattered(
      f, in[0], in[1], in[2], a.reduction, [&](size_t d) { return d != axis; },
      [&](std::vector<Expr> u) {
        u[axis] = from_end(cast(kInt64, load(in[1], u)), in[0]->shape[axis]);
        return u;
      })};
}

/// indices (M, ...) as gather_nd; updates (..., rest of x).
Relation scatter_nd_type(RelationContext& c, const Attrs& attrs) {
  const ScatterNdAttrs& a = attrs_as<ScatterNdAttrs>(attrs);
  const TensorType *x = c.tensor(0), *indices = c.tensor(1);
  if (!x || !indices) return Relation::kWaits;
  if (!is_reduction(a.mode)) mismatch(c, "mode is `{}`, must be update, add, mul, min or max", a.mode);
  require_integers(c, 1, *indices);
  if (indices->shape.empty() || !as_int(indices->shape[0]) ||
      int_value(indices->shape[0]) > static_cast<int64_t>(x->shape.size()))
    mismatch(c, "indices of {} do not name axes of {}", describe(indices->shape), describe(x->shape));
  Shape shape{indices->shape.begin() + 1, indices->shape.end()};
  shape.insert(shape.end(), x->shape.begin() + int_value(indices->shape[0]), x->shape.end());
  require_elements(c, *x, shape);
  demand(c, 2, shape, x->dtype);
  return same_as_input(c, attrs);
}

Buffers scatter_nd(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  size_t width = in[1]->shape.size() - 1;
  int64_t depth = int_value(in[1]->shape[0]);
  return {scattered(
      f, in[0], in[1], in[2], attrs_as<ScatterNdAttrs>(attrs).mode, [&](size_t d) { return d >= width; },
      [&](const std::vector<Expr>& u) {
        std::vector<Expr> position{Expr(0)}, to;
        position.insert(position.end(), u.begin(), u.begin() + static_cast<int64_t>(width));
        for (int64_t m = 0; m < depth; ++m) {
          position[0] = m;
          to.push_back(from_end(cast(kInt64, load(in[1], position)), in[0]->shape[to.size()]));
        }
        to.insert(to.end(), u.begin() + static_cast<int64_t>(width), u.end());
        return to;
      })};
}

constexpr Op row(const char* name, const char* doc, int args, const NodeType* attrs, InferType infer,
                 Compute compute, Fusion fusion) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = fusion,
          .narrow = args == 2 ? NarrowRule::kChoice : NarrowRule::kReal,  // scattering puts others between
          .refusal = Refusal::kOfNothing};
}

constexpr Op kIndexingOps[] = {
    row("take", "Slices of x at the positions in the second argument, along `axis`.", 2, &TakeAttrs::kType,
        take_type, take, Fusion::kInjective),
    row("gather", "out[i] = x[i with i[axis] replaced by indices[i]].", 2, &GatherAttrs::kType, gather_type,
        gather, Fusion::kInjective),
    row("gather_nd", "Elements or slices at coordinates along the first dimension of indices.", 2,
        &GatherNdAttrs::kType, gather_nd_type, gather_nd, Fusion::kInjective),
    row("scatter_elements", "x with updates put where indices say, along `axis`.", 3,
        &ScatterElementsAttrs::kType, scatter_elements_type, scatter_elements, Fusion::kOpaque),
    row("scatter_nd", "x with updates put at coordinates along the first dimension of indices.", 3,
        &ScatterNdAttrs::kType, scatter_nd_type, scatter_nd, Fusion::kOpaque),
};
}  // namespace

std::span<const Op> indexing_ops() { return kIndexingOps; }

}  // namespace lathe::relay::ops
