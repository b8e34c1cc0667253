#include "core/relay/passes/conv3d_to_conv2d.h"

#include <map>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_zeros_by.h"
#include "core/relay/ops/window.h"
#include "core/relay/text.h"
#include "core/support/error.h"

namespace lathe::relay {
namespace {

using Shape = std::vector<lathe::Expr>;

/// Deeper results and kernels, and larger batches, are no model's.
constexpr int64_t kMostDepths = 1 << 10, kMostBatch = 1 << 10;

/// A volume (N, C, D, H, W) as images (D * N, C, H, W).
struct Images {
  Expr expr;
  lathe::Expr batch = 1;
  Expr frame;  // of shape (D, N) where N is open: the product D * N tells neither
};

/// Null where it is not known.
const TensorType* type_of(const Expr& e) {
  return e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
}
const Shape& dims_of(const Expr& e) { return type_of(e)->shape; }
/// Null where a size is open.
const TensorType* constant_type_of(const Expr& e) {
  const TensorType* type = type_of(e);
  return type && has_constant_shape(*type) ? type : nullptr;
}
Ints shape_of(const Expr& e) { return constant_shape(*constant_type_of(e)); }
/// Of any number, depth, height and width.
bool is_volume(const Expr& e) {
  const TensorType* type = type_of(e);
  return type && type->shape.size() == 5 && as_int(type->shape[1]) &&
         std::none_of(type->shape.begin(), type->shape.end(),
                      [](const lathe::Expr& dim) { return dim.as<Any>(); });
}
bool same_dims(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), prove_equal);
}

/// `codes` say the same where sizes are open.
Expr reshape(const Expr& e, const Shape& dims, Ints codes) {
  Ints shape;
  for (const lathe::Expr& dim : dims) {
    if (!as_int(dim)) return reshape(e, std::move(codes));
    shape.push_back(int_value(dim));
  }
  return reshape(e, std::move(shape));
}
/// Nothing but a shape, of dimensions d0, d1, ... of the arguments.
Expr frame(std::vector<Expr> args, std::string shape) {
  return typed_call("zeros_by", std::move(args), make<ZerosByAttrs>(std::move(shape), kBool));
}
/// Elements before and after along the outermost axis, or fewer where negative.
Expr padded(const Expr& e, int64_t before, int64_t after, double value) {
  if (before == 0 && after == 0) return e;
  Expr fill = typed_constant(full({}, type_of(e)->dtype, value));
  std::vector<Ints> width(dims_of(e).size(), Ints{0, 0});
  width[0] = {before, after};
  return typed_call("nn.pad", {e, fill}, make<PadAttrs>(width));
}

/// Along `axis`, `count` elements from `first` on, `stride` apart: where their number is open, all there are
/// from there on.
struct Points {
  int64_t axis = 0, first = 0;
  lathe::Expr count;
  int64_t stride = 1;
};
Expr points_of(const Expr& e, std::span<const Points> all) {
  auto a = std::make_unique<StridedSliceAttrs>();
  a->axes.emplace();
  for (const Points& p : all) {
    a->axes->push_back(p.axis);
    a->begin.push_back(p.first);
    const int64_t* count = as_int(p.count);
    a->end.push_back(count ? p.first + (*count - 1) * p.stride + 1 : INT64_MAX);
    a->strides.push_back(p.stride);
  }
  return typed_call("strided_slice", {e}, seal(std::move(a)));
}

/// (D * N, C, H, W) -> (D, N, C, H, W)
Expr depths_apart(const Images& images) {
  const int64_t* batch = as_int(images.batch);
  if (!batch)
    return typed_call("reshape_like",
                      {images.expr, frame({images.frame, images.expr}, "(d0, d1, d3, d4, d5)")});
  const Shape& dims = dims_of(images.expr);
  const Shape apart{floordiv(dims[0], images.batch), images.batch, dims[1], dims[2], dims[3]};
  return reshape(images.expr, apart, {-4, -1, *batch, 0, 0, 0});
}
/// (D * N, C, H, W) -> (N, C, D, H, W). Depth is outermost in the former, so that the images of one depth lie
/// together: slices of the batch are slices of depths.
Expr volume_of(const Images& images) { return transpose(depths_apart(images), {1, 2, 0, 3, 4}); }

/// A convolution of volumes, of depths that it sees one by one.
struct Convolution {
  Convolution(const Call& call)
      : attrs(ops::attrs_as<ConvAttrs>(call.attrs)),
        window(ops::window_of(attrs.strides, attrs.dilation, attrs.padding, 3)),
        kernel(shape_of(call.args[1])),
        result(call.checked_type.as<TensorType>()->shape) {}

  bool is_depthwise() const { return attrs.groups > 1 && kernel[1] == 1; }
  /// The kernel sees no neighbours in an image.
  bool sees_depth_alone() const {
    if (!as_int(result[3]) || !as_int(result[4])) return false;  // as one row they could not be told apart
    for (size_t s : {1, 2})
      if (kernel[s + 2] != 1 || window.strides[s] != 1 || window.before[s] || window.after[s]) return false;
    return true;
  }
  /// Along axis `d` it sees each stride-th point and no neighbours.
  bool skips(size_t d) const {
    return kernel[d + 2] == 1 && window.strides[d] > 1 && !window.before[d] && !window.after[d];
  }
  /// The frame of the result's images.
  Expr frame_of_result(const Images& data) const {
    const int64_t more = window.before[0] + window.after[0] - (kernel[2] - 1) * window.dilation[0] - 1;
    const lathe::Expr depths = floordiv(var("d0") + more, window.strides[0]) + 1;
    return data.frame ? frame({data.frame}, fmt::format("({}, d1)", print(simplify(depths)))) : nullptr;
  }
  /// Spatial axes 1 and 2 of the volume. What the depth does is in which images are seen.
  std::unique_ptr<ConvAttrs> attrs_of_images() const {
    auto a = mutate(attrs);
    const ops::Window& w = window;
    a->data_layout = a->kernel_layout = a->out_layout = "";
    a->strides = {w.strides[1], w.strides[2]}, a->dilation = {w.dilation[1], w.dilation[2]};
    a->padding = {w.before[1], w.before[2], w.after[1], w.after[2]};
    a->kernel_size = {kernel[3], kernel[4]};
    return a;
  }

  const ConvAttrs& attrs;
  ops::Window window;
  Ints kernel;
  Shape result;
};

bool is_at_most(const lathe::Expr& e, int64_t most) { return !as_int(e) || int_value(e) <= most; }

/// One that this pass can rewrite.
bool is_convolution(const Call& call) {
  const auto* op = call.callee.as<OpNode>();
  if (!op || op->name != "nn.conv3d" || !is_volume(call.args[0]) || !constant_type_of(call.args[1]))
    return false;
  const ConvAttrs& a = ops::attrs_as<ConvAttrs>(call.attrs);
  Convolution c(call);
  const bool moves_groups = a.groups > 1 && !c.is_depthwise() && c.kernel[2] > 1;
  if (moves_groups && !constant_type_of(call.args[0])) return false;
  return ops::is_plain(a, 3) && is_at_most(c.result[2], kMostDepths) && c.kernel[2] <= kMostDepths &&
         is_at_most(c.result[0], kMostBatch);
}

/// What a convolution sees of a volume, its padding along the depth included: that is whole images, and what
/// is within images is left to their convolution.
struct Depths {
  Depths(const Convolution& c, const Images& data) : is_apart(!as_int(data.batch)) {
    // Images of one depth are beside each other: of a number of them, slices of the batch are slices of
    // depths, but for strides, which take the images of a depth and leave out those of others.
    is_apart |= c.window.strides[0] > 1 && !is_int(data.batch, 1);
    images = is_apart ? 1 : int_value(data.batch);
    expr = padded(is_apart ? depths_apart(data) : data.expr, c.window.before[0] * images,
                  c.window.after[0] * images, static_cast<double>(c.attrs.pad_value));
  }
  Expr expr;
  bool is_apart;
  int64_t images;  // beside each other along the outermost axis, of each depth
};

/// The images that depth `tap` of the kernel sees for each depth of the result.
Expr seen_by(const Convolution& c, const Depths& data, int64_t tap) {
  const int64_t n = data.images, stride = c.window.strides[0], first = tap * c.window.dilation[0] * n,
                beyond = (c.kernel[2] - 1 - tap) * c.window.dilation[0] * n;
  const lathe::Expr count = simplify(c.result[2] * n);
  Expr e = data.expr;
  if (as_int(count)) {
    if (!prove_equal(count, dims_of(e)[0])) e = points_of(e, {{{0, first, count, stride}}});
  } else {
    // A slice has no fewer than 0 elements; what is cut off so leaves a number that is known.
    e = padded(e, -first, -beyond, 0);
    if (stride > 1) e = points_of(e, {{{0, 0, count, stride}}});
  }
  if (!data.is_apart) return e;
  const Shape& dims = dims_of(e);
  return reshape(e, {dims[0] * dims[1], dims[2], dims[3], dims[4]}, {-3, 0, 0, 0});
}

/// All that a result sees as channels: of each group, those of each depth in turn.
Expr convolution_of_depths(const Convolution& c, const Depths& data, const Expr& weight) {
  int64_t taps = c.kernel[2], channels = c.kernel[1], groups = c.attrs.groups;
  std::vector<Expr> seen;
  // Joined along the channels, which are (taps, groups, channels) then.
  // Copies of the input, taps times as much of it; what a convolution of volumes reads
  // anyhow, if not at once.
  for (int64_t tap = 0; tap < taps; ++tap) seen.push_back(seen_by(c, data, tap));
  Expr all = seen[0];
  if (taps > 1) all = typed_call("concatenate", {typed_tuple(seen)}, make<ConcatenateAttrs>(int64_t{1}));
  // A grouped convolution wants each group's channels together.
  if (taps > 1 && groups > 1) {
    Ints shape = shape_of(all);
    Expr apart = reshape(all, {shape[0], taps, groups, channels, shape[2], shape[3]});
    all = reshape(transpose(apart, {0, 2, 1, 3, 4, 5}), shape);
  }
  // (O, C, D, H, W) -> (O, D * C, H, W), in the order of the channels above.
  Expr kernel =
      reshape(transpose(weight, {0, 2, 1, 3, 4}), {c.kernel[0], taps * channels, c.kernel[3], c.kernel[4]});
  return typed_call("nn.conv2d", {all, kernel}, seal(c.attrs_of_images()));
}

/// For depthwise convolutions: with depths as channels they would not be depthwise any more.
Expr sum_of_convolutions(const Convolution& c, const Depths& data, const Expr& weight) {
  Expr sum;
  for (int64_t tap = 0; tap < c.kernel[2]; ++tap) {
    Expr kernel = typed_call("take", {weight, typed_constant(full({}, kInt32, static_cast<double>(tap)))},
                             make<TakeAttrs>(int64_t{0}, std::optional<int64_t>(2)));
    Expr part = typed_call("nn.conv2d", {seen_by(c, data, tap), kernel}, seal(c.attrs_of_images()));
    sum = sum ? typed_call("add", {sum, part}) : part;
  }
  return sum;
}

/// Each image is a row of one.
Expr convolution_of_rows(const Convolution& c, const Expr& data, const Expr& weight) {
  const Shape& dims = dims_of(data);
  auto a = c.attrs_of_images();
  a->strides[0] = c.window.strides[0], a->dilation[0] = c.window.dilation[0];
  a->padding = {c.window.before[0], 0, c.window.after[0], 0};
  a->kernel_size = {c.kernel[2], 1};
  // (N, C, D, H, W) as images (N, C, D, H * W), seen by kernels (D, 1): nothing moves.
  Expr image = reshape(data, {dims[0], dims[1], dims[2], dims[3] * dims[4]}, {0, 0, 0, -3});
  Expr kernel = reshape(weight, {c.kernel[0], c.kernel[1], c.kernel[2], 1});
  return reshape(typed_call("nn.conv2d", {image, kernel}, seal(std::move(a))), c.result,
                 {0, 0, 0, -4, int_value(c.result[3]), int_value(c.result[4])});
}

/// The convolution of those points alone that it sees: what it leaves out is not moved, and without strides a
/// kernel of one point is a product.
Ref<Call> of_points_seen(const Call& call) {
  Convolution c(call);
  std::vector<Points> seen;
  auto a = mutate(c.attrs);
  a->strides = c.window.strides;
  for (size_t d = 0; d < 3; ++d) {
    if (!c.skips(d)) continue;
    seen.push_back({static_cast<int64_t>(d) + 2, 0, c.result[d + 2], c.window.strides[d]});
    a->strides[d] = 1;
  }
  if (seen.empty()) return Ref<Call>(&call);
  return typed_call("nn.conv3d", {points_of(call.args[0], seen), call.args[1]}, seal(std::move(a)))
      .cast<Call>();
}

/// visit() gives each expression as a volume; `images_` remembers those that were computed as images.
/// Operands are visited before their users, so a user finds in `images_` which operands are images. The
/// volume that visit() gives of those is left unused, and vanishes, where all users take images.
class ToImages final : public ExprMutator {
  Expr visit_call(const Ref<Call>& given) override {
    // Images are taken as they are: a convolution of them has the strides within them.
    const bool is_moved = is_convolution(*given) && !images_.count(given->args[0].get());
    const Ref<Call> e = is_moved ? of_points_seen(*given) : given;
    made_.push_back(e);
    if (!is_convolution(*e)) {
      const Images result = image_call(*e);
      if (!result.expr) return visit_default(e);
      images_[given.get()] = result;
      return volume_of(result);
    }
    const Convolution c(*e);
    if (c.sees_depth_alone()) {
      const Expr rows = convolution_of_rows(c, visit(e->args[0]), visit(e->args[1]));
      return is_as_large(rows, *given) ? rows : visit_default(given);
    }
    const Images result = convolution(*e);
    const Expr volume = volume_of(result);
    if (!is_as_large(volume, *given)) return visit_default(given);
    images_[given.get()] = result;
    return volume;
  }

  /// Of an open depth that may be less than the kernel's it is not known: slices have no fewer than 0
  /// elements.
  static bool is_as_large(const Expr& made, const Call& given) {
    return same_dims(dims_of(made), given.checked_type.as<TensorType>()->shape);
  }

  Images convolution(const Call& e) {
    Convolution c(e);
    const Images images = images_of(e.args[0]);
    const Depths data(c, images);
    Expr weight = visit(e.args[1]);
    return {c.is_depthwise() ? sum_of_convolutions(c, data, weight) : convolution_of_depths(c, data, weight),
            images.batch, c.frame_of_result(images)};
  }

  /// The call on images; null when none of its operands is, or one can't be.
  Images image_call(const Call& e) {
    const auto* op = e.callee.as<OpNode>();
    if (!op || !is_volume(Expr(&e))) return {};
    if (op->row().layout == LayoutRule::kElementwise) return elementwise(e);
    return op->row().layout == LayoutRule::kConcatenation ? concatenation(e) : Images{};
  }

  Images elementwise(const Call& e) {
    const Shape& shape = e.checked_type.as<TensorType>()->shape;
    std::vector<Expr> args;
    // With none of them the call stays on volumes: as images it would only gain transposes.
    // Two loops: whether any is decides what the others become.
    const Images* first = first_images(e.args);
    for (const Expr& arg : e.args) {
      if (first) args.push_back(operand(arg, shape));
      if (!first || !args.back()) return {};
    }
    return {typed_call(e.callee.as<OpNode>()->name, args, e.attrs), first->batch, first->frame};
  }

  /// What broadcasts against images as `arg` does against volumes of `shape`; null when it differs by depth.
  Expr operand(const Expr& arg, const Shape& shape) {
    if (type_of(arg) && same_dims(dims_of(arg), shape)) return images_of(arg).expr;
    if (!constant_type_of(arg)) return nullptr;
    Ints given = shape_of(arg);
    if (given.empty()) return visit(arg);
    given.insert(given.begin(), 5 - given.size(), 1);
    return given[0] == 1 && given[2] == 1 ? reshape(visit(arg), {given[1], given[3], given[4]}) : nullptr;
  }

  Images concatenation(const Call& e) {
    const Tuple* parts = e.args[0].as<Tuple>();
    int64_t axis = ops::attrs_as<ConcatenateAttrs>(e.attrs).axis;
    if (!parts || (axis != 1 && axis != -4) ||
        !std::all_of(parts->items.begin(), parts->items.end(), is_volume))
      return {};
    const Images* first = first_images(parts->items);
    // Numbers of depths that a run is to find equal are not yet, and the frame has one of them.
    const Shape& result = dims_of(Expr(&e));
    if (!first || !std::all_of(parts->items.begin(), parts->items.end(), [&](const Expr& part) {
          return prove_equal(dims_of(part)[0], result[0]) && prove_equal(dims_of(part)[2], result[2]);
        }))
      return {};
    std::vector<Expr> items;
    for (const Expr& part : parts->items) items.push_back(images_of(part).expr);
    return {typed_call("concatenate", {typed_tuple(items)}, make<ConcatenateAttrs>(int64_t{1})), first->batch,
            first->frame};
  }

  /// Null where none was computed as images.
  const Images* first_images(const std::vector<Expr>& volumes) const {
    for (const Expr& volume : volumes)
      if (auto found = images_.find(volume.get()); found != images_.end()) return &found->second;
    return nullptr;
  }

  /// `original` as images: as it was computed, or transposed once for all who ask.
  Images images_of(const Expr& original) {
    auto found = images_.find(original.get());
    if (found != images_.end()) return found->second;
    // Once for all users, or each would transpose.
    Images& memo = converted_[original.get()];
    if (memo.expr) return memo;
    const Shape& dims = dims_of(original);
    const Expr volume = visit(original), moved = transpose(volume, {2, 0, 1, 3, 4});
    const Shape joined{dims[2] * dims[0], dims[1], dims[3], dims[4]};
    return converted_[original.get()] = {reshape(moved, joined, {-3, 0, 0, 0}), dims[0],
                                         as_int(dims[0]) ? nullptr : frame({volume}, "(d2, d0)")};
  }

  std::map<const Node*, Images> images_, converted_;
  std::vector<Expr> made_;  // what the maps name stays
};

}  // namespace

Module conv3d_to_conv2d(const Module& module) {
  return map_functions(module, [](const Ref<Function>& function) { return ToImages().visit_as(function); });
}

}  // namespace lathe::relay
