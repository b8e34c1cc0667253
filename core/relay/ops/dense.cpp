// Matrix products.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

void same_depth(RelationContext& c, const TensorType& a, const TensorType& b, const Expr& a_depth,
                const Expr& b_depth) {
  const int64_t *x = as_int(a_depth), *y = as_int(b_depth);
  if (x && y && *x != *y)
    mismatch(c, "shapes {} and {} do not multiply: {} is not {}", describe(a.shape), describe(b.shape), *x,
             *y);
  if (!a_depth.as<Any>() && !b_depth.as<Any>()) c.equal_dims(a_depth, b_depth);
}

Relation dense_type(RelationContext& c, const Attrs& attrs) {
  const DenseAttrs& a = attrs_as<DenseAttrs>(attrs);
  const TensorType* data = c.tensor(0);
  if (!data) return Relation::kWaits;
  if (data->shape.empty()) mismatch(c, "data is a scalar, must have at least rank 1");
  Layout layout = Layout::parse(a.weight_layout.empty() ? "NC" : a.weight_layout);
  require_axes(c, layout, "NC");
  // dense() below indexes groups of products in this order of axes alone.
  if (layout.block('C') > 1 && (layout.rank() != 4 || layout.axes()[2].letter != 'N'))
    mismatch(c, "weight_layout {} must be NC, NC<x>n or NC<x>n<y>c", a.weight_layout);
  Shape shape = data->shape;
  if (const TensorType* weight = c.tensor(1)) {
    require_rank(c, 1, *weight, layout.rank());
    same_depth(c, *data, *weight, shape.back(), layout.extent('C', weight->shape));
    shape.back() = layout.extent('N', weight->shape);
    if (a.units && as_int(shape.back()) && int_value(shape.back()) != *a.units)
      mismatch(c, "weight has shape {}, but units is {}", describe(weight->shape), *a.units);
  } else {
    // The weight is a hole: `units` and the data's depth say what it must be.
    if (!a.units) return Relation::kWaits;
    c.unify_arg(1, tensor_type(layout.shape({{'N', *a.units}, {'C', shape.back()}}), data->dtype));
    shape.back() = *a.units;
  }
  c.result(tensor_type(shape, a.out_dtype.value_or(data->dtype)));
  return Relation::kSolved;
}

/// out[m..., n] = sum over k of data[m..., k] * weight[n, k] (packed: weight[n / x, k, n % x]; with groups of
/// g neighbours along k innermost, layout NC16n4c: weight[n / x, k / g, n % x, k % g], over k / g and k % g)
Buffers dense(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const DenseAttrs& a = attrs_as<DenseAttrs>(attrs);
  Layout layout = Layout::parse(a.weight_layout.empty() ? "NC" : a.weight_layout);
  const TensorType& type = tensor_of(result);
  int64_t group = layout.block('C');
  Shape reduce{in[0]->shape.back()};
  if (group > 1) reduce = {floordiv(in[0]->shape.back(), Expr(group)), Expr(group)};
  return {f.reduce("dense", type.shape, reduce, tir::Combiner::kSum, [&](Vars i, Vars r) {
    std::vector<Expr> row = as_indices(i), each;
    // Two variables of the reduction for groups, so that the inner one is the neighbours an instruction sums.
    row.back() = group > 1 ? Expr(r[0]) * group + r[1] : Expr(r[0]);
    if (group > 1)
      each = {floordiv(i.back(), Expr(layout.block('N'))), r[0], floormod(i.back(), Expr(layout.block('N'))),
              r[1]};
    else
      each = layout.indices({{'N', i.back()}, {'C', r[0]}});
    return cast(type.dtype, load(in[0], row)) * cast(type.dtype, load(in[1], each));
  })};
}

/// Weights are (columns, blocks, numbers of a block), scales (columns, blocks).
Relation block_dense_type(RelationContext& c, const Attrs&) {
  const TensorType *data = c.tensor(0), *weight = c.tensor(1), *scale = c.tensor(2);
  if (!data || !weight || !scale) return Relation::kWaits;
  if (data->shape.empty()) mismatch(c, "data is a scalar, must have at least rank 1");
  require_rank(c, 1, *weight, 3);
  require_integers(c, 1, *weight);
  require_dtype(c, 2, *scale, data->dtype);
  demand(c, 2, {weight->shape[0], weight->shape[1]}, scale->dtype);
  same_depth(c, *data, *weight, data->shape.back(), simplify(weight->shape[1] * weight->shape[2]));
  Shape shape = data->shape;
  shape.back() = weight->shape[0];
  c.result(tensor_type(shape, data->dtype));
  return Relation::kSolved;
}

/// out[m..., n] = sum over b, k of data[m..., b * block + k] * (weight[n, b, k] * scale[n, b])
Buffers block_dense(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  const TensorType& type = tensor_of(result);
  const Expr block = in[1]->shape[2];
  return {
      f.reduce("block_dense", type.shape, {in[1]->shape[1], block}, tir::Combiner::kSum, [&](Vars i, Vars r) {
        std::vector<Expr> row = as_indices(i);
        row.back() = Expr(r[0]) * block + r[1];
        const Expr weight = cast(type.dtype, load(in[1], {i.back(), r[0], r[1]}));
        return load(in[0], row) * (weight * load(in[2], {i.back(), r[0]}));
      })};
}

/// The k-th number of so many bits in a byte, the lowest first.
Expr digit_of(const Expr& byte, int64_t k, int64_t bits) {
  const int64_t digits = 8 / bits;
  const Expr low = k == 0 ? byte : binary(BinaryOp::kShiftRight, byte, imm(kUInt8, k * bits));
  return k + 1 == digits ? low : binary(BinaryOp::kBitAnd, low, imm(kUInt8, (1 << bits) - 1));
}

/// Data is bytes (..., K), its scales (..., B), the sums of its chunks (..., C); weights are
/// (N / x, C, G, x, 4), their scales (N / x, B, x), their zeros the same, or one for all.
Relation packed_block_type(RelationContext& c, const Attrs& attrs) {
  const int64_t bits = attrs_as<PackedBlockAttrs>(attrs).bits;
  for (size_t arg = 0; arg < 6; ++arg)
    if (!c.tensor(arg)) return Relation::kWaits;
  const TensorType &data = *c.tensor(0), &scale = *c.tensor(1), &sums = *c.tensor(2), &weight = *c.tensor(3),
                   &weight_scale = *c.tensor(4), &zero = *c.tensor(5);
  if (bits != 2 && bits != 4 && bits != 8) mismatch(c, "weights of {} bits, must be of 2, 4 or 8", bits);
  require_dtype(c, 0, data, kInt8);
  require_dtype(c, 2, sums, kInt32);
  require_dtype(c, 3, weight, kUInt8);
  require_dtype(c, 4, weight_scale, scale.dtype);
  require_dtype(c, 5, zero, kUInt8);
  require_rank(c, 3, weight, 5);
  require_rank(c, 4, weight_scale, 3);
  require_rank(c, 5, zero, 3);
  for (size_t arg : {size_t{0}, size_t{1}, size_t{2}})
    if (c.tensor(arg)->shape.empty() || c.tensor(arg)->shape.size() != data.shape.size())
      mismatch(c, "argument {} has shape {}, beside data {}", arg + 1, describe(c.tensor(arg)->shape),
               describe(data.shape));
  for (size_t arg : {size_t{3}, size_t{4}})
    if (!has_constant_shape(*c.tensor(arg)))
      mismatch(c, "argument {} has the open shape {}", arg + 1, describe(c.tensor(arg)->shape));
  const Ints w = constant_shape(weight), s = constant_shape(weight_scale);
  if (w[4] != 4 || s[1] < 1 || w[1] % s[1] != 0)
    mismatch(c, "weights {} of {} blocks must be chunks of groups of 4", describe(weight.shape), s[1]);
  demand(c, 4, {weight.shape[0], weight_scale.shape[1], weight.shape[3]}, weight_scale.dtype);
  const bool one_zero =
      std::all_of(zero.shape.begin(), zero.shape.end(), [](const Expr& e) { return is_int(e, 1); });
  if (!one_zero) demand(c, 5, weight_scale.shape, kUInt8);
  const auto ends_with = [&](const TensorType& type, int64_t extent) {
    const int64_t* last = as_int(type.shape.back());
    if (last && *last != extent) mismatch(c, "shape {} must end with {}", describe(type.shape), extent);
  };
  ends_with(data, w[1] * w[2] * (8 / bits) * w[4]);
  ends_with(scale, s[1]);
  ends_with(sums, w[1]);
  Shape shape = data.shape;
  shape.back() = Expr(w[0] * w[3]);
  c.result(tensor_type(shape, scale.dtype));
  return Relation::kSolved;
}

/// out[m..., n] = sum over c of scale[m..., b] * (weight_scale[n, b] * (sum over k of data[m..., c, k] *
/// weight[n, c, k] - zero[n, b] * sums[m..., c])), where chunk c is in block b. What a chunk sums is written
/// out: groups of four neighbours, which code generation knows as dot products, and whose sums become real
/// once.
Buffers packed_block_dense(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const TensorType& type = tensor_of(result);
  const int64_t bits = attrs_as<PackedBlockAttrs>(attrs).bits, digits = 8 / bits;
  const auto extent = [&](size_t arg, size_t d) { return int_value(in[arg]->shape[d]); };
  const int64_t blocks = extent(4, 1), chunks = extent(3, 1), groups = extent(3, 2), lanes = extent(3, 3),
                four = extent(3, 4), chunk = groups * digits * four;
  Shape reduce{Expr(blocks)};
  if (chunks > blocks) reduce.push_back(Expr(chunks / blocks));
  return {f.reduce("block_dense", type.shape, reduce, tir::Combiner::kSum, [&](Vars i, Vars r) {
    const Expr outer = floordiv(i.back(), Expr(lanes)), lane = floormod(i.back(), Expr(lanes)), block = r[0],
               c = r.size() > 1 ? block * (chunks / blocks) + r[1] : block;
    const auto row = [&](const Expr& last) {
      std::vector<Expr> indices = as_indices(i);
      indices.back() = last;
      return indices;
    };
    const Expr zero = is_int(in[5]->shape[0], 1) && is_int(in[5]->shape[1], 1) && is_int(in[5]->shape[2], 1)
                          ? load(in[5], {0, 0, 0})
                          : load(in[5], {outer, block, lane});
    // What the zeros add, first: sums go on from there.
    Expr sum = imm(kInt32, 0) - cast(kInt32, zero) * load(in[2], row(c));
    for (int64_t g = 0; g < groups * digits; ++g) {
      Expr group;
      for (int64_t k = 0; k < four; ++k) {
        const Expr weight =
            digit_of(load(in[3], {outer, c, Expr(g % groups), lane, Expr(k)}), g / groups, bits);
        const Expr term = cast(kInt32, load(in[0], row(c * chunk + (four * g + k)))) * cast(kInt32, weight);
        group = group ? group + term : term;
      }
      sum = sum + group;
    }
    return load(in[1], row(block)) * (load(in[4], {outer, block, lane}) * cast(type.dtype, sum));
  })};
}

struct Matrix {
  Expr rows, columns;
};
Matrix matrix_of(const Shape& shape, bool transposed) {
  Expr a = shape[shape.size() - 2], b = shape.back();
  return transposed ? Matrix{b, a} : Matrix{a, b};
}

Relation product_type(RelationContext& c, bool transpose_a, bool transpose_b, std::optional<DataType> out) {
  const TensorType *a = c.tensor(0), *b = c.tensor(1);
  if (!a || !b) return Relation::kWaits;
  if (a->shape.size() < 2 || b->shape.size() < 2)
    mismatch(c, "shapes {} and {} must have at least rank 2", describe(a->shape), describe(b->shape));
  Matrix x = matrix_of(a->shape, transpose_a), y = matrix_of(b->shape, transpose_b);
  same_depth(c, *a, *b, x.columns, y.rows);
  Shape shape =
      broadcast_shape(c, {a->shape.begin(), a->shape.end() - 2}, {b->shape.begin(), b->shape.end() - 2});
  shape.push_back(x.rows);
  shape.push_back(y.columns);
  c.result(tensor_type(shape, out.value_or(a->dtype)));
  return Relation::kSolved;
}

Relation matmul_type(RelationContext& c, const Attrs& attrs) {
  const MatmulAttrs& a = attrs_as<MatmulAttrs>(attrs);
  return product_type(c, a.transpose_a, a.transpose_b, a.out_dtype);
}
Relation batch_matmul_type(RelationContext& c, const Attrs& attrs) {
  const BatchMatmulAttrs& a = attrs_as<BatchMatmulAttrs>(attrs);
  return product_type(c, a.transpose_a, a.transpose_b, a.out_dtype);
}

/// buffer[batch..., row, column], or its transpose; batch dimensions broadcast.
Expr element(const Buffer& buffer, Vars batch, const Expr& row, const Expr& column, bool transposed) {
  // Batch dimensions are aligned at their end; `offset` are those that this operand lacks.
  size_t rank = buffer->shape.size(), offset = batch.size() - (rank - 2);
  std::vector<Expr> indices;
  for (size_t d = 0; d + 2 < rank; ++d)
    indices.push_back(is_repeated(buffer->shape[d]) ? Expr(0) : Expr(batch[offset + d]));
  indices.push_back(transposed ? column : row);
  indices.push_back(transposed ? row : column);
  return load(buffer, indices);
}

/// out[b..., m, n] = sum over k of x[b..., m, k] * y[b..., k, n], either one stored transposed
Buffers product(FuncBuilder& f, Inputs in, const Type& result, bool transpose_a, bool transpose_b) {
  const TensorType& type = tensor_of(result);
  Expr depth = matrix_of(in[0]->shape, transpose_a).columns;
  return {f.reduce("matmul", type.shape, {depth}, tir::Combiner::kSum, [&](Vars i, Vars r) {
    Vars batch = i.first(i.size() - 2);
    return cast(type.dtype, element(in[0], batch, i[i.size() - 2], r[0], transpose_a)) *
           cast(type.dtype, element(in[1], batch, r[0], i.back(), transpose_b));
  })};
}
Buffers matmul(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const MatmulAttrs& a = attrs_as<MatmulAttrs>(attrs);
  return product(f, in, result, a.transpose_a, a.transpose_b);
}
Buffers batch_matmul(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const BatchMatmulAttrs& a = attrs_as<BatchMatmulAttrs>(attrs);
  return product(f, in, result, a.transpose_a, a.transpose_b);
}

template <Relation (*kType)(RelationContext&, const Attrs&), typename A>
Relation quantized_type(RelationContext& c, const Attrs& attrs) {
  const TensorType *data = c.tensor(0), *weight = c.tensor(1);
  if (!data || !weight) return Relation::kWaits;
  require_integers(c, 0, *data);
  require_integers(c, 1, *weight);
  if (attrs_as<A>(attrs).out_dtype != kInt32) mismatch(c, "out_dtype must be int32");
  return kType(c, attrs);
}

std::optional<ProductAxes> dense_axes(const Attrs& attrs, size_t data_rank, size_t) {
  if (!attrs_as<DenseAttrs>(attrs).weight_layout.empty()) return std::nullopt;
  auto last = static_cast<int64_t>(data_rank) - 1;
  return ProductAxes{.weight = 0, .result = last, .summed = {1}, .of_data = last};
}
template <typename A>
std::optional<ProductAxes> matrix_axes(const Attrs& attrs, size_t data_rank, size_t weight_rank) {
  const A& a = attrs_as<A>(attrs);
  auto x = static_cast<int64_t>(data_rank), y = static_cast<int64_t>(weight_rank);
  // The second operand is (.., K, N), or (.., N, K) transposed; the first (.., M, K), or (.., K, M).
  return ProductAxes{.weight = a.transpose_b ? y - 2 : y - 1,
                     .result = std::max(x, y) - 1,
                     .summed = {a.transpose_b ? y - 1 : y - 2},
                     .of_data = a.transpose_a ? x - 2 : x - 1};
}

constexpr ProductRule kDenseProduct{"nn.dense", "qnn.dense", with_sums_of<DenseAttrs>, dense_axes},
    kMatrixProduct{"nn.matmul", "qnn.matmul", with_sums_of<MatmulAttrs>, matrix_axes<MatmulAttrs>},
    kBatchProduct{"nn.batch_matmul", "qnn.batch_matmul", with_sums_of<BatchMatmulAttrs>,
                  matrix_axes<BatchMatmulAttrs>};

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute,
                 const ProductRule* product, LayoutRule layout = LayoutRule::kNone) {
  return {.name = name,
          .doc = doc,
          .args = 2,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kAnchor,
          .layout = layout,
          .narrow = product ? NarrowRule::kProduct : NarrowRule::kReal,
          .product = product};
}
constexpr const char* kQuantizedDoc =
    "The product of (data - input_zero_point) with (weight - kernel_zero_point) in int32, from data, weight, "
    "input_zero_point, kernel_zero_point, input_scale, kernel_scale.";
constexpr Op quantized_row(const char* name, const NodeType* attrs, InferType infer,
                           const ProductRule& product) {
  return {.name = name,
          .doc = kQuantizedDoc,
          .args = 6,
          .attrs = attrs,
          .infer = infer,
          .fusion = Fusion::kAnchor,
          .product = &product};
}

constexpr Op kDenseOps[] = {
    row("nn.dense", "data (..., K) times the transpose of weight (N, K).", &DenseAttrs::kType, dense_type,
        dense, &kDenseProduct, LayoutRule::kDense),
    row("nn.contrib_dense_pack", "dense with a packed weight (N/x, K, x).", &DenseAttrs::kType, dense_type,
        dense, nullptr),
    {.name = "nn.block_dense",
     .doc = "data (..., K) times the transpose of integers (N, B, K / B), each times the scale (N, B) of its "
            "block.",
     .args = 3,
     .attrs = &BlockDenseAttrs::kType,
     .infer = block_dense_type,
     .compute = block_dense,
     .fusion = Fusion::kAnchor},
    {.name = "nn.contrib_block_dense_pack",
     .doc =
         "block_dense of bytes (..., K) with scales (..., B) and sums (..., C) of their chunks, and packed "
         "weights (N/x, C, G, x, 4) with scales and zeros (N/x, B, x).",
     .args = 6,
     .attrs = &PackedBlockAttrs::kType,
     .infer = packed_block_type,
     .compute = packed_block_dense,
     .fusion = Fusion::kAnchor},
    row("nn.matmul", "Matrix product, either side stored transposed.", &MatmulAttrs::kType, matmul_type,
        matmul, &kMatrixProduct),
    row("nn.batch_matmul",
        "Matrix products over leading dimensions that broadcast; the second is transposed by default.",
        &BatchMatmulAttrs::kType, batch_matmul_type, batch_matmul, &kBatchProduct),
    quantized_row("qnn.dense", &DenseAttrs::kType, quantized_type<dense_type, DenseAttrs>, kDenseProduct),
    quantized_row("qnn.matmul", &MatmulAttrs::kType, quantized_type<matmul_type, MatmulAttrs>,
                  kMatrixProduct),
    quantized_row("qnn.batch_matmul", &BatchMatmulAttrs::kType,
                  quantized_type<batch_matmul_type, BatchMatmulAttrs>, kBatchProduct),
};
}  // namespace

std::span<const Op> dense_ops() { return kDenseOps; }

}  // namespace lathe::relay::ops
