// Einsum: operands are multiplied in turn, each pair as one product of matrices.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// A tensor whose dimensions have labels. The dimensions of an ellipsis are labelled by digits, the last '9'.
struct Operand {
  Value value;
  std::string labels;

  const Expr& extent(char label) const { return type_of(value).shape[labels.find(label)]; }
  bool has(char label) const { return labels.find(label) != std::string::npos; }
};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

/// The labels of one term for a tensor of `rank`; for the output, -1, an ellipsis has `broadcast` dimensions.
std::string labels_of(const Node& node, std::string term, int64_t rank, int64_t& broadcast) {
  std::erase(term, ' ');
  size_t dots = term.find("...");
  std::string letters = term;
  if (dots != std::string::npos) letters.erase(dots, 3);
  if (!std::ranges::all_of(letters, is_letter)) node.reject("term `{}` is not of letters", term);
  if (dots != std::string::npos) {
    int64_t count = rank < 0 ? broadcast : rank - static_cast<int64_t>(term.size()) + 3;
    if (count < 0 || count > 10) node.reject("term `{}` does not fit a tensor of rank {}", term, rank);
    // Aligned at the end, as broadcasting aligns: an ellipsis of two is "89", of three "789".
    std::string digits = std::string("0123456789").substr(static_cast<size_t>(10 - count));
    term.replace(dots, 3, digits);
    broadcast = std::max(broadcast, count);
  }
  if (rank >= 0 && static_cast<int64_t>(term.size()) != rank)
    node.reject("term `{}` does not fit a tensor of rank {}", term, rank);
  return term;
}

/// Dimensions in the order of `labels`.
Operand ordered(const Operand& operand, const std::string& labels) {
  if (operand.labels == labels) return operand;
  Ints axes;
  for (char label : labels) axes.push_back(static_cast<int64_t>(operand.labels.find(label)));
  return {transposed(operand.value, axes), labels};
}

/// A label that occurs twice names the diagonal.
Operand without_repeats(Operand operand) {
  for (size_t p = 0; p < operand.labels.size(); ++p) {
    size_t q = operand.labels.find(operand.labels[p], p + 1);
    if (q == std::string::npos) continue;
    auto rank = static_cast<int64_t>(operand.labels.size());
    // Both axes go last and become one of extent n * n, where the diagonal is every (n + 1)th element.
    Ints axes;
    std::vector<Expr> shape = dims_of(operand.value), flat;
    const Expr n = as_int(shape[q]) ? shape[q] : shape[p];
    // Whether two open ones are equal the run finds out.
    shape[p] = shape[q] = n;
    operand.value = with_dims(operand.value, shape);
    std::string labels;
    for (int64_t d = 0; d < rank; ++d)
      if (d != static_cast<int64_t>(p) && d != static_cast<int64_t>(q))
        axes.push_back(d), flat.push_back(shape[d]), labels += operand.labels[static_cast<size_t>(d)];
    axes.insert(axes.end(), {static_cast<int64_t>(p), static_cast<int64_t>(q)});
    if (!as_int(n)) {
      // Of an open n: the same elements, as one of each row.
      Value moved = transposed(operand.value, axes);
      std::vector<Expr> places(flat);
      places.push_back(n);
      places.push_back(1);
      Value index = repeated_to(counted_along(n, rank - 2, rank), places);
      moved = emit("gather", {moved, index}, make<relay::GatherAttrs>(rank - 1));
      places.pop_back();
      return without_repeats({reshape_to(moved, places), labels + operand.labels[p]});
    }
    flat.push_back(int_value(n) * int_value(n));
    auto last = make<relay::StridedSliceAttrs>(Ints{0}, Ints{int_value(flat.back())}, Ints{int_value(n) + 1},
                                               std::string("end"), std::optional<Ints>(Ints{rank - 2}));
    Value lines = reshape_to(transposed(operand.value, axes), flat);
    return without_repeats({emit("strided_slice", {lines}, last), labels + operand.labels[p]});
  }
  return operand;
}

/// Sums over the labels that are not among `kept`.
Operand summed(const Operand& operand, const std::string& kept) {
  Ints axes;
  std::string labels;
  for (size_t d = 0; d < operand.labels.size(); ++d) {
    if (kept.find(operand.labels[d]) == std::string::npos)
      axes.push_back(static_cast<int64_t>(d));
    else
      labels += operand.labels[d];
  }
  return axes.empty() ? operand : Operand{sum_over(operand.value, axes, false), labels};
}

/// The operand as a stack of matrices: dimensions batch, own, shared, each a product; extents of 1 grow.
Value as_matrices(const Operand& operand, const Operand& other, const std::string& batch,
                  const std::string& own, const std::string& shared) {
  Operand whole = ordered(operand, batch + own + shared);
  std::vector<Expr> shape = dims_of(whole.value);
  for (size_t d = 0; d < shape.size(); ++d)
    if (other.has(whole.labels[d]) && is_int(shape[d], 1)) shape[d] = other.extent(whole.labels[d]);
  std::span<const Expr> dims(shape);
  return reshape_to(repeated_to(whole.value, shape), {elements_of(dims.first(batch.size())),
                                                      elements_of(dims.subspan(batch.size(), own.size())),
                                                      elements_of(dims.last(shared.size()))});
}

/// Of two operands. A label of both is a batch dimension when it is `kept`, and summed in the product when it
/// is not; a label of one makes rows or columns.
Operand product(const Operand& a, const Operand& b, const std::string& kept) {
  std::string batch, shared, of_a, of_b;
  for (char label : a.labels)
    (!b.has(label) ? of_a : kept.find(label) != std::string::npos ? batch : shared) += label;
  for (char label : b.labels)
    if (!a.has(label)) of_b += label;
  // Element by element: products of matrices would be of 1 by 1, and of a chain of them in many orders of
  // labels each would be found by quotients of the place in all that came before.
  if (shared.empty() && of_a.empty() && of_b.empty())
    return {times(a.value, ordered(b, a.labels).value), a.labels};
  std::vector<Expr> shape;
  for (char label : batch) shape.push_back(is_int(a.extent(label), 1) ? b.extent(label) : a.extent(label));
  for (char label : of_a) shape.push_back(a.extent(label));
  for (char label : of_b) shape.push_back(b.extent(label));
  Value rows = as_matrices(a, b, batch, of_a, shared), columns = as_matrices(b, a, batch, of_b, shared);
  const std::vector<Expr> m = dims_of(rows), n = dims_of(columns);
  Value result;
  if (batch.empty())  // a weight, perhaps
    result = emit("nn.dense", {reshape_to(rows, {m[1], m[2]}), reshape_to(columns, {n[1], n[2]})});
  else
    result = batched_product(rows, columns);
  return {reshape_to(result, shape), batch + of_a + of_b};
}

/// The labels of the output when the equation does not say: an ellipsis, then letters that occur once among
/// `all` of the operands, sorted.
std::string implied_output(std::string all, int64_t broadcast) {
  std::string once;
  std::sort(all.begin(), all.end());
  for (char label : all)
    if (is_letter(label) && std::count(all.begin(), all.end(), label) == 1) once += label;
  return std::string("0123456789").substr(static_cast<size_t>(10 - broadcast)) + once;
}

Values einsum(const Node& node) {
  std::string equation = node.text("equation", ""), inputs = equation.substr(0, equation.find("->"));
  std::vector<std::string> terms{""};
  for (char c : inputs) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != node.inputs()) node.reject("equation `{}` for {} operands", equation, node.inputs());
  int64_t broadcast = 0;
  std::vector<Operand> operands;
  std::string all;
  for (size_t i = 0; i < terms.size(); ++i) {
    const std::string labels = labels_of(node, terms[i], node.rank(i), broadcast);
    operands.push_back(without_repeats({node.in(i), labels}));
    all += labels;
  }
  std::string output = inputs.size() == equation.size()
                           ? implied_output(all, broadcast)
                           : labels_of(node, equation.substr(inputs.size() + 2), -1, broadcast);
  // A label is summed as soon as nobody needs it, before the product where it is in one operand alone.
  auto needed_after = [&](size_t i) {  // by the output and the operands after i
    std::string labels = output;
    for (size_t j = i + 1; j < operands.size(); ++j) labels += operands[j].labels;
    return labels;
  };
  // Left to right: no better order of products is looked for.
  Operand result = summed(operands[0], needed_after(0));
  for (size_t i = 1; i < operands.size(); ++i) {
    Operand next = summed(operands[i], needed_after(i) + result.labels);
    result = product(result, next, needed_after(i));
    result = summed(result, needed_after(i));
  }
  for (char label : output)
    if (!result.has(label)) node.reject("label `{}` of the output is in no operand", label);
  return {ordered(result, output).value};
}

constexpr Converter kConverters[] = {{"Einsum", einsum, Arithmetic::kWide}};
}  // namespace

std::span<const Converter> einsum_converters() { return kConverters; }

}  // namespace lathe::onnx
