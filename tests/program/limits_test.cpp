// Long loops, long lists, cycles: in bounded stack and memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "core/relay/text.h"
#include "tests/program/compiled.h"

namespace lathe::program {
namespace {

std::string value_of(const std::string& text) { return Compiled(relay::parse_module(text, "t")).value(); }

TEST(Limits, AMillionStepsInTailPosition) {
  Compiled loop(relay::parse_module(R"(
    def @loop(%n: int32, %sum: int64) -> int64 {
      if (%n == 0) { %sum } else { @loop(%n - 1, %sum + cast(%n, dtype="int64")) }
    }
    def @main() { @loop(1000000, 0i64) })"));
  EXPECT_EQ(loop.value(), "500000500000i64");
  // Numbers are in registers.
  EXPECT_EQ(loop.machine().heap().held_bytes(), 0);
}

TEST(Limits, AMillionMutualCalls) {
  EXPECT_EQ(value_of(R"(
    def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
    def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
    def @main() { @even(1000000) })"),
            "True");
}

TEST(Limits, AListOfAMillionCells) {
  Compiled folds(relay::parse_module(R"(
    import "list"
    def @upto(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @upto(%n - 1, Cons(%n, %l)) } }
    def @main() {
      let %l = @upto(1000000, Nil);
      (@foldl(add, 0, %l), @foldr(add, 0, @map(fn (%x: int32) { %x * 2 }, %l)))
    })"));
  const int64_t before = folds.machine().heap().used_bytes();
  EXPECT_EQ(folds.value(), "(1784293664, -726379968)");
  EXPECT_EQ(folds.machine().heap().used_bytes(), before);
}

TEST(Limits, ALoopOfTensorsAllocatesOnce) {
  Compiled loop(relay::parse_module(R"(
    def @loop(%n: int32, %x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      if (%n == 0) { %x } else { @loop(%n - 1, %x + 1f) }
    }
    def @main() { @loop(100000, zeros(shape=[64], dtype="float32")) })"));
  loop.value();
  const int64_t held = loop.machine().heap().held_bytes();
  loop.value();
  EXPECT_EQ(loop.machine().heap().held_bytes(), held);
  EXPECT_LT(held, 1 << 20);
}

TEST(Limits, CyclesThroughReferencesAreFreed) {
  // Each step makes a cell that holds itself.
  Compiled cycles(relay::parse_module(R"(
    type Knot { Tied(ref(Knot)), Loose }
    def @loop(%n: int32) -> int32 {
      if (%n == 0) { 7 } else {
        let %r = ref(Loose);
        %r := Tied(%r);
        @loop(%n - 1)
      }
    }
    def @main() { @loop(300000) })"));
  EXPECT_EQ(cycles.value(), "7");
  EXPECT_EQ(cycles.machine().heap().used_bytes(), 0);
  // Two or three thousand of them at a time.
  EXPECT_LT(cycles.machine().heap().held_bytes(), 2 << 20);
}

TEST(Limits, RecursionWithoutEndIsAnError) {
  Compiled endless(relay::parse_module(R"(
    def @f(%n: int32) -> int32 { @f(%n + 1) + 1 }
    def @main() { @f(0) })"));
  try {
    endless.value();
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "calls nest more than 10000000 deep");
  }
}

}  // namespace
}  // namespace lathe::program
