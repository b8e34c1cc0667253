// Long loops, long lists, cycles: in bounded stack and memory.
#include <gtest/gtest.h>

#include <optional>

#include "core/relay/text.h"
#include "tests/program/compiled.h"

namespace lathe::program {
namespace {

/// Each test by native code and by the virtual machine.
class Limits : public testing::TestWithParam<runtime::RunBy> {
 protected:
  runtime::Machine& compile(const std::string& text) {
    compiled_.emplace(relay::parse_module(text, "t"));
    return GetParam() == runtime::RunBy::kBest ? compiled_->machine() : compiled_->virtual_machine();
  }
  std::string value(runtime::Machine& machine) const { return compiled_->value(machine); }

 private:
  std::optional<Compiled> compiled_;
};
INSTANTIATE_TEST_SUITE_P(By, Limits, testing::Values(runtime::RunBy::kBest, runtime::RunBy::kInstructions),
                         [](const auto& info) {
                           return info.param == runtime::RunBy::kBest ? "NativeCode" : "VirtualMachine";
                         });

TEST_P(Limits, AMillionStepsInTailPosition) {
  runtime::Machine& loop = compile(R"(
    def @loop(%n: int32, %sum: int64) -> int64 {
      if (%n == 0) { %sum } else { @loop(%n - 1, %sum + cast(%n, dtype="int64")) }
    }
    def @main() { @loop(1000000, 0i64) })");
  EXPECT_EQ(value(loop), "500000500000i64");
  // Numbers are in registers.
  EXPECT_EQ(loop.heap().held_bytes(), 0);
}

TEST_P(Limits, AMillionMutualCalls) {
  EXPECT_EQ(value(compile(R"(
    def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
    def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
    def @main() { @even(1000000) })")),
            "True");
}

TEST_P(Limits, AListOfAMillionCells) {
  runtime::Machine& folds = compile(R"(
    import "list"
    def @upto(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @upto(%n - 1, Cons(%n, %l)) } }
    def @main() {
      let %l = @upto(1000000, Nil);
      (@foldl(add, 0, %l), @foldr(add, 0, @map(fn (%x: int32) { %x * 2 }, %l)))
    })");
  const int64_t before = folds.heap().used_bytes();
  EXPECT_EQ(value(folds), "(1784293664, -726379968)");
  EXPECT_EQ(folds.heap().used_bytes(), before);
}

TEST_P(Limits, ALoopOfTensorsAllocatesOnce) {
  runtime::Machine& loop = compile(R"(
    def @loop(%n: int32, %x: Tensor[(64), float32]) -> Tensor[(64), float32] {
      if (%n == 0) { %x } else { @loop(%n - 1, %x + 1f) }
    }
    def @main() { @loop(100000, zeros(shape=[64], dtype="float32")) })");
  value(loop);
  const int64_t held = loop.heap().held_bytes();
  value(loop);
  EXPECT_EQ(loop.heap().held_bytes(), held);
  EXPECT_LT(held, 1 << 20);
}

TEST_P(Limits, CyclesThroughReferencesAreFreed) {
  // Each step makes a cell that holds itself.
  runtime::Machine& cycles = compile(R"(
    type Knot { Tied(ref(Knot)), Loose }
    def @loop(%n: int32) -> int32 {
      if (%n == 0) { 7 } else {
        let %r = ref(Loose);
        %r := Tied(%r);
        @loop(%n - 1)
      }
    }
    def @main() { @loop(300000) })");
  EXPECT_EQ(value(cycles), "7");
  EXPECT_EQ(cycles.heap().used_bytes(), 0);
  // Two or three thousand of them at a time.
  EXPECT_LT(cycles.heap().held_bytes(), 2 << 20);
}

TEST_P(Limits, RecursionWithoutEndIsAnError) {
  runtime::Machine& endless = compile(R"(
    def @f(%n: int32) -> int32 { @f(%n + 1) + 1 }
    def @main() { @f(0) })");
  try {
    value(endless);
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "calls nest more than 10000000 deep");
  }
}

}  // namespace
}  // namespace lathe::program
