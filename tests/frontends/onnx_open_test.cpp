// Shapes, slices, positions and products of open dimensions: see onnx_open_models.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/relay/text.h"
#include "tests/frontends/onnx_open_models.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using ::testing::HasSubstr;

/// The division of the standard truncates. PyTorch writes -(-t // 2) as Neg, Div, Neg.
TEST(OnnxOpen, DivisionsOfNegativeNumbersTruncate) {
  const Strings common = {node("Shape", {"x"}, {"s"}), ints("one", {1}), node("Gather", {"s", "one"}, {"t"})};
  const auto expect = [&](const Strings& more) {
    Strings nodes = common;
    nodes.insert(nodes.end(), more.begin(), more.end());
    // As a number, and as a size.
    nodes.push_back(node("Mul", {"y", "y"}, {"size"}));
    nodes.push_back(node("ConstantOfShape", {"size"}, {"z"}));
    expect_same(nodes, {"y", "z"});
  };
  expect({ints("two", {2}), node("Neg", {"t"}, {"n"}), node("Div", {"n", "two"}, {"y"})});
  expect({ints("two", {2}), node("Neg", {"t"}, {"n"}), node("Div", {"n", "two"}, {"q"}),
          node("Neg", {"q"}, {"y"})});
  expect({ints("two", {-2}), node("Div", {"t", "two"}, {"y"})});
  expect({ints("two", {2}), ints("six", {6}), node("Sub", {"t", "six"}, {"n"}),
          node("Div", {"n", "two"}, {"y"})});
  expect({ints("two", {-3}), ints("six", {6}), node("Sub", {"six", "t"}, {"n"}),
          node("Div", {"n", "two"}, {"y"})});
  // A divisor of either sign.
  expect({ints("six", {6}), node("Sub", {"t", "six"}, {"n"}), node("Div", {"six", "n"}, {"y"})});
  // As long as the dimension is never that small, the difference is no negative number.
  const Model model{
      {common[0], common[1], common[2], node("Sub", {"t", "one"}, {"n"}), ints("two", {2}),
       node("Div", {"n", "two"}, {"h"}), ints("all", {-1}), node("ConstantOfShape", {"h"}, {"y"})},
      input_of("x", {"b", "t", "6"})};
  const ImportedModel imported = import_bytes(model.file(), "m.onnx",
                                              {.keeps_open = [](const std::string&) { return true; },
                                               .least_size = [](const std::string&) { return int64_t{1}; }});
  EXPECT_EQ(relay::print(imported.module->functions.at("main")->body->checked_type),
            "Tensor[(floordiv(t + 1, 2) - 1), float32]");
}

std::string slice(const Shape& starts, const Shape& ends, const Shape& axes, const Shape& steps,
                  Strings& nodes) {
  nodes = {ints("starts", starts), ints("ends", ends), ints("axes", axes), ints("steps", steps)};
  return node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"});
}

TEST(OnnxOpen, SlicesAlongAnOpenAxis) {
  constexpr int64_t kEnd = INT64_MAX;
  for (const auto& [start, end, step] : std::vector<std::array<int64_t, 3>>{{0, 3, 1},
                                                                            {1, kEnd, 1},
                                                                            {-1, kEnd, 1},
                                                                            {0, -1, 1},
                                                                            {-3, -1, 1},
                                                                            {1, -1, 2},
                                                                            {2, 4, 1},
                                                                            {7, 9, 1},
                                                                            {-1, -kEnd, -1},
                                                                            {4, 0, -2},
                                                                            {-2, -4, -1},
                                                                            {kEnd, 0, -3}}) {
    Strings nodes;
    const std::string last = slice({start, 0}, {end, -1}, {1, 0}, {step, 1}, nodes);
    nodes.push_back(last);
    SCOPED_TRACE(fmt::format("{}:{}:{}", start, end, step));
    expect_same(nodes);
  }
}

/// Where NumPy's slice would be empty.
TEST(OnnxOpen, SlicesBackwardsBeginAtAnElement) {
  for (const auto& [start, end, step, expected] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, Shape>>{{-9, -9, -1, {0}},
                                                                 {-6, INT64_MIN, -2, {0}},
                                                                 {INT64_MIN, INT64_MIN, -1, {0}},
                                                                 {-9, 0, -1, {}},
                                                                 {-4, -9, -1, {1, 0}},
                                                                 {-1, -3, -1, {4, 3}}}) {
    SCOPED_TRACE(fmt::format("{}:{}:{}", start, end, step));
    Strings nodes;
    nodes.push_back(slice({start}, {end}, {0}, {step}, nodes));
    const Model model{nodes, input_of("x", {"t"}, kInt)};
    const ValueInfo input{.name = "x", .shape = {5}, .dtype = kInt64};
    Tensor x = numbers(input, {5});
    for (int64_t i = 0; i < 5; ++i) x.set_integer(i, i);
    for (const ImportedModel& imported :
         {open_model(model), import_bytes(model.file(), "m.onnx", {.shapes = {{"x", {5}}}})}) {
      const Tensor y = run(imported, {x})[0];
      Shape found;
      for (int64_t i = 0; i < y.size(); ++i) found.push_back(y.integer(i));
      EXPECT_EQ(found, expected);
    }
    EXPECT_EQ(run_at(open_model(model), {{"x", {0}}})[0].shape(), (Shape{0}));
  }
}

/// Elements that lie one behind the other are not gathered by computed places.
TEST(OnnxOpen, SlicesWithNumbersAtBothEndsAreNoGathers) {
  auto imported = [](const Strings& nodes) {
    const Model model{nodes, input_of("x", {"b", "t", "6"})};
    return relay::print(open_model(model).module);
  };
  for (const auto& [start, end] :
       std::vector<std::pair<int64_t, int64_t>>{{1, INT64_MAX}, {0, -1}, {2, -3}}) {
    Strings nodes;
    nodes.push_back(slice({start}, {end}, {1}, {1}, nodes));
    EXPECT_THAT(imported(nodes), HasSubstr("strided_slice"));
  }
  // A window of a padded axis, as many as there were before it was padded.
  const Strings shifted = {node("Shape", {"x"}, {"s"}),
                           ints("i1", {1}),
                           ints("one", {1}),
                           ints("three", {3}),
                           node("Gather", {"s", "i1"}, {"t"}),
                           ints("pads", {0, 2, 0, 0, 2, 0}),
                           node("Pad", {"x", "pads"}, {"p"}),
                           node("Add", {"t", "three"}, {"end"}),
                           node("Slice", {"p", "three", "end", "one"}, {"y"})};
  EXPECT_THAT(imported(shifted), HasSubstr("strided_slice"));
  expect_same(shifted);
}

TEST(OnnxOpen, SlicesBetweenOpenPositions) {
  expect_same(
      with_shape({node("Div", {"t", "two"}, {"half"}), node("Slice", {"x", "half", "t", "one"}, {"y"})}));
  expect_same(with_shape(
      {node("Div", {"t", "two"}, {"half"}), node("Slice", {"x", "zero", "half", "one", "two"}, {"y"})}));
  // A table of positions, of which the first are taken.
  expect_same(with_shape(
      {ints("table", {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}), node("Slice", {"table", "zero", "t"}, {"y"})}));
  // Whose sign only a run tells.
  expect_same(with_shape({ints("four", {4}), node("Sub", {"t", "four"}, {"from"}),
                          node("Slice", {"x", "from", "t", "one"}, {"y"})}));
}

/// What exporters make of an addition into rows by index: the shape to expand to is that of the first row.
TEST(OnnxOpen, ExpandsToTheFirstRowOfAnOpenAxis) {
  const Model model{
      {ints("zero", {0}), ints("one", {1}), node("Slice", {"x", "zero", "one", "zero"}, {"row"}),
       node("Shape", {"row"}, {"s"}), node("Expand", {"z", "s"}, {"y"})},
      input_of("x", {"n", "3"}) + input_of("z", {"m", "3"})};
  expect_same_at(model, {{{"x", {4, 3}}, {"z", {2, 3}}}, {{"x", {1, 3}}, {"z", {5, 3}}}});
  EXPECT_EQ(run_at(open_model(model), {{"x", {0, 3}}, {"z", {1, 3}}})[0].shape(), (Shape{0, 3}));

  const ImportedModel none_empty =
      import_bytes(model.file(), "m.onnx",
                   {.keeps_open = [](const std::string&) { return true; },
                    .least_size = [](const std::string&) { return int64_t{1}; }});
  EXPECT_EQ(relay::print(none_empty.module->functions.at("main")->body->checked_type),
            "Tensor[(m, 3), float32]")
      << "a single row is no size of its own";
}

/// Of an axis that is never empty the first row, or the last, is one: others are measured from it.
TEST(OnnxOpen, BroadcastsOneRowOfAnOpenAxis) {
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {-1, INT64_MAX}}) {
    SCOPED_TRACE(begin);
    const Model model{
        {ints("begin", {begin}), ints("end", {end}), ints("axis", {1}),
         node("Slice", {"x", "begin", "end", "axis"}, {"row"}), node("Sub", {"x", "row"}, {"y"})},
        input_of("x", {"b", "t", "3"}),
        {"y", "row"}};
    const ImportedModel open = import_bytes(model.file(), "m.onnx",
                                            {.keeps_open = [](const std::string&) { return true; },
                                             .least_size = [](const std::string&) { return int64_t{1}; }});
    const auto* results = open.module->functions.at("main")->body.as<relay::Tuple>();
    ASSERT_TRUE(results);
    EXPECT_EQ(relay::print(results->items[1]->checked_type), "Tensor[(b, 1, 3), float32]");
    for (const Shapes& shapes : {Shapes{{"x", {2, 5, 3}}}, Shapes{{"x", {1, 1, 3}}}})
      expect_equal(run_at(open, shapes),
                   run_at(import_bytes(model.file(), "m.onnx", {.shapes = shapes}), shapes));
  }
}

/// Which is 1 or that number: what follows needs the number.
TEST(OnnxOpen, ExpandsAnOpenAxisToANumber) {
  const Model model{
      {ints("to", {4, 3}), node("Expand", {"x", "to"}, {"e"}), node("MatMul", {"w", "e"}, {"y"})},
      input_of("x", {"n", "m"}) + input_of("w", {"2", "4"})};
  expect_same_at(
      model,
      {{{"x", {1, 3}}, {"w", {2, 4}}}, {{"x", {4, 3}}, {"w", {2, 4}}}, {{"x", {4, 1}}, {"w", {2, 4}}}});
  EXPECT_THROW(run_at(open_model(model), {{"x", {2, 3}}, {"w", {2, 4}}}), Error);
  const ImportedModel alone =
      open_model({{ints("to", {4, 3}), node("Expand", {"x", "to"}, {"y"})}, input_of("x", {"n", "3"})});
  EXPECT_EQ(relay::print(alone.module->functions.at("main")->body->checked_type), "Tensor[(4, 3), float32]");
}

TEST(OnnxOpen, QuantizesByAnOpenAxis) {
  const Strings nodes = {node("QuantizeLinear", {"x", "scale", "zero"}, {"q"}, integer("axis", -2)),
                         node("DequantizeLinear", {"q", "scale", "zero"}, {"y"}, integer("axis", -2))};
  constexpr int64_t kByte = 3;
  const Model model{
      nodes, input_of("x", {"b", "t", "6"}) + input_of("scale", {"t"}) + input_of("zero", {"t"}, kByte)};
  expect_same_at(model, {{{"x", {1, 1, 6}}, {"scale", {1}}, {"zero", {1}}},
                         {{"x", {2, 5, 6}}, {"scale", {5}}, {"zero", {5}}}});
  // That there are as many as scales only the run can see here.
  const ImportedModel shaped =
      open_model({{node("Reshape", {"x", "s"}, {"r"}), node("QuantizeLinear", {"r", "scale"}, {"y"})},
                  input_of("x", {"n", "8"}) + input_of("s", {"3"}, kInt) + input_of("scale", {"4"})});
  EXPECT_EQ(relay::print(shaped.module->functions.at("main")->body->checked_type),
            "Tensor[(size0, 4, size2), uint8]");
}

TEST(OnnxOpen, SplitsAlongAnOpenAxis) {
  expect_same_at({{node("Split", {"x"}, {"a", "b", "c"}, integer("axis", 1))},
                  input_of("x", {"2", "t", "3"}),
                  {"a", "b", "c"},
                  13},
                 {{{"x", {2, 3, 3}}}, {{"x", {2, 9, 3}}}});
  expect_same_at({{node("Split", {"x"}, {"a", "b", "c"}, integer("axis", 1) + integer("num_outputs", 3))},
                  input_of("x", {"2", "t", "3"}),
                  {"a", "b", "c"},
                  18},
                 {{{"x", {2, 3, 3}}}, {{"x", {2, 7, 3}}}, {{"x", {2, 9, 3}}}});
  expect_same_at({with_shape({node("Sub", {"t", "one"}, {"rest"}),
                              node("Concat", {"one", "rest"}, {"sizes"}, integer("axis", 0)),
                              node("Split", {"x", "sizes"}, {"a", "b"}, integer("axis", 1))}),
                  input_of("x", {"2", "t", "3"}),
                  {"a", "b"}},
                 {{{"x", {2, 3, 3}}}, {{"x", {2, 7, 3}}}});
  // Into parts of so many: the axis has as many as all.
  const Model known{{ints("sizes", {1, 3}), node("Split", {"x", "sizes"}, {"a", "b"}, integer("axis", 1))},
                    input_of("x", {"2", "t", "3"}),
                    {"a", "b"}};
  expect_same_at(known, {{{"x", {2, 4, 3}}}});
  EXPECT_THROW(run_at(open_model(known), {{"x", {2, 5, 3}}}), Error);
}

TEST(OnnxOpen, PadsAndTiles) {
  const std::string amounts =
      node("Concat", {"zero", "one", "zero", "zero", "t", "zero"}, {"pads"}, integer("axis", 0));
  for (const char* mode : {"constant", "edge", "wrap"}) {
    expect_same(with_shape({amounts, node("Pad", {"x", "pads"}, {"y"}, text("mode", mode))}));
    expect_same({ints("pads", {0, 2, 1, 0, 1, 0}), node("Pad", {"x", "pads"}, {"y"}, text("mode", mode))},
                {"y"}, 19);
    expect_same_at(
        {{ints("pads", {0, -1, 1, 0, 2, -1}), node("Pad", {"x", "pads"}, {"y"}, text("mode", mode))},
         input_of("x", {"b", "t", "6"}),
         {"y"},
         19},
        {{{"x", {1, 2, 6}}}, {{"x", {3, 5, 6}}}});
  }
  expect_same_at({with_shape({node("Sub", {"t", "one"}, {"most"}),
                              node("Concat", {"most", "most"}, {"pads"}, integer("axis", 0)),
                              node("Pad", {"x", "pads", "", "one"}, {"y"}, text("mode", "reflect"))}),
                  input_of("x", {"2", "t"}),
                  {"y"},
                  18},
                 {{{"x", {2, 2}}}, {{"x", {2, 5}}}});
  expect_same(with_shape({node("Concat", {"two", "t", "one"}, {"counts"}, integer("axis", 0)),
                          node("Tile", {"x", "counts"}, {"y"})}));
  expect_same({ints("counts", {1, 3, 2}), node("Tile", {"x", "counts"}, {"y"})});
  expect_same({ints("size", {4, 3}), node("CenterCropPad", {"x", "size"}, {"y"}, integers("axes", {1, 2}))},
              {"y"}, 18);
}

TEST(OnnxOpen, ShapesAreComputedWith) {
  expect_same(
      with_shape({ints("axes", {0}), node("Squeeze", {"t", "axes"}, {"n"}), ints("a", {3}), ints("b", {-2}),
                  node("Squeeze", {"a", "axes"}, {"from"}), node("Squeeze", {"b", "axes"}, {"step"}),
                  node("Sub", {"from", "n"}, {"to"}), node("Range", {"n", "to", "step"}, {"y"})}));
  expect_same(with_shape(
      {ints("axes", {0}), node("Squeeze", {"t", "axes"}, {"n"}), node("Squeeze", {"zero", "axes"}, {"from"}),
       node("Squeeze", {"two", "axes"}, {"step"}), node("Range", {"from", "n", "step"}, {"y"})}));
  expect_same({node("Size", {"x"}, {"y"})});
  expect_same(with_shape(
      {node("ReduceProd", {"s"}, {"all"}, integer("keepdims", 1)), node("Reshape", {"x", "all"}, {"y"})}));
  expect_same(with_shape({node("Concat", {"t", "t"}, {"to"}, integer("axis", 0)),
                          node("ConstantOfShape", {"to"}, {"square"}),
                          node("EyeLike", {"square"}, {"y"}, integer("k", 1))}));
  expect_same(
      with_shape({node("Less", {"t", "two"}, {"small"}), node("Where", {"small", "two", "t"}, {"y"})}));
}

TEST(OnnxOpen, PositionsCountFromTheEnd) {
  expect_same({ints("at", {-1}), node("Gather", {"x", "at"}, {"y"}, integer("axis", 1))});
  expect_same_at({{node("GatherElements", {"x", "at"}, {"y"}, integer("axis", 1))},
                  input_of("x", {"b", "t"}) + input_of("at", {"b", "3"}, kInt)},
                 {{{"x", {2, 4}}, {"at", {2, 3}}}, {{"x", {3, 3}}, {"at", {3, 3}}}});
  expect_same_at(
      {{node("ReverseSequence", {"x", "lengths"}, {"y"}, integer("time_axis", 1) + integer("batch_axis", 0))},
       input_of("x", {"b", "t", "2"}) + input_of("lengths", {"b"}, kInt)},
      {{{"x", {2, 4, 2}}, {"lengths", {2}}}, {{"x", {3, 3, 2}}, {"lengths", {3}}}});
  expect_same_at({{ints("values", {0, 5}), ints("i1", {1}), node("Shape", {"x"}, {"s"}),
                   node("Gather", {"s", "i1"}, {"t"}), node("OneHot", {"at", "t", "values"}, {"y"})},
                  input_of("x", {"b", "t"}) + input_of("at", {"b"}, kInt)},
                 {{{"x", {2, 4}}, {"at", {2}}}, {{"x", {3, 3}}, {"at", {3}}}});
  expect_same({node("Trilu", {"x"}, {"y"}, integer("upper", 0))});
  expect_same({node("ArgMax", {"x"}, {"y"}, integer("axis", 1))});
  expect_same({node("Hardmax", {"x"}, {"y"}, integer("axis", 1))});
  expect_same({node("Softmax", {"x"}, {"y"}, integer("axis", 1))}, {"y"}, 11);
  expect_same(
      with_shape({node("CumSum", {"x", "one"}, {"y"}, integer("reverse", 1) + integer("exclusive", 1))}));
  expect_same(with_shape({node("TopK", {"x", "one"}, {"y", "at"}, integer("axis", 1))}), {"y", "at"});
  expect_same(with_shape({node("TopK", {"x", "t"}, {"y", "at"}, integer("axis", 1))}), {"y", "at"});
}

TEST(OnnxOpen, ProductsOfAnyForm) {
  const std::string inputs = input_of("x", {"b", "t", "6"}) + input_of("v", {"t"});
  for (const char* equation : {"btk,t->bk", "btk,t->bt", "btk,t->k", "b...,t->...b"})
    expect_same_at({{node("Einsum", {"x", "v"}, {"y"}, text("equation", equation))}, inputs},
                   {{{"x", {1, 2, 6}}, {"v", {2}}}, {{"x", {3, 5, 6}}, {"v", {5}}}});
  expect_same_at(
      {{node("Einsum", {"x"}, {"y"}, text("equation", "bii->bi"))}, input_of("x", {"b", "t", "t"})},
      {{{"x", {1, 2, 2}}}, {{"x", {3, 5, 5}}}});
  expect_same_at({{node("MatMul", {"v", "x"}, {"y"})}, input_of("x", {"b", "t", "6"}) + input_of("v", {"t"})},
                 {{{"x", {1, 2, 6}}, {"v", {2}}}, {{"x", {3, 5, 6}}, {"v", {5}}}});
}

/// How many axes an index names is told by the ranks where its width is open.
TEST(OnnxOpen, PutsSlicesAtTuplesOfAnOpenWidth) {
  for (const auto& [updates, width] : std::vector<std::pair<Strings, int64_t>>{{{"k"}, 2}, {{"k", "m"}, 1}}) {
    const Model model{{node("ScatterND", {"x", "at", "u"}, {"y"})},
                      input_of("x", {"n", "m"}) + input_of("at", {"k", "w"}, kInt) + input_of("u", updates)};
    const auto at = [&](int64_t tuple) {
      const Shape values = updates.size() == 1 ? Shape{2} : Shape{2, 4};
      return Shapes{{"x", {3, 4}}, {"at", {2, tuple}}, {"u", values}};
    };
    expect_same_at(model, {at(width)});
    EXPECT_THROW(run_at(open_model(model), at(3 - width)), Error);
  }
}

/// How many axes the indices name, where the file states the rank of the result.
TEST(OnnxOpen, TakesSlicesAtTuplesOfAnOpenWidth) {
  const auto model = [](const std::string& rank) {
    return Model{{node("GatherND", {"x", "at"}, {"y"})},
                 input_of("x", {"n", "m", "k"}) + input_of("at", {"p", "w"}, kInt) + rank};
  };
  const auto at = [](int64_t width) { return Shapes{{"x", {3, 4, 5}}, {"at", {2, width}}}; };
  expect_same_at(model(stated("y", {"p", "k"})), {at(2)});
  expect_same_at(model(stated("y", {"p", "m", "k"})), {at(1)});
  EXPECT_THROW(run_at(open_model(model(stated("y", {"p", "k"}))), at(1)), Error);
  EXPECT_THAT(thrown_by([&] { open_model(model("")); }),
              HasSubstr("how many axes its indices name must be known when the model is compiled"));
  EXPECT_THAT(thrown_by([&] { open_model(model(stated("y", {}))); }),
              HasSubstr("a result of rank 0 for data of rank 3 and indices of rank 2"));
  // Of one axis there is but one to name.
  expect_same_at(
      {{node("GatherND", {"x", "at"}, {"y"})}, input_of("x", {"n"}) + input_of("at", {"p", "w"}, kInt)},
      {{{"x", {3}}, {"at", {2, 1}}}});
}

TEST(OnnxOpen, SqueezesToTheRankThatTheFileStates) {
  const auto model = [](const std::string& rank) {
    return Model{{node("Squeeze", {"x"}, {"y"})}, input_of("x", {"n", "1", "m"}) + rank};
  };
  const Model kept = model(stated("y", {"n", "m"})), dropped = model(stated("y", {}));
  expect_same_at(kept, {{{"x", {3, 1, 4}}}, {{"x", {2, 1, 5}}}});
  expect_same_at(dropped, {{{"x", {1, 1, 1}}}});
  EXPECT_THAT(
      thrown_by([&] {
        run_at(open_model(kept), {{"x", {3, 1, 1}}});
      }),
      HasSubstr("dimension m is 1: the squeeze would drop it, and the rank that the file states keeps it"));
  EXPECT_THROW(run_at(open_model(dropped), {{"x", {1, 1, 2}}}), Error);
  for (const std::string& rank : {std::string(), stated("y", {"m"})})
    EXPECT_THAT(thrown_by([&] { open_model(model(rank)); }),
                HasSubstr("which sizes are 1 must be known when the model is compiled"));
  // What is never 1 needs no word.
  const ImportedModel large = import_bytes(model("").file(), "m.onnx",
                                           {.keeps_open = [](const std::string&) { return true; },
                                            .least_size = [](const std::string&) { return int64_t{2}; }});
  EXPECT_EQ(run_at(large, {{"x", {3, 1, 4}}})[0].shape(), (Shape{3, 4}));
}

/// Of a result of which the file states nothing.
TEST(OnnxOpen, RanksThatWhatFollowsTells) {
  const auto model = [](const std::string& made, const std::string& perm, const std::string& inputs) {
    return Model{{made, node("Transpose", {"z"}, {"y"}, perm)}, inputs};
  };
  const std::string squeeze = node("Squeeze", {"x"}, {"z"}), x = input_of("x", {"n", "1", "m"});
  const Model kept = model(squeeze, integers("perm", {1, 0}), x);
  expect_same_at(kept, {{{"x", {3, 1, 4}}}, {{"x", {2, 1, 5}}}});
  EXPECT_THAT(thrown_by([&] {
                run_at(open_model(kept), {{"x", {3, 1, 1}}});
              }),
              HasSubstr("dimension m is 1: the squeeze would drop it, and what follows keeps it"));
  EXPECT_THAT(thrown_by([&] { open_model(model(squeeze, integers("perm", {0}), x)); }),
              HasSubstr("which sizes are 1 must be known when the model is compiled"));
  const Model dropped = model(squeeze, integers("perm", {0}), input_of("x", {"n", "1", "4"}));
  expect_same_at(dropped, {{{"x", {1, 1, 4}}}});
  EXPECT_THROW(run_at(open_model(dropped), {{"x", {2, 1, 4}}}), Error);

  const std::string gather = node("GatherND", {"x", "at"}, {"z"}),
                    both = input_of("x", {"n", "m", "k"}) + input_of("at", {"p", "w"}, kInt);
  const auto at = [](int64_t width) { return Shapes{{"x", {3, 4, 5}}, {"at", {2, width}}}; };
  const Model pairs = model(gather, integers("perm", {1, 0}), both),
              single = model(gather, integers("perm", {2, 1, 0}), both);
  expect_same_at(pairs, {at(2)});
  expect_same_at(single, {at(1)});
  EXPECT_THROW(run_at(open_model(pairs), at(1)), Error);
}

TEST(OnnxOpen, DiagonalsOfTwoDimensions) {
  const Model model{{node("Einsum", {"x"}, {"y"}, text("equation", "ibi->bi"))},
                    input_of("x", {"n", "b", "m"})};
  expect_same_at(model, {{{"x", {3, 2, 3}}}, {{"x", {1, 4, 1}}}});
  EXPECT_THROW(run_at(open_model(model), {{"x", {3, 2, 4}}}), Error);
}

/// A size that meets a number in a broadcast is 1 or that: here 1 row would be too few.
TEST(OnnxOpen, BroadcastsSettleWhatCannotBeOne) {
  const Strings added = {ints("shape", {4, 3}), node("ConstantOfShape", {"shape"}, {"w"}),
                         node("Add", {"x", "w"}, {"sum"})};
  const auto rows_of = [&](const std::string& last) {
    Strings nodes = added;
    nodes.push_back(last);
    return open_model({nodes, input_of("x", {"n", "3"}), {"sum", "y"}}).inputs[0].shape[0];
  };
  EXPECT_EQ(rows_of(node("Relu", {"sum"}, {"y"})), -1);
  EXPECT_EQ(rows_of(node("Split", {"x"}, {"y", "z"}, integer("axis", 0))), 4);
}

/// squeeze() as PyTorch writes it: what follows takes rank 2 alone.
TEST(OnnxOpen, ABranchOfAnotherRankIsTakenForWhatFollows) {
  const std::string squeezed = bytes::graph({node("Squeeze", {"x", "i1"}, {"a"})}, "", {"a"}),
                    kept = bytes::graph({node("Identity", {"x"}, {"b"})}, "", {"b"});
  const Strings branch =
      with_shape({node("Equal", {"t", "one"}, {"is"}),
                  node("If", {"is"}, {"z"},
                       bytes::subgraph("then_branch", squeezed) + bytes::subgraph("else_branch", kept))});
  Strings nodes = branch;
  nodes.push_back(node("Gemm", {"z", "w"}, {"y"}));
  const Model model{nodes, input_of("x", {"b", "t", "6"}) + input_of("w", {"6", "2"})};
  expect_same_at(model, {{{"x", {3, 1, 6}}, {"w", {6, 2}}}});
  EXPECT_THROW(run_at(open_model(model), {{"x", {3, 2, 6}}, {"w", {6, 2}}}), Error);
  nodes.back() = node("Relu", {"z"}, {"y"});
  EXPECT_THROW(open_model({nodes, input_of("x", {"b", "t", "6"})}), Error);
}

}  // namespace
}  // namespace lathe::onnx
