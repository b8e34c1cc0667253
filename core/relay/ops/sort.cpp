// Orders and running totals along one axis, and what is kept of an order.
#include <algorithm>
#include <cmath>

#include "core/relay/ops/attrs_vision.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

size_t wrapped(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

Expr is_nan(const Expr& x) { return intrinsic(Intrinsic::kIsNan, x); }

/// rank[i] = how many elements along the axis come before element i; equal ones keep their order, and NaN
/// stands behind all numbers.
Buffer ranks(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending) {
  Buffer rank = f.reduce("rank", x->shape, {x->shape[axis]}, tir::Combiner::kSum, [&](Vars i, Vars r) {
    std::vector<Expr> other = as_indices(i);
    other[axis] = r[0];
    Expr mine = at(x, i), theirs = load(x, other);
    Expr before = ascending ? less(theirs, mine) : less(mine, theirs);
    Expr tie = logical_and(equal(theirs, mine), less(r[0], i[axis]));
    // Of 32 bits: twice as many are counted at once, and nobody compares more elements with each other.
    return cast(kInt32, logical_or(before, tie));
  });
  if (!x->dtype.is_float()) return rank;
  // A NaN compares with nothing and so is before no number. Its own rank follows from the number of NaNs,
  // which costs less than comparisons of all with all that know of it.
  const Expr& extent = x->shape[axis];
  Buffer nans = f.ordered("nans", x->shape, axis, kInt64, [&](const Buffer& out, Vars i) {
    std::vector<Expr> before = as_indices(i);
    before[axis] = before[axis] - 1;
    Expr so_far = select(less(i[axis], Expr(1)), Expr(0), load(out, before));
    return so_far + cast(kInt64, is_nan(at(x, i)));
  });
  return f.compute("place", x->shape, [&](Vars i) {
    std::vector<Expr> last = as_indices(i);
    last[axis] = extent - 1;
    Expr numbers = extent - load(nans, last);
    return select(is_nan(at(x, i)), numbers + at(nans, i) - 1, cast(kInt64, at(rank, i)));
  });
}

std::vector<Var> variables_of(const Buffer& x) {
  std::vector<Var> vars;
  for (size_t d = 0; d < x->shape.size(); ++d) vars.push_back(lathe::var(fmt::format("i{}", d)));
  return vars;
}

/// positions[r] = the index along the axis of the element of rank r, for the first `count` ranks.
Buffer order_by_ranks(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  // n comparisons for each element, but all alike and in vectors: no branches, no swaps.
  Buffer rank = ranks(f, x, axis, ascending);
  Shape shape = x->shape;
  shape[axis] = count;
  return f.opaque("order", shape, kInt64, {rank}, [&](const Buffer& out) {
    const std::vector<Var> vars = variables_of(x);
    std::vector<Expr> from{vars.begin(), vars.end()}, to = from;
    to[axis] = cast(kInt64, load(rank, from));
    // Ranks are a permutation: each position is written once.
    tir::Stmt nest = tir::store(out, to, from[axis]);
    // Those of later ranks have no place.
    if (!structural_equal(count, x->shape[axis])) nest = make<tir::If>(less(to[axis], count), nest);
    for (size_t d = vars.size(); d-- > 0;) nest = tir::for_loop(vars[d], x->shape[d], nest);
    return nest;
  });
}

/// Whether `a` comes before `b`, which comes first where they are equal. NaN stands behind all numbers.
Expr comes_before(const Expr& a, const Expr& b, bool ascending) {
  if (!a.dtype().is_float()) return ascending ? less(a, b) : less(b, a);
  // True for a NaN b as well.
  const Expr is_less = logical_not(ascending ? less_equal(b, a) : less_equal(a, b));
  return logical_and(is_less, logical_not(is_nan(a)));
}

/// The elements of one row of `x`, and places of a row of `out`, which may have dimensions before those of x.
class Row {
 public:
  Row(const Buffer& x, const Buffer& out, size_t axis, std::vector<Var> vars)
      : x_(x), out_(out), axis_(axis), vars_(std::move(vars)) {}

  Expr element(const Expr& i) const { return load(x_, at_index(i)); }
  std::vector<Expr> place(const Expr& i, std::vector<Expr> before = {}) const {
    const std::vector<Expr> indices = at_index(i);
    before.insert(before.end(), indices.begin(), indices.end());
    return before;
  }
  Expr kept(const Expr& i, std::vector<Expr> before = {}) const {
    return load(out_, place(i, std::move(before)));
  }
  /// `row` for each row, by all cores where there is something to do.
  tir::Stmt for_each(tir::Stmt row) const {
    auto rows = [&](size_t d) {
      return d != axis_ && !(as_int(x_->shape[d]) && int_value(x_->shape[d]) == 1);
    };
    constexpr int64_t kFewest = 4096;  // elements; those of open rows may be many
    const Expr elements = dims_product(x_->shape, 0, x_->shape.size());
    size_t outermost = as_int(elements) && int_value(elements) < kFewest ? vars_.size() : 0;
    while (outermost < vars_.size() && !rows(outermost)) ++outermost;
    for (size_t d = vars_.size(); d-- > 0;)
      if (d != axis_)
        row = tir::for_loop(vars_[d], x_->shape[d], row,
                            d == outermost ? tir::Iteration::kParallel : tir::Iteration::kSerial);
    return row;
  }

 private:
  std::vector<Expr> at_index(const Expr& i) const {
    std::vector<Expr> indices{vars_.begin(), vars_.end()};
    indices[axis_] = i;
    return indices;
  }
  const Buffer x_, out_;
  const size_t axis_;
  const std::vector<Var> vars_;
};

/// Runs of `width` in half `from` of `out`, merged by twos into the other half. Of each element is selected
/// whose it is; nothing branches on the data.
tir::Stmt merged_runs(const Row& row, const Buffer& out, int64_t n, int64_t width, int64_t from,
                      bool ascending) {
  const Var pair = lathe::var("pair"), step = lathe::var("step");
  const Expr begin = pair * (2 * width), middle = min(begin + width, Expr(n)),
             end = min(begin + 2 * width, Expr(n));
  // The first elements of both runs that are not merged yet, and whose turn it is.
  const Buffer state = tir::buffer("state", {Expr(3)}, kInt64, tir::Scope::kLocal);
  auto set = [&](int64_t i, const Expr& value) { return tir::store(state, {Expr(i)}, value); };
  const Expr a = load(state, {Expr(0)}), b = load(state, {Expr(1)}), turn = load(state, {Expr(2)});
  // Where a run has ended its last element is read once more, and not taken.
  const Expr left = row.kept(min(a, Expr(n - 1)), {Expr(from)}),
             right = row.kept(min(b, Expr(n - 1)), {Expr(from)});
  const Expr is_right = logical_and(
      less(b, end),
      logical_or(less_equal(middle, a), comes_before(row.element(right), row.element(left), ascending)));
  const tir::Stmt next = tir::seq({
      set(2, cast(kInt64, is_right)),
      tir::store(out, row.place(begin + step, {Expr(1 - from)}), select(equal(turn, Expr(1)), right, left)),
      set(1, b + turn),
      // So many are merged, and the others of them were of the first run.
      set(0, begin + step + 1 - (b - middle)),
  });
  const tir::Stmt merge =
      tir::for_loop(step, Expr(2 * width), make<tir::If>(less(begin + step, Expr(n)), next));
  return tir::for_loop(pair, Expr((n + 2 * width - 1) / (2 * width)),
                       make<tir::Alloc>(state, tir::seq({set(0, begin), set(1, middle), merge})));
}

/// The same by merging runs of 1, 2, 4, ... from the bottom up (Knuth, 5.2.4): n log n steps.
Buffer order_by_merging(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  const int64_t n = int_value(x->shape[axis]);
  Shape halves = x->shape;
  halves.insert(halves.begin(), Expr(2));
  int64_t half = 0;  // that the runs are in
  const Buffer runs = f.opaque("runs", halves, kInt64, {x}, [&](const Buffer& out) {
    const Row row(x, out, axis, variables_of(x));
    const Var i = lathe::var("i");
    std::vector<tir::Stmt> passes = {
        tir::for_loop(i, Expr(n), tir::store(out, row.place(i, {Expr(0)}), cast(kInt64, i)))};
    for (int64_t width = 1; width < n; width *= 2) {
      passes.push_back(merged_runs(row, out, n, width, half, ascending));
      half = 1 - half;
    }
    return row.for_each(tir::seq(std::move(passes)));
  });
  Shape shape = x->shape;
  shape[axis] = count;
  return f.compute("order", shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices.insert(indices.begin(), Expr(half));
    return load(runs, indices);
  });
}

/// The same for few ranks, by insertion: most elements are compared with the last of those kept so far alone.
Buffer order_by_insertion(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, int64_t count) {
  Shape shape = x->shape;
  shape[axis] = count;
  return f.opaque("order", shape, kInt64, {x}, [&](const Buffer& out) {
    const std::vector<Var> vars = variables_of(x);
    const Row row(x, out, axis, vars);
    const Var &i = vars[axis], step = lathe::var("step");
    // Of those kept, in order: found by their positions they would be two loads, one after the other.
    const Buffer values = tir::buffer("values", {Expr(count)}, x->dtype, tir::Scope::kLocal);
    auto is_before = [&](const Expr& r) {
      return comes_before(row.element(i), load(values, {r}), ascending);
    };
    auto put = [&](const Expr& r, const Expr& position, const Expr& value) {
      return tir::seq({tir::store(out, row.place(r), position), tir::store(values, {r}, value)});
    };
    // From the last slot to the first: those behind x[i] move up by one, then it goes where the last one was.
    const Expr r = Expr(count - 1) - step;
    const tir::Stmt here = put(r, i, row.element(i)), moved = put(r, row.kept(r - 1), load(values, {r - 1}));
    // Slots from i on are empty.
    const tir::Stmt here_if_first = make<tir::If>(equal(r, i), here, make<tir::If>(is_before(r), here));
    const tir::Stmt place =
        make<tir::If>(less(Expr(0), r), make<tir::If>(is_before(r - 1), moved, here_if_first), here_if_first);
    const tir::Stmt insert = tir::for_loop(step, count, make<tir::If>(less_equal(r, i), place));
    const tir::Stmt nest =
        make<tir::If>(less(i, Expr(count)), insert, make<tir::If>(is_before(Expr(count - 1)), insert));
    return row.for_each(make<tir::Alloc>(values, tir::for_loop(i, x->shape[axis], nest)));
  });
}

/// The positions of the first `count` elements in order, by what takes the least time for so many.
Buffer order(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  if (!as_int(x->shape[axis]) || !as_int(count)) return order_by_ranks(f, x, axis, ascending, count);
  const auto n = static_cast<double>(int_value(x->shape[axis])), k = static_cast<double>(int_value(count));
  // In comparisons of all with all, which are in vectors: what else takes a step looks up, and selects. Of a
  // random row k (1 + ln(n / k)) elements are kept for a while, and each moves others.
  constexpr double kOfMerging = 54, kOfLooking = 4, kOfInsertion = 6.5;
  const double by_ranks = n * n, by_merging = kOfMerging * n * std::ceil(std::log2(std::max(n, 2.0))),
               by_insertion = kOfLooking * n +
                              kOfInsertion * k * k * (1 + std::log(std::max(n, 1.0) / std::max(k, 1.0)));
  constexpr double kMostKept = 4096;  // on the stack
  if (k <= kMostKept && by_insertion < std::min(by_ranks, by_merging))
    return order_by_insertion(f, x, axis, ascending, int_value(count));
  if (by_merging < by_ranks) return order_by_merging(f, x, axis, ascending, count);
  return order_by_ranks(f, x, axis, ascending, count);
}

/// The elements at `positions` along `axis`.
Buffer picked(FuncBuilder& f, const Buffer& x, const Buffer& positions, size_t axis) {
  return f.compute("picked", positions->shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = at(positions, i);
    return load(x, indices);
  });
}

Buffer converted(FuncBuilder& f, const Buffer& positions, DataType dtype) {
  return f.compute("indices", positions->shape, [&](Vars i) { return cast(dtype, at(positions, i)); });
}

template <bool kIndices>
Relation sort_type(RelationContext& c, const Attrs& attrs) {
  const SortAttrs& a = attrs_as<SortAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  c.result(tensor_type(x->shape, kIndices ? a.dtype : x->dtype));
  return Relation::kSolved;
}

template <bool kIndices>
Buffers sort(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const SortAttrs& a = attrs_as<SortAttrs>(attrs);
  size_t axis = wrapped(a.axis, in[0]->shape.size());
  Buffer positions = order(f, in[0], axis, a.is_ascend, in[0]->shape[axis]);
  return {kIndices ? converted(f, positions, a.dtype) : picked(f, in[0], positions, axis)};
}

Relation topk_type(RelationContext& c, const Attrs& attrs) {
  const TopkAttrs& a = attrs_as<TopkAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
  Shape shape = x->shape;
  if (a.k >= 1) {
    if (as_int(shape[axis]) && int_value(shape[axis]) < a.k)
      mismatch(c, "k is {}, axis {} of {} has fewer", a.k, axis, describe(x->shape));
    shape[axis] = a.k;
  }
  Type values = tensor_type(shape, x->dtype), indices = tensor_type(shape, a.dtype);
  if (a.ret_type == "both")
    c.result(tuple_type({values, indices}));
  else if (a.ret_type == "values")
    c.result(values);
  else if (a.ret_type == "indices")
    c.result(indices);
  else
    mismatch(c, "ret_type is `{}`, must be both, values or indices", a.ret_type);
  return Relation::kSolved;
}

Buffers topk(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const TopkAttrs& a = attrs_as<TopkAttrs>(attrs);
  size_t axis = wrapped(a.axis, in[0]->shape.size());
  Buffer positions = order(f, in[0], axis, a.is_ascend, tensor_of(result).shape[axis]);
  if (a.ret_type == "indices") return {converted(f, positions, a.dtype)};
  Buffer values = picked(f, in[0], positions, axis);
  return a.ret_type == "values" ? Buffers{values} : Buffers{values, converted(f, positions, a.dtype)};
}

Relation scan_type(RelationContext& c, const Attrs& attrs) {
  const ScanAttrs& a = attrs_as<ScanAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  if (a.axis) front_axis(c, *a.axis, static_cast<int64_t>(x->shape.size()));
  // Without an axis the tensor is scanned as one row.
  Shape shape = a.axis ? x->shape : Shape{dims_product(x->shape, 0, x->shape.size())};
  c.result(tensor_type(shape, a.dtype.value_or(x->dtype)));
  return Relation::kSolved;
}

/// out[0] = start, out[i] = out[i-1] combined with x[i-1] when exclusive; else out[i] includes x[i].
template <tir::Combiner kCombiner>
Buffers scan(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const ScanAttrs& a = attrs_as<ScanAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Buffer x = in[0];
  if (!a.axis)
    x = f.compute("flat", type.shape, [&](Vars i) {
      std::vector<Expr> indices(in[0]->shape.size());
      Expr rest = i[0];
      for (size_t d = indices.size(); d-- > 0; rest = floordiv(rest, in[0]->shape[d]))
        indices[d] = floormod(rest, in[0]->shape[d]);
      return load(in[0], indices);
    });
  size_t axis = a.axis ? wrapped(*a.axis, x->shape.size()) : 0;
  return {f.ordered("scan", type.shape, axis, type.dtype, [&](const Buffer& out, Vars vars) {
    std::vector<Expr> here = as_indices(vars), before = here;
    before[axis] = here[axis] - 1;
    Expr start = identity_of(kCombiner, type.dtype), first = less(here[axis], Expr(1));
    Expr previous = select(first, start, load(out, before));
    Expr value = cast(type.dtype, load(x, a.exclusive ? before : here));
    if (a.exclusive) value = select(first, start, value);
    return combine(kCombiner, previous, value);
  })};
}

/// Edges of a box.
struct Box {
  Expr top, left, bottom, right;
  Expr area() const { return (bottom - top) * (right - left); }
};

Box box_at(const Buffer& boxes, const Expr& batch, const Expr& number, bool centred) {
  Expr at[4];
  for (int k = 0; k < 4; ++k) at[k] = load(boxes, {batch, number, Expr(k)});
  if (!centred) return {min(at[0], at[2]), min(at[1], at[3]), max(at[0], at[2]), max(at[1], at[3])};
  const Expr width = at[2] * real(at[2], 0.5), height = at[3] * real(at[3], 0.5);
  return {at[1] - height, at[0] - width, at[1] + height, at[0] + width};
}

/// Whether the part of two boxes' union that lies in both is more than `share`.
Expr overlaps(const Box& a, const Box& b, const Expr& share) {
  const Expr zero = real(share, 0);
  const Expr height = max(min(a.bottom, b.bottom) - max(a.top, b.top), zero),
             width = max(min(a.right, b.right) - max(a.left, b.left), zero);
  const Expr common = height * width;
  return logical_and(less(zero, common), less(share * (a.area() + b.area() - common), common));
}

Relation keep_best_type(RelationContext& c, const Attrs&) {
  const TensorType *boxes = c.tensor(0), *order = c.tensor(1);
  if (!boxes || !order) return Relation::kWaits;
  require_rank(c, 0, *boxes, 3);
  require_float(c, 0, *boxes);
  require_rank(c, 1, *order, 3);
  require_integers(c, 1, *order);
  c.equal_dims(boxes->shape[2], 4);
  c.equal_dims(boxes->shape[0], order->shape[0]);
  c.equal_dims(boxes->shape[1], order->shape[2]);
  demand(c, 2, order->shape, kBool);
  demand(c, 3, {}, kInt64);
  demand(c, 4, {}, boxes->dtype);
  c.result(tensor_type(order->shape, kBool));
  return Relation::kSolved;
}

/// How many are kept of each class is counted behind its boxes.
Buffers keep_best(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const bool centred = attrs_as<KeepBestAttrs>(attrs).centred;
  const Buffer &boxes = in[0], &order = in[1], &valid = in[2];
  Shape shape = tensor_of(result).shape;
  const Expr count = shape[2];
  shape[2] = count + 1;
  const Buffer kept =
      f.opaque("kept", shape, kInt64, {boxes, order, valid, in[3], in[4]}, [&](const Buffer& out) {
        const Var batch = lathe::var("batch"), cls = lathe::var("class"), i = lathe::var("i"),
                  j = lathe::var("j");
        auto at = [&](const Expr& rank) { return std::vector<Expr>{batch, cls, rank}; };
        auto box = [&](const Expr& rank) {
          return box_at(boxes, batch, cast(kInt64, load(order, at(rank))), centred);
        };
        const tir::Stmt none = tir::store(out, at(count), 0);
        const tir::Stmt begin = tir::store(out, at(i), cast(kInt64, load(valid, at(i))));
        const Expr covered = logical_and(
            logical_and(less(j, i), less(Expr(0), load(out, at(j)))),
            logical_and(less(Expr(0), load(out, at(i))), overlaps(box(j), box(i), load(in[4], {}))));
        const tir::Stmt compare = tir::for_loop(j, count, make<tir::If>(covered, tir::store(out, at(i), 0)));
        const tir::Stmt keep = tir::store(out, at(count), load(out, at(count)) + 1);
        const tir::Stmt end = make<tir::If>(
            less(Expr(0), load(out, at(i))),
            make<tir::If>(less(load(out, at(count)), load(in[3], {})), keep, tir::store(out, at(i), 0)));
        tir::Stmt nest = tir::seq({none, tir::for_loop(i, count, tir::seq({begin, compare, end}))});
        nest = tir::for_loop(cls, shape[1], nest);
        return tir::for_loop(batch, shape[0], nest);
      });
  return {f.compute("is_kept", tensor_of(result).shape, [&](Vars v) { return less(Expr(0), at(kept, v)); })};
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute) {
  return {.name = name,
          .doc = doc,
          .args = 1,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kOpaque};
}

constexpr Op kSortOps[] = {
    row("sort", "The elements along `axis` in order, NaN last.", &SortAttrs::kType, sort_type<false>,
        sort<false>),
    row("argsort",
        "Positions of the elements along `axis` in order, those of NaN last; equal ones keep theirs.",
        &SortAttrs::kType, sort_type<true>, sort<true>),
    row("topk", "The k largest (smallest) along `axis`, and their positions; NaN comes after all numbers.",
        &TopkAttrs::kType, topk_type, topk),
    row("cumsum", "Running sums along `axis`.", &ScanAttrs::kType, scan_type, scan<tir::Combiner::kSum>),
    row("cumprod", "Running products along `axis`.", &ScanAttrs::kType, scan_type,
        scan<tir::Combiner::kProd>),
    {.name = "vision.keep_best",
     .doc = "Of boxes (b, n, 4) whether each is kept, taken in `order` (b, classes, n) of each class: where "
            "it is "
            "valid, overlaps none that is kept by more than a share of their union, and is among the first "
            "`limit` "
            "kept. (boxes, order, valid, limit, share)",
     .args = 5,
     .attrs = &KeepBestAttrs::kType,
     .infer = keep_best_type,
     .compute = keep_best,
     .fusion = Fusion::kOpaque},
};
}  // namespace

std::span<const Op> sort_ops() { return kSortOps; }

}  // namespace lathe::relay::ops
