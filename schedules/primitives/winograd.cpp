// Another algorithm for convolutions: fewer multiplications, more memory (cook_toom.h).
#include <algorithm>

#include "core/tir/builder.h"
#include "schedules/convolution.h"
#include "schedules/cook_toom.h"
#include "schedules/primitives/algorithm.h"
#include "schedules/primitives/transform.h"

namespace lathe::schedule {

using namespace tir;

namespace {
std::vector<Expr> as_exprs(Vars vars) { return {vars.begin(), vars.end()}; }

/// The blocks, in the order of `names`.
class Winograd {
 public:
  Winograd(const Application& a, Convolution convolution, const std::array<int64_t, 2>& tile, int64_t band)
      : a_(a), c_(std::move(convolution)), tile_(tile) {
    const std::array<Filtering, 2> filterings = tile_of(c_, tile[0], tile[1]);
    for (size_t w = 0; w < 2; ++w) {
      const Filtering& filtering = filterings[w];
      if (tile[w] < 1 || filtering.products() > kMostProducts)
        a.fail("tiles of {} outputs of {} taps need {} products, must be from 1 output to {} products",
               tile[w], filtering.taps, filtering.products(), kMostProducts);
      transforms_[w] = cook_toom(filtering);
      products_[w] = filtering.products();
      inputs_[w] = filtering.inputs();
      step_[w] = tile[w] * filtering.stride;
      // The last tile may stick out of the result; the frame gives it zeros to read, and what it makes there
      // is dropped.
      tiles_[w] = simplify(ceildiv(c_.windows[w].positions, Expr(tile[w])));
    }
    const DataType sum = c_.update->buffer->dtype;
    data_type_ = stored_type(c_.data->dtype, sum, filterings);
    weight_type_ = stored_type(c_.weight->dtype, sum, filterings);
    order_weight_dims();
    if (const int64_t* all = as_int(tiles_[0]); band < 0 || (all && band > *all))
      a.fail("a band has {} rows of tiles, must be 0 for all or 1 to all {}", band, all ? *all : INT64_MAX);
    is_banded_ = band != 0;
    band_ = is_banded_ ? Expr(band) : tiles_[0];
    bands_ = is_banded_ ? simplify(ceildiv(tiles_[0], band_)) : Expr(1);
  }

  /// Replaces the convolution in a.func and gives the names of the new blocks.
  std::vector<std::string> apply(Func& func) {
    // A transform in two dimensions is one along rows and then one along columns, each a block of its own.
    Buffer frame = frame_block();
    Buffer input = input_blocks(frame), kernel = kernel_blocks();
    Buffer products = product_block(input, kernel);
    Buffer result = output_blocks(products);
    Func made = f_.finish("winograd", {});
    const Block& root = *made->body.as<Block>();
    // The last buffer is the convolution's own.
    Stmt stmts = substitute(root.body, {}, {{result.get(), c_.update->buffer}});
    std::vector<Buffer> buffers = root.allocs;
    std::erase(buffers, result);
    func = with_algorithm(a_, *c_.block, stmts, buffers);
    return names_;
  }

 private:
  std::string name(const char* part) {
    names_.push_back(fresh_block_name(a_.func, c_.block->name + "_" + part));
    return names_.back();
  }
  const std::vector<Expr>& shape_of(const Ref<Load>& load) const { return load->buffer->shape; }
  /// An element as transforms compute with it.
  Expr widened(const Expr& e) const { return cast(c_.update->buffer->dtype, e); }
  size_t dim(size_t w) const { return c_.windows[w].data_dim; }

  /// Of open extents always.
  static bool may_exceed(const Expr& a, const Expr& b) {
    return !as_int(a) || !as_int(b) || int_value(a) > int_value(b);
  }

  /// The data, grown by zeros to whole tiles and bands.
  Buffer frame_block() {
    std::vector<Expr> shape = shape_of(c_.data);
    shape[dim(0)] = simplify((bands_ * band_ - 1) * step_[0] + inputs_[0]);
    shape[dim(1)] = simplify((tiles_[1] - 1) * step_[1] + inputs_[1]);
    return f_.compute(name("frame"), shape, [&](Vars i) {
      Expr value = load(c_.data->buffer, as_exprs(i)), inside = imm(kBool, 1);
      for (size_t w = 0; w < 2; ++w)
        // Only where the frame is larger than the data: without a condition it is a copy, which is inlined
        // later.
        if (may_exceed(shape[dim(w)], shape_of(c_.data)[dim(w)]))
          inside = logical_and(inside, less(i[dim(w)], shape_of(c_.data)[dim(w)]));
      return is_int(inside, 1) ? value : select(inside, value, constant(value.dtype(), 0));
    });
  }

  /// rows[i, x, data...] = (input transform along rows)[i] of the tile; then along columns:
  /// tiles[band, i, j, data...], whose row is within the band.
  Buffer input_blocks(const Buffer& frame) {
    std::vector<Expr> shape{products_[0], inputs_[1]};
    std::vector<Expr> dims = frame->shape;
    dims[dim(0)] = simplify(bands_ * band_);
    dims[dim(1)] = tiles_[1];
    shape.insert(shape.end(), dims.begin(), dims.end());
    Buffer rows = f_.compute(name("rows"), shape, [&](Vars v) {
      std::vector<Expr> x;
      for (int64_t k = 0; k < inputs_[0]; ++k) {
        std::vector<Expr> at = as_exprs(v.subspan(2));
        at[dim(0)] = at[dim(0)] * step_[0] + k;
        at[dim(1)] = at[dim(1)] * step_[1] + v[1];
        x.push_back(widened(load(frame, at)));
      }
      return element(transformed(transforms_[0].input, x), v[0]);
    });
    dims[dim(0)] = band_;
    std::vector<Expr> banded{bands_, products_[0], products_[1]};
    banded.insert(banded.end(), dims.begin(), dims.end());
    return f_.compute(name("tiles"), banded, [&](Vars v) {
      std::vector<Expr> x;
      for (int64_t k = 0; k < inputs_[1]; ++k) {
        std::vector<Expr> at{v[1], Expr(k)};
        for (const Var& each : v.subspan(3)) at.emplace_back(each);
        if (is_banded_) at[2 + dim(0)] = v[0] * band_ + at[2 + dim(0)];
        x.push_back(load(rows, at));
      }
      return cast(data_type_, element(transformed(transforms_[1].input, x), v[2]));
    });
  }

  /// The weight's dimensions but for the taps. Groups of narrow products stand innermost; widened ones are
  /// multiplied one by one, in vectors along the last dimension of the output.
  void order_weight_dims() {
    for (size_t d = 0; d < c_.weight->indices.size(); ++d)
      if (d != c_.windows[0].weight_dim && d != c_.windows[1].weight_dim) weight_dims_.push_back(d);
    if (weight_type_ == c_.weight->dtype) return;
    std::stable_partition(weight_dims_.begin(), weight_dims_.end(), [&](size_t d) {
      return !c_.weight->indices[d].same_as(c_.update->indices.back().get());
    });
  }

  /// The weight with its taps replaced by products: first along rows, then along columns.
  Buffer kernel_blocks() {
    size_t row = c_.windows[0].weight_dim, column = c_.windows[1].weight_dim;
    // kernel_rows[i, l, dims..] for a tap l of a row; kernel[i, j, dims..].
    std::vector<Expr> shape{products_[0], c_.windows[1].taps};
    for (size_t d : weight_dims_) shape.push_back(shape_of(c_.weight)[d]);
    Buffer rows = f_.compute(name("kernel_rows"), shape, [&](Vars v) {
      std::vector<Expr> g, at(shape_of(c_.weight).size());
      for (size_t i = 0; i < weight_dims_.size(); ++i) at[weight_dims_[i]] = v[2 + i];
      at[column] = v[1];
      for (int64_t k = 0; k < c_.windows[0].taps; ++k) {
        at[row] = k;
        g.push_back(widened(load(c_.weight->buffer, at)));
      }
      return element(transformed(transforms_[0].kernel, g), v[0]);
    });
    shape[1] = products_[1];
    return f_.compute(name("kernel"), shape, [&](Vars v) {
      std::vector<Expr> g, at = as_exprs(v);
      for (int64_t k = 0; k < c_.windows[1].taps; ++k) {
        at[1] = k;
        g.push_back(load(rows, at));
      }
      return cast(weight_type_, element(transformed(transforms_[1].kernel, g), v[1]));
    });
  }

  /// products[band, i, j, out...] = sum over the other reduction variables of tiles * kernel.
  Buffer product_block(const Buffer& input, const Buffer& kernel) {
    std::vector<Expr> shape{input->shape[0], products_[0], products_[1]};
    for (const Expr& extent : c_.update->buffer->shape) shape.push_back(extent);
    shape[3 + c_.windows[0].out_dim] = band_;
    shape[3 + c_.windows[1].out_dim] = tiles_[1];
    // Taps have become products: what is left of the sum are channels.
    std::vector<const BlockIter*> reduced;
    std::vector<Expr> extents;
    for (const BlockIter& iter : c_.block->iters)
      if (iter.kind == IterKind::kReduce && iter.var != c_.windows[0].tap && iter.var != c_.windows[1].tap) {
        reduced.push_back(&iter);
        extents.push_back(iter.extent);
      }
    return f_.reduce(name("products"), shape, extents, Combiner::kSum, [&](Vars v, Vars r) {
      VarMap at;  // the original's variables
      for (size_t d = 0; d < c_.update->indices.size(); ++d)
        if (const VarNode* own = c_.update->indices[d].as<VarNode>()) at[own] = v[3 + d];
      for (size_t k = 0; k < reduced.size(); ++k) at[reduced[k]->var.get()] = r[k];
      std::vector<Expr> tile{v[0], v[1], v[2]}, weight{v[1], v[2]};
      for (size_t d = 0; d < c_.data->indices.size(); ++d) {
        // Rows and columns of the data become the tile's number; 2 stands for all other dimensions, indexed
        // as before.
        size_t w = d == dim(0) ? 0 : d == dim(1) ? 1 : 2;
        tile.push_back(w < 2 ? Expr(v[3 + c_.windows[w].out_dim]) : substitute(c_.data->indices[d], at));
      }
      for (size_t d : weight_dims_) weight.push_back(substitute(c_.weight->indices[d], at));
      return widened(load(input, tile)) * widened(load(kernel, weight));
    });
  }

  /// columns[r, j, out...] = (output transform along rows)[r]; then along columns into the result.
  Buffer output_blocks(const Buffer& products) {
    size_t row = c_.windows[0].out_dim, column = c_.windows[1].out_dim;
    std::vector<Expr> shape{tile_[0], products_[1]};
    for (const Expr& extent : c_.update->buffer->shape) shape.push_back(extent);
    shape[2 + row] = simplify(bands_ * band_);
    shape[2 + column] = tiles_[1];
    Buffer columns = f_.compute(name("columns"), shape, [&](Vars v) {
      std::vector<Expr> x;
      for (int64_t k = 0; k < products_[0]; ++k) {
        std::vector<Expr> at{is_banded_ ? floordiv(v[2 + row], band_) : Expr(0), Expr(k)};
        for (const Var& each : v.subspan(1)) at.emplace_back(each);
        // A row of tiles as its band and its place in the band.
        if (is_banded_) at[3 + row] = floormod(v[2 + row], band_);
        x.push_back(load(products, at));
      }
      return element(transformed(transforms_[0].output, x), v[0]);
    });
    return f_.compute(name("result"), c_.update->buffer->shape, [&](Vars v) {
      std::vector<Expr> x;
      for (int64_t k = 0; k < products_[1]; ++k) {
        std::vector<Expr> at{floormod(v[row], tile_[0]), Expr(k)};
        for (const Var& each : v) at.emplace_back(each);
        at[2 + row] = floordiv(v[row], tile_[0]);
        at[2 + column] = floordiv(v[column], tile_[1]);
        x.push_back(load(columns, at));
      }
      return element(transformed(transforms_[1].output, x), floormod(v[column], tile_[1]));
    });
  }

  const Application& a_;
  Convolution c_;
  std::array<int64_t, 2> tile_;  // outputs of one
  std::array<Expr, 2> tiles_;
  bool is_banded_ = true;  // else all rows of tiles, of which there may be any number, are one band
  Expr bands_, band_;      // and rows of tiles in each
  std::array<int64_t, 2> products_{}, inputs_{}, step_{};  // of a tile; from one tile's inputs to the next's
  std::array<CookToom, 2> transforms_;
  DataType data_type_, weight_type_;  // of what the transforms store
  std::vector<size_t> weight_dims_;
  FuncBuilder f_;
  std::vector<std::string> names_;
};

Convolution convolution(const Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  for (const BlockIter& iter : path.back().as<Block>()->iters)
    if (iter.kind == IterKind::kReduce && !as_int(iter.extent))
      a.fail("block `{}` sums over {}, whose extent is open", path.back().as<Block>()->name, iter.var->name);
  try {
    return convolution_of(path.back().cast<Block>());
  } catch (const Error& e) {
    a.fail("{}", e.what());
  }
}

void winograd(Application& a) {
  Winograd rewrite(a, convolution(a), {a.number(1), a.number(2)}, a.number(3));
  Func func;
  for (const std::string& block : rewrite.apply(func)) a.give_block(block);
  a.func = func;
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {.name = "winograd",
     .doc =
         "y[i, j] += d[i+k, j+l] * g[k, l]  ->  tiles of d and g transformed, multiplied, transformed back: "
         "tiles "
         "of rows x columns outputs, rows of tiles in bands (0: all in one)",
     .inputs = {{kBlock, kInt, kInt, kInt}},
     .run = winograd,
     .is_algorithm = true},
};
}  // namespace

std::span<const Primitive> winograd_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
