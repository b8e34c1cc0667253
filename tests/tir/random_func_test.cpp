#include "tests/tir/random_func.h"

#include <gtest/gtest.h>

#include <set>

#include "core/tir/text.h"

namespace lathe::tir {
namespace {

TEST(RandomFunc, RunsAndIsDeterministic) {
  std::set<std::string> kinds;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Func func = random_func(seed);
    SCOPED_TRACE(print(func));
    ASSERT_EQ(print(func), print(random_func(seed)));
    ASSERT_EQ(output_difference(func, random_func(seed)), 0);
    post_order(func, [&](const NodeRef& node) {
      if (const Block* block = node.as<Block>()) kinds.insert(block->name.substr(0, block->name.find('_')));
    });
  }
  // The generator reaches every kind of stage.
  for (const char* kind :
       {"map", "transpose", "pad", "conv", "pool", "sum", "dense", "split", "flatten", "add"})
    EXPECT_TRUE(kinds.count(kind)) << kind;
}

TEST(RandomFunc, OutputDifferenceSeesDifferences) {
  FuncBuilder f, g;
  Buffer a = f.input("a", {4}, kFloat32), b = g.input("a", {4}, kFloat32);
  Func one = f.finish("f", {f.compute("o", {4}, [&](Vars i) { return load(a, {i[0]}); })});
  Func two =
      g.finish("f", {g.compute("o", {4}, [&](Vars i) { return load(b, {i[0]}) * fimm(kFloat32, 1.5); })});
  EXPECT_NEAR(output_difference(two, one), 0.5, 1e-6);
}

}  // namespace
}  // namespace lathe::tir
