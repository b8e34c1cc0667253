// pad_einsum and reindex: operands of any size and order.
#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/text.h"
#include "schedules/program.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

TEST(PadEinsum, SumsAsBeforeAndStoresWhatIsValid) {
  tir::Func func = product({.batch = 2, .m = 3, .n = 11, .k = 5});
  Schedule s(func);
  BlockHandle block = s.get_block("product"), valid = s.pad_einsum(block, {1, 2, 8, 4});
  EXPECT_EQ(s[valid]->name, "product_valid");
  std::vector<int64_t> extents;
  for (const tir::BlockIter& iter : s[block]->iters) extents.push_back(int_value(iter.extent));
  EXPECT_EQ(extents, (std::vector<int64_t>{2, 4, 16, 8}));
  expect_same_results(func, s.func());
}

TEST(PadEinsum, OnlyTheReduction) {
  tir::Func func = product({.n = 8, .k = 7});
  Schedule s(func);
  BlockHandle block = s.get_block("product");
  EXPECT_EQ(s[s.pad_einsum(block, {1, 1, 8, 4})]->name, "product");  // nothing sticks out of the results
  expect_same_results(func, s.func());
}

TEST(PadEinsum, Refuses) {
  tir::Func func = product({});
  auto refusal = [&](const tir::Func& f, const char* name, const std::vector<int64_t>& multiples) {
    return refusal_of(f, [&](Schedule& s) { s.pad_einsum(s.get_block(name), multiples); });
  };
  EXPECT_EQ(refusal(func, "product", {1, 1, 8}),
            "pad_einsum: 3 multiples for the 4 variables of block `product`");
  EXPECT_EQ(refusal(func, "product", {1, 1, 0, 1}), "pad_einsum: multiple is 0, must be from 1 to 65536");
  EXPECT_EQ(refusal(func, "product", {1, 5, 11, 7}),
            "pad_einsum: block `product` has whole multiples already");
  EXPECT_EQ(refusal(max_pool(1, 9), "pool", {1, 1, 1, 1, 1, 2, 1}),
            "pad_einsum: block `pool` does not sum products of what it loads at r0");
  Schedule s(func);
  BlockHandle block = s.get_block("product");
  s.decompose_reduction(block, s.get_loops(block)[3]);
  EXPECT_THROW(s.pad_einsum(block, {1, 1, 8, 1}), Error);  // the other part would clear what is not read
}

TEST(Reindex, PacksWhatIsReadByTheVariablesOfTheReader) {
  tir::Func func = product({.n = 6, .k = 4, .transpose_y = true, .shared = true});
  Schedule s(func);
  BlockHandle block = s.get_block("product"), packed = s.reindex(block, 1);
  EXPECT_EQ(s[packed]->name, "product_y_reindex");
  EXPECT_EQ(tir::constant_shape(s[packed]->writes[0].buffer), (std::vector<int64_t>{6, 4}));
  expect_same_results(func, s.func());
}

/// for i, j: c[i] += x[i, j] * x[PLACE, j]
tir::Func square(const char* place) {
  return tir::parse_func(fmt::format(R"(
func main(x: float32[4, 6]) -> (c: float32[4]) {{
  block root {{
    for i in 0..4 {{ for j in 0..6 {{
      block sum(spatial vi in 0..4 = i, reduce vj in 0..6 = j) {{
        reads x[0:4, vj]
        writes c[vi]
        init {{ c[vi] = 0.0 }}
        c[vi] = c[vi] + x[vi, vj] * x[{}, vj]
    }} }} }}
}} }})",
                                     place));
}

TEST(Reindex, PacksWhatIsReadTwiceAtOnePlace) {
  tir::Func func = square("vi");
  Schedule s(func);
  BlockHandle packed = s.reindex(s.get_block("sum"), 0);
  EXPECT_EQ(tir::constant_shape(s[packed]->writes[0].buffer), (std::vector<int64_t>{4, 6}));
  expect_same_results(func, s.func());
  EXPECT_EQ(refusal_of(square("3 - vi"), [](Schedule& s) { s.reindex(s.get_block("sum"), 0); }),
            "reindex: x is loaded at 2 places, must be loaded at 1");
}

TEST(SeparateRead, GivesOneOfTheFactorsACopy) {
  tir::Func func = gram(5, 3);
  for (int64_t place : {0, 1}) {
    Schedule s(func);
    BlockHandle copy = s.separate_read(s.get_block("product"), 0, place);
    EXPECT_EQ(s[copy]->name, "product_x_own");
    EXPECT_EQ(s[s.get_block("product")]->reads.size(), 2u);
    expect_same_results(func, s.func());
  }
  const auto refusal = [&](const tir::Func& of, const char* name, int64_t read, int64_t place) {
    return refusal_of(of, [&](Schedule& s) { s.separate_read(s.get_block(name), read, place); });
  };
  EXPECT_EQ(refusal(func, "product", 0, 2),
            "separate_read: place 2 of the 2 where x is loaded, of which one has to stay");
  EXPECT_EQ(refusal(func, "product", 1, 0), "separate_read: buffer 1 of the 1 that block `product` reads");
  EXPECT_EQ(refusal(product({}), "product", 0, 0),
            "separate_read: place 0 of the 1 where x is loaded, of which one has to stay");
}

TEST(SeparateRead, LetsAProductWithItselfBeTiled) {
  const Target target = avx512_target();
  for (DataType type : {kFloat32, kBFloat16}) {
    tir::Func func = gram(37, 19, type);
    ASSERT_STREQ(spaces_for(func, target)[0]->name, "contraction");
    tir::Func scheduled = replay(default_trace(func, target), func);
    EXPECT_NE(tir::print(scheduled).find("x_own_reindex"), std::string::npos) << tir::print(scheduled);
    expect_same_results(func, scheduled);
  }
}

/// What is chosen or zero is kept before it is converted.
TEST(Reindex, PacksWhatIsConvertedUnderASelect) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[5, 6]) -> (y: bfloat16[6, 8]) {
  block root {
    for i in 0..6 { for j in 0..8 {
      block turned(spatial vi in 0..6 = i, spatial vj in 0..8 = j) {
        reads x[vj, vi]
        writes y[vi, vj]
        y[vi, vj] = select(vj < 5, cast(bfloat16, x[vj, vi]), 0.0bf16)
    } } }
} })");
  Schedule s(func);
  BlockHandle packed = s.reindex(s.get_block("turned"), 0);
  EXPECT_EQ(s[packed]->writes[0].buffer->dtype, kFloat32);
  expect_same_results(func, s.func());
}

/// for i, j, k: y[i, j, k] = VALUE, of x that has a row less than there are values of j
tir::Func chosen(const char* value) {
  return tir::parse_func(fmt::format(R"(
func main(x: float32[5, 6]) -> (y: float32[6, 8, 3]) {{
  block root {{
    for i in 0..6 {{ for j in 0..8 {{ for k in 0..3 {{
      block turned(spatial vi in 0..6 = i, spatial vj in 0..8 = j, spatial vk in 0..3 = k) {{
        reads x[vj, vi]
        writes y[vi, vj, vk]
        y[vi, vj, vk] = {}
    }} }} }} }}
}} }})",
                                     value));
}

TEST(Reindex, PacksWhatIsComputedWithUnderASelect) {
  for (const char* value :
       {"select(vj < 5, exp(x[vj, vi]) * 2.0, 1.0)",
        "select(5 <= vj, 1.0, select(1 <= vj, exp(x[vj, vi]), x[vj, vi] * 2.0))",
        "select(vj < 5, select(x[vj, vi] < 0.0, x[vj, vi] * 2.0, exp(x[vj, vi])), 1.0)"}) {
    SCOPED_TRACE(value);
    tir::Func func = chosen(value);
    Schedule s(func);
    BlockHandle packed = s.reindex(s.get_block("turned"), 0);
    EXPECT_EQ(tir::constant_shape(s[packed]->writes[0].buffer), (std::vector<int64_t>{6, 8}));
    expect_same_results(func, s.func());
  }
}

TEST(Reindex, RefusesConditionsOfMoreThanThePlace) {
  EXPECT_EQ(refusal_of(chosen("select(vj < 5 && vk < 2, exp(x[vj, vi]), 1.0)"),
                       [](Schedule& s) { s.reindex(s.get_block("turned"), 0); }),
            "reindex: an operand is loaded under a condition of more than its place");
}

TEST(Reindex, Refuses) {
  auto refusal = [](const tir::Func& f, const char* name, int64_t read) {
    return refusal_of(f, [&](Schedule& s) { s.reindex(s.get_block(name), read); });
  };
  EXPECT_EQ(refusal(product({}), "product", 2), "reindex: buffer 2 of the 2 that block `product` reads");
  tir::Func twice = elementwise(4, 6);  // a block that loads a buffer at two places is none to pack for
  EXPECT_NE(refusal(twice, all_blocks(twice)[0]->name.c_str(), 7), "accepted");
}

TEST(SplitVariable, PutsThePlaceInTheGroupLast) {
  tir::Func func = product({.n = 6, .k = 12});
  Schedule s(func);
  BlockHandle block = s.get_block("product");
  s.split_variable(block, 3, 4);
  std::vector<int64_t> extents;
  for (const tir::BlockIter& iter : s[block]->iters) extents.push_back(int_value(iter.extent));
  EXPECT_EQ(extents, (std::vector<int64_t>{3, 5, 6, 3, 4}));
  expect_same_results(func, s.func());
}

TEST(SplitVariable, PutsThePlaceNextInElementwiseBlocks) {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {6, 5}, kInt32);
  tir::Func func = f.finish("tile", {f.compute("tile", {6, 20, 2}, [&](tir::Vars i) {
                              return tir::load(x, {i[0], floormod(i[1], 5)}) + cast(kInt32, i[2]);
                            })});
  Schedule s(func);
  BlockHandle block = s.get_block("tile");
  s.split_variable(block, 1, 5);
  std::vector<int64_t> extents;
  for (const tir::BlockIter& iter : s[block]->iters) extents.push_back(int_value(iter.extent));
  EXPECT_EQ(extents, (std::vector<int64_t>{6, 4, 5, 2}));
  EXPECT_EQ(tir::print(s.func()).find("%%"), std::string::npos) << "no element divides";
  expect_sound(func, s);
}

TEST(SplitVariable, Refuses) {
  tir::Func func = product({.k = 12});
  auto refusal = [&](int64_t variable, int64_t factor) {
    return refusal_of(func, [&](Schedule& s) { s.split_variable(s.get_block("product"), variable, factor); });
  };
  EXPECT_EQ(refusal(4, 4), "split_variable: variable 4 of the 4 of block `product`");
  EXPECT_EQ(refusal(2, 1), "split_variable: variable i2 of block `product` is no variable of a reduction");
  EXPECT_EQ(refusal(3, 5), "split_variable: factor is 5, must divide the extent 12 of r0");
  EXPECT_EQ(refusal(3, 0), "split_variable: factor is 0, must divide the extent 12 of r0");
}

TEST(PadEinsum, KeepsToVariablesWithAPlaceInTheResult) {
  tir::Func func = tir::parse_func(R"(
func main(x: int32[1, 5]) -> (out: int32[1, 5]) {
  block root {
    for i in 0..1 { for j in 0..5 {
      block out(spatial v in 0..1 = i, spatial w in 0..5 = j) {
        reads x[v, w]
        writes out[0, w]
        out[0, w] = x[v, w] * 2i32
    } } }
} })");
  EXPECT_EQ(refusal_of(func,
                       [](Schedule& s) {
                         s.pad_einsum(s.get_block("out"), {2, 1});
                       }),
            "pad_einsum: block `out` does not write at variable v alone")
      << "0 of the second row would be stored over the first";
  Schedule s(func);
  s.pad_einsum(s.get_block("out"), {1, 4});
  expect_sound(func, s);
}

}  // namespace
}  // namespace lathe::schedule
