// Signals: windows, Fourier transforms as products with matrices of cosines and sines.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Dims = std::vector<Expr>;

/// A window as a sum of cosines of whole periods: sum of c_k cos(2 pi k n / size).
struct Window {
  std::string_view op;
  double c0, c1, c2;
};
constexpr Window kWindows[] = {
    {"HannWindow", 0.5, -0.5, 0},
    {"HammingWindow", 25.0 / 46, -21.0 / 46, 0},
    {"BlackmanWindow", 0.42, -0.5, 0.08},
};

/// Of a size that a run tells.
Value open_window(const Window& w, const Expr& size, bool periodic, DataType dtype) {
  const auto real = [](double value) { return scalar(kFloat64, value); };
  const Value all = number_of(size, kFloat64), period = periodic ? all : minus(all, real(1));
  const Value place = over(times(cast_to(counted_to(size), kFloat64), real(2 * M_PI)), period);
  const auto wave = [&](double factor, double times_as_fast) {
    return times(emit("cos", {times(place, real(times_as_fast))}), real(factor));
  };
  Value result = plus(wave(w.c1, 1), real(w.c0));
  if (w.c2 != 0) result = plus(result, wave(w.c2, 2));
  return cast_to(choose(emit("equal", {period, real(0)}), real(1), result), dtype);
}

Values window(const Node& node) {
  const Window& w = *std::ranges::find(kWindows, node.op(), &Window::op);
  const Expr open_size = size_in(node, 0);
  const bool periodic = node.integer("periodic", 1) != 0;
  DataType dtype = dtype_from(static_cast<int32_t>(node.integer("output_datatype", 1)));
  if (!as_int(open_size)) return {open_window(w, open_size, periodic, dtype)};
  const int64_t size = int_value(open_size);
  // A periodic window continues into its next period; a symmetric one ends as it begins.
  const double period = static_cast<double>(periodic ? size : size - 1);
  Tensor result(node.constant_shape({size}), dtype);
  for (int64_t i = 0; i < size; ++i) {
    double angle = 2 * M_PI * static_cast<double>(i) / period;
    // The one element of a symmetric window has no period to be a part of: as SciPy has it.
    result.set(i, period == 0 ? 1 : w.c0 + w.c1 * std::cos(angle) + w.c2 * std::cos(2 * angle));
  }
  return {constant(result)};
}

/// The mel scale of O'Shaughnessy 1987, as the standard defines the operator.
double to_mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double to_hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

/// (dft_length / 2 + 1, bins): triangles, equally wide on the mel scale, over the bins of a spectrum.
Values mel_weight_matrix(const Node& node) {
  const int64_t bins = node.int_in(0), length = node.int_in(1), rate = node.int_in(2);
  const double lowest = node.real_in(3), highest = node.real_in(4);
  if (rate < 1 || bins < 1 || length < 1) node.reject("{} bins, length {}, rate {}", bins, length, rate);
  const int64_t rows = length / 2 + 1;
  DataType dtype = dtype_from(static_cast<int32_t>(node.integer("output_datatype", 1)));
  Tensor result = zeros(node.constant_shape({rows, bins}), dtype);
  const double low = to_mel(lowest), step = (to_mel(highest) - low) / static_cast<double>(bins + 2);
  // The bin of the spectrum in which triangle i begins; it peaks where the next one begins.
  auto edge = [&](int64_t i) {
    const double hertz = to_hertz(low + step * static_cast<double>(i)),
                 bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    // In this form it refuses NaN, too, as the logarithm of a frequency below -700 is.
    if (!(step >= 0 && bin >= 0 && bin <= static_cast<double>(rows)))
      node.reject("frequencies from {} to {}, must rise from 0 to half the sample rate of {} at most", lowest,
                  highest, rate);
    return static_cast<int64_t>(bin);
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t from = edge(i), top = edge(i + 1), to = edge(i + 2);
    auto set = [&](int64_t j, int64_t part, int64_t whole) {
      result.set(j * bins + i, whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole));
    };
    for (int64_t j = from; j <= top && j < rows; ++j) set(j, j - from, top - from);
    for (int64_t j = top; j < to; ++j) set(j, to - j, to - top);
  }
  return {constant(result)};
}

/// Complex numbers (rows, n). Without a value: zeros.
struct Numbers {
  Value real, imaginary;
};

/// A transform of rows of complex numbers.
struct Fourier {
  Expr in, out;  // elements of a row, before and after
  Expr length;   // of the whole period
  bool inverse = false;
  bool real_input = false;  // the other half of the input is its mirror image
};

bool is_known(const Fourier& f) { return as_int(f.in) && as_int(f.out) && as_int(f.length); }

/// cos or sin of 2 pi row column / period, (rows, columns), times `scale(column)`.
Value turns(const Node& node, const Ints& shape, int64_t period, double (*function)(double), DataType dtype,
            FunctionRef<double(int64_t column)> scale) {
  Tensor result(node.constant_shape(shape), dtype);
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j) {
      // The remainder keeps the angle below a full turn: cos and sin lose digits with large ones.
      double turn = static_cast<double>(i * j % period) / static_cast<double>(period);
      result.set(i * shape[1] + j, scale(j) * function(2 * M_PI * turn));
    }
  return constant(result);
}
double cosine_of(double angle) { return std::cos(angle); }
double sine_of(double angle) { return std::sin(angle); }

/// The matrices of a transform: what an element of a row (out, in) is multiplied by.
struct Matrices {
  Value cosines, sines;
};

Matrices known_matrices(const Node& node, const Fourier& f, DataType dtype) {
  const int64_t in = int_value(f.in), out = int_value(f.out), length = int_value(f.length);
  // Elements that also stand for their mirror images count twice.
  auto weight = [&](int64_t j) {
    return (f.real_input && j > 0 && 2 * j != length ? 2 : 1) *
           (f.inverse ? 1 / static_cast<double>(length) : 1);
  };
  return {turns(node, {out, in}, length, cosine_of, dtype, weight),
          turns(node, {out, in}, length, sine_of, dtype, weight)};
}

/// Of a length that a run tells: a turn of each of its parts is computed once, and found by the remainder.
Matrices open_matrices(const Fourier& f, DataType dtype) {
  const Value length = number_of(f.length, kFloat64), one = scalar(kFloat64, 1), none = scalar(kFloat64, 0);
  auto counted_by = [](const Expr& count, const Dims& shape) {
    return cast_to(reshape_to(counted_to(count), shape), kFloat64);
  };
  const Value column = counted_by(f.in, {1, f.in}), product = times(counted_by(f.out, {f.out, 1}), column);
  // Exact: a quotient that is no whole number is further from one than it is rounded.
  const Value remainder = minus(product, times(emit("floor", {over(product, length)}), length));
  const Value places = cast_to(remainder, kInt64);
  const Value angles = times(over(counted_by(f.length, {f.length}), length), scalar(kFloat64, 2 * M_PI));
  Value weights = f.inverse ? over(one, length) : one;
  if (f.real_input) {
    const Value mirrors_itself =
        emit("logical_or", {emit("equal", {column, none}), emit("equal", {plus(column, column), length})});
    weights = times(weights, choose(mirrors_itself, one, scalar(kFloat64, 2)));
  }
  auto matrix = [&](const char* function) {
    return cast_to(times(taken(emit(function, {angles}), places, 0), weights), dtype);
  };
  return {matrix("cos"), matrix("sin")};
}

/// Sums that may lack a term.
Value sum_of(const Value& a, const Value& b) { return a && b ? plus(a, b) : a ? a : b; }
Value difference_of(const Value& a, const Value& b) {
  if (!b) return a;
  return a ? minus(a, b) : emit("negative", {b});
}
/// x times exp(-i t), or exp(i t): `times_cosine` and `times_sine` are what multiplies a part by cos t and
/// sin t.
Numbers turned(const Numbers& x, bool forward, FunctionRef<Value(const Value&)> times_cosine,
               FunctionRef<Value(const Value&)> times_sine) {
  auto product = [](FunctionRef<Value(const Value&)> f, const Value& part) {
    return part ? f(part) : Value();
  };
  const Value rc = product(times_cosine, x.real), rs = product(times_sine, x.real),
              ic = product(times_cosine, x.imaginary), is = product(times_sine, x.imaginary);
  return forward ? Numbers{sum_of(rc, is), difference_of(ic, rs)}
                 : Numbers{difference_of(rc, is), sum_of(ic, rs)};
}

/// By the matrix of the transform.
Numbers multiplied(const Node& node, const Numbers& x, const Fourier& f) {
  const DataType dtype = type_of(x.real).dtype;
  const Matrices by = is_known(f) ? known_matrices(node, f, dtype) : open_matrices(f, dtype);
  auto product = [](const Value& matrix) {
    return [&](const Value& part) { return emit("nn.dense", {part, matrix}); };
  };
  return turned(x, !f.inverse, product(by.cosines), product(by.sines));
}

/// The larger of two factors of the length by which a transform is worth being split; 0: none.
int64_t split_of(const Fourier& f) {
  // A matrix of a few hundred rows is at the processor's peak; splitting moves the data four times more.
  constexpr int64_t kFewest = 256, kGain = 4;
  if (!is_known(f) || f.real_input || int_value(f.in) != int_value(f.length)) return 0;
  const int64_t length = int_value(f.length);
  if (length < kFewest) return 0;
  int64_t small = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
  while (length % small != 0) --small;
  const int64_t large = length / small;
  return kGain * (small + large) <= length ? large : 0;
}

/// Element n of a row is at n1 n2 for n = second n1 + n2, element k of the result at k2 k1 for k = k1 + first
/// k2 (Cooley and Tukey 1965): transforms along n1, a turn of n2 k1 parts of the period, transforms along n2.
/// Parts short enough are products with their matrices.
Numbers transformed(const Node& node, const Numbers& x, const Fourier& f) {
  const int64_t second = split_of(f);
  if (second == 0) return multiplied(node, x, f);
  const int64_t length = int_value(f.length), out = int_value(f.out), first = length / second,
                columns = (out + first - 1) / first;
  const Expr rows = dims_of(x.real)[0];
  auto swapped = [&](const Value& part, int64_t m, int64_t n, const Dims& shape) {
    return part ? reshape_to(transposed(reshape_to(part, {rows, m, n}), {0, 2, 1}), shape) : part;
  };
  Numbers y = transformed(node,
                          {swapped(x.real, first, second, {simplify(rows * second), first}),
                           swapped(x.imaginary, first, second, {simplify(rows * second), first})},
                          {first, first, first, f.inverse});
  const DataType dtype = type_of(x.real).dtype;
  auto one = [](int64_t) { return 1.0; };
  const Value cosines =
                  reshape(turns(node, {second, first}, length, cosine_of, dtype, one), {1, second, first}),
              sines = reshape(turns(node, {second, first}, length, sine_of, dtype, one), {1, second, first});
  auto by = [&](const Value& angles) {
    return [&](const Value& part) { return times(reshape_to(part, {rows, second, first}), angles); };
  };
  y = turned(y, !f.inverse, by(cosines), by(sines));
  y = transformed(node,
                  {swapped(y.real, second, first, {simplify(rows * first), second}),
                   swapped(y.imaginary, second, first, {simplify(rows * first), second})},
                  {second, columns, second, f.inverse});
  auto unswapped = [&](const Value& part) {
    return sliced(swapped(part, first, columns, {rows, columns * first}), 1, 0, out);
  };
  return {unswapped(y.real), unswapped(y.imaginary)};
}

/// The whole period of what the transform of real numbers is: its second half mirrors the first.
Value with_mirror_image(const Value& half, const Fourier& f, bool negative) {
  if (!half) return half;
  const Value mirrored = emit("reverse", {sliced(half, 1, 1, int_value(f.length) - int_value(f.in) + 1)},
                              make<relay::ReverseAttrs>(int64_t{1}));
  return concatenated({half, negative ? emit("negative", {mirrored}) : mirrored}, 1);
}

/// x (rows, in, 1 or 2): real numbers, or real and imaginary parts; (rows, out, 2), or 1 of a real result.
Value spectrum(const Node& node, const Value& x, const Fourier& f, bool real_result) {
  const Dims shape = dims_of(x), one{shape[0], f.out, 1};
  auto part = [&](int64_t i) {
    return i < int_value(shape[2]) ? reshape_to(sliced(x, 2, i, i + 1), {shape[0], shape[1]}) : Value();
  };
  Numbers numbers{part(0), part(1)};
  Fourier whole = f;
  whole.in = f.length, whole.real_input = false;
  if (f.real_input && split_of(whole) != 0)
    numbers = {with_mirror_image(numbers.real, f, false), with_mirror_image(numbers.imaginary, f, true)};
  else
    whole = f;
  const Numbers result = transformed(node, numbers, whole);
  if (real_result) return reshape_to(result.real, one);
  return concatenated({reshape_to(result.real, one), reshape_to(result.imaginary, one)}, 2);
}

/// Its first `count` elements along an axis, with zeros after them where it is shorter.
Value resized(const Value& x, int64_t axis, const Expr& count) {
  const Dims shape = dims_of(x);
  const Expr& extent = shape[static_cast<size_t>(axis)];
  if (prove_equal(extent, count)) return x;
  if (!as_int(extent) || !as_int(count)) {
    const Value places = counted_along(count, axis, static_cast<int64_t>(shape.size()));
    const Value inside = emit("less", {places, number_of(extent)});
    return choose(inside, taken(x, counted_to(count), axis), number(x, 0));
  }
  if (int_value(extent) >= int_value(count)) return sliced(x, axis, 0, int_value(count));
  std::vector<Ints> width(shape.size(), Ints{0, 0});
  width[static_cast<size_t>(axis)][1] = int_value(count) - int_value(extent);
  return emit("nn.pad", {x, number(x, 0)}, make<relay::PadAttrs>(width, std::string("constant")));
}

Values dft(const Node& node) {
  int64_t rank = node.rank(0), last = node.opset() >= 20 ? -2 : 1;
  const int64_t least = node.opset() >= 20 ? 2 : 3;
  if (rank < least) node.reject("a signal of rank {}, must be {} or more", rank, least);
  int64_t axis = node.axis(node.opset() < 20 ? node.integer("axis", last)
                           : node.has(2)     ? node.int_in(2)
                                             : last,
                           rank);
  if (axis == rank - 1) node.reject("axis {} holds the parts of a number", axis);
  const int64_t parts = node.dim(0, rank - 1);
  if (parts != 1 && parts != 2) node.reject("numbers of {} parts, must be 1 or 2", parts);
  bool inverse = node.integer("inverse", 0) != 0, onesided = node.integer("onesided", 0) != 0;
  const Expr& extent = node.dims(0)[static_cast<size_t>(axis)];
  const Expr length = node.has(1)           ? size_in(node, 1)
                      : inverse && onesided ? simplify(2 * (extent - 1))
                                            : extent;
  if (as_int(length) && int_value(length) < 1) node.reject("a transform of length {}", int_value(length));
  Fourier f{length, length, length, inverse, inverse && onesided};
  if (onesided) (inverse ? f.in : f.out) = simplify(floordiv(length, Expr(2)) + 1);
  // The transformed axis goes next to the last, the parts of numbers stay last; `back` undoes it.
  Ints order, back(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis && d != rank - 1) order.push_back(d);
  order.insert(order.end(), {axis, rank - 1});
  for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  Value x = transposed(resized(node.in(0), axis, f.in), order);
  Dims shape = dims_of(x);
  Value flat = reshape_to(x, {elements_of(std::span(shape).first(shape.size() - 2)), f.in, parts});
  Value result = spectrum(node, flat, f, inverse && onesided);
  shape[shape.size() - 2] = f.out;
  shape.back() = dims_of(result).back();
  return {transposed(reshape_to(result, shape), back)};
}

/// (count, length): element j of frame i is element i * step + j of the signal; frames may overlap.
Value frame_places(const Node& node, const Expr& count, int64_t step, int64_t length) {
  const int64_t* number = as_int(count);
  if (!number) {
    const Value begins = times(counted_to(count), scalar(kInt64, static_cast<double>(step)));
    return plus(reshape_to(begins, {count, 1}), counted(length, {1, length}));
  }
  Tensor places(node.constant_shape({*number, length}), kInt64);
  for (int64_t i = 0; i < *number * length; ++i) places.set_integer(i, i / length * step + i % length);
  return constant(places);
}

/// Transforms of frames (batch, frames, elements) of a signal (batch, length, 1 or 2), both of any size.
Values stft(const Node& node) {
  Dims signal = node.dims(0);
  const int64_t step = node.int_in(1);
  if (signal.size() == 2) signal.emplace_back(1);
  const int64_t length = node.has(3) ? node.int_in(3) : node.has(2) ? shape_size(node.shape(2)) : 0;
  const int64_t* whole = signal.size() == 3 ? as_int(signal[1]) : nullptr;
  if (signal.size() != 3 || (!is_int(signal[2], 1) && !is_int(signal[2], 2)) || step < 1 || length < 1 ||
      (whole && length > *whole))
    node.reject("frames of {} elements, each {}, of a signal of shape {}", length, step,
                relay::print(node.in(0)->checked_type));
  const Expr count = simplify(floordiv(signal[1] - length, Expr(step)) + 1);
  const Value frames_at = frame_places(node, count, step, length);
  Value frames = taken(reshape_to(node.in(0), signal), frames_at, 1);
  if (node.has(2)) frames = times(frames, reshape(node.in(2), {length, 1}));
  const Fourier f{length, node.integer("onesided", 1) ? length / 2 + 1 : length, length};
  const Value result =
      spectrum(node, reshape_to(frames, {simplify(signal[0] * count), length, signal[2]}), f, false);
  return {reshape_to(result, {signal[0], count, f.out, 2})};
}

constexpr Converter kConverters[] = {
    {"HannWindow", window},          {"HammingWindow", window},
    {"BlackmanWindow", window},      {"MelWeightMatrix", mel_weight_matrix},
    {"DFT", dft, Arithmetic::kWide}, {"STFT", stft, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> signal_converters() { return kConverters; }

}  // namespace lathe::onnx
