// Long loops, long lists, cycles: in bounded stack and memory.
#include <gtest/gtest.h>

#include <optional>

#include "core/relay/text.h"
#include "tests/program/compiled.h"

namespace lathe::program {
namespace {

enum class By { kNative, kHastyNative, kVirtualMachine };

/// The program beside more instructions than LLVM is asked to optimize.
std::string with_padding(std::string text) {
  text.replace(text.find("@main("), 5, "@rest");
  text += "\ndef @padding(%n: int32) -> int32 {\n  let %v0 = %n;\n";
  for (int i = 0; i < 1200; ++i)
    text += fmt::format("let %v{0} = if (%v{1} == {0}) {{ %v{1} * 3 }} else {{ %v{1} + 1 }};\n", i + 1, i);
  return text + "  %v1200\n}\ndef @main() { if (@padding(5) == 0) { @rest() } else { @rest() } }";
}

/// Each test by native code of both kinds and by the virtual machine.
class Limits : public testing::TestWithParam<By> {
 protected:
  runtime::Machine& compile(const std::string& text) {
    const bool hasty = GetParam() == By::kHastyNative;
    compiled_.emplace(relay::parse_module(hasty ? with_padding(text) : text, "t"));
    size_t instructions = 0;
    for (const auto& function : compiled_->program().functions) instructions += function.code.size();
    EXPECT_EQ(instructions > 3000, hasty);
    return GetParam() == By::kVirtualMachine ? compiled_->virtual_machine() : compiled_->machine();
  }
  std::string value(runtime::Machine& machine) const { return compiled_->value(machine); }

 private:
  std::optional<Compiled> compiled_;
};
INSTANTIATE_TEST_SUITE_P(By, Limits, testing::Values(By::kNative, By::kHastyNative, By::kVirtualMachine),
                         [](const auto& info) {
                           return info.param == By::kNative        ? "NativeCode"
                                  : info.param == By::kHastyNative ? "HastyNativeCode"
                                                                   : "VirtualMachine";
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

TEST_P(Limits, EightyValuesWaitForACall) {
  std::string lets, sum = "%rest";
  for (int k = 0; k < 80; ++k) {
    lets += fmt::format("let %v{0} = %n + {0}; ", k);
    sum += fmt::format(" + %v{}", k);
  }
  const std::string text = fmt::format(R"(
    def @sums(%n: int32) -> int32 {{
      if (%n == 0) {{ 0 }} else {{ {} let %rest = @sums(%n - 1); {} }}
    }}
    def @main() {{ @sums(100) }})",
                                       lets, sum);
  EXPECT_EQ(value(compile(text)), "720000");
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

TEST_P(Limits, ALoopThatWritesARowAStepHoldsThemOnce) {
  // 4 MB, each row of which is written in place.
  runtime::Machine& loop = compile(R"(
    def @loop(%n: int64, %x: Tensor[(1000, 1000), float32]) -> Tensor[(1000, 1000), float32] {
      if (%n == 1000i64) { %x } else {
        let %row = broadcast_to(reshape(cast(%n, dtype="float32"), newshape=[1, 1]), shape=[1, 1000]);
        @loop(%n + 1i64, scatter_nd(%x, reshape(%n, newshape=[1, 1]), %row, mode="update"))
      }
    }
    def @main() { max(@loop(0i64, zeros(shape=[1000, 1000], dtype="float32"))) })");
  EXPECT_EQ(value(loop), "999f");
  EXPECT_LT(loop.heap().held_bytes(), 6 << 20);
}

TEST_P(Limits, WhatIsStillNeededIsNotWrittenOver) {
  EXPECT_EQ(
      value(compile(R"(
    def @put(%x: Tensor[(n), float32], %at: int64, %by: float32) {
      scatter_nd(%x, reshape(%at, newshape=[1, 1]), reshape(%by, newshape=[1]), mode="update")
    }
    def @from(%x: Tensor[(4), float32], %n: int64) -> Tensor[(4), float32] {
      if (%n == 4i64) { %x } else { @from(@put(%x, %n, 1f) * 2f, %n + 1i64) }
    }
    def @main() {
      let %x = @from([0f, 0f, 0f, 0f], 1i64);
      let %y = @put(%x, 0i64, 7f);
      let %both = (%y, reshape(%y, newshape=[2, 2]));
      let %z = @put(%y, 1i64, 9f);
      (%x, %both, %z, scatter_elements(%z, [0i64, 1i64, 2i64, 3i64], %z, axis=0, reduction="add"))
    })")),
      "([0f, 8f, 4f, 2f], ([7f, 8f, 4f, 2f], [[7f, 8f], [4f, 2f]]), [7f, 9f, 4f, 2f], [14f, 18f, 8f, 4f])");
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

// One way back over the code, with as many sets of registers as branches nest; no pass of LLVM that looks at
// all branches for each. A test that takes minutes has found that it is not so.
TEST_P(Limits, FiveThousandBranchesInARow) {
  if (GetParam() == By::kNative) GTEST_SKIP() << "so many are compiled hastily";
  std::string text = "def @main() -> int32 {\n  let %r = ref(1);\n";
  for (int i = 0; i < 5000; ++i)
    text += fmt::format("let %u{0} = %r := if (!%r == {1}) {{ !%r + 2 }} else {{ !%r + 1 }};\n", i, i + 1);
  Compiled compiled(relay::parse_module(text + "!%r }", "t"));
  const bool native = GetParam() == By::kHastyNative;
  EXPECT_EQ(compiled.value(native ? compiled.machine() : compiled.virtual_machine()), "5002");
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
