#include "schedules/schedule.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/text.h"
#include "schedules/primitive.h"
#include "tests/schedules/programs.h"
#include "tests/thrown_by.h"

namespace lathe::schedule {
namespace {

TEST(Trace, ReadsAsText) {
  Schedule s(matmul(5, 48, 12));
  auto loops = s.get_loops(s.get_block("matmul"));
  auto sizes = s.sample_tuple(2, {6, 8, 3, 16}, {1});
  s.vectorize(s.split(loops[1], {sizes[0], sizes[1]})[1]);
  s.annotate(loops[0], "key", 7);
  EXPECT_EQ(to_text(s.trace()),
            "b0 = get_block(\"matmul\")\n"
            "l1, l2, l3 = get_loops(b0)\n"
            "v4, v5 = sample_tuple(2, 6, 8, 3, 16) -> 1\n"
            "l6, l7 = split(l2, v4, v5)\n"
            "vectorize(l7)\n"
            "annotate_loop(l1, \"key\", 7)\n");
}

TEST(Trace, MalformedJsonIsAnError) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({"steps": [{"do": "splat", "in": []}]})",
       "`splat` is no schedule primitive; did you mean `split`?"},
      {R"({"steps": [{"do": "get_loops", "in": ["b0"]}]})", "trace: `b0` is used before a step gives it"},
      {R"({"steps": [{"do": "get_block", "in": [["x"]], "out": ["b1"]}]})",
       "trace: result `b1` must be number 0"},
      {R"({"steps": [{"do": "get_block", "in": [["x"]], "out": ["q0"]}]})",
       "trace: `q0` is no handle; they begin with b, l or v"},
      {R"({"steps": [{"do": "get_loops", "in": ["b99999999999999"]}]})",
       "trace: `b99999999999999` is no handle"},
  };
  for (const auto& [json, message] : kCases) EXPECT_EQ(thrown_by([&] { parse_trace(json); }), message);
  for (const char* json : {"", "[]", "{", "{\"steps\": [3]}", "{\"steps\": [{\"do\": 1}]}"})
    EXPECT_EQ(thrown_by([&] { parse_trace(json); }).substr(0, 22), "trace: malformed JSON:") << json;
}

TEST(Replay, NamesTheStepThatDoesNotApply) {
  Schedule s(matmul(5, 48, 12));
  auto loops = s.get_loops(s.get_block("matmul"));
  s.split(loops[0], {5, 1});
  EXPECT_EQ(thrown_by([&] { replay(s.trace(), matmul(7, 48, 12)); }),
            "trace step 2: l4, l5 = split(l1, 5, 1): split: the product of the factors is 5, less than the "
            "extent 7 of loop i0");
  EXPECT_EQ(thrown_by([&] { replay(s.trace(), elementwise(4, 4)); }),
            "trace step 0: b0 = get_block(\"matmul\"): get_block: no block `matmul` in function elementwise");
}

TEST(Primitives, EachHasADocumentedRewrite) {
  for (const Primitive* row : primitives()) {
    EXPECT_EQ(&primitive(row->name), row);
    EXPECT_FALSE(std::string(row->doc).empty());
  }
}

struct Illegal {
  const char* message;
  void (*action)(Schedule&);
};

TEST(Primitives, IllegalUsesSayWhy) {
  const Illegal kCases[] = {
      {"get_block: no block `cov` in function conv2d; did you mean `conv`?",
       [](Schedule& s) { s.get_block("cov"); }},
      {"split: factor is -2, must be at least 1, or 0 to infer it (loop i1 runs 0..2)",
       [](Schedule& s) {
         s.split(s.get_loops(s.get_block("conv"))[1], {2, -2});
       }},
      {"split: 2 factors are to be inferred, at most one can be",
       [](Schedule& s) {
         s.split(s.get_loops(s.get_block("conv"))[1], {kInferred, kInferred});
       }},
      {"parallel: loop r0 carries the reduction variable r0 of block `conv`; only spatial iterations are "
       "independent",
       [](Schedule& s) { s.parallel(s.get_loops(s.get_block("conv"))[5]); }},
      {"fuse: loop i2 is not the only statement right inside loop i0",
       [](Schedule& s) {
         auto loops = s.get_loops(s.get_block("conv"));
         s.fuse({loops[0], loops[2]});
       }},
      {"reorder: the loops are not nested perfectly: another statement stands between them",
       [](Schedule& s) {
         s.reorder({s.get_loops(s.get_block("conv"))[0], s.get_loops(s.get_block("pad"))[0]});
       }},
      {"compute_inline: block `conv` is no single assignment of an element",
       [](Schedule& s) { s.compute_inline(s.get_block("conv")); }},
      {"compute_inline: block `relu` writes the output relu; it must stay",
       [](Schedule& s) { s.compute_inline(s.get_block("relu")); }},
      {"compute_at: block `conv` is inside loop i1 already",
       [](Schedule& s) {
         BlockHandle conv = s.get_block("conv");
         s.compute_at(conv, s.get_loops(conv)[1]);
       }},
      {"compute_at: block `bias_add` reads conv outside loop i1",
       [](Schedule& s) { s.compute_at(s.get_block("conv"), s.get_loops(s.get_block("relu"))[1]); }},
      {"reverse_compute_at: loop r0 carries a reduction of block `conv`, which is not complete inside loop "
       "r1",
       [](Schedule& s) {
         s.reverse_compute_at(s.get_block("bias_add"), s.get_loops(s.get_block("conv"))[6]);
       }},
      {"decompose_reduction: loop r0 outside loop r1 carries the reduction; the initial value must be stored "
       "before it",
       [](Schedule& s) {
         BlockHandle conv = s.get_block("conv");
         s.decompose_reduction(conv, s.get_loops(conv)[6]);
       }},
      {"set_scope: relu is a parameter; it stays in main memory",
       [](Schedule& s) { s.set_scope(s.get_block("relu"), 0, tir::Scope::kLocal); }},
      {"cache_write: buffer 1 of the 1 that block `conv` writes",
       [](Schedule& s) { s.cache_write(s.get_block("conv"), 1, tir::Scope::kLocal); }},
      {"split: loop i1 is no longer in the program; it was split, fused or removed",
       [](Schedule& s) {
         LoopHandle loop = s.get_loops(s.get_block("conv"))[1];
         s.split(loop, {2, 1});
         s.split(loop, {2, 1});
       }},
      {"sample_tuple: 3 numbers do not make tuples of 2",
       [](Schedule& s) {
         s.sample_tuple(2, {1, 2, 3});
       }},
  };
  for (const Illegal& each : kCases) {
    Schedule s(conv2d({}));
    EXPECT_EQ(thrown_by([&] { each.action(s); }), each.message);
  }
}

TEST(Reorder, KeepsParallelLoopsOutOfVectorizedOnes) {
  Schedule s(elementwise(4, 8));
  auto loops = s.get_loops(s.get_block("out"));
  s.parallel(loops[0]);
  s.vectorize(loops[1]);
  EXPECT_EQ(thrown_by([&] {
              s.reorder({loops[1], loops[0]});
            }),
            "reorder: the parallel loop i0 would stand inside the vectorized loop i1");
  Schedule other(elementwise(4, 8));
  loops = other.get_loops(other.get_block("out"));
  other.parallel(loops[1]);
  EXPECT_EQ(thrown_by([&] { other.vectorize(loops[0]); }),
            "vectorize: the parallel loop i1 stands inside loop i0");
}

/// Stores one element `outer` * `inner` times.
tir::Func repeated(int64_t outer, int64_t inner) {
  return tir::parse_func(
      fmt::format("func main() -> (out: int32[1]) {{ block root {{ for i in 0..{} {{ for j in 0..{} {{\n"
                  "block out(spatial v in 0..1 = 0) {{ writes out[0] out[0] = 1i32 }} }} }} }} }}",
                  outer, inner));
}

TEST(SplitAndFuse, RefuseWhatOverflows) {
  constexpr int64_t kHuge = INT64_MAX / 2 + 1;  // 2^62
  auto split = [](int64_t extent, const std::vector<Factor>& factors) {
    Schedule s(repeated(extent, 1));
    return thrown_by([&] { s.split(s.get_loops(s.get_block("out"))[0], factors); });
  };
  EXPECT_EQ(split(8, {kInferred, INT64_MAX}), "no error");
  EXPECT_EQ(split(kHuge, {kInferred, kHuge}), "no error");
  EXPECT_EQ(split(kHuge + 1, {kInferred, kHuge}), "split: the product of the factors overflows");
  auto fuse = [](int64_t outer, int64_t inner) {
    Schedule s(repeated(outer, inner));
    return thrown_by([&] { s.fuse(s.get_loops(s.get_block("out"))); });
  };
  EXPECT_EQ(fuse(kHuge, 1), "no error");
  EXPECT_EQ(fuse(kHuge, 2), "fuse: the product of the extents overflows");
}

TEST(StoreAs, RefusesWhatWouldRoundTwiceOrIsNoFloat) {
  Schedule s(dense(2, 32, 16, kFloat32));
  BlockHandle block = s.get_block("dense");
  EXPECT_EQ(thrown_by([&] { s.store_as(block, 0, 16); }),
            "store_as: block `dense` sums in dense: it would round at each step");
  BlockHandle copy = s.cache_read(block, 1, tir::Scope::kGlobal);
  EXPECT_EQ(thrown_by([&] { s.store_as(copy, 0, 8); }), "store_as: floats of 8 bits, must be 16, 32 or 64");
  EXPECT_EQ(thrown_by([&] { s.store_as(copy, 1, 16); }),
            "store_as: buffer 1 of the 1 that block `dense_read` writes");
  tir::Func before = s.func();
  s.store_as(copy, 0, 64);
  EXPECT_EQ(s.func(), before) << "it has 32 already";
  s.store_as(copy, 0, 16);
  EXPECT_EQ(s[copy]->writes[0].buffer->dtype, kFloat16);
  EXPECT_EQ(thrown_by([&] { s.store_as(copy, 0, 16); }),
            "store_as: weight_cache is no float of 32 or 64 bits");
  Schedule ints(dense(2, 32, 16));
  BlockHandle numbers = ints.cache_read(ints.get_block("dense"), 1, tir::Scope::kGlobal);
  EXPECT_EQ(thrown_by([&] { ints.store_as(numbers, 0, 16); }),
            "store_as: weight_cache is no float of 32 or 64 bits");
}

/// The sums of rows, by loops over `count` of them that take those that `row` says.
tir::Func row_sums(int64_t count, const std::string& row) {
  return tir::parse_func(fmt::format(R"(
func main(x: int32[8, 3]) -> (out: int32[8]) {{
  block root {{
    for i in 0..{} {{ for k in 0..3 {{
      block sum(spatial v in 0..8 = {}, reduce r in 0..3 = k) {{
        reads x[v, r]
        writes out[v]
        init {{ out[v] = 0i32 }}
        out[v] = out[v] + x[v, r]
    }} }} }}
}} }})",
                                     count, row));
}

TEST(DecomposeReduction, NeedsEachElementComputedOnce) {
  auto decomposed = [](int64_t count, const std::string& row) {
    Schedule s(row_sums(count, row));
    BlockHandle sum = s.get_block("sum");
    return thrown_by([&] { s.decompose_reduction(sum, s.get_loops(sum)[0]); });
  };
  EXPECT_EQ(decomposed(8, "i"), "no error");
  EXPECT_EQ(decomposed(8, "7 - i"), "no error");
  // As many iterations as there are rows from the first to the last: 0, 0, 3, 3.
  EXPECT_EQ(
      decomposed(4, "i // 2 * 3"),
      "decompose_reduction: block `sum` computes some elements several times in loop i; the initial value "
      "belongs inside it");
}

TEST(Blockize, NeedsDigitsOfOneNumber) {
  auto blockized = [](int64_t step) {
    Schedule s(tir::parse_func(fmt::format(R"(
func main(x: int32[9]) -> (out: int32[9]) {{
  block root {{
    for i in 0..3 {{ for j in 0..3 {{
      block out(spatial v in 0..9 = i * {} + j * {}) {{ reads x[v] writes out[v] out[v] = x[v] }}
    }} }}
}} }})",
                                           step, 4 - step)));
    return thrown_by([&] { s.blockize(s.get_loops(s.get_block("out"))[0]); });
  };
  EXPECT_EQ(blockized(3), "no error");
  EXPECT_EQ(blockized(1), "no error");
  // From 0 to 8 as well, by as many iterations.
  EXPECT_EQ(blockized(2),
            "blockize: variable v of block `out` takes 9 values in the tile, which are no aligned range");
}

}  // namespace
}  // namespace lathe::schedule
