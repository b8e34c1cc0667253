#include "schedules/convolution.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/support/error.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The one dimension that `v` indexes; nothing when it indexes none; Error when it stands there with others.
std::optional<size_t> dim_indexed_by(const Load& load, const Var& v, const std::string& block) {
  std::optional<size_t> found;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    if (!uses_var(load.indices[d], v.get())) continue;
    if (!load.indices[d].same_as(v.get()) || found)
      fail("block `{}` does not index one dimension of {} by {} alone", block, load.buffer->name, v->name);
    found = d;
  }
  return found;
}

bool is_plain(const Expr& index) { return index.as<VarNode>() || is_int(index, 0); }

/// The load of x, or of a bfloat16 x that is widened; null for anything else. (Sums of float16 might not fit
/// its range.)
Ref<Load> factor(const Expr& e) {
  const Cast* cast = e.as<Cast>();
  const Expr& x = cast && cast->value.dtype() == kBFloat16 ? cast->value : e;
  return x.as<Load>() ? x.cast<Load>() : nullptr;
}

/// No variable of a position: channels, in groups or whole.
bool is_summed(const Convolution& c, const Expr& index) {
  return std::none_of(c.block->iters.begin(), c.block->iters.end(), [&](const BlockIter& iter) {
    return iter.kind != IterKind::kReduce && uses_var(index, iter.var.get());
  });
}

/// Dimension `d` of the data as position * stride + tap, one variable of the result and one of the sum.
/// Throws Error for any other index.
Window window_along(const Convolution& c, size_t d) {
  std::vector<Var> vars;
  for (const BlockIter& iter : c.block->iters) vars.push_back(iter.var);
  auto form = linear_form(c.data->indices[d], vars);
  Window window;
  window.data_dim = d;
  if (form && is_int(form->rest, 0) && form->coefficients.size() == 2)
    for (const BlockIter& iter : c.block->iters) {
      auto found = form->coefficients.find(iter.var.get());
      if (found == form->coefficients.end()) continue;
      bool reduces = iter.kind == IterKind::kReduce;
      // Neither windows that run backwards nor dilated ones.
      if (found->second < 1 || (reduces && found->second != 1)) continue;
      if (!reduces) window.stride = found->second;
      (reduces ? window.tap : window.position) = iter.var;
      if (reduces)
        window.taps = int_value(iter.extent);
      else
        window.positions = iter.extent;
    }
  const std::string& name = c.block->name;
  if (!window.position || !window.tap)
    fail("block `{}` does not index dimension {} of {} by a position times a stride plus a tap", name, d,
         c.data->buffer->name);
  // The result as if it were loaded, to ask which dimension a variable indexes.
  Load out;
  out.buffer = c.update->buffer;
  out.indices = c.update->indices;
  auto tap = dim_indexed_by(*c.weight, window.tap, name);
  auto position = dim_indexed_by(out, window.position, name);
  if (!tap || !position || dim_indexed_by(*c.weight, window.position, name))
    fail("block `{}` has a window along dimension {} of {} that is not its weight's alone", name, d,
         c.data->buffer->name);
  window.weight_dim = *tap;
  window.out_dim = *position;
  return window;
}

}  // namespace

SumOfProducts sum_of_products(const Ref<Block>& block) {
  SumOfProducts c{.block = block};
  const Store* update = block->body.as<Store>();
  const Store* init = block->init.as<Store>();
  const Binary* sum = update ? update->value.as<Binary>() : nullptr;
  const Load* old = sum && sum->op == BinaryOp::kAdd ? sum->a.as<Load>() : nullptr;
  const Binary* product = old && old->buffer == update->buffer ? sum->b.as<Binary>() : nullptr;
  // The first factor is taken for the data, as operators write them.
  if (product && product->op == BinaryOp::kMul) c.data = factor(product->a), c.weight = factor(product->b);
  if (!init || !c.data || !c.weight || !structural_equal(init->value, constant(update->buffer->dtype, 0)))
    fail("block `{}` is no sum of products of two elements", block->name);
  if (!update->buffer->dtype.is_float()) fail("block `{}` does not compute with floats", block->name);
  c.update = block->body.cast<Store>();
  if (!std::all_of(c.update->indices.begin(), c.update->indices.end(), is_plain))
    fail("block `{}` indexes its result by more than variables", block->name);
  return c;
}

Convolution convolution_of(const Ref<Block>& block) {
  Convolution c{sum_of_products(block), {}};
  if (!std::all_of(c.weight->indices.begin(), c.weight->indices.end(), is_plain))
    fail("block `{}` indexes its weight by more than variables", block->name);
  size_t windows = 0;
  for (size_t d = 0; d < c.data->indices.size(); ++d) {
    // A plain index or one of channels alone slides no window.
    if (is_plain(c.data->indices[d]) || is_summed(c, c.data->indices[d])) continue;
    if (windows == c.windows.size()) fail("block `{}` slides more than two windows", block->name);
    c.windows[windows++] = window_along(c, d);
  }
  if (windows != c.windows.size()) fail("block `{}` slides {} windows, must be 2", block->name, windows);
  for (size_t d = 0; d < c.data->indices.size(); ++d)
    for (const Window& w : c.windows)
      if (d != w.data_dim &&
          (uses_var(c.data->indices[d], w.tap.get()) || uses_var(c.data->indices[d], w.position.get())))
        fail("block `{}` has a window along dimensions {} and {} of {}", block->name, w.data_dim, d,
             c.data->buffer->name);
  return c;
}

}  // namespace lathe::schedule
