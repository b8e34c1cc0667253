#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/relay/analysis/call_type.h"
#include "core/relay/text.h"
#include "tests/relay/ops/op_rows.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

Tensor ints(std::vector<int64_t> values, Index shape) {
  return tensor_of<int64_t>(values, std::move(shape), kInt64);
}
Tensor floats(std::vector<float> values, Index shape) {
  return tensor_of<float>(values, std::move(shape), kFloat32);
}
std::vector<double> values_of(const Tensor& t) {
  std::vector<double> values;
  for (int64_t i = 0; i < t.size(); ++i) values.push_back(t.value(i));
  return values;
}
using Numbers = std::vector<double>;

const Tensor kTwoByThree = floats({1, 2, 3, 4, 5, 6}, {2, 3});

TEST(IndexOps, Take) {
  auto take = [](std::optional<int64_t> axis, const char* mode, const Tensor& at) {
    return run_op("take", attrs<TakeAttrs>([&](auto& a) { a.axis = axis, a.mode = mode; }),
                  {kTwoByThree, at})[0];
  };
  Tensor columns = take(1, "clip", ints({2, 0, 9, -9}, {2, 2}));
  EXPECT_EQ(columns.shape(), (Index{2, 2, 2}));
  EXPECT_EQ(values_of(columns), (Numbers{3, 1, 3, 1, 6, 4, 6, 4}));
  EXPECT_EQ(values_of(take(1, "wrap", ints({-1}, {1}))), (Numbers{3, 6}));
  EXPECT_EQ(values_of(take(1, "from_end", ints({-1, -3, 2, 9, -9}, {5}))),
            (Numbers{3, 1, 3, 3, 1, 6, 4, 6, 6, 4}));
  EXPECT_EQ(values_of(take({}, "from_end", ints({-2}, {1}))), (Numbers{5}));
  EXPECT_EQ(values_of(take(0, "fast", ints({1}, {}))), (Numbers{4, 5, 6}));
  EXPECT_EQ(values_of(take({}, "clip", ints({4, 1}, {2}))), (Numbers{5, 2}));
}

TEST(IndexOps, PositionsOutOfRangeStayInside) {
  EXPECT_EQ(values_of(run_op("gather", {}, {kTwoByThree, ints({9, -9, 1}, {1, 3})})[0]), (Numbers{4, 2, 6}));
  Tensor scattered =
      run_op("scatter_elements", {}, {kTwoByThree, ints({99}, {1, 1}), floats({7}, {1, 1})})[0];
  EXPECT_EQ(values_of(scattered), (Numbers{1, 2, 3, 7, 5, 6}));
}

TEST(IndexOps, Gather) {
  Attrs axis = attrs<GatherAttrs>([](auto& a) { a.axis = 1; });
  EXPECT_EQ(values_of(run_op("gather", axis, {kTwoByThree, ints({2, 0, -1, 1}, {2, 2})})[0]),
            (Numbers{3, 1, 6, 5}));
  // indices (M, ...): here two points of two coordinates, column by column
  EXPECT_EQ(values_of(run_op("gather_nd", {}, {kTwoByThree, ints({0, 1, 2, 0}, {2, 2})})[0]),
            (Numbers{3, 4}));
  EXPECT_EQ(values_of(run_op("gather_nd", {}, {kTwoByThree, ints({1}, {1, 1})})[0]), (Numbers{4, 5, 6}));
  Attrs batch = attrs<GatherNdAttrs>([](auto& a) { a.batch_dims = 1; });
  EXPECT_EQ(values_of(run_op("gather_nd", batch, {kTwoByThree, ints({2, 0}, {1, 2})})[0]), (Numbers{3, 4}));
}

TEST(IndexOps, Scatter) {
  auto scatter = [](const char* reduction) {
    Attrs a = attrs<ScatterElementsAttrs>([&](auto& s) { s.axis = 1, s.reduction = reduction; });
    return values_of(run_op("scatter_elements", a,
                            {kTwoByThree, ints({1, 1, -1, 0}, {2, 2}), floats({10, 20, 30, 40}, {2, 2})})[0]);
  };
  EXPECT_EQ(scatter("update"), (Numbers{1, 20, 3, 40, 5, 30}));
  EXPECT_EQ(scatter("add"), (Numbers{1, 32, 3, 44, 5, 36}));
  EXPECT_EQ(scatter("max"), (Numbers{1, 20, 3, 40, 5, 30}));
  EXPECT_EQ(values_of(run_op("scatter_nd", {},
                             {kTwoByThree, ints({1, 0}, {1, 2}), floats({7, 8, 9, 10, 11, 12}, {2, 3})})[0]),
            (Numbers{10, 11, 12, 7, 8, 9}));
}

TEST(IndexOps, Orders) {
  Tensor x = floats({3, 1, 2, 3, 0}, {5});
  EXPECT_EQ(values_of(run_op("sort", {}, {x})[0]), (Numbers{0, 1, 2, 3, 3}));
  EXPECT_EQ(values_of(run_op("argsort", attrs<SortAttrs>([](auto& a) { a.is_ascend = false; }), {x})[0]),
            (Numbers{0, 3, 2, 1, 4}));
  auto top = run_op("topk", attrs<TopkAttrs>([](auto& a) { a.k = 3; }), {x});
  EXPECT_EQ(values_of(top[0]), (Numbers{3, 3, 2}));
  EXPECT_EQ(values_of(top[1]), (Numbers{0, 3, 2}));
  auto low = run_op("topk", attrs<TopkAttrs>([](auto& a) { a.k = 2, a.axis = 0, a.is_ascend = true; }),
                    {floats({3, 1, 2, 3, 0, 9}, {3, 2})});
  EXPECT_EQ(values_of(low[0]), (Numbers{0, 1, 2, 3}));
  auto like = run_op("topk_like", {}, {x, floats({0, 0}, {2})});
  EXPECT_EQ(values_of(like[0]), (Numbers{3, 3}));
  EXPECT_EQ(values_of(like[1]), (Numbers{0, 3}));
}

TEST(IndexOps, NaNComesLast) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Tensor x = floats({kNaN, 2, INFINITY, kNaN, -1, -INFINITY, kNaN, 2}, {8});
  auto positions = [&](bool ascending) {
    return values_of(run_op("argsort", attrs<SortAttrs>([&](auto& a) { a.is_ascend = ascending; }), {x})[0]);
  };
  EXPECT_EQ(positions(true), (Numbers{5, 4, 1, 7, 2, 0, 3, 6}));
  EXPECT_EQ(positions(false), (Numbers{2, 1, 7, 4, 5, 0, 3, 6}));
  Tensor sorted = run_op("sort", {}, {x})[0];
  EXPECT_EQ(sorted.value(4), INFINITY);
  for (int64_t i = 5; i < 8; ++i) EXPECT_TRUE(std::isnan(sorted.value(i))) << i;
  // Few enough to be inserted one by one, and so many that all are ordered.
  for (int64_t k : {2, 6}) {
    Tensor order =
        run_op("topk", attrs<TopkAttrs>([&](auto& a) { a.k = k, a.ret_type = "indices"; }), {x})[0];
    Numbers expected{2, 1, 7, 4, 5, 0};
    expected.resize(static_cast<size_t>(k));
    EXPECT_EQ(values_of(order), expected);
  }
  Tensor none = floats({kNaN, kNaN, kNaN, kNaN}, {4});
  EXPECT_EQ(values_of(run_op("argsort", {}, {none})[0]), (Numbers{0, 1, 2, 3}));
  Attrs one = attrs<TopkAttrs>([](auto& a) { a.ret_type = "indices"; });
  EXPECT_EQ(values_of(run_op("topk", one, {none})[0]), (Numbers{0}));
}

TEST(IndexOps, TheFirstFewAreThoseOfTheWholeOrder) {
  Tensor x({2, 41, 3}, kFloat32);
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i * 37 % 23));  // with equal ones
  for (bool ascending : {false, true}) {
    Tensor order =
        run_op("argsort", attrs<SortAttrs>([&](auto& a) { a.axis = 1, a.is_ascend = ascending; }), {x})[0];
    for (int64_t k : {1, 2, 7, 10, 11}) {
      Tensor few = run_op("topk", attrs<TopkAttrs>([&](auto& a) {
                            a.axis = 1, a.k = k, a.is_ascend = ascending, a.ret_type = "indices";
                          }),
                          {x})[0];
      for (int64_t i = 0; i < few.size(); ++i)
        ASSERT_EQ(few.value(i), order.value((i / (3 * k) * 41 + i / 3 % k) * 3 + i % 3)) << k << " at " << i;
    }
  }
}

/// What topk is to find along axis 1 of three.
std::vector<int64_t> stable_order(const std::vector<double>& row, bool ascending) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = row[static_cast<size_t>(i)], b = row[static_cast<size_t>(j)];
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return ascending ? a < b : b < a;
  });
  return order;
}

void expect_best(const Tensor& x, int64_t k, bool ascending) {
  const Tensor found = run_op("topk", attrs<TopkAttrs>([&](auto& a) {
                                a.axis = 1, a.k = k, a.is_ascend = ascending, a.ret_type = "indices";
                              }),
                              {x})[0];
  const int64_t n = x.shape()[1], inner = x.shape()[2];
  for (int64_t row = 0; row < x.shape()[0] * inner; ++row) {
    const auto index = [&](int64_t i, int64_t extent) {
      return (row / inner * extent + i) * inner + row % inner;
    };
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(x.value(index(i, n)));
    const std::vector<int64_t> expected = stable_order(values, ascending);
    for (int64_t i = 0; i < k; ++i)
      ASSERT_EQ(found.value(index(i, k)), expected[static_cast<size_t>(i)])
          << i << " of the first " << k << " of " << n << ", row " << row << ", " << to_string(x.dtype());
  }
}

/// Of all elements, of those that groups leave, or by merging, as the lengths of rows say.
TEST(IndexOps, OrdersOfAnyLengthAreStable) {
  for (int64_t n : {1, 2, 3, 16, 63, 600, 1000, 1025})
    for (bool ascending : {false, true})
      for (DataType dtype : {kFloat32, kInt32, kFloat16, kUInt8}) {
        Tensor x({2, n, 2}, dtype);
        for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i * 7919 % 211));
        if (dtype.is_float())
          for (int64_t i = 5; i < x.size(); i += 97) x.set(i, std::numeric_limits<double>::quiet_NaN());
        for (int64_t k : {int64_t{1}, std::min<int64_t>(n, 5), std::min<int64_t>(n, 130), (n + 1) / 2, n})
          expect_best(x, k, ascending);
      }
}

/// What bounds the best may be no bound at all: rows of one value, of fewer numbers than asked for, in order.
TEST(IndexOps, FindsTheBestOfAnyRow) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = INFINITY;
  const std::function<double(int64_t)> rows[] = {
      [](int64_t) { return 0.0; },
      [](int64_t i) { return i % 100 == 7 ? 1.0 : 0.0; },
      [](int64_t i) { return static_cast<double>(i); },
      [](int64_t i) { return static_cast<double>(-i); },
      // Many equal ones, and what is better than they are where enough of them are known.
      [](int64_t i) { return static_cast<double>(i < 300 ? i % 3 : i % 7); },
      [&](int64_t) { return kNaN; },
      [&](int64_t i) { return i % 50 == 3 ? 2.0 : kNaN; },
      [&](int64_t i) { return i % 60 == 3  ? kInfinity
                              : i % 7 == 0 ? kNaN
                                           : -kInfinity; },
      [&](int64_t i) { return i % 60 == 3  ? -kInfinity
                              : i % 7 == 0 ? kNaN
                                           : kInfinity; },
  };
  for (const auto& value : rows)
    for (int64_t n : {40, 500, 2000})
      for (int64_t k : {1, 3, 16, 40}) {
        Tensor x({1, n, 1}, kFloat32);
        for (int64_t i = 0; i < n; ++i) x.set(i, value(i));
        for (bool ascending : {false, true}) expect_best(x, k, ascending);
      }
}

/// Parts of it have theirs, of which the best are found.
TEST(IndexOps, FindsTheBestOfALongRow) {
  for (int64_t k : {1, 3, 100}) {
    Tensor x({1, 30011, 1}, kFloat32);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i * 7919 % 1009));
    for (bool ascending : {false, true}) expect_best(x, k, ascending);
    for (int64_t i = 0; i < x.size(); ++i)
      if (i % 400 != 0) x.set(i, std::numeric_limits<double>::quiet_NaN());
    expect_best(x, k, false);
  }
}

TEST(IndexOps, Scans) {
  auto scan = [](const char* op, std::optional<int64_t> axis, bool exclusive) {
    return values_of(run_op(op, attrs<ScanAttrs>([&](auto& a) { a.axis = axis, a.exclusive = exclusive; }),
                            {kTwoByThree})[0]);
  };
  EXPECT_EQ(scan("cumsum", 1, false), (Numbers{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(scan("cumsum", 1, true), (Numbers{0, 1, 3, 0, 4, 9}));
  EXPECT_EQ(scan("cumsum", 0, false), (Numbers{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(scan("cumsum", {}, false), (Numbers{1, 3, 6, 10, 15, 21}));
  EXPECT_EQ(scan("cumprod", 1, false), (Numbers{1, 2, 6, 4, 20, 120}));
}

TEST(IndexOps, Created) {
  Attrs shape = attrs<InitAttrs>([](auto& a) { a.shape = {2, 2}; });
  EXPECT_EQ(values_of(run_op("zeros", shape, {})[0]), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(values_of(run_op("full", shape, {floats({2.5}, {})})[0]), (Numbers{2.5, 2.5, 2.5, 2.5}));
  EXPECT_EQ(values_of(run_op("shape_of", {}, {kTwoByThree})[0]), (Numbers{2, 3}));
  Attrs hot = attrs<OneHotAttrs>([](auto& a) { a.depth = 3; });
  EXPECT_EQ(values_of(run_op("one_hot", hot, {ints({2, 0}, {2}), floats({5}, {}), floats({-1}, {})})[0]),
            (Numbers{-1, -1, 5, 5, -1, -1}));
}

TEST(IndexOps, RangesOfIntegersAreExact) {
  const auto count = [](const Tensor& start, const Tensor& stop, const Tensor& step) {
    return print(typed_call("arange", {typed_constant(start), typed_constant(stop), typed_constant(step)},
                            attrs<DtypeAttrs>([](auto& a) { a.dtype = kInt64; }))
                     ->checked_type);
  };
  const auto number = [](int64_t value) { return tensor_of<int64_t>({value}, {}, kInt64); };
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;
  EXPECT_EQ(count(number(kOdd), number(kOdd + 3), number(1)), "Tensor[(3), int64]");
  EXPECT_EQ(count(number(kOdd), number(kOdd - 5), number(-2)), "Tensor[(3), int64]");
  EXPECT_EQ(count(number(INT64_MIN), number(INT64_MAX), number(int64_t{1} << 62)), "Tensor[(4), int64]");
  EXPECT_EQ(count(number(INT64_MAX), number(INT64_MIN), number(INT64_MIN)), "Tensor[(2), int64]");
  EXPECT_EQ(count(number(7), number(5), number(1)), "Tensor[(0), int64]");
  EXPECT_EQ(count(floats({1}, {}), floats({2.2}, {}), floats({0.5}, {})), "Tensor[(3), int64]");
  EXPECT_EQ(thrown_by([&] { count(number(1), number(2), number(0)); }), "arange: step is 0");
  EXPECT_EQ(thrown_by([&] { count(number(INT64_MIN), number(INT64_MAX), number(1)); }),
            "arange: from -9223372036854775808 to 9223372036854775807 by 1 is no range");
  EXPECT_EQ(thrown_by([&] { count(floats({1}, {}), floats({NAN}, {}), floats({1}, {})); }),
            "arange: from 1 to nan by 1 is no range");
}

TEST(IndexOps, Quantize) {
  Tensor scale = floats({0.5}, {}), zero = tensor_of<int8_t>({10}, {}, kInt8);
  Tensor q = run_op("qnn.quantize", {}, {floats({0, 0.25, 0.75, -1, 1000, -1000}, {6}), scale, zero})[0];
  EXPECT_EQ(values_of(q), (Numbers{10, 10, 12, 8, 127, -128}));
  EXPECT_EQ(values_of(run_op("qnn.dequantize", {}, {q, scale, zero})[0]), (Numbers{0, 0, 1, -1, 58.5, -69}));
}

TEST(IndexOps, Refuse) {
  EXPECT_EQ(relation_error("take", {}, {{2, 3}, {1}}),
            "take: argument 2 has elements of float32, must have integers");
  Type table = tensor_type(Index{2, 3}, kFloat32), at = tensor_type(Index{3, 1}, kInt64);
  try {
    infer_op("gather", attrs<GatherAttrs>([](auto& a) { a.axis = 1; }), {table, at});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "gather: indices of (3, 1) reach beyond (2, 3) along axis 0");
  }
  // Of no elements none can be taken, and a schedule of that ended the process.
  const Type none = tensor_type(Index{0, 4}, kFloat32), one = tensor_type(Index{1, 4}, kFloat32);
  const Type row = tensor_type(Index{1}, kInt64), rows = tensor_type(Index{1, 4}, kInt64);
  const Attrs along_rows = attrs<TakeAttrs>([](auto& a) { a.axis = 0; });
  const auto refused = [](const char* op, const Attrs& attributes, const std::vector<Type>& types) {
    try {
      infer_op(op, attributes, types);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const std::string message = ": (0, 4) has no elements, of which (1, 4) are chosen";
  EXPECT_EQ(refused("take", along_rows, {none, row}), "take" + message);
  EXPECT_EQ(refused("take", attrs<TakeAttrs>([](auto&) {}), {none, rows}), "take" + message);
  EXPECT_EQ(refused("gather", attrs<GatherAttrs>([](auto&) {}), {none, rows}), "gather" + message);
  EXPECT_EQ(refused("gather_nd", attrs<GatherNdAttrs>([](auto&) {}), {none, rows}),
            "gather_nd: (0, 4) has no elements, of which (4, 4) are chosen");
  EXPECT_EQ(refused("scatter_elements", attrs<ScatterElementsAttrs>([](auto&) {}), {none, rows, one}),
            "scatter_elements" + message);
  EXPECT_EQ(refused("scatter_nd", attrs<ScatterNdAttrs>([](auto&) {}),
                    {none, rows, tensor_type(Index{4, 4}, kFloat32)}),
            "scatter_nd: (0, 4) has no elements, of which (4, 4) are chosen");
  EXPECT_EQ(refused("take", along_rows, {none, tensor_type(Index{0}, kInt64)}), "taken");
  Type bytes = tensor_type(Index{2}, kInt8), scale = tensor_type(Index{}, kFloat32),
       scales = tensor_type(Index{2}, kFloat32);
  try {
    infer_op("qnn.add", {}, {bytes, bytes, scales, scale, scale, scale, scale, scale});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "qnn.add: argument 3 has shape (2), must be one number");
  }
  EXPECT_EQ(relation_error("topk", attrs<TopkAttrs>([](auto& a) { a.k = 9; }), {{2, 3}}),
            "topk: k is 9, axis 1 of (2, 3) has fewer");
  EXPECT_EQ(relation_error("topk_like", make<TopkAttrs>(), {{2, 3}, {4}}),
            "topk_like: the vector has 4 elements, axis 1 of (2, 3) has fewer");
  EXPECT_EQ(relation_error("topk_like", attrs<TopkAttrs>([](auto& a) { a.k = 2; }), {{2, 3}, {2}}),
            "topk_like: k is what the vector's length says, must not be given");
}

}  // namespace
}  // namespace lathe::relay
