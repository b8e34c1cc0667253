#include "core/relay/lower.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/tir/dims.h"
#include "core/tir/interpret.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

using Index = std::vector<int64_t>;

Var typed_var(const Index& shape, DataType dtype = kFloat32) {
  auto v = mutate(*make_var("x", tensor_type(shape, dtype)));
  v->checked_type = v->annotation;
  return seal(std::move(v));
}

Ref<Function> function(std::vector<Var> params, const Expr& body) {
  return make<Function>(std::vector<TypeVar>(), std::move(params), Type(), body);
}

bool moves_nothing(const Index& shape, const char* from, const char* to) {
  Var x = typed_var(shape);
  auto attrs = make<LayoutTransformAttrs>(std::string(from), std::string(to));
  return find_view(function({x}, typed_call("layout_transform", {x}, attrs))).has_value();
}

TEST(Lower, ViewsMoveNothing) {
  Var x = typed_var({2, 3, 4});
  Expr flat = typed_call("nn.batch_flatten", {typed_call("expand_dims", {x})});
  EXPECT_TRUE(find_view(function({x}, flat)));
  EXPECT_FALSE(find_view(function({x}, typed_call("nn.relu", {flat}))));
  EXPECT_FALSE(find_view(function({x}, typed_call("transpose", {x}))));
  EXPECT_TRUE(moves_nothing({1, 32, 1, 1, 16}, "NCHW16c", "NCHW"));
  EXPECT_TRUE(moves_nothing({1, 1, 5, 5, 4}, "NCHW4c", "NHWC"));
  EXPECT_TRUE(moves_nothing({1, 2, 1, 1, 16}, "NCHW16c", "NCHW8c"));
  EXPECT_FALSE(moves_nothing({1, 2, 3, 3, 16}, "NCHW16c", "NCHW8c"));
  EXPECT_FALSE(moves_nothing({1, 32, 2, 2}, "NCHW", "NCHW16c"));
  EXPECT_TRUE(moves_nothing({1, 32, 1, 1}, "NCHW", "NCHW16c"));
  EXPECT_FALSE(moves_nothing({1, 2, 4, 4}, "NCHW", "NHWC"));
}

int64_t iterations_of(const tir::Block& block) {
  int64_t iterations = 1;
  for (const tir::BlockIter& iter : block.iters) iterations *= int_value(iter.extent);
  return iterations;
}

/// How many elements the blocks of this name compute.
int64_t results_of(const tir::Func& program, const std::string& name) {
  int64_t results = 0;
  post_order(program->body, [&](const NodeRef& node) {
    const auto* block = node.as<tir::Block>();
    if (block && block->name == name) results += iterations_of(*block);
  });
  return results;
}

/// The program of a resize from 5 x 7 pixels.
tir::Func resize(const Index& size) {
  auto attrs = std::make_unique<ResizeAttrs>();
  attrs->size = size, attrs->method = "linear", attrs->coordinate_transformation_mode = "half_pixel";
  Var x = typed_var({1, 3, 5, 7});
  return lower_function(function({x}, typed_call("image.resize2d", {x}, seal(std::move(attrs)))), "resize");
}

/// Along lines pixels are gathered: of as few lines as there are before or after the other axis.
TEST(Lower, ResizesTheLinesOfTheSmallerImage) {
  EXPECT_EQ(results_of(resize({20, 28}), "lines"), 3 * 5 * 28);
  EXPECT_EQ(results_of(resize({20, 4}), "lines"), 3 * 5 * 4);
  EXPECT_EQ(results_of(resize({3, 28}), "lines"), 3 * 3 * 7);
}

/// Each pixel of an open image is repeated where it is known how often: there are no tables of places.
TEST(Lower, RepeatsThePixelsOfOpenImages) {
  const lathe::Expr rows = lathe::var("h"), columns = lathe::var("w");
  auto image = mutate(*make_var("x", tensor_type({1, 3, rows, columns * 2}, kFloat32)));
  image->checked_type = image->annotation;
  const Var x = seal(std::move(image));
  auto attrs = std::make_unique<UpsamplingAttrs>();
  attrs->scale_h = 2, attrs->scale_w = 3;
  const tir::Func program =
      lower_function(function({x}, typed_call("nn.upsampling", {x}, seal(std::move(attrs)))), "repeat");
  int64_t blocks = 0;
  post_order(program->body, [&](const NodeRef& node) {
    const auto* block = node.as<tir::Block>();
    blocks += block && !block->iters.empty();
  });
  EXPECT_EQ(blocks, 1);
}

/// Of an image that is made smaller by a whole number, open or not, all places follow from the first: there
/// are no tables of them. Means of neighbours, and for odd numbers the one in the middle.
TEST(Lower, HalvesImagesWithoutTables) {
  const lathe::Expr rows = lathe::var("h"), columns = lathe::var("w");
  for (int64_t stride : {2, 3, 4})
    for (const bool open : {false, true}) {
      auto image = mutate(*make_var("x", tensor_type({1, 1, rows * stride, columns * stride}, kFloat32)));
      if (!open) image->annotation = tensor_type(Index{1, 1, 3 * stride, 5 * stride}, kFloat32);
      image->checked_type = image->annotation;
      const Var x = seal(std::move(image));
      auto attrs = std::make_unique<ResizeAttrs>();
      attrs->method = "linear", attrs->coordinate_transformation_mode = "half_pixel";
      attrs->size = {3, 5};
      if (open) attrs->size.clear(), attrs->scales = {1.0 / stride, 1.0 / stride};
      if (open && stride == 3) continue;  // a third of an open size is no exact fraction
      tir::Func program =
          lower_function(function({x}, typed_call("image.resize2d", {x}, seal(std::move(attrs)))), "resize");
      post_order(program->body, [&](const NodeRef& node) {
        const auto* block = node.as<tir::Block>();
        EXPECT_FALSE(block && (block->name == "position" || block->name == "weight")) << block->name;
      });
      if (open) program = tir::with_dims(program, std::vector<int64_t>{3, 5});
      const int64_t width = 5 * stride;
      std::vector<Tensor> tensors{random_tensor({1, 1, 3 * stride, width}, kFloat32, 7),
                                  Tensor({1, 1, 3, 5}, kFloat32)};
      tir::interpret(program, tensors);
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 5; ++j) {
          double sum = 0;
          for (int64_t a : {(stride - 1) / 2, stride / 2})
            for (int64_t b : {(stride - 1) / 2, stride / 2})
              sum += tensors[0].value((i * stride + a) * width + j * stride + b);
          EXPECT_NEAR(tensors[1].value(i * 5 + j), sum / 4, 1e-6) << stride << ": " << i << ", " << j;
        }
    }
}

/// What windows at a border are divided by is computed once for all channels, not for each result.
TEST(Lower, CountsWindowsOnceForAllChannels) {
  Var x = typed_var({1, 30, 11, 11});
  auto attrs = std::make_unique<PoolAttrs>();
  attrs->pool_size = {3, 3}, attrs->strides = {2, 2}, attrs->padding = {1, 1};
  const tir::Func program =
      lower_function(function({x}, typed_call("nn.avg_pool2d", {x}, seal(std::move(attrs)))), "pool");
  int64_t counted = 0;
  post_order(program->body, [&](const NodeRef& node) {
    const auto* block = node.as<tir::Block>();
    if (!block || block->iters.empty()) return;
    bool counts = false;
    post_order(block->body, [&](const NodeRef& inner) {
      const auto* cast = inner.as<Cast>();
      counts |= cast && cast->dtype.is_float() && cast->value.dtype().is_int();
    });
    counted += counts ? iterations_of(*block) : 0;
  });
  EXPECT_EQ(results_of(program, "average"), 30 * 36);
  EXPECT_EQ(counted, 36);
}

TEST(Lower, OneOfTheFirstDimensionIsAView) {
  Var x = typed_var({5, 3, 4}), at = typed_var({1});
  auto attrs = make<TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("fast"));
  Var position = with_checked_type(at, tensor_type(Index{1}, kInt64)).cast<VarNode>();
  Expr taken = typed_call("take", {x, position}, attrs);
  std::optional<View> view = find_view(function({x, position}, typed_call("nn.batch_flatten", {taken})));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->extent, 5);
  EXPECT_EQ(view->position_param, size_t{1});
  // A constant position; two positions; another dimension.
  Expr two = typed_constant(tensor_of(std::vector<int64_t>{2}, {1}, kInt64));
  view = find_view(function({x}, typed_call("take", {x, two}, attrs)));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->position, 2);
  Expr rows = typed_constant(tensor_of(std::vector<int64_t>{2, 3}, {2}, kInt64));
  EXPECT_FALSE(find_view(function({x}, typed_call("take", {x, rows}, attrs))));
  auto inner = make<TakeAttrs>(int64_t{0}, std::optional<int64_t>(1), std::string("fast"));
  EXPECT_FALSE(find_view(function({x}, typed_call("take", {x, two}, inner))));
}

TEST(Lower, InlinesScalarsAndCopiesParametersThatAreResults) {
  Var x = typed_var({3});
  Expr two = typed_constant(full({}, kFloat32, 2));
  Expr doubled = typed_call("multiply", {x, two});
  tir::Func f = lower_function(function({x}, typed_tuple({doubled, x, doubled, two})), "f");
  EXPECT_EQ(f->outputs, 4);
  std::vector<Tensor> tensors{tensor_of<float>({1, 2, 3}, {3}, kFloat32)};
  for (size_t i = 1; i < f->params.size(); ++i)
    tensors.push_back(zeros(tir::constant_shape(f->params[i]), kFloat32));
  tir::interpret(f, tensors);
  EXPECT_EQ(tensors[1].value(2), 6);
  EXPECT_EQ(tensors[2].value(2), 3);
  EXPECT_EQ(tensors[3].value(2), 6);
  EXPECT_EQ(tensors[4].value(0), 2);
}

TEST(Lower, Refuses) {
  Var x = typed_var({3});
  auto message = [](const Ref<Function>& f) -> std::string {
    return thrown_by([&] { lower_function(f, "f"); });
  };
  EXPECT_EQ(
      message(function({x}, typed_call("add", {x, typed_constant(zeros({3}, kFloat32))}))),
      "lower: a constant of shape (3) inside a fused function; only scalars may be, pass it as a parameter");
  EXPECT_EQ(
      message(function({x}, make<If>(x, x, x))),
      "lower: a fused function holds RelayIf, must consist of calls of operators, tuples and projections");
}

/// Which loops of a scatter along `axis` all cores run.
std::set<std::string> parallel_loops(int64_t axis) {
  auto attrs = std::make_unique<ScatterElementsAttrs>();
  attrs->axis = axis;
  Var x = typed_var({100, 100}), indices = typed_var({50, 100}, kInt64), updates = typed_var({50, 100});
  const Expr call = typed_call("scatter_elements", {x, indices, updates}, seal(std::move(attrs)));
  std::set<std::string> found;
  post_order(lower_function(function({x, indices, updates}, call), "scatter")->body,
             [&](const NodeRef& node) {
               const tir::For* loop = node.as<tir::For>();
               if (loop && loop->iteration == tir::Iteration::kParallel) found.insert(loop->var->name);
             });
  return found;
}

/// Rows of updates may go to one place only where their indices along the axis say so.
TEST(Lower, ScattersAreParallelWhereNoTwoUpdatesMeet) {
  EXPECT_EQ(parallel_loops(1), (std::set<std::string>{"i0", "u0"}));
  EXPECT_EQ(parallel_loops(0), (std::set<std::string>{"i0"}));
}

}  // namespace
}  // namespace lathe::relay
