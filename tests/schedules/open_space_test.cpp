// Default schedules and families of programs whose sizes are open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/dims.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/family.h"
#include "schedules/program.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {
/// That a vector begins inside follows from each of its lanes being there, where columns are half of a
/// dimension too.
TEST(DefaultTrace, HalfOfAnOpenWidthIsCutIntoVectors) {
  const tir::Func product = tir::parse_func(R"(
func main[n0](x: float32[96, n0 // 2], w: float32[12, 96]) -> (y: float32[12, n0 // 2]) @typical0=256 {
  block root {
    for i in 0..12 {
      for j in 0..n0 // 2 {
        for k in 0..96 {
          block b(spatial o in 0..12 = i, spatial c in 0..n0 // 2 = j, reduce s in 0..96 = k) {
            reads x[s, c], w[o, s]
            writes y[o, c]
            init {
              y[o, c] = 0.0
            }
            y[o, c] = y[o, c] + x[s, c] * w[o, s]
          }
        }
      }
    }
  }
}
)");
  const tir::Func scheduled = replay(default_trace(product, avx512_target()), product);
  EXPECT_EQ(vectors_around(scheduled, "b"), 1) << tir::print(scheduled);
}

/// A convolution in blocks of 16 channels, of open rows and columns, that was asked about at `typical`.
tir::Func open_convolution(int64_t taps, int64_t typical) {
  const std::string k = std::to_string(taps), more = std::to_string(taps - 1), at = std::to_string(typical);
  return tir::parse_func("func main[n0, n1](x: float32[1, 16, n0 + " + more + ", n1 + " + more +
                         ", 16], w: float32[16, 16, " + k + ", " + k +
                         ", 16, 16]) -> (y: float32[1, 16, n0, n1, 16]) @constants=2 @typical0=" + at +
                         " @typical1=" + at + R"( {
  block root {
    for i0 in 0..1 { for i1 in 0..16 { for i2 in 0..n0 { for i3 in 0..n1 { for i4 in 0..16 { for i5 in 0..16 { for i6 in 0..)" +
                         k + R"( { for i7 in 0..)" + k + R"( { for i8 in 0..16 {
      block b(spatial n in 0..1 = i0, spatial o in 0..16 = i1, spatial r in 0..n0 = i2, spatial c in 0..n1 = i3, spatial l in 0..16 = i4, reduce d in 0..16 = i5, reduce p in 0..)" +
                         k + " = i6, reduce q in 0.." + k + R"( = i7, reduce m in 0..16 = i8) {
        reads x[n, d, r + p, c + q, m], w[o, d, p, q, m, l]
        writes y[n, o, r, c, l]
        init { y[n, o, r, c, l] = 0.0 }
        y[n, o, r, c, l] = y[n, o, r, c, l] + x[n, d, r + p, c + q, m] * w[o, d, p, q, m, l]
    } } } } } } } } } }
  }
})");
}

/// Where transforms go through all rows at once, these are as many as there are and not as many as the image
/// had that the schedule was made for.
TEST(DefaultTrace, TransformsOfOpenImagesTakeTheRowsThereAre) {
  const tir::Func conv = open_convolution(2, 257);
  const std::string text = tir::print(replay(default_trace(conv, avx512_target()), conv));
  EXPECT_NE(text.find("products"), std::string::npos) << "no transforms";
  EXPECT_EQ(text.find("n0 + 259"), std::string::npos) << text;
}

/// 250 has no divisor but 10 that a vector could have.
/// A 3x3 convolution of every second row and column of an image, of which these are open; channels in blocks
/// of 16, of which there are as many before as behind.
tir::Func strided_convolution(int64_t blocks, int64_t typical) {
  std::string text = R"(
func main[n0, n1](x: float32[C, n0, n1, 16], w: float32[C, C, 3, 3, 16, 16]) -> (y: float32[C, (n0 + 1) // 2, (n1 + 1) // 2, 16]) @constants=2 @typical0=N @typical1=N {
  block root { alloc t: float32[C, n0 + 2, n1 + 2, 16]
    for b in 0..C { for i in 0..n0 + 2 { for j in 0..n1 + 2 { for c in 0..16 {
      block pad(spatial g in 0..C = b, spatial r in 0..n0 + 2 = i, spatial q in 0..n1 + 2 = j, spatial a in 0..16 = c) {
        reads x[g, r - 1, q - 1, a]
        writes t[g, r, q, a]
        t[g, r, q, a] = select(1 <= r && r < n0 + 1 && 1 <= q && q < n1 + 1, x[g, r - 1, q - 1, a], 0.0)
    } } } } }
    for h in 0..C { for i in 0..(n0 + 1) // 2 { for j in 0..(n1 + 1) // 2 { for o in 0..16 { for b in 0..C { for p in 0..3 { for s in 0..3 { for c in 0..16 {
      block b(spatial m in 0..C = h, spatial r in 0..(n0 + 1) // 2 = i, spatial q in 0..(n1 + 1) // 2 = j, spatial k in 0..16 = o, reduce g in 0..C = b, reduce u in 0..3 = p, reduce v in 0..3 = s, reduce a in 0..16 = c) {
        reads t[g, r * 2 + u, q * 2 + v, a], w[m, g, u, v, a, k]
        writes y[m, r, q, k]
        init { y[m, r, q, k] = 0.0 }
        y[m, r, q, k] = y[m, r, q, k] + t[g, r * 2 + u, q * 2 + v, a] * w[m, g, u, v, a, k]
    } } } } } } } } }
} })";
  for (const auto& [letter, number] : {std::pair('C', blocks), std::pair('N', typical)})
    for (size_t at; (at = text.find(letter)) != std::string::npos;)
      text.replace(at, 1, std::to_string(number));
  return tir::parse_func(text);
}

/// Of four rows every second one of a deep layer is faster computed as it stands, where transforms would pay
/// for images twice as large.
TEST(DefaultTrace, WhatIsForLargerOpenImagesIsNotForSmallOnes) {
  auto is_transformed = [](int64_t typical) {
    const tir::Func conv = strided_convolution(24, typical);
    return path_to_block(replay(default_trace(conv, avx512_target()), conv), "b_products").has_value();
  };
  EXPECT_FALSE(is_transformed(8));
  EXPECT_TRUE(is_transformed(64));
}

/// Tiles of many rows have weights that take longer than what they save in images of some.
TEST(Family, ImagesOfSomeRowsHaveSmallerTilesOfManyWeights) {
  auto has_member_of_some = [](int64_t blocks) {
    const std::vector<Member> family = family_of(strided_convolution(blocks, 64));
    return std::any_of(family.begin(), family.end(), [](const Member& member) {
      return member.dims[0].max == 36 && member.dims[1].max == 36 && !member.is_small;
    });
  };
  EXPECT_TRUE(has_member_of_some(24));
  EXPECT_FALSE(has_member_of_some(2));
}

TEST(DefaultTrace, OpenRowsAreCutIntoWholeVectors) {
  const tir::Func rows = tir::parse_func(R"(
func main[n0](x: float32[32, n0 + 6], w: float32[3, 32, 7]) -> (y: float32[3, n0]) @constants=2 @typical0=250 {
  block root {
    for i in 0..3 { for j in 0..n0 { for k in 0..32 { for t in 0..7 {
      block b(spatial o in 0..3 = i, spatial c in 0..n0 = j, reduce s in 0..32 = k, reduce p in 0..7 = t) {
        reads x[s, c + p], w[o, s, p]
        writes y[o, c]
        init { y[o, c] = 0.0 }
        y[o, c] = y[o, c] + x[s, c + p] * w[o, s, p]
    } } } } }
  }
})");
  EXPECT_NE(tir::print(replay(default_trace(rows, avx512_target()), rows)).find("in 0..16 vectorized"),
            std::string::npos);
}

/// Of 256 x 256 there are 123 x 123 results, which vectors divide as little as 250; and a tile's end is told
/// by a difference, which is divided where a tile is a number of vectors.
TEST(DefaultTrace, RowsAndColumnsThatAreDifferencesAreCutIntoVectors) {
  const std::string rows = "(n0 + 1) // 2 * ((n1 + 1) // 2) - (n0 + 1) // 2 * 5 - (n1 + 1) // 2 * 5 + 25";
  const tir::Func product = tir::parse_func(
      "func main[n0, n1](x: float32[32, " + rows +
      "], w: float32[4, 32], n: float32[n0, n1]) -> (y: float32[4, " + rows +
      "]) @constants=2 @typical0=256 @typical1=256 {\n  block root {\n" + "for i in 0..4 { for j in 0.." +
      rows + " { for k in 0..32 {\n" + "block b(spatial o in 0..4 = i, spatial c in 0.." + rows +
      R"( = j, reduce s in 0..32 = k) {
        reads x[s, c], w[o, s]
        writes y[o, c]
        init { y[o, c] = 0.0 }
        y[o, c] = y[o, c] + x[s, c] * w[o, s]
    } } } }
  }
})");
  const tir::Func scheduled = replay(default_trace(product, avx512_target()), product);
  EXPECT_EQ(vectors_around(scheduled, "b"), 1) << tir::print(scheduled);
}

/// Images a few rows larger than the elements of a kernel are apart: most tiles see padding where some of the
/// elements are.
TEST(DefaultTrace, TilesOfFarElementsPassOverPadding) {
  auto sums = [](int64_t dilation) {
    const std::string d = std::to_string(dilation), more = std::to_string(2 * dilation);
    const tir::Func conv = tir::parse_func(
        "func main[n0, n1](x: float32[n0, n1, 16], w: float32[3, 3, 16, 16]) -> (y: float32[n0, n1, 16]) "
        "@constants=2 @typical0=256 @typical1=256 {\nblock root { alloc t: float32[n0 + " +
        more + ", n1 + " + more + ", 16]\nfor i in 0..n0 + " + more + " { for j in 0..n1 + " + more +
        " { for c in 0..16 {\nblock pad(spatial r in 0..n0 + " + more + " = i, spatial q in 0..n1 + " + more +
        " = j, spatial a in 0..16 = c) {\nreads x[r - " + d + ", q - " + d + ", a]\nwrites t[r, q, a]\n" +
        "t[r, q, a] = select(" + d + " <= r && r < n0 + " + d + " && " + d + " <= q && q < n1 + " + d +
        ", x[r - " + d + ", q - " + d + R"(, a], 0.0)
        } } } }
        for i in 0..n0 { for j in 0..n1 { for o in 0..16 { for p in 0..3 { for s in 0..3 { for c in 0..16 {
        block b(spatial r in 0..n0 = i, spatial q in 0..n1 = j, spatial k in 0..16 = o, reduce u in 0..3 = p, reduce v in 0..3 = s, reduce a in 0..16 = c) {
          reads t[r + u * )" +
        d + ", q + v * " + d + ", a], w[u, v, a, k]\nwrites y[r, q, k]\ninit { y[r, q, k] = 0.0 }\n" +
        "y[r, q, k] = y[r, q, k] + t[r + u * " + d + ", q + v * " + d +
        ", a] * w[u, v, a, k]\n} } } } } } }\n} }");
    const tir::Func scheduled = replay(default_trace(conv, avx512_target()), conv);
    return path_to_block(scheduled, "b")->back().cast<tir::Block>();
  };
  auto reduction_in_predicate = [](const Ref<tir::Block>& block) {
    return std::any_of(block->iters.begin(), block->iters.end(), [&](const tir::BlockIter& iter) {
      return iter.kind == tir::IterKind::kReduce && iter.value.as<VarNode>() &&
             uses_var(block->predicate, iter.value.as<VarNode>());
    });
  };
  EXPECT_TRUE(reduction_in_predicate(sums(12))) << tir::print(sums(12)->predicate);
  EXPECT_FALSE(reduction_in_predicate(sums(2)));
}

/// One element of nine sees more than padding where images are no larger than the elements are apart.
TEST(Family, ImagesSmallerThanADilationHaveAMemberOfASingleTap) {
  auto family = [](int64_t dilation) {
    const std::string d = std::to_string(dilation), more = std::to_string(2 * dilation);
    return family_of(tir::parse_func(
        "func main[n0, n1](x: float32[16, n0, n1], w: float32[8, 16, 3, 3]) -> (y: float32[8, n0, n1]) "
        "@constants=2 {\n"
        "block root { alloc t: float32[16, n0 + " +
        more + ", n1 + " + more + "]\n" + "for c in 0..16 { for i in 0..n0 + " + more +
        " { for j in 0..n1 + " + more +
        " {\n"
        "block pad(spatial a in 0..16 = c, spatial r in 0..n0 + " +
        more + " = i, spatial q in 0..n1 + " + more +
        " = j) {\n"
        "reads x[a, r - " +
        d + ", q - " + d +
        "]\nwrites t[a, r, q]\n"
        "t[a, r, q] = select(" +
        d + " <= r && r < n0 + " + d + " && " + d + " <= q && q < n1 + " + d + ", x[a, r - " + d + ", q - " +
        d +
        "], 0.0)\n"
        "} } } }\n"
        "for o in 0..8 { for i in 0..n0 { for j in 0..n1 { for c in 0..16 { for p in 0..3 { for s in 0..3 {\n"
        "block b(spatial k in 0..8 = o, spatial r in 0..n0 = i, spatial q in 0..n1 = j, reduce a in 0..16 = "
        "c, reduce u in 0..3 = p, reduce v in 0..3 = s) {\n"
        "reads t[a, r + u * " +
        d + ", q + v * " + d +
        "], w[k, a, u, v]\nwrites y[k, r, q]\ninit { y[k, r, q] = 0.0 }\n"
        "y[k, r, q] = y[k, r, q] + t[a, r + u * " +
        d + ", q + v * " + d +
        "] * w[k, a, u, v]\n"
        "} } } } } } }\n} }"));
  };
  const auto is_single = [](const Member& member) {
    return member.is_small && member.dims[0].max == 12 && member.dims[1].max == 12 &&
           all_blocks(member.program).size() == 1;
  };
  const std::vector<Member> far = family(12), near = family(1);
  EXPECT_EQ(std::count_if(far.begin(), far.end(), is_single), 1);
  EXPECT_EQ(std::count_if(near.begin(), near.end(), is_single), 0);
}

/// An extent without a name is none that a schedule could be chosen for: the program stays as it is, and who
/// lowers it says what is wrong.
TEST(DefaultTrace, WhatHasNoExtentStaysAsItIs) {
  const tir::Func sum = tir::parse_func(R"(
func main[n](x: float32[n, 16], z: float32[16]) -> (y: float32[n, ?]) {
  block root { for i in 0..n { for j in 0..? {
    block b(spatial r in 0..n = i, spatial k in 0..? = j) {
      reads x[r, k], z[k]
      writes y[r, k]
      y[r, k] = x[r, k] + z[k]
  } } } }
})");
  EXPECT_EQ(vectors_around(replay(default_trace(sum, avx512_target()), sum), "b"), 0u);
}

/// Rows of as many elements as registers hold are read once, those of any length in loops.
TEST(Family, ShortRowsHaveAMemberOfOneTile) {
  const tir::Func largest = tir::parse_func(R"(
func main[n0, n1](x: float32[n0, n1 + 1]) -> (y: float32[n0]) {
  block root { for i in 0..n0 { for j in 0..n1 + 1 {
    block b(spatial r in 0..n0 = i, reduce k in 0..n1 + 1 = j) {
      reads x[r, k]
      writes y[r]
      init { y[r] = -inf }
      y[r] = max(y[r], x[r, k])
  } } } }
})");
  const std::vector<Member> family = family_of(largest);
  ASSERT_EQ(family.size(), 3u);
  for (size_t i : {0, 1}) {
    EXPECT_TRUE(family[i].is_small);
    EXPECT_EQ(family[i].dims[1].min, 1);
  }
  EXPECT_EQ(family[0].dims[1].max, 15);
  EXPECT_EQ(family[1].dims[1].max, 63);
  auto loops_along_rows = [](const Member& member) {
    const tir::Func scheduled = replay(default_trace(member.program, avx512_target()), member.program);
    int found = 0;
    post_order(scheduled->body, [&](const NodeRef& node) {
      const auto* loop = node.as<tir::For>();
      found += loop && uses_var(loop->extent, tir::dims_of(*scheduled)[1].get());
    });
    return found;
  };
  EXPECT_EQ(loops_along_rows(family[0]), 0);
  EXPECT_EQ(loops_along_rows(family[1]), 0);
  EXPECT_GT(loops_along_rows(family[2]), 0);
}

/// Joined rows are a product whose simplest form begins with another dimension than the program.
TEST(Family, JoinedDimensionsKeepTheirValues) {
  const tir::Func product = tir::parse_func(R"(
func main[n0, n1](x: float32[n0 * 7, max(0, n1 // 8 - 1), 16], w: float32[64, 16]) -> (y: float32[n0 * 7, max(0, n1 // 8 - 1), 64]) @constants=2 {
  block root {
    for i in 0..n0 * 7 { for j in 0..max(0, n1 // 8 - 1) { for c in 0..64 { for k in 0..16 {
      block b(spatial r in 0..n0 * 7 = i, spatial q in 0..max(0, n1 // 8 - 1) = j, spatial o in 0..64 = c, reduce s in 0..16 = k) {
        reads x[r, q, s], w[o, s]
        writes y[r, q, o]
        init { y[r, q, o] = 0.0 }
        y[r, q, o] = y[r, q, o] + x[r, q, s] * w[o, s]
  } } } } } }
})");
  const Var batch = tir::dims_of(*product)[0], length = tir::dims_of(*product)[1];
  bool has_one = false;
  for (const Member& member : family_of(product)) {
    const bool one = member.dims[0].is_number(), any = !member.dims[1].is_number();
    has_one |= one && any;
    const std::vector<Var> open = tir::dims_of(*member.program);
    EXPECT_EQ(std::count(open.begin(), open.end(), batch), !one) << tir::print(member.program);
    EXPECT_EQ(std::count(open.begin(), open.end(), length), any) << tir::print(member.program);
  }
  EXPECT_TRUE(has_one);
}

/// The frames of all clips are a batch, however many a clip has: a kernel is made for one of them, as of
/// images.
TEST(Family, FramesOfClipsAreABatch) {
  const std::string frames = "(n0 + 1) // 2 * n1";
  const std::vector<Member> family = family_of(tir::parse_func(
      "func main[n0, n1, n2](x: float32[" + frames + ", n2 + 2, 16], w: float32[8, 16, 3]) -> (y: float32[" +
      frames + ", n2, 8]) @constants=2 {\n  block root { for a in 0.." + frames +
      R"( { for i in 0..n2 { for o in 0..8 { for c in 0..16 { for p in 0..3 {
    block b(spatial b in 0..)" +
      frames +
      R"( = a, spatial r in 0..n2 = i, spatial k in 0..8 = o, reduce d in 0..16 = c, reduce u in 0..3 = p) {
      reads x[b, r + u, d], w[k, d, u]
      writes y[b, r, k]
      init { y[b, r, k] = 0.0 }
      y[b, r, k] = y[b, r, k] + x[b, r + u, d] * w[k, d, u]
  } } } } } } }
})"));
  for (size_t batch : {0, 1}) EXPECT_EQ(family.back().dims[batch].typical, 1);
  EXPECT_GT(family.back().dims[2].typical, 1);
}

/// Rows of a batch follow one another: a tile runs on across their ends.
TEST(Family, RowsOfAnOpenBatchAreRowsOfOneMatrix) {
  const tir::Func product = tir::parse_func(R"(
func main[n0, n1](x: float32[n0, n1, 32], w: float32[32, 16]) -> (y: float32[n0, n1, 16]) {
  block root {
    for i in 0..n0 {
      for j in 0..n1 {
        for c in 0..16 {
          for k in 0..32 {
            block b(spatial a in 0..n0 = i, spatial r in 0..n1 = j, spatial o in 0..16 = c, reduce s in 0..32 = k) {
              reads x[a, r, s], w[s, o]
              writes y[a, r, o]
              init {
                y[a, r, o] = 0.0
              }
              y[a, r, o] = y[a, r, o] + x[a, r, s] * w[s, o]
            }
          }
        }
      }
    }
  }
}
)");
  const std::vector<Member> family = family_of(product);
  EXPECT_EQ(family.size(), 9);
  for (const Member& member : family)
    EXPECT_EQ(member.program->params[0]->shape.size(), 2) << tir::print(member.program);
}

/// Where images are single pixels, or rows single elements, nothing is left to add up.
TEST(Family, SingleElementsHaveAMemberWithoutSums) {
  const tir::Func mean = tir::parse_func(R"(
func main[n0, n1, n2](x: float32[n0, n1, n2]) -> (y: float32[n0]) {
  block root { for i in 0..n0 { for j in 0..n1 { for k in 0..n2 {
    block b(spatial r in 0..n0 = i, reduce p in 0..n1 = j, reduce q in 0..n2 = k) {
      reads x[r, p, q]
      writes y[r]
      init { y[r] = 0.0 }
      y[r] = y[r] + x[r, p, q]
  } } } } }
})");
  const std::vector<Member> family = family_of(mean);
  ASSERT_GE(family.size(), 2u);
  EXPECT_TRUE(family[0].dims[1].is_number() && family[0].dims[2].is_number());
  EXPECT_EQ(tir::dims_of(*family[0].program).size(), 1u) << tir::print(family[0].program);
  EXPECT_FALSE(family.back().dims[1].is_number() || family.back().dims[2].is_number());
}

/// How many heads there are, of how many texts, makes no other kernel: each has a product of its own.
TEST(Family, ProductsThatAreCountedHaveOneKernel) {
  const tir::Func product = tir::parse_func(R"(
func main[n0, n1](x: float32[n0, n1, 32], w: float32[n0, n1, 32]) -> (y: float32[n0, n1, n1]) {
  block root {
    for i in 0..n0 { for j in 0..n1 { for c in 0..n1 { for k in 0..32 {
      block b(spatial a in 0..n0 = i, spatial r in 0..n1 = j, spatial o in 0..n1 = c, reduce s in 0..32 = k) {
        reads x[a, r, s], w[a, o, s]
        writes y[a, r, o]
        init { y[a, r, o] = 0.0 }
        y[a, r, o] = y[a, r, o] + x[a, r, s] * w[a, o, s]
  } } } } } }
})");
  const std::vector<Member> family = family_of(product);
  ASSERT_EQ(family.size(), 3);
  for (const Member& member : family) {
    EXPECT_EQ(member.dims[0].min, 0);
    EXPECT_GT(member.dims[0].max, 4);
  }
  EXPECT_EQ(family[0].dims[1].max, 1);
}

// Neighbouring results are far apart in the weight, until it is packed.
TEST(Family, OfAProductWithTransposedWeights) {
  const tir::Func product = tir::parse_func(R"(
func main[n](x: float32[n, 24], w: float32[37, 24]) -> (y: float32[n, 37]) @constants=2 {
  block root {
    for i in 0..n { for j in 0..37 { for k in 0..24 {
      block y(spatial r in 0..n = i, spatial o in 0..37 = j, reduce s in 0..24 = k) {
        reads x[r, s], w[o, s]
        writes y[r, o]
        init {
          y[r, o] = 0.0
        }
        y[r, o] = y[r, o] + x[r, s] * w[o, s]
    } } } }
  }
})");
  const std::vector<Member> family = family_of(product);
  ASSERT_EQ(family.size(), 3);
  EXPECT_EQ(family[0].dims[0].max, 1);
}

}  // namespace
}  // namespace lathe::schedule
