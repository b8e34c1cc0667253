// Elements moved by an index map: slices, repetitions, padding, blocks to and from channels.
#include <algorithm>

#include "core/relay/analysis/sizes.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

int64_t wrapped(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

/// The slice along each axis; nothing for an axis that stays whole.
std::vector<std::optional<Slice>> slices_of(const StridedSliceAttrs& a, const Shape& shape) {
  std::vector<std::optional<Slice>> slices(shape.size());
  for (size_t k = 0; k < a.begin.size(); ++k) {
    size_t d = a.axes ? static_cast<size_t>(wrapped((*a.axes)[k], shape.size())) : k;
    // Of an extent that has not even a name nothing can be normalized.
    if (shape[d].as<Any>()) continue;
    int64_t begin = a.begin[k], end = k < a.end.size() ? a.end[k] : INT64_MAX;
    // `end` is a number of elements then; a negative one means all that follow.
    if (a.slice_mode == "size") {
      const bool to_end = end < 0 || end >= kBeyondAnyAxis || (begin < 0 && begin + end >= 0);
      end = to_end ? INT64_MAX : begin + end;
    }
    slices[d] = numpy_slice(begin, end, a.stride(k), shape[d]);
  }
  return slices;
}

Relation strided_slice_type(RelationContext& c, const Attrs& attrs) {
  const StridedSliceAttrs& a = attrs_as<StridedSliceAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  int64_t rank = static_cast<int64_t>(x->shape.size());
  if (a.axes ? a.axes->size() != a.begin.size() : static_cast<int64_t>(a.begin.size()) > rank)
    mismatch(c, "begin has {} numbers for {} axes", a.begin.size(),
             a.axes ? a.axes->size() : x->shape.size());
  for (int64_t axis : a.axes.value_or(Ints{})) front_axis(c, axis, rank);
  if (a.strides.size() > 1 && a.strides.size() != a.begin.size())
    mismatch(c, "strides has {} numbers, begin {}", a.strides.size(), a.begin.size());
  for (int64_t stride : a.strides)
    if (stride == 0) mismatch(c, "a stride is 0");
  Shape shape = x->shape;
  std::vector<std::optional<Slice>> slices = slices_of(a, shape);
  for (size_t k = 0; k < a.begin.size(); ++k) {
    size_t d = a.axes ? static_cast<size_t>(wrapped((*a.axes)[k], shape.size())) : k;
    // To the end: such a slice keeps even an unknown extent.
    bool whole = a.begin[k] == 0 && k < a.end.size() && a.end[k] >= kBeyondAnyAxis && a.strides.empty();
    if (slices[d])
      shape[d] = slices[d]->count;
    else if (!whole)
      shape[d] = any_dim();
  }
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers strided_slice(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  std::vector<std::optional<Slice>> slices = slices_of(attrs_as<StridedSliceAttrs>(attrs), in[0]->shape);
  return {f.compute("slice", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    for (size_t d = 0; d < indices.size(); ++d)
      if (slices[d]) indices[d] = indices[d] * Expr(slices[d]->stride) + slices[d]->begin;
    return load(in[0], indices);
  })};
}

Relation tile_type(RelationContext& c, const Attrs& attrs) {
  const Ints& reps = attrs_as<TileAttrs>(attrs).reps;
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  // Aligned at the end: the shorter of shape and reps gets ones in front.
  size_t rank = std::max(reps.size(), x->shape.size());
  Shape shape(rank, Expr(1));
  std::copy(x->shape.begin(), x->shape.end(), shape.end() - static_cast<int64_t>(x->shape.size()));
  for (size_t k = 0; k < reps.size(); ++k) {
    Expr& dim = shape[rank - reps.size() + k];
    if (reps[k] < 0) mismatch(c, "reps has {}, must not be negative", reps[k]);
    if (!dim.as<Any>()) dim = dim * reps[k];
  }
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers tile(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  const Buffer& x = in[0];
  return {f.compute("tile", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices;
    for (size_t d = 0; d < x->shape.size(); ++d)
      indices.push_back(floormod(i[i.size() - x->shape.size() + d], x->shape[d]));
    return load(x, indices);
  })};
}

Relation repeat_type(RelationContext& c, const Attrs& attrs) {
  const RepeatAttrs& a = attrs_as<RepeatAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Shape shape = x->shape;
  Expr& dim = shape[front_axis(c, a.axis, static_cast<int64_t>(shape.size()))];
  if (a.repeats < 1) mismatch(c, "repeats is {}, must be at least 1", a.repeats);
  if (!dim.as<Any>()) dim = dim * a.repeats;
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Buffers repeat(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const RepeatAttrs& a = attrs_as<RepeatAttrs>(attrs);
  int64_t axis = wrapped(a.axis, in[0]->shape.size());
  return {f.compute("repeat", tensor_of(result).shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = floordiv(indices[axis], Expr(a.repeats));
    return load(in[0], indices);
  })};
}

Relation reverse_type(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0))
    front_axis(c, attrs_as<ReverseAttrs>(attrs).axis, static_cast<int64_t>(x->shape.size()));
  return same_as_input(c, attrs);
}

Buffers reverse(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  int64_t axis = wrapped(attrs_as<ReverseAttrs>(attrs).axis, in[0]->shape.size());
  return {f.compute("reverse", in[0]->shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = in[0]->shape[axis] - 1 - indices[axis];
    return load(in[0], indices);
  })};
}

/// What padding is made of.
enum class Made : uint8_t { kOfNumber, kOfEdge, kOfReflection, kOfReflectionWithEdge };

/// How many elements an axis must have to be padded by as many as `most`.
int64_t least_to_pad(Made made, int64_t most) {
  if (most <= 0 || made == Made::kOfNumber) return 0;
  if (made == Made::kOfEdge) return 1;
  // A reflection reads as many elements as it adds, all inside the tensor; the edge is not among them where
  // it is not repeated.
  return made == Made::kOfReflection ? most + 1 : most;
}

Relation padded_type(RelationContext& c, const std::vector<Ints>& widths, Made made) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  if (widths.size() != x->shape.size())
    mismatch(c, "pad_width has {} pairs, {} has rank {}", widths.size(), describe(x->shape), x->shape.size());
  Shape shape = x->shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (widths[d].size() != 2) mismatch(c, "pad_width[{}] must be a pair: before and after", d);
    const int64_t most = std::max(widths[d][0], widths[d][1]), least = least_to_pad(made, most);
    if (as_int(shape[d]) && int_value(shape[d]) < least) {
      if (made == Made::kOfEdge) mismatch(c, "{} has no edge to repeat", describe(x->shape));
      mismatch(c, "pad_width[{}] reflects {} elements, {} has fewer", d, most, describe(x->shape));
    }
    require_at_least(c, shape[d], least);
    if (!shape[d].as<Any>()) shape[d] = shape[d] + widths[d][0] + widths[d][1];
    if (as_int(shape[d]) && int_value(shape[d]) < 0)
      mismatch(c, "pad_width[{}] takes more than {} has", d, describe(x->shape));
  }
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

Relation pad_type(RelationContext& c, const Attrs& attrs) {
  const PadAttrs& a = attrs_as<PadAttrs>(attrs);
  if (a.pad_mode != "constant" && a.pad_mode != "edge" && a.pad_mode != "reflect")
    mismatch(c, "pad_mode is `{}`, must be constant, edge or reflect", a.pad_mode);
  const TensorType *x = c.tensor(0), *value = c.tensor(1);
  if (!x || !value) return Relation::kWaits;
  require_dtype(c, 1, *value, x->dtype);
  // One number, of whatever rank.
  demand(c, 1, Shape(value->shape.size(), Expr(1)), x->dtype);
  if (a.pad_mode == "constant") return padded_type(c, a.pad_width, Made::kOfNumber);
  return padded_type(c, a.pad_width, a.pad_mode == "edge" ? Made::kOfEdge : Made::kOfReflection);
}
Relation mirror_pad_type(RelationContext& c, const Attrs& attrs) {
  const MirrorPadAttrs& a = attrs_as<MirrorPadAttrs>(attrs);
  if (a.mode != "SYMMETRIC" && a.mode != "REFLECT")
    mismatch(c, "mode is `{}`, must be SYMMETRIC or REFLECT", a.mode);
  return padded_type(c, a.pad_width, a.mode == "REFLECT" ? Made::kOfReflection : Made::kOfReflectionWithEdge);
}

/// A program says nothing of the least extent that a run may have. Of the ends alone, so that loops
/// are still cut where the tensor itself begins and is copied as it lies.
Expr not_before(const Expr& at, const Expr& extent) { return as_int(extent) ? at : max(at, Expr(0)); }
Expr not_behind(const Expr& at, const Expr& extent) { return as_int(extent) ? at : min(at, extent - 1); }

/// Positions beyond the ends: the nearest element; reflected about the last element; about the edge behind
/// it. As choices, which loops are cut at.
Expr nearest(const Expr& at, const Expr& extent) {
  return select(less(at, Expr(0)), Expr(0), select(less(at, extent), at, extent - 1));
}
Expr reflected(const Expr& at, const Expr& extent) {
  return select(less(at, Expr(0)), not_behind(Expr(0) - at, extent),
                select(less(at, extent), at, not_before((extent - 1) * 2 - at, extent)));
}
Expr mirrored(const Expr& at, const Expr& extent) {
  return select(less(at, Expr(0)), not_behind(Expr(-1) - at, extent),
                select(less(at, extent), at, not_before(extent * 2 - 1 - at, extent)));
}

/// out[i] = in[where(i - before)], a map of each axis into the tensor.
Buffer pad_by(FuncBuilder& f, const Buffer& x, const std::vector<Ints>& widths, const Shape& shape,
              Expr (*where)(const Expr& at, const Expr& extent)) {
  return f.compute("pad", shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    for (size_t d = 0; d < indices.size(); ++d)
      if (widths[d][0] || widths[d][1]) indices[d] = where(indices[d] - widths[d][0], x->shape[d]);
    return load(x, indices);
  });
}

Buffers pad(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const PadAttrs& a = attrs_as<PadAttrs>(attrs);
  if (a.pad_mode != "constant")
    return {
        pad_by(f, in[0], a.pad_width, tensor_of(result).shape, a.pad_mode == "edge" ? nearest : reflected)};
  Ints before, after;
  for (const Ints& width : a.pad_width) {
    before.push_back(width[0]);
    after.push_back(width[1]);
  }
  Expr fill = load(in[1], std::vector<Expr>(in[1]->shape.size(), Expr(0)));
  return {padded(f, in[0], before, after, fill)};
}

Buffers mirror_pad(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const MirrorPadAttrs& a = attrs_as<MirrorPadAttrs>(attrs);
  return {pad_by(f, in[0], a.pad_width, tensor_of(result).shape, a.mode == "REFLECT" ? reflected : mirrored)};
}

template <bool kToSpace>
Relation sub_pixel_type(RelationContext& c, const Attrs& attrs) {
  const SubPixelAttrs& a = attrs_as<SubPixelAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Layout layout = Layout::parse(a.layout);
  require_axes(c, layout, "NCHW");
  require_rank(c, 0, *x, layout.rank());
  if (a.mode != "DCR" && a.mode != "CRD") mismatch(c, "mode is `{}`, must be DCR or CRD", a.mode);
  // Channels of one block belong to several pixels then.
  if (a.mode == "CRD" && layout.rank() > 4) mismatch(c, "mode CRD of channels in blocks, {}", a.layout);
  Shape shape = x->shape;
  int64_t b = a.block_size;
  // Its square must not overflow.
  if (b < 1 || b > 65536) mismatch(c, "block_size is {}, must be from 1 to 65536", b);
  for (char letter : {'C', 'H', 'W'}) {
    Expr& dim = shape[layout.position(letter)];
    // The axes that become smaller.
    int64_t divisor = (letter == 'C') == kToSpace ? (letter == 'C' ? b * b : b) : 1;
    if (as_int(dim) && int_value(dim) % divisor != 0)
      mismatch(c, "{} of {} is not a multiple of {}", letter, describe(x->shape), divisor);
    if (dim.as<Any>()) continue;
    require_multiple(c, dim, divisor);
    if (letter == 'C')
      dim = kToSpace ? floordiv(dim, Expr(b * b)) : dim * (b * b);
    else
      dim = kToSpace ? dim * b : floordiv(dim, Expr(b));
  }
  c.result(tensor_type(shape, x->dtype));
  return Relation::kSolved;
}

/// DCR: channel = (row * b + column) * C + c; CRD: channel = c * b*b + row * b + column.
template <bool kToSpace>
Buffers sub_pixel(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const SubPixelAttrs& a = attrs_as<SubPixelAttrs>(attrs);
  Layout layout = Layout::parse(a.layout);
  int ch = layout.position('C'), row = layout.position('H'), column = layout.position('W');
  Expr b = a.block_size;
  const Shape& shape = tensor_of(result).shape;
  return {f.compute("sub_pixel", shape, [&](Vars i) {
    std::vector<Expr> at = as_indices(i);
    if (kToSpace) {
      // The pixel inside its block, which chooses among the channels.
      Expr y = floormod(i[row], b), x = floormod(i[column], b);
      at[ch] = a.mode == "CRD" ? Expr(i[ch]) * b * b + y * b + x : (y * b + x) * shape[ch] + i[ch];
      at[row] = floordiv(i[row], b), at[column] = floordiv(i[column], b);
    } else {
      bool pixels_last = a.mode == "CRD";
      Expr last = pixels_last ? b * b : in[0]->shape[ch];
      Expr slow = floordiv(i[ch], last), fast = floormod(i[ch], last), part = pixels_last ? fast : slow;
      at[ch] = pixels_last ? slow : fast;
      at[row] = Expr(i[row]) * b + floordiv(part, b), at[column] = Expr(i[column]) * b + floormod(part, b);
    }
    return load(in[0], at);
  })};
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute,
                 LayoutRule layout = LayoutRule::kNone, int args = 1) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kInjective,
          .layout = layout,
          .narrow = NarrowRule::kChoice};
}

constexpr Op kMoveOps[] = {
    row("strided_slice", "begin:end:stride along axes, as in NumPy.", &StridedSliceAttrs::kType,
        strided_slice_type, strided_slice, LayoutRule::kSlice),
    row("tile", "The tensor repeated reps[d] times along each axis.", &TileAttrs::kType, tile_type, tile),
    row("repeat", "Each element repeated along `axis`.", &RepeatAttrs::kType, repeat_type, repeat),
    row("reverse", "The order along `axis` reversed.", &ReverseAttrs::kType, reverse_type, reverse),
    row("nn.pad", "Padding by the second argument, the edge, or reflection.", &PadAttrs::kType, pad_type, pad,
        LayoutRule::kPadding, 2),
    row("nn.mirror_pad", "Padding by reflection, the edge repeated (SYMMETRIC) or not (REFLECT).",
        &MirrorPadAttrs::kType, mirror_pad_type, mirror_pad),
    row("nn.depth_to_space", "Channels laid out as blocks of pixels.", &SubPixelAttrs::kType,
        sub_pixel_type<true>, sub_pixel<true>, LayoutRule::kAttribute),
    row("nn.space_to_depth", "Blocks of pixels laid out as channels.", &SubPixelAttrs::kType,
        sub_pixel_type<false>, sub_pixel<false>, LayoutRule::kAttribute),
};
}  // namespace

std::span<const Op> move_ops() { return kMoveOps; }

}  // namespace lathe::relay::ops
