#include "core/relay/analysis/narrow_costs.h"

#include <algorithm>

#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

const TensorType& type_of(const Expr& e) { return *e->checked_type.as<TensorType>(); }

double elements_of(const Expr& e) {
  double count = 1;
  for (int64_t extent : constant_shape(type_of(e))) count *= static_cast<double>(extent);
  return count;
}

/// Elements that `e` takes of inputs, moved or joined as they may be; 0 where they are not known.
double input_elements(const Expr& e) {
  if (e.as<VarNode>()) {
    const auto* type = e->checked_type.as<TensorType>();
    return type && has_constant_shape(*type) ? elements_of(e) : 0;
  }
  if (const auto* part = e.as<Projection>()) return input_elements(part->tuple) > 0 ? elements_of(e) : 0;
  const Call* call = e.as<Call>();
  if (!call || !is_choice(*call)) return 0;
  const auto* tuple = call->args[0].as<Tuple>();
  if (!tuple) return input_elements(call->args[0]);
  double sum = 0;
  for (const Expr& item : tuple->items) sum += input_elements(item);
  return sum;
}

/// Multiplications that a float32 convolution's sums take, of those that they are defined by: Winograd's
/// algorithm, its transforms counted (bench/results/2026-11-26-fewer-bits.md).
constexpr double kTransformed = 0.6;

bool has_transform(const Call& product, int64_t lanes) {
  const auto* conv = product.attrs.as<ConvAttrs>();
  const Ints weight = constant_shape(type_of(product.args[1]));
  if (!conv || weight.size() != 4 || conv->groups != 1 || !product.args[1].as<Constant>()) return false;
  auto ones = [](const Ints& v) { return std::all_of(v.begin(), v.end(), [](int64_t x) { return x == 1; }); };
  auto few = [](int64_t taps) { return taps == 2 || taps == 3; };
  // Transforms of data pay by results of two vectors of channels and more.
  return few(weight[2]) && few(weight[3]) && ones(conv->strides) && ones(conv->dilation) &&
         weight[1] > lanes && weight[0] >= 2 * lanes;
}

}  // namespace

struct NarrowCosts::Size {
  double products;
  double weight;            // elements of the second operand
  double inputs, computed;  // elements of operands that are inputs, and that are neither these nor constant
  int64_t run = 0;          // neighbours that are summed, as far as they lie one behind the other
  int64_t channels;         // of results, where these are of windows; else 0
  bool known = false;
  bool one_channel = false;  // is summed
  bool grouped = false;      // neighbours of a sum have to be brought together in each run
};

NarrowCosts::Size NarrowCosts::size_of(const Call& product) {
  Size size{};
  const ProductRule& rule = *operator_of(Expr(&product))->product;
  const Expr &data = product.args[0], &weight = product.args[1];
  auto axes = rule.axes ? rule.axes(product.attrs, type_of(data).shape.size(), type_of(weight).shape.size())
                        : std::nullopt;
  if (!axes || !has_constant_shape(type_of(weight))) return size;
  const Ints extents = constant_shape(type_of(weight));
  auto extent = [&](int64_t axis) { return extents[static_cast<size_t>(axis)]; };
  size.channels = axes->of_data ? 0 : extent(axes->weight);
  size.one_channel = extent(axes->summed.front()) == 1;
  // Tensors that the model does not hold are grouped, and rows of a matrix that are no whole groups.
  const bool constant = weight.as<Constant>() != nullptr;
  size.grouped = !constant || (axes->summed.size() == 1 && extent(axes->summed.back()) % 2 != 0);
  // Vectors of results that are no whole ones, and pairs that lie in two rows, are nothing for tiles.
  const auto* conv = product.attrs.as<ConvAttrs>();
  const int64_t summed = extent(axes->summed.front());
  const int64_t all = extent(axes->weight), results = all / (conv ? conv->groups : 1);
  // Groups are cut apart again where they are filled up.
  const bool whole = results == all ? results >= kTileRows : results % kTileRows == 0;
  if (whole && (constant || !size.grouped || extent(axes->summed.back()) % 2 == 0))
    size.run = conv ? std::min(summed, kTileRows) : summed;
  if (!has_constant_shape(type_of(data)) || !has_constant_shape(type_of(Expr(&product)))) return size;
  size.known = true;
  size.products = elements_of(Expr(&product));
  for (int64_t axis : axes->summed) size.products *= static_cast<double>(extent(axis));
  size.weight = elements_of(weight);
  size.inputs = input_elements(data) + input_elements(weight);
  const double operands = elements_of(data) + (constant ? 0 : size.weight);
  size.computed = std::max(operands - size.inputs, 0.0);
  return size;
}

double NarrowCosts::dots(const Size& size, DataType operands) const {
  const int64_t length = dot_length(operands, operands.is_int() ? kInt32 : kFloat32);
  if (length == 0) return machine_.multiply_adds.at(target_.vector_bits);
  const int64_t groups = size.run / length;
  return dot_rate(machine_, target_, operands, groups);
}

double NarrowCosts::cycles(const Size& size, DataType operands) const {
  const DataType sum = operands.is_int() ? kInt32 : kFloat32;
  // Several products at once are of several channels.
  const int64_t length = size.one_channel ? 1 : std::max<int64_t>(dot_length(operands, sum), 1);
  const double rate =
      length > 1 ? dots(size, operands) : products_of(machine_, operands, false).at(target_.vector_bits);
  const double arithmetic =
      size.products / (rate * static_cast<double>(length) * static_cast<double>(target_.lanes()));
  // Weights are read once a run, after those of all other products: from the second-level cache at best.
  const double bytes = size.weight * static_cast<double>(operands.bytes());
  const bool near = stays_in_l2(target_, bytes, kL2OfStreams);
  return std::max(arithmetic, bytes / (near ? machine_.l2_bandwidth : l3_rate(machine_)));
}

bool NarrowCosts::pays(const Call& product, DataType narrow) const {
  // Cycles for a vector: loading, converting and storing what is an input, or putting neighbours of it
  // together as well; what is computed is converted in passing. Blocks of channels are put together element
  // by element where vectors have no masks.
  constexpr double kConverted = 12, kWithoutMasks = 8, kGrouped = 12, kInPassing = 2;
  if (always_pays_) return true;
  const Size size = size_of(product);
  const double lanes = target_.lanes();
  const DataType held = narrow == kInt8 && widens(product) ? kInt16 : narrow;
  const int64_t at_once = dot_length(held, held.is_int() ? kInt32 : kFloat32);
  // Narrow vectors of a convolution are of several channels of its result, half a vector at least. Those of
  // real numbers are of pixels where there are fewer channels, and none of their lanes is idle.
  if (size.channels && size.channels * at_once <= target_.lanes() / 2) return false;
  // Sums of unknown size go by the arithmetic alone. Those of each channel by itself cost what they did: they
  // are narrow where others are.
  const bool gains =
      dots(size, held) * static_cast<double>(at_once) > machine_.multiply_adds.at(target_.vector_bits);
  if (!size.known || size.one_channel) return gains && size.inputs == 0;
  // Convolutions of bfloat16 are transformed, too, those of integers are not.
  const bool transformed = held.is_int() && has_transform(product, target_.lanes());
  const double real = cycles(size, kFloat32) * (transformed ? kTransformed : 1);
  const bool masks = target_.vector_bits >= 512 || !target_.triple.starts_with("x86");
  const bool given = type_of(product.args[0]).dtype == narrow;  // inputs are what they would become
  const double of_inputs =
      given ? 0 : kConverted + (masks || !size.channels ? 0 : kWithoutMasks) + (size.grouped ? kGrouped : 0);
  const double converting = size.inputs * of_inputs + size.computed * kInPassing;
  return real - cycles(size, held) > converting / lanes;
}

bool NarrowCosts::widens(const Call& product) const {
  const Size size = size_of(product);
  return size.known && cycles(size, kInt16) < cycles(size, kInt8);
}

std::optional<int64_t> rows_of(const TensorType& results) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < results.shape.size(); ++d) {
    if (!as_int(results.shape[d])) return std::nullopt;
    rows *= int_value(results.shape[d]);
  }
  return rows;
}

bool has_many_rows(const Expr& product, const Target& target) {
  return rows_of(*product->checked_type.as<TensorType>()).value_or(0) >= target.vector_registers;
}

}  // namespace lathe::relay
