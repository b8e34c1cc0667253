#include "core/relay/passes/crop_kernels.h"

#include <algorithm>
#include <array>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/window.h"

namespace lathe::relay {
namespace {

/// The taps of one axis that see the image, and the padding that is left for them.
struct Taps {
  int64_t begin, end, before, after;
};

/// Results first..end of one axis: each sees these taps of the kernel. The padding is of the part alone, and
/// negative where it does not reach the ends of the image.
struct Band {
  int64_t first, end;
  Taps taps;
};

/// A convolution along one spatial axis: tap t of result i meets element t * dilation - before + i * stride
/// of the image.
struct Line {
  int64_t image, kernel, result, stride, dilation, before, after;

  Taps all() const { return {0, kernel, before, after}; }

  /// By some result.
  bool is_seen(int64_t tap) const {
    const int64_t at = tap * dilation - before;
    // The first result whose element does not lie in front of the image.
    const int64_t first = at < 0 ? (stride - 1 - at) / stride : 0;
    return first < result && at + first * stride < image;
  }

  /// All taps where none sees the image, or what is left would begin inside it.
  std::optional<Taps> seen() const {
    // From both ends: a kernel wider than its image loses its rims, never its middle.
    Taps taps{0, kernel, 0, 0};
    while (taps.begin < taps.end && !is_seen(taps.begin)) ++taps.begin;
    while (taps.end > taps.begin && !is_seen(taps.end - 1)) --taps.end;
    const int64_t last = dilation * (taps.end - taps.begin - 1);
    // Each remaining tap still meets the element it met: the front padding shrinks by what is cut off in
    // front, and the rear one is what the last result reaches beyond the image.
    taps.before = before - taps.begin * dilation;
    taps.after = std::max<int64_t>((result - 1) * stride + last + 1 - image - taps.before, 0);
    // Without padding behind, an image may be longer than the last result reaches, by a stride or more: the
    // convolution would have further results.
    bool as_many = (image + taps.before + taps.after - last - 1) / stride + 1 == result;
    if (taps.begin == taps.end || taps.before < 0 || !as_many) return std::nullopt;
    return taps;
  }

  /// In order; empty where a result sees no tap.
  std::vector<Band> bands() const {
    std::vector<Band> bands;
    // Of dilated convolutions only, whose images have some dozen rows: see split().
    for (int64_t i = 0; i < result; ++i) {
      Taps taps{0, kernel, 0, 0};
      // With i rising both ends of the taps only fall, so results of the same taps stand side by side.
      while (taps.begin < kernel && taps.begin * dilation - before + i * stride < 0) ++taps.begin;
      while (taps.end > taps.begin && (taps.end - 1) * dilation - before + i * stride >= image) --taps.end;
      if (taps.begin == taps.end) return {};
      if (bands.empty() || bands.back().taps.begin != taps.begin || bands.back().taps.end != taps.end)
        bands.push_back({i, i, taps});
      bands.back().end = i + 1;
    }
    for (Band& b : bands) {
      // As in seen(), with the band's first result as result 0.
      b.taps.before = before - b.taps.begin * dilation - b.first * stride;
      b.taps.after = (b.end - b.first - 1) * stride + dilation * (b.taps.end - b.taps.begin - 1) + 1 - image -
                     b.taps.before;
    }
    return bands;
  }
};

/// Multiply-adds along the axis, of one channel: results times the taps they see.
int64_t products_of(const std::vector<Band>& bands) {
  int64_t sum = 0;
  for (const Band& b : bands) sum += (b.end - b.first) * (b.taps.end - b.taps.begin);
  return sum;
}

Ints shape_of(const Expr& e) {
  const TensorType* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  return type && has_constant_shape(*type) ? constant_shape(*type) : Ints{};
}

/// What the call computes along each spatial axis.
std::vector<Line> lines_of(const Call& e) {
  const ConvAttrs& a = ops::attrs_as<ConvAttrs>(e.attrs);
  Ints image = shape_of(e.args[0]), kernel = shape_of(e.args[1]), result = shape_of(Expr(&e));
  const size_t rank = image.size() - 2;
  const ops::Window window = ops::window_of(a.strides, a.dilation, a.padding, static_cast<int>(rank));
  std::vector<Line> lines;
  for (size_t s = 0; s < rank; ++s)
    lines.push_back({image[s + 2], kernel[s + 2], result[s + 2], window.strides[s], window.dilation[s],
                     window.before[s], window.after[s]});
  return lines;
}

/// The convolution `e` of these operands with some taps alone.
Expr with_taps(const Call& e, const Expr& data, const Expr& weight, const std::vector<Taps>& taps) {
  const std::vector<Line> lines = lines_of(e);
  const size_t rank = lines.size();
  auto a = mutate(ops::attrs_as<ConvAttrs>(e.attrs));
  auto cut = std::make_unique<StridedSliceAttrs>();
  a->padding.assign(2 * rank, 0), a->dilation.clear(), a->kernel_size.clear();
  for (size_t s = 0; s < rank; ++s) {
    a->padding[s] = taps[s].before, a->padding[rank + s] = taps[s].after;
    a->kernel_size.push_back(taps[s].end - taps[s].begin);
    // Of a single tap it says nothing.
    a->dilation.push_back(a->kernel_size[s] == 1 ? 1 : lines[s].dilation);
    if (a->kernel_size[s] == lines[s].kernel) continue;
    cut->begin.push_back(taps[s].begin), cut->end.push_back(taps[s].end), cut->strides.push_back(1);
    if (!cut->axes) cut->axes.emplace();
    cut->axes->push_back(static_cast<int64_t>(s) + 2);
  }
  Expr part = cut->begin.empty() ? weight : typed_call("strided_slice", {weight}, seal(std::move(cut)));
  return typed_call(e.callee.as<OpNode>()->name, {data, part}, seal(std::move(a)));
}

/// Null where all taps see the image.
Expr cropped(const Call& e, const Expr& data, const Expr& weight) {
  const std::vector<Line> lines = lines_of(e);
  std::vector<Taps> taps;
  bool all = true;
  for (const Line& line : lines) {
    taps.push_back(line.seen().value_or(line.all()));
    all &= taps.back().end - taps.back().begin == line.kernel;
  }
  return all ? nullptr : with_taps(e, data, weight, taps);
}

/// Costs of splitting, in multiply-adds: of an element that is stored, read again and stored at its place,
/// and of a kernel more.
constexpr double kJoinedElement = 48, kKernel = 100'000;

/// The parts behind each other along `axis`.
Expr joined(const std::vector<Expr>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return typed_call("concatenate", {typed_tuple(parts)}, make<ConcatenateAttrs>(axis));
}

/// Null where one convolution is no slower.
Expr split(const Call& e, const Expr& data, const Expr& weight) {
  const std::vector<Line> lines = lines_of(e);
  if (lines.size() != 2) return nullptr;
  const Ints kernel = shape_of(e.args[1]), result = shape_of(Expr(&e));
  const int64_t channels = result[0] * result[1], elements = channels * result[2] * result[3];
  std::array<std::vector<Band>, 2> whole, bands;
  for (size_t s = 0; s < 2; ++s) {
    whole[s] = bands[s] = {{0, lines[s].result, lines[s].all()}};
    // Without dilation only results at the very border meet padding: bands of a row or so, which do not pay.
    if (lines[s].dilation > 1) bands[s] = lines[s].bands();
    if (bands[s].empty()) bands[s] = whole[s];
  }
  auto cost = [&](const std::vector<Band>& rows, const std::vector<Band>& columns) {
    // All elements are stored anew for each axis that is split.
    const int joins = (rows.size() > 1) + (columns.size() > 1);
    // In real numbers: of a large image with as large a frame the products are more than 64 bits hold.
    return static_cast<double>(channels * kernel[1]) * static_cast<double>(products_of(rows)) *
               static_cast<double>(products_of(columns)) +
           kJoinedElement * static_cast<double>(elements) * joins +
           kKernel * static_cast<double>(rows.size() * columns.size());
  };
  // The cheapest of not at all, by rows, by columns and by both.
  const std::vector<Band>*rows = &whole[0], *columns = &whole[1];
  for (const auto* r : {&whole[0], &bands[0]})
    for (const auto* c : {&whole[1], &bands[1]})
      if (cost(*r, *c) < cost(*rows, *columns)) rows = r, columns = c;
  if (rows->size() * columns->size() == 1) return nullptr;
  std::vector<Expr> lying;
  for (const Band& r : *rows) {
    std::vector<Expr> beside;
    for (const Band& c : *columns) beside.push_back(with_taps(e, data, weight, {r.taps, c.taps}));
    lying.push_back(joined(beside, 3));
  }
  return joined(lying, 2);
}

bool is_convolution(const Call& e) {
  const auto* op = e.callee.as<OpNode>();
  if (!op || (op->name != "nn.conv1d" && op->name != "nn.conv2d" && op->name != "nn.conv3d")) return false;
  const ConvAttrs& a = ops::attrs_as<ConvAttrs>(e.attrs);
  Ints image = shape_of(e.args[0]), kernel = shape_of(e.args[1]);
  return image.size() >= 3 && image.size() == kernel.size() && a.pad_value == 0 &&
         ops::is_plain(a, static_cast<int>(image.size()) - 2);
}

/// What `change` makes of a convolution and its operands; null: it stays.
class Changer final : public ExprMutator {
 public:
  explicit Changer(Expr (*change)(const Call&, const Expr&, const Expr&)) : change_(change) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    // Types and shapes are asked of `e`: a rewritten operand has the same.
    Expr same = visit_default(e);
    if (!is_convolution(*e)) return same;
    const auto* call = same.as<Call>();
    Expr result = change_(*e, call->args[0], call->args[1]);
    return result ? result : same;
  }

  Expr (*change_)(const Call&, const Expr&, const Expr&);
};

}  // namespace

Ref<Function> crop_kernels(const Ref<Function>& function) { return Changer(cropped).visit_as(function); }

Ref<Function> split_convolutions(const Ref<Function>& function) { return Changer(split).visit_as(function); }

}  // namespace lathe::relay
