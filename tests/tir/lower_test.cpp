#include "core/tir/lower.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "core/tir/dims.h"
#include "core/tir/pass.h"
#include "core/tir/text.h"
#include "tests/tir/random_func.h"

namespace lathe::tir {
namespace {

using enum PassId;

TEST(Lower, KeepsMeaningOfRandomPrograms) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Func f = random_func(seed), lowered = lower(f, Target{});
    auto fault = find_fault(lowered, Level::kVectors);
    EXPECT_FALSE(fault) << "seed " << seed << ": " << *fault << "\n" << print(lowered);
    EXPECT_LE(output_difference(lowered, f), 1e-6) << "seed " << seed << "\n" << print(lowered);
  }
}

TEST(Lower, LeavesOpenDimensionsOpen) {
  FuncBuilder b;
  Var n = var("n");
  Buffer x = b.input("x", {n, 4}, kFloat32);
  Buffer y = b.compute("y", {n, 4}, [&](Vars i) { return load(x, {i[0], i[1]}) + load(x, {i[0], i[1]}); });
  Func f = b.finish("twice", {y}), lowered = lower(f, Target{});
  ASSERT_EQ(dims_of(*lowered), std::vector<Var>{n});
  for (int64_t extent : {0, 1, 7}) {
    Func bound = with_dims(lowered, std::vector<int64_t>{extent});
    EXPECT_TRUE(dims_of(*bound).empty());
    EXPECT_LE(output_difference(bound, with_dims(f, std::vector<int64_t>{extent})), 0);
  }
}

TEST(CanLower, SaysWhatLowerDoes) {
  struct Case {
    const char* body;
    bool lowers;
  };
  for (const Case& each :
       {Case{"for i in 0..n parallel { for j in 0..4 unrolled { y[i, j] = x[i, j] } }", true},
        {"for i in 0..n { for j in 0..2000 vectorized { y[i, j % 4] = x[i, j % 4] } }", false},
        {"for i in 0..n parallel { alloc t: float32[4] { for k in 0..4 { t[k] = x[i, k] }"
         " for j in 0..4 { y[i, j] = t[3 - j] } } }",
         true},
        {"for i in 0..n parallel { alloc t: float32[n] { for k in 0..n { t[k] = x[k, 0] }"
         " for j in 0..4 { y[i, j] = t[i] } } }",
         false}}) {
    SCOPED_TRACE(each.body);
    const Func func = parse_func(fmt::format(
        "func f[n](x: float32[n, 4]) -> (y: float32[n, 4]) {{ block root {{ {} }} }}", each.body));
    EXPECT_EQ(can_lower(func, Target{}), each.lowers);
    if (each.lowers)
      lower(func, Target{});
    else
      EXPECT_THROW(lower(func, Target{}), Error);
  }
}

struct Names final : PassInstrument {
  std::vector<std::string> ran;
  void after(const Pass& pass, const Func&) override { ran.push_back(pass.name); }
};

TEST(RunPasses, RefusesProgramsOfOtherLevels) {
  PassId sequence[] = {kLowerBlocks, kVectorizeLoops, kVectorizeLoops, kLowerBlocks};
  Names names;
  try {
    run_passes(random_func(3), sequence, {.instruments = {&names}});
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_NE(
        std::string(e.what()).find("lower_blocks works on blocks, this program is at the level of loops"),
        std::string::npos)
        << e.what();
  }
  EXPECT_EQ(names.ran, (std::vector<std::string>{"lower_blocks", "vectorize_loops", "vectorize_loops"}));
}

TEST(FindPass, SuggestsTheNearestName) {
  try {
    find_pass("unrol_loops");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "unknown pass `unrol_loops`; did you mean `unroll_loops`?");
  }
}

/// FileCheck compares what the passes of passes/*.tir print (pass_files in ctest); here, that it computes the
/// same; where dimensions are open, for some of their values.
TEST(PassFiles, KeepMeaning) {
  const std::regex kRun(R"(# RUN: %opt %s --(pipeline|passes=([a-z_,]+)))");
  int funcs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_PASS_FILES)) {
    std::string text = read_file(entry.path().string());
    std::smatch run;
    if (!std::regex_search(text, run, kRun)) continue;
    std::vector<PassId> sequence(lowering_pipeline().begin(), lowering_pipeline().end());
    if (run[2].matched) sequence.clear();
    for (const std::string& name : split_text(run[2].str(), ',')) sequence.push_back(find_pass(name).id);
    for (const Func& f : parse_funcs(text, entry.path().string())) {
      const Func lowered = run_passes(f, sequence);
      const size_t dims = dims_of(*f).size();
      for (int64_t value : {1, 31, 32, 33, 64, 97, 130}) {
        const std::vector<int64_t> values(dims, value);
        EXPECT_LE(output_difference(with_dims(lowered, values), with_dims(f, values)), 1e-6)
            << entry.path() << ": " << f->name << " at " << value;
        if (dims == 0) break;
      }
      ++funcs;
    }
  }
  EXPECT_GE(funcs, 15);
}

void expect_unchanged(PassId id, const std::string& program) {
  Func func = parse_func(program);
  EXPECT_EQ(print(run_passes(func, {&id, 1})), print(func));
}

TEST(SplitConditions, LeavesOtherLoopsAlone) {
  // Not linear; a value read from memory; not innermost.
  for (const char* test : {"w % 2 < 1", "x[w] < 1.0", "w * h < 9"})
    expect_unchanged(kSplitConditions, fmt::format(R"(func f(x: float32[9]) -> (y: float32[4, 9]) {{
  for h in 0..4 {{
    for w in 0..9 {{
      y[h, w] = select({}, x[w], 0.0)
    }}
  }}
}}
)",
                                                   test));
}

TEST(SkipNeutralTerms, LeavesOtherTermsAlone) {
  for (const char* term : {
           "select(0 < i, x[i], 1.0) * w[0]",      // something is added outside
           "select(0 < i, x[i], 0.0) + w[0]",      // w[0] is
           "select(x[i] < 1.0, x[i], 0.0)",        // chosen by data
           "max(select(0 < i, x[i], 0.0), w[0])",  // not 0
       })
    expect_unchanged(kSkipNeutralTerms,
                     fmt::format(R"(func f(x: float32[8], w: float32[3]) -> (y: float32[8]) {{
  for i in 0..8 {{
    y[i] = 0.0
    y[i] = y[i] + {}
  }}
}}
)",
                                 term));
}

TEST(SkipNeutralTerms, LanesAreNotTestedOneByOne) {
  expect_unchanged(kSkipNeutralTerms, R"(func f(x: float32[8]) -> (y: float32[8]) {
  for i in 0..8 vectorized {
    y[i] = 0.0
    y[i] = y[i] + select(0 < i, x[i], 0.0)
  }
}
)");
}

}  // namespace
}  // namespace lathe::tir
