// Operators whose axes are values of a run, by the interpreter.
#include "tests/frontends/onnx_run_values.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

Tensor random_floats(const Shape& shape) { return random_tensor(shape, kFloat32, 7, 1.5); }

const std::vector<std::vector<int64_t>> kAxes{{0}, {1}, {-1}, {0, 2}, {2, -3}, {1, 0, -1}};

TEST(OnnxRunAxes, OfReductions) {
  const Tensor x = random_floats({2, 3, 4});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"})
    for (const std::vector<int64_t>& axes : kAxes)
      for (int64_t keep : {1, 0}) {
        SCOPED_TRACE(fmt::format("{} of {} axes from {}, {}", op, axes.size(), axes[0], keep));
        expect_as_known(node(op, {"x", "axes"}, {"y"}, integer("keepdims", keep)),
                        {{"x", x}, {"axes", vector_of(axes)}}, {"y"}, 18);
      }
  const Tensor positive = tensor_of<float>({1, 2, 3, 4, 5, 6}, {2, 3}, kFloat32);
  expect_as_known(node("ReduceLogSum", {"x", "axes"}, {"y"}), {{"x", positive}, {"axes", vector_of({1})}},
                  {"y"}, 18);
  expect_as_known(node("ReduceSum", {"x", "axes"}, {"y"}), {{"x", x}, {"axes", vector_of({})}});
}

/// Of any number of axes.
TEST(OnnxRunAxes, AsManyAsARunSays) {
  const Tensor x = random_floats({2, 3});
  auto model = [](const std::string& attributes) {
    return Model{{node("ReduceSum", {"x", "axes"}, {"y"}, attributes)},
                 input_of("x", {"n", "3"}) + input_of("axes", {"k"}, kInt)};
  };
  const ImportOptions open{.keeps_open = [](const std::string&) { return true; }};
  const ImportedModel all = import_bytes(model("").file(), "m.onnx", open),
                      none = import_bytes(model(integer("noop_with_empty_axes", 1)).file(), "m.onnx", open);
  for (const auto& [axes, summed, untouched] : std::vector<std::tuple<std::vector<int64_t>, Shape, Shape>>{
           {{}, {1, 1}, {2, 3}}, {{0}, {1, 3}, {1, 3}}, {{-1, 0}, {1, 1}, {1, 1}}}) {
    EXPECT_EQ(run(all, {x, vector_of(axes)})[0].shape(), summed);
    EXPECT_EQ(run(none, {x, vector_of(axes)})[0].shape(), untouched);
  }
  EXPECT_NE(thrown_by([&] {
              import_bytes(model(integer("keepdims", 0)).file(), "m.onnx", open);
            }).find("how many axes it drops must be known when the model is compiled"),
            std::string::npos);
  EXPECT_NE(thrown_by([&] {
              run(all, {x, vector_of({2})});
            }).find("an axis that a tensor of rank 2 does not have"),
            std::string::npos);
}

/// As many as the rank says that the file states of the result.
TEST(OnnxRunAxes, AsManyAsTheResultHasLess) {
  const Tensor x = random_floats({2, 3, 4});
  const ImportOptions open{.keeps_open = [](const std::string&) { return true; }};
  const auto model = [](const std::string& last, const Strings& result) {
    return Model{{last},
                 input_of("x", {"n", "m", "4"}) + input_of("axes", {"k"}, kInt) + stated("y", result)};
  };
  const auto expect = [&](const Model& of, const Tensor& axes) {
    expect_equal(run(import_bytes(of.file(), "m.onnx", open), {x, axes}),
                 run(import_bytes(of.file(), "m.onnx", {.constants = {{"x", x}, {"axes", axes}}}), {}));
  };
  const std::string sum = node("ReduceSum", {"x", "axes"}, {"y"}, integer("keepdims", 0));
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2}, {2, -2}})
    expect(model(sum, {"m"}), vector_of(axes));
  // No axes are all of them.
  expect(model(sum, {}), vector_of({}));
  expect(model(node("Unsqueeze", {"x", "axes"}, {"y"}), {"a", "b", "c", "d", "e"}), vector_of({0, 3}));
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {0, -3}, {0, 1, 2}, {}})
    EXPECT_NE(thrown_by([&] {
                run(import_bytes(model(sum, {"m"}).file(), "m.onnx", open), {x, vector_of(axes)});
              }).find("other than 2 axes: the result has not the rank that the file states"),
              std::string::npos);
}

TEST(OnnxRunAxes, OfDimensionsThatComeAndGo) {
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {2}, {-1}, {1}})
    expect_as_known(node("Unsqueeze", {"x", "axes"}, {"y"}),
                    {{"x", random_floats({2, 3})}, {"axes", vector_of(axes)}});
  expect_as_known(node("Unsqueeze", {"x", "axes"}, {"y"}),
                  {{"x", random_floats({2, 3})}, {"axes", vector_of({3, 0})}});
  expect_as_known(node("Squeeze", {"x", "axes"}, {"y"}),
                  {{"x", random_floats({2, 1, 3, 1})}, {"axes", vector_of({-1, 1})}});
  expect_as_known(node("Squeeze", {"x", "axes"}, {"y"}),
                  {{"x", random_floats({1, 1})}, {"axes", vector_of({0, 1})}});
}

TEST(OnnxRunAxes, OfScans) {
  for (int64_t axis : {0, 2, -2})
    for (int64_t reverse : {0, 1})
      expect_as_known(node("CumSum", {"x", "axis"}, {"y"}, integer("reverse", reverse)),
                      {{"x", random_floats({2, 3, 4})}, {"axis", number_of(axis)}});
}

TEST(OnnxRunAxes, OfSlicesAndPads) {
  const Tensor x = random_floats({4, 5, 6});
  for (const auto& [axes, starts, ends, steps] : std::vector<std::array<std::vector<int64_t>, 4>>{
           {{{0}, {1}, {3}, {1}}},
           {{{-1, 0}, {5, 1}, {-100, 100}, {-2, 2}}},
           {{{1, 2, 0}, {0, -3, 2}, {4, INT64_MAX, 3}, {3, 1, 1}}}})
    expect_as_known(node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"}),
                    {{"x", x},
                     {"starts", vector_of(starts)},
                     {"ends", vector_of(ends)},
                     {"axes", vector_of(axes)},
                     {"steps", vector_of(steps)}});
  // Of known bounds.
  expect_as_known(
      ints("starts", {1}) + ints("ends", {3}) + node("Slice", {"x", "starts", "ends", "axes"}, {"y"}),
      {{"x", x}, {"axes", vector_of({-2})}});
  for (const char* mode : {"constant", "edge", "reflect"})
    expect_as_known(node("Pad", {"x", "pads", "", "axes"}, {"y"}, text("mode", mode)),
                    {{"x", x}, {"pads", vector_of({1, 2, 0, 3})}, {"axes", vector_of({-1, 0})}}, {"y"}, 18);
}

}  // namespace
}  // namespace lathe::onnx
