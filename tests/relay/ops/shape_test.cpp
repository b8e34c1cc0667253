#include "core/arith/simplify.h"
#include "core/relay/analysis/sizes.h"
#include "core/relay/ops/attrs_zeros_by.h"
#include "core/relay/text.h"
#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

/// The element at the same row-major position of the input.
Reference same_position(Index to) {
  return [to](const Values& x, const Index& i) {
    int64_t flat = 0;
    for (size_t d = 0; d < to.size(); ++d) flat = flat * to[d] + i[d];
    return x.tensors()[0].value(flat);
  };
}

Attrs reshape(Ints newshape) {
  return attrs<ReshapeAttrs>([&](auto& a) { a.newshape = newshape; });
}

TEST(ShapeOps, ReshapeCodes) {
  struct Row {
    Index from;
    Ints newshape;
    Index to;
  };
  for (const Row& row :
       {Row{{2, 3, 4}, {4, 0, 2}, {4, 3, 2}}, Row{{2, 3, 4}, {-1}, {24}}, Row{{2, 3, 4}, {0, -1}, {2, 12}},
        Row{{2, 3, 4}, {6, 1, 1, -2}, {6, 1, 1}}, Row{{2, 3, 4}, {-3, -2}, {6, 4}},
        Row{{2, 3, 4}, {-4, 1, 2, -2}, {1, 2, 3, 4}}, Row{{2, 3, 4}, {2, -4, -1, 3, 4}, {2, 1, 3, 4}},
        Row{{1, 6}, {2, 3}, {2, 3}}, Row{{4}, {2, 2, 1}, {2, 2, 1}}}) {
    if (shape_size(row.from) != shape_size(row.to)) {
      EXPECT_NE(relation_error("reshape", reshape(row.newshape), {row.from}), "no error");
      continue;
    }
    check_rows({{"reshape", "reshape", reshape(row.newshape), {row.from}, row.to, same_position(row.to)}});
  }
}

TEST(ShapeOps, SymbolicDimensionsFlow) {
  lathe::Expr n = lathe::var("n");
  Type x = tensor_type(std::vector<lathe::Expr>{n, 3, 4}, kFloat32);
  auto dims = [&](const char* op, const Attrs& a) { return infer_op(op, a, {x}).as<TensorType>()->shape; };
  EXPECT_TRUE(dims("reshape", reshape({0, -1}))[0] == n);
  EXPECT_EQ(int_value(dims("reshape", reshape({0, -1}))[1]), 12);
  EXPECT_TRUE(dims("nn.batch_flatten", {})[0] == n);
  EXPECT_TRUE(dims("transpose", {})[2] == n);
  EXPECT_TRUE(infer_op("add", {}, {x, tensor_type(Index{3, 1}, kFloat32)}).as<TensorType>()->shape[0] == n);
}

TEST(ShapeOps, Move) {
  std::vector<Index> in{{2, 3, 4}};
  check_rows({
      {"transpose",
       "transpose",
       attrs<TransposeAttrs>([](auto& a) {
         a.axes = Ints{1, -1, 0};
       }),
       in,
       {3, 4, 2},
       [](const Values& x, const Index& i) {
         return x(0, {i[2], i[0], i[1]});
       }},
      {"transpose all",
       "transpose",
       {},
       in,
       {4, 3, 2},
       [](const Values& x, const Index& i) {
         return x(0, {i[2], i[1], i[0]});
       }},
      {"expand_dims",
       "expand_dims",
       attrs<ExpandDimsAttrs>([](auto& a) { a.axis = 1, a.num_newaxis = 2; }),
       in,
       {2, 1, 1, 3, 4},
       same_position({2, 1, 1, 3, 4})},
      {"squeeze", "squeeze", {}, {{1, 3, 1, 2}}, {3, 2}, same_position({3, 2})},
      {"squeeze one",
       "squeeze",
       attrs<SqueezeAttrs>([](auto& a) { a.axis = Ints{-2}; }),
       {{1, 3, 1, 2}},
       {1, 3, 2},
       same_position({1, 3, 2})},
      {"batch_flatten", "nn.batch_flatten", {}, in, {2, 12}, same_position({2, 12})},
      {"broadcast_to",
       "broadcast_to",
       attrs<InitAttrs>([](auto& a) {
         a.shape = {2, 3, 4};
       }),
       {{3, 1}},
       {2, 3, 4},
       [](const Values& x, const Index& i) {
         return x(0, {i[1], 0});
       }},
      {"layout_transform",
       "layout_transform",
       make<LayoutTransformAttrs>(std::string("NCHW"), std::string("NCHW2c")),
       {{1, 4, 2, 3}},
       {1, 2, 2, 3, 2},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], i[1] * 2 + i[4], i[2], i[3]});
       }},
      {"layout_transform back",
       "layout_transform",
       make<LayoutTransformAttrs>(std::string("NCHW2c"), std::string("NHWC")),
       {{1, 2, 2, 3, 2}},
       {1, 2, 3, 4},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], i[3] / 2, i[1], i[2], i[3] % 2});
       }},
      {"concatenate",
       "concatenate",
       attrs<ConcatenateAttrs>([](auto& a) { a.axis = 1; }),
       {{2, 1}, {2, 3}, {2, 2}},
       {2, 6},
       [](const Values& x, const Index& i) {
         return i[1] < 1 ? x(0, i) : i[1] < 4 ? x(1, {i[0], i[1] - 1}) : x(2, {i[0], i[1] - 4});
       },
       kFloat32,
       true},
      {"stack",
       "stack",
       attrs<ConcatenateAttrs>([](auto& a) { a.axis = -1; }),
       {{2, 3}, {2, 3}},
       {2, 3, 2},
       [](const Values& x, const Index& i) {
         return x(static_cast<size_t>(i[2]), {i[0], i[1]});
       },
       kFloat32,
       true},
      {"split in sections",
       "split",
       attrs<SplitAttrs>([](auto& a) { a.sections = 2, a.axis = 2; }),
       in,
       {2, 3, 2},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], i[1], i[2] + 2});
       },
       kFloat32,
       false,
       1},
      {"split at indices",
       "split",
       attrs<SplitAttrs>([](auto& a) {
         a.indices_or_sections = {1, 3}, a.axis = 2;
       }),
       in,
       {2, 3, 2},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], i[1], i[2] + 1});
       },
       kFloat32,
       false,
       1},
      {"tile",
       "tile",
       attrs<TileAttrs>([](auto& a) {
         a.reps = {2, 1, 3};
       }),
       {{3, 2}},
       {2, 3, 6},
       [](const Values& x, const Index& i) {
         return x(0, {i[1], i[2] % 2});
       }},
      {"repeat",
       "repeat",
       attrs<RepeatAttrs>([](auto& a) { a.repeats = 2, a.axis = 1; }),
       in,
       {2, 6, 4},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], i[1] / 2, i[2]});
       }},
      {"reverse",
       "reverse",
       attrs<ReverseAttrs>([](auto& a) { a.axis = -1; }),
       in,
       {2, 3, 4},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], i[1], 3 - i[2]});
       }},
  });
}

TEST(ShapeOps, Slices) {
  struct Row {
    int64_t begin, end, stride;
    std::vector<int64_t> picked;  // of 0..6
  };
  for (const Row& row : {Row{1, 4, 1, {1, 2, 3}}, Row{-3, 100, 1, {4, 5, 6}}, Row{0, 7, 3, {0, 3, 6}},
                         Row{6, 0, -2, {6, 4, 2}}, Row{-1, -100, -3, {6, 3, 0}}, Row{-100, 2, 1, {0, 1}}}) {
    Attrs a = attrs<StridedSliceAttrs>([&](auto& s) {
      s.begin = {row.begin}, s.end = {row.end}, s.strides = {row.stride}, s.axes = Ints{1};
    });
    check_rows({{"slice",
                 "strided_slice",
                 a,
                 {{2, 7}},
                 {2, static_cast<int64_t>(row.picked.size())},
                 [&](const Values& x, const Index& i) {
                   return x(0, {i[0], row.picked[static_cast<size_t>(i[1])]});
                 }}});
  }
}

/// The positions that begin:end:stride takes of an axis of n.
std::vector<int64_t> positions_of(int64_t begin, int64_t end, int64_t stride, int64_t n) {
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
  const int64_t first = std::clamp(begin < 0 ? begin + n : begin, low, high),
                last = std::clamp(end < 0 ? end + n : end, low, high);
  std::vector<int64_t> positions;
  for (int64_t at = first; stride > 0 ? at < last : at > last; at += stride) positions.push_back(at);
  return positions;
}

TEST(ShapeOps, SlicesOfAnOpenAxisAreThoseOfEachSize) {
  const lathe::Var n = var("n");
  const std::vector<int64_t> ends{-INT32_MAX, -6, -2, -1, 0, 1, 2, 6, INT32_MAX};
  for (int64_t begin : ends)
    for (int64_t end : ends)
      for (int64_t stride : {1, 2, -1, -3}) {
        const std::optional<Slice> slice = numpy_slice(begin, end, stride, n);
        ASSERT_TRUE(slice);
        for (int64_t size = 0; size < 6; ++size) {
          SCOPED_TRACE(fmt::format("{}:{}:{} of {}", begin, end, stride, size));
          const std::vector<int64_t> positions = positions_of(begin, end, stride, size);
          auto at = [&](const lathe::Expr& e) {
            return int_value(simplify(substitute(e, {{n.get(), size}})));
          };
          EXPECT_EQ(at(slice->count), static_cast<int64_t>(positions.size()));
          if (!positions.empty()) EXPECT_EQ(at(slice->begin), positions[0]);
          const std::optional<Slice> fixed = numpy_slice(begin, end, stride, size);
          EXPECT_EQ(int_value(fixed->count), static_cast<int64_t>(positions.size()));
          if (!positions.empty()) EXPECT_EQ(int_value(fixed->begin), positions[0]);
        }
      }
  EXPECT_EQ(print(numpy_slice(0, n, 1, n)->count), "n");
  EXPECT_FALSE(numpy_slice(lathe::Expr(n) - 3, n, 1, n));
}

TEST(ShapeOps, ZerosByTheDimensionsOfOthers) {
  const lathe::Var n = var("n"), m = var("m");
  const Type x = tensor_type({n, 8}, kFloat32), y = tensor_type({m}, kInt64);
  auto shape_of = [&](const char* text) {
    return print(infer_op("zeros_by", make<ZerosByAttrs>(std::string(text), kBool), {x, y}));
  };
  EXPECT_EQ(shape_of("(d2 + d0, d1)"), "Tensor[(m + n, 8), bool]");
  EXPECT_EQ(shape_of("(max(d0, 0), floordiv(d1, 2))"), "Tensor[(n, 4), bool]");
  EXPECT_EQ(shape_of("()"), "bool");
  EXPECT_THROW(shape_of("(d3)"), Error);
  EXPECT_THROW(shape_of("(d1 - 9)"), Error);
}

TEST(ShapeOps, Pads) {
  auto at = [](int64_t i, const char* mode) {  // position in an axis of 4, padded by 2 before
    int64_t p = i - 2;
    if (std::string_view(mode) == "edge") return std::clamp<int64_t>(p, 0, 3);
    if (std::string_view(mode) == "SYMMETRIC") return p < 0 ? -1 - p : p > 3 ? 7 - p : p;
    return p < 0 ? -p : p > 3 ? 6 - p : p;
  };
  std::vector<Ints> width{{0, 0}, {2, 3}};
  for (const char* mode : {"edge", "reflect"})
    check_rows({{mode,
                 "nn.pad",
                 attrs<PadAttrs>([&](auto& a) { a.pad_width = width, a.pad_mode = mode; }),
                 {{2, 4}, {}},
                 {2, 9},
                 [&](const Values& x, const Index& i) {
                   return x(0, {i[0], at(i[1], mode)});
                 }}});
  for (const char* mode : {"SYMMETRIC", "REFLECT"})
    check_rows({{mode,
                 "nn.mirror_pad",
                 attrs<MirrorPadAttrs>([&](auto& a) { a.pad_width = width, a.mode = mode; }),
                 {{2, 4}},
                 {2, 9},
                 [&](const Values& x, const Index& i) {
                   return x(0, {i[0], at(i[1], mode)});
                 }}});
  check_rows({{"constant",
               "nn.pad",
               attrs<PadAttrs>([&](auto& a) {
                 a.pad_width = {{1, 0}, {-1, 2}};
               }),
               {{2, 4}, {}},
               {3, 5},
               [](const Values& x, const Index& i) {
                 bool inside = i[0] >= 1 && i[1] < 3;
                 return inside ? x(0, {i[0] - 1, i[1] + 1}) : x(1, {});
               }}});
}

TEST(ShapeOps, SubPixels) {
  auto with = [](const char* mode) {
    return attrs<SubPixelAttrs>([&](auto& a) { a.block_size = 2, a.mode = mode; });
  };
  check_rows({
      {"DCR",
       "nn.depth_to_space",
       with("DCR"),
       {{1, 8, 2, 3}},
       {1, 2, 4, 6},
       [](const Values& x, const Index& i) {
         return x(0, {0, (i[2] % 2 * 2 + i[3] % 2) * 2 + i[1], i[2] / 2, i[3] / 2});
       }},
      {"CRD",
       "nn.depth_to_space",
       with("CRD"),
       {{1, 8, 2, 3}},
       {1, 2, 4, 6},
       [](const Values& x, const Index& i) {
         return x(0, {0, i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2});
       }},
      {"space_to_depth",
       "nn.space_to_depth",
       with("DCR"),
       {{1, 2, 4, 6}},
       {1, 8, 2, 3},
       [](const Values& x, const Index& i) {
         return x(0, {0, i[1] % 2, i[2] * 2 + i[1] / 4, i[3] * 2 + i[1] / 2 % 2});
       }},
      {"space_to_depth, channels first",
       "nn.space_to_depth",
       with("CRD"),
       {{1, 3, 4, 6}},
       {1, 12, 2, 3},
       [](const Values& x, const Index& i) {
         return x(0, {0, i[1] / 4, i[2] * 2 + i[1] / 2 % 2, i[3] * 2 + i[1] % 2});
       }},
  });
}

TEST(ShapeOps, Refuse) {
  EXPECT_EQ(relation_error("reshape", reshape({-4, -2, -3}), {{6}}),
            "reshape: newshape gives (6) a negative dimension");
  EXPECT_EQ(relation_error("expand_dims", attrs<ExpandDimsAttrs>([](auto& a) { a.num_newaxis = -1; }), {{6}}),
            "expand_dims: num_newaxis is -1, must be from 0 to 64");
  EXPECT_EQ(relation_error("nn.mirror_pad", attrs<MirrorPadAttrs>([](auto& a) {
                             a.pad_width = {{3, 0}};
                           }),
                           {{2}}),
            "nn.mirror_pad: pad_width[0] reflects 3 elements, (2) has fewer");
  EXPECT_EQ(
      relation_error("nn.max_pool2d", attrs<PoolAttrs>([](auto& a) { a.pool_size = {2}, a.layout = "NCXY"; }),
                     {{1, 2, 4, 4}}),
      "nn.max_pool2d: layout NCXY must have the axes NCHW");
  EXPECT_EQ(relation_error("logical_and", {}, {{2}, {2}}),
            "logical_and: argument 1 has elements of float32, must have bool; insert a cast");
  Attrs huge = attrs<SubPixelAttrs>([](auto& a) { a.block_size = int64_t{1} << 32; });
  for (const char* op : {"nn.depth_to_space", "nn.space_to_depth"})
    EXPECT_EQ(relation_error(op, huge, {{1, 4, 2, 2}}),
              std::string(op) + ": block_size is 4294967296, must be from 1 to 65536");
  EXPECT_EQ(relation_error("nn.depth_to_space",
                           attrs<SubPixelAttrs>([](auto& a) { a.mode = "CRD", a.layout = "NCHW4c"; }),
                           {{1, 4, 2, 2, 4}}),
            "nn.depth_to_space: mode CRD of channels in blocks, NCHW4c");
  Type whole = tensor_type(Index{2}, kInt32);
  EXPECT_THROW(infer_op("exp", {}, {whole}), Error);
  Attrs far = attrs<StridedSliceAttrs>(
      [](auto& a) { a.begin = {INT64_MIN}, a.end = {INT64_MAX}, a.strides = {INT64_MAX}; });
  EXPECT_EQ(constant_shape(*infer_op("strided_slice", far, {whole}).as<TensorType>()), (Index{1}));

  EXPECT_EQ(relation_error("reshape", reshape({5, -1}), {{2, 3}}),
            "reshape: shape (2, 3) has 6 elements, (5, 1) has 5");
  EXPECT_EQ(relation_error("transpose", attrs<TransposeAttrs>([](auto& a) {
                             a.axes = Ints{0, 0};
                           }),
                           {{2, 3}}),
            "transpose: axes (0, 0) are no permutation of the axes of (2, 3)");
  EXPECT_EQ(relation_error("squeeze", attrs<SqueezeAttrs>([](auto& a) { a.axis = Ints{1}; }), {{2, 3}}),
            "squeeze: axis 1 of (2, 3) is not 1");
  EXPECT_EQ(relation_error("split", attrs<SplitAttrs>([](auto& a) { a.sections = 2; }), {{3}}),
            "split: axis 0 of (3) does not divide into 2 parts");
  EXPECT_EQ(
      relation_error("layout_transform",
                     make<LayoutTransformAttrs>(std::string("NCHW"), std::string("NCHW4c")), {{1, 6, 2, 2}}),
      "layout NCHW4c: C has 6 elements, not a multiple of 4");
}

}  // namespace
}  // namespace lathe::relay
