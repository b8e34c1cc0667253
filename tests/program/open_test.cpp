// Programs whose dimensions are known when they run: their values, their errors, and what they keep.
#include <gtest/gtest.h>

#include <cmath>

#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "core/runtime/plan_dims.h"
#include "tests/program/compiled.h"
#include "tests/thrown_by.h"

namespace lathe::program {
namespace {

/// The value of main by native code and by the virtual machine, which must be one; or the error.
std::string value(const std::string& text) {
  Compiled compiled(relay::parse_module(text, "t"));
  std::string values[2];
  for (runtime::Machine* machine : {&compiled.machine(), &compiled.virtual_machine()}) {
    const int64_t before = machine->heap().used_bytes();
    std::string& found = values[machine == &compiled.machine()];
    try {
      found = compiled.value(*machine);
    } catch (const Error& error) {
      found = error.what();
    }
    EXPECT_EQ(machine->heap().used_bytes(), before) << found;
  }
  EXPECT_EQ(values[0], values[1]) << runtime::program_text(compiled.program());
  return values[0];
}

TEST(OpenPrograms, OneFunctionAtManySizes) {
  EXPECT_EQ(value(R"(
    def @twice(%x: Tensor[(n, 2), int32]) { (sum(%x * 2), extent(%x)) }
    def @main() { (@twice(ones(shape=[3, 2], dtype="int32")), @twice(ones(shape=[0, 2], dtype="int32"))) })"),
            "((12, 3i64), (0, 0i64))");
}

TEST(OpenPrograms, SizesOfOneDimensionAreEqual) {
  const std::string turned = R"(
    def @turned(%x: Tensor[(n), int32]) {
      %x * 10 + concatenate((strided_slice(%x, begin=[1], end=[2147483647], strides=[1]), [7]))
    }
    def @main() { @turned(arange_like(zeros_of(%d), dtype="int32")) })";
  auto of = [&](const char* n) {
    std::string text = turned;
    return value(text.replace(text.find("%d"), 2, n));
  };
  EXPECT_EQ(of("1"), "[7]");
  EXPECT_EQ(of("4"), "[1, 12, 23, 37]");
  EXPECT_EQ(of("0"), "t:3:10: error: the model needs n = max(0, n - 1) + 1, which does not hold for n = 0");
}

/// The kernel gets a size that no shape tells alone, max(m, p) of the room.
TEST(OpenPrograms, SizesThatStandInExpressionsOnly) {
  EXPECT_EQ(value(R"relay(
    def @joined(%n: int64, %x: Tensor[(p), int32], %y: Tensor[(s), int32]) {
      let %z = match_cast(zeros_of(%n), Tensor[(m), bool]);
      let %room = zeros_by(%z, %x, shape="(max(d0, d1))", dtype="bool");
      (arange_like(%room, dtype="int32") * 10 + concatenate((%x, %y)), sum(cast(%room, dtype="int32")))
    }
    def @main() { (@joined(5i64, [1, 2], [3, 4, 5]), @joined(3i64, [1], [3, 4])) })relay"),
            "(([1, 12, 23, 34, 45], 0), ([1, 13, 24], 0))");
}

/// What a convolution demands of the channels is a number in its kernels, though another branch takes others.
TEST(OpenPrograms, ABranchThatDemandsANumber) {
  const std::string text = R"(
    def @f(%c: bool, %x: Tensor[(n, k, 7, m), float32]) {
      if (%c) {
        let %w = ones(shape=[3, 1, 1, 1], dtype="float32");
        sum(nn.conv2d(%x, %w, strides=[3, 2], padding=[0, 2, 2, 1], groups=3, channels=3, kernel_size=[1, 1]))
      } else { sum(%x) }
    }
    def @main() { )";
  const std::string three = R"(@f(True, ones(shape=[9, 3, 7, 1], dtype="float32")))",
                    one = R"(@f(False, ones(shape=[2, 1, 7, 1], dtype="float32")))",
                    wrong = R"(@f(True, ones(shape=[2, 1, 7, 1], dtype="float32")))";
  EXPECT_EQ(value(text + "(" + three + ", " + one + ") }"), "(81f, 14f)");
  EXPECT_NE(value(text + wrong + " }").find("a tensor of shape (2, 1, 7, 1) where (n, 3, 7, m) is expected"),
            std::string::npos);
}

TEST(OpenPrograms, TheLargestOfNone) {
  const std::string text = R"(
    def @at(%x: Tensor[(n), int32]) { argmax(%x, axis=[0]) }
    def @main() { @at(arange_like(zeros_of(%d), dtype="int32")) })";
  auto of = [&](const char* n) {
    std::string at = text;
    return value(at.replace(at.find("%d"), 2, n));
  };
  EXPECT_EQ(of("3"), "2");
  EXPECT_EQ(of("0"), "t:2:39: error: the model needs n = max(n, 1), which does not hold for n = 0");
}

TEST(OpenPrograms, APartBehindTheEnd) {
  EXPECT_EQ(value(R"(
    def @f(%x: Tensor[(n), int32]) { split(%x, indices_or_sections=[2i64]) }
    def @main() { @f(match_cast(first_rows([1, 2, 3], ref_read(ref(1i64))), Tensor[(?), int32])) })"),
            "t:2:38: error: the model needs n = max(n, 2), which does not hold for n = 1");
}

// What is no copy at sizes that are known is none beside others that are not.
TEST(OpenPrograms, ARowOfWhatIsComputed) {
  EXPECT_EQ(
      value(R"(
    def @f(%x: Tensor[(4, 16), int32], %y: Tensor[(n), int32]) {
      let %z = negative(%x);
      (take(%z, 1, axis=0), sum(%z), sum(take(%z, 3, axis=0)), sum(%y))
    }
    def @main() { @f(reshape(arange(0, 64, 1, dtype="int32"), newshape=[4, 16]), ones(shape=[3], dtype="int32")) })"),
      "([-16, -17, -18, -19, -20, -21, -22, -23, -24, -25, -26, -27, -28, -29, -30, -31], -2016, -888, 3)");
}

TEST(OpenPrograms, AVectorThatGrowsInALoop) {
  const std::string grow = R"(
    def @grow(%i: int32, %x: Tensor[(?), int32]) -> Tensor[(?), int32] {
      if (%i == 0) { %x } else { @grow(%i - 1, concatenate((%x, reshape_to(%i, 1)))) }
    }
    def @main() { let %x = @grow(%d, [7]); (sum(%x), extent(%x)) })";
  auto times = [&](const char* n) {
    std::string text = grow;
    return value(text.replace(text.find("%d"), 2, n));
  };
  EXPECT_EQ(times("0"), "(7, 1i64)");
  EXPECT_EQ(times("3"), "(13, 4i64)");
  EXPECT_EQ(times("2000"), "(2001007, 2001i64)");
}

TEST(OpenPrograms, RecursionOverTensorsOfManyLengths) {
  EXPECT_EQ(value(R"(
    import "list"
    def @lengths(%n: int64) -> List[Tensor[(?), int32]] {
      if (%n == 0i64) { Nil } else { Cons(arange_like(zeros_of(%n), dtype="int32"), @lengths(%n - 1i64)) }
    }
    def @main() { @foldl(fn (%sum: int32, %x: Tensor[(n), int32]) { %sum + sum(%x) }, 0, @lengths(5i64)) })"),
            "20");
}

TEST(OpenPrograms, AClosureKeepsADimension) {
  const std::string text = R"(
    def @sized(%x: Tensor[(n), int32]) { fn (%y: Tensor[(?), int32]) { match_cast(%y, Tensor[(n), int32]) + %x } }
    def @main() { let %f = @sized([1, 2]); %f(first_rows([5, 6, 7], %c)) })";
  auto with = [&](const char* count) {
    std::string program = text;
    return value(program.replace(program.find("%c"), 2, count));
  };
  EXPECT_EQ(with("1 + 1"), "[6, 8]");
  EXPECT_EQ(with("1 + 2"), "t:2:72: error: the shape is (3), (2) is expected");
}

TEST(OpenPrograms, WhatDoesNotFitSaysSo) {
  EXPECT_EQ(value(R"(
    def @f(%x: Tensor[(2, n), float32], %w: Tensor[(3, m), float32]) { nn.dense(%x, %w) }
    def @main() { @f([[1f], [1f]], [[1f, 2f], [1f, 2f], [1f, 2f]]) })"),
            "t:2:72: error: the model needs n = m, which does not hold for n = 1, m = 2");
  EXPECT_EQ(value(R"(
    def @f(%x: Tensor[(n), int32], %y: Tensor[(m), int32]) { %x + %y }
    def @main() { @f([1, 2], [3, 4, 5]) })"),
            "t:2:65: error: a tensor of shape (3) where (m) is expected");
  EXPECT_EQ(value(R"(
    def @main() { let %n = 1; first_rows([1, 2], %n + 2) })"),
            "t:2:31: error: first_rows: 3 rows of (2)");
  EXPECT_EQ(value(R"(
    def @main() { let %n = 1; zeros_of(%n - 2) })"),
            "t:2:31: error: zeros_of: a size is -1, must be at least 0");
}

TEST(OpenPrograms, OneOfTwoDimensionsMayBeOne) {
  const std::string add = "def @f(%x: Tensor[(n), int32], %y: Tensor[(m), int32]) { %x + %y * 2 + 1 }\n";
  EXPECT_EQ(
      value(add + "def @main() { (@f([1, 2], [3, 4]), @f([1], [3, 4]), @f([1, 2], [3]), @f([1], [3])) }"),
      "([8, 11], [8, 10], [8, 9], [8])");
  const std::string to = "def @f(%x: Tensor[(n), int32]) { %x + [1, 2, 3] }\n";
  EXPECT_EQ(value(to + "def @main() { (@f([1, 2, 3]), @f([5])) }"), "([2, 4, 6], [6, 7, 8])");
  EXPECT_EQ(value(to + "def @main() { @f([5, 6]) }"),
            "t:1:37: error: a tensor of shape (2) where (3) is expected");
}

/// Both have grown by rows, so that no parameter has either length by itself.
TEST(OpenPrograms, OneOfTwoLongerDimensionsMayBeOne) {
  const std::string add = R"(
    def @f(%x: Tensor[(n), int32], %y: Tensor[(m), int32]) { concatenate((%x, [7])) * concatenate(([1], %y)) }
    def @g(%x: Tensor[(n), int32], %y: Tensor[(m), int32]) { concatenate((%x, [7, 8])) - %y }
    def @none() { first_rows([1], 0) }
  )";
  EXPECT_EQ(value(add + "def @main() { (@f([1, 2], [3, 4]), @f(@none(), [3, 4]), @f([1, 2], @none()), "
                        "@f(@none(), @none())) }"),
            "([1, 6, 28], [7, 21, 28], [1, 2, 7], [7])");
  EXPECT_EQ(value(add + "def @main() { (@g([1], [3, 4, 5]), @g(@none(), [1, 2]), @g(@none(), [3])) }"),
            "([-2, 3, 3], [6, 6], [4, 5])");
  EXPECT_NE(value(add + "def @main() { @f([1, 2], [3]) }").find("is expected"), std::string::npos);
}

/// A module runs at the sizes of its inputs, and gives outputs of sizes that their values say.
/// Each of three pairs has three cases.
TEST(OpenPrograms, EachOfThreePairsOfDimensionsMayBeOne) {
  EXPECT_EQ(value(R"(
    def @sum(%x: Tensor[(a, b, c), int32], %y: Tensor[(g, h, i), int32]) { sum(%x + %y) }
    def @main() {
      (@sum(ones(shape=[1, 2, 1], dtype="int32"), ones(shape=[3, 1, 2], dtype="int32")),
       @sum(ones(shape=[2, 2, 2], dtype="int32"), ones(shape=[2, 2, 2], dtype="int32")))
    })"),
            "(24, 16)");
}

TEST(OpenPrograms, AModuleOfAnySize) {
  const relay::Module module = relay::parse_module(R"(
    def @loop(%i: int32, %x: Tensor[(n), float32]) -> Tensor[(n), float32] {
      if (%i <= 0) { %x } else { @loop(%i - 1, %x * 2f) }
    }
    def @main(%i: int32, %x: Tensor[(n), float32], %count: int64) {
      (@loop(%i, %x), match_cast(first_rows(%x, %count), Tensor[(k), float32]), concatenate((%x, %x)))
    })");
  runtime::Executor executor(
      runtime::Module::from_image(tuner::compile_model(module, codegen::host_target())),
      runtime::serial_parallel());
  EXPECT_TRUE(has_open_inputs(executor.plan()));
  auto run = [&](int64_t length, int64_t count) {
    Tensor x = full({length}, kFloat32, 3);
    executor.set_input(0, full({}, kInt32, 2));
    executor.set_input(1, x);
    executor.set_input(2, full({}, kInt64, static_cast<double>(count)));
    executor.run();
    EXPECT_EQ(executor.output(0).shape(), std::vector{length});
    EXPECT_EQ(executor.output(1).shape(), std::vector{count});
    EXPECT_EQ(executor.output(2).shape(), std::vector{2 * length});
    for (int64_t i = 0; i < length; ++i) EXPECT_EQ(executor.output(0).value(i), 12);
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(executor.output(1).value(i), 3);
  };
  run(5, 2);
  run(5, 5);
  run(1000, 0);
  run(0, 0);
  run(5, 2);
  Tensor bound({2}, kFloat32);
  executor.set_output(1, bound);
  executor.run();
  EXPECT_EQ(bound.value(1), 3);
  executor.set_input(2, full({}, kInt64, 3));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "output `output_1` is float32 (2), must be float32 (3)");
  executor.set_output(1, Tensor());
  executor.set_input(2, full({}, kInt64, 6));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "<text>:6:34: error: first_rows: 6 rows of (5)");
}

/// No program but for the sum of two lengths, of which one may be 1.
TEST(OpenPrograms, AGraphWhoseSizesOnlyARunTells) {
  const relay::Module module = relay::parse_module(R"(
    def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(m, 2), float32]) {
      concatenate((tanh(%x + %y), %x), axis=0)
    })");
  runtime::Executor executor(
      runtime::Module::from_image(tuner::compile_model(module, codegen::host_target())),
      runtime::serial_parallel());
  auto rows = [&](int64_t n, int64_t m) {
    executor.set_input(0, full({n, 2}, kFloat32, 0.5));
    executor.set_input(1, full({m, 2}, kFloat32, 1));
    executor.run();
    EXPECT_NEAR(executor.output(0).value(0), std::tanh(1.5), 1e-6);
    return executor.output(0).shape()[0];
  };
  EXPECT_EQ(rows(3, 3), 6);
  EXPECT_EQ(rows(3, 1), 6);
  EXPECT_EQ(rows(1, 4), 5);
  EXPECT_EQ(rows(1, 1), 2);
  EXPECT_NE(thrown_by([&] { rows(3, 2); }), "no error");
}

/// As the interpreter takes it.
TEST(OpenPrograms, ASizeThatIsOneOrANumber) {
  const relay::Module module = relay::parse_module(R"(
    def @main(%x: Tensor[(n, 2), float32], %y: Tensor[(4, 2), float32]) {
      concatenate((tanh(%x + %y), %x), axis=0)
    })");
  runtime::Executor executor(
      runtime::Module::from_image(tuner::compile_model(module, codegen::host_target())),
      runtime::serial_parallel());
  executor.set_input(1, full({4, 2}, kFloat32, 1));
  auto rows = [&](int64_t n) {
    executor.set_input(0, full({n, 2}, kFloat32, 0.5));
    executor.run();
    EXPECT_NEAR(executor.output(0).value(7), std::tanh(1.5), 1e-6);
    return executor.output(0).shape()[0];
  };
  EXPECT_EQ(rows(4), 8);
  EXPECT_EQ(rows(1), 5);
  EXPECT_NE(thrown_by([&] { rows(3); }), "no error");
}

/// Types that cannot hold where a size is 1 refuse the runs in which it is, not the program.
TEST(OpenPrograms, ACaseWhoseTypesCannotHold) {
  const std::string text = R"(
    def @f(%x: Tensor[(n), int32], %y: Tensor[(m), int32]) { (%x + %y, reshape(%x, newshape=[2, 2])) }
    def @main() {
      @f(arange_like(zeros_of(%n), dtype="int32"), arange_like(zeros_of(%m), dtype="int32"))
    })";
  auto of = [&](const char* n, const char* m) {
    std::string at = text;
    at.replace(at.find("%n)"), 2, n);
    return value(at.replace(at.find("%m)"), 2, m));
  };
  EXPECT_EQ(of("4i64", "4i64"), "([0, 2, 4, 6], [[0, 1], [2, 3]])");
  EXPECT_EQ(of("4i64", "1i64"), "([0, 1, 2, 3], [[0, 1], [2, 3]])");
  EXPECT_EQ(of("1i64", "4i64"), "t:2:72: error: reshape: shape (1) has 1 elements, (2, 2) has 4");
}

/// Sizes that never come again leave nothing.
TEST(OpenPrograms, ManySizesInBoundedMemory) {
  Compiled compiled(relay::parse_module(R"(
    def @loop(%i: int32, %n: int64, %sum: int64) -> int64 {
      if (%i == 0) { %sum } else {
        let %x = match_cast(zeros_of(%n, dtype="int64"), Tensor[(k), int64]);
        @loop(%i - 1, floor_mod(%n * 7i64 + 3i64, 101i64), %sum + sum(%x + 1i64))
      }
    }
    def @main() { @loop(20000, 5i64, 0i64) })"));
  for (runtime::Machine* machine : {&compiled.machine(), &compiled.virtual_machine()}) {
    const std::string first = compiled.value(*machine);
    const int64_t held = machine->heap().held_bytes();
    EXPECT_EQ(compiled.value(*machine), first);
    EXPECT_EQ(machine->heap().held_bytes(), held);
    EXPECT_LT(held, 1 << 20);
  }
}

}  // namespace
}  // namespace lathe::program
