#include "core/tir/interpret.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tir/builder.h"
#include "tests/thrown_by.h"

namespace lathe::tir {
namespace {

std::string error_of(const Func& func, std::vector<Tensor> params) {
  return thrown_by([&] { interpret(func, params); });
}

TEST(Interpret, MatrixProductOfSymbolicSize) {
  FuncBuilder f;
  Var m = var("m"), k = var("k");
  Buffer a = f.input("a", {m, k}, kFloat32), b = f.input("b", {3, k}, kFloat32);
  Buffer c = f.reduce("dense", {m, 3}, {k}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(a, {i[0], r[0]}) * load(b, {i[1], r[0]});
  });
  Func dense = f.finish("dense", {c});
  Tensor x = random_tensor({5, 7}, kFloat32, 1), y = random_tensor({3, 7}, kFloat32, 2),
         z = zeros({5, 3}, kFloat32);
  interpret(dense, std::vector{x, y, z});
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 3; ++j) {
      float sum = 0;
      for (int r = 0; r < 7; ++r) sum += x.as<float>()[i * 7 + r] * y.as<float>()[j * 7 + r];
      EXPECT_EQ(z.as<float>()[i * 3 + j], sum);  // float32 sums, in order
    }
  }
  EXPECT_EQ(error_of(dense, {x, zeros({3, 6}, kFloat32), z}), "interpret: dimension 1 of b is 7, got (3, 6)");
  EXPECT_EQ(error_of(dense, {x, y}), "interpret: dense takes 3 tensors, got 2");
  EXPECT_EQ(error_of(dense, {x, zeros({3, 7}, kInt32), z}),
            "interpret: b is float32 of rank 2, got int32 (3, 7)");
}

/// The program that stores `value` to out[0].
Tensor value_of(const Expr& value) {
  Buffer out = buffer("out", {1}, value.dtype().element());
  Func func = make<FuncNode>("f", std::vector<Buffer>{out}, int64_t{1}, store(out, {0}, value));
  Tensor result({1}, out->dtype);
  interpret(func, std::vector{result});
  return result;
}

TEST(Interpret, IntegersWrapAndDivideAsTheyShould) {
  auto raw = [](BinaryOp op, DataType t, int64_t a, int64_t b) {
    return value_of(make<Binary>(op, imm(t, a), imm(t, b), t)).integer(0);
  };
  EXPECT_EQ(raw(BinaryOp::kAdd, kInt8, 127, 1), -128);
  EXPECT_EQ(raw(BinaryOp::kMul, kUInt8, 16, 17), 16);
  EXPECT_EQ(raw(BinaryOp::kSub, kUInt32, 0, 1), 0xffffffff);
  EXPECT_EQ(raw(BinaryOp::kDiv, kInt32, -7, 2), -3);
  EXPECT_EQ(raw(BinaryOp::kMod, kInt32, -7, 2), -1);
  EXPECT_EQ(raw(BinaryOp::kFloorDiv, kInt32, -7, 2), -4);
  EXPECT_EQ(raw(BinaryOp::kFloorMod, kInt32, -7, 2), 1);
  EXPECT_EQ(raw(BinaryOp::kFloorMod, kInt32, 7, -2), -1);
  EXPECT_EQ(raw(BinaryOp::kDiv, kInt32, INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(raw(BinaryOp::kFloorDiv, kInt64, INT64_MIN, -1), INT64_MIN);
  for (BinaryOp op : {BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFloorDiv, BinaryOp::kFloorMod})
    EXPECT_EQ(raw(op, kInt32, 7, 0), 0) << spelling(op);
  EXPECT_EQ(raw(BinaryOp::kShiftRight, kInt8, -128, 1), -64);
  EXPECT_EQ(raw(BinaryOp::kShiftRight, kUInt8, 128, 1), 64);
  EXPECT_EQ(raw(BinaryOp::kShiftLeft, kUInt8, 129, 1), 2);
  EXPECT_EQ(raw(BinaryOp::kMax, kUInt64, -1, 1), -1);  // all ones, the largest
  EXPECT_EQ(raw(BinaryOp::kPow, kInt32, 3, 4), 81);
  EXPECT_EQ(value_of(cast(kFloat64, imm(kUInt64, -1))).value(0), 0x1p64);
  // Above the middle between two numbers of float32, which float64 would take for the middle.
  const int64_t middle = (int64_t{1} << 54) + (int64_t{1} << 30);
  EXPECT_EQ(value_of(make<Cast>(imm(kInt64, middle + 1), kFloat32)).value(0), 0x1p54 + 0x1p31);
}

TEST(Interpret, FloatsBeyondAnIntegerTypeBecomeItsNearest) {
  auto as = [](DataType type, double x) { return value_of(make<Cast>(fimm(kFloat64, x), type)).integer(0); };
  EXPECT_EQ(as(kInt8, 300), 127);
  EXPECT_EQ(as(kInt8, -128.9), -128);
  EXPECT_EQ(as(kUInt8, 255.9), 255);
  EXPECT_EQ(as(kUInt8, -1), 0);
  EXPECT_EQ(as(kInt32, 2147483647.5), INT32_MAX);
  EXPECT_EQ(as(kInt64, 0x1p63), INT64_MAX);
  EXPECT_EQ(as(kInt64, -INFINITY), INT64_MIN);
  EXPECT_EQ(as(kUInt64, 0x1p63), INT64_MIN);  // its bits
  EXPECT_EQ(as(kUInt64, INFINITY), -1);
  EXPECT_EQ(as(kInt16, NAN), 0);
}

TEST(Interpret, FloatsRoundToTheirType) {
  auto sum = [](DataType t, double a, double b) { return value_of(fimm(t, a) + fimm(t, b)).value(0); };
  EXPECT_EQ(sum(kFloat16, 2048, 1), 2048);
  EXPECT_EQ(sum(kBFloat16, 256, 1), 256);
  EXPECT_EQ(sum(kFloat32, 16777216, 1), 16777216);
  EXPECT_EQ(sum(kFloat64, 16777216, 1), 16777217);
  EXPECT_EQ(value_of(cast(kInt32, fimm(kFloat32, -2.7))).integer(0), -2);
  EXPECT_EQ(value_of(cast(kInt32, fimm(kFloat32, NAN))).integer(0), 0);
  EXPECT_EQ(value_of(cast(kBool, fimm(kFloat32, 0.5))).integer(0), 1);
  EXPECT_EQ(value_of(intrinsic(Intrinsic::kRound, fimm(kFloat32, 2.5))).value(0), 2);
  EXPECT_EQ(value_of(intrinsic(Intrinsic::kSigmoid, fimm(kFloat32, 0))).value(0), 0.5);
  EXPECT_TRUE(std::isnan(value_of(max(fimm(kFloat32, NAN), fimm(kFloat32, 1))).value(0)));
  EXPECT_EQ(value_of(intrinsic(Intrinsic::kPopcount, imm(kInt8, -1))).integer(0), 8);
  EXPECT_EQ(value_of(intrinsic(Intrinsic::kAbs, imm(kInt8, -128))).integer(0), -128);
}

TEST(Interpret, VectorsAreReadBeforeTheyAreWritten) {
  // a[1..4] = a[0..3]: every lane sees the old values.
  Buffer in = buffer("in", {8}, kFloat32), a = buffer("a", {8}, kFloat32);
  Expr lanes = ramp(0, 1, 8);
  Stmt copy = store(a, {lanes}, load(in, {lanes}));
  Stmt shift = store(a, {ramp(1, 1, 4)}, load(a, {ramp(0, 1, 4)}) + broadcast(fimm(kFloat32, 10), 4));
  Func func = make<FuncNode>("f", std::vector<Buffer>{in, a}, int64_t{1}, seq({copy, shift}));
  Tensor x = tensor_of<float>({0, 1, 2, 3, 4, 5, 6, 7}, {8}, kFloat32), y = zeros({8}, kFloat32);
  interpret(func, std::vector{x, y});
  EXPECT_EQ(std::vector<float>(y.span<float>().begin(), y.span<float>().end()),
            (std::vector<float>{0, 10, 11, 12, 13, 5, 6, 7}));
}

TEST(Interpret, MasksLoadAndStoreOnlyTheirLanes) {
  Buffer in = buffer("in", {3}, kFloat32), a = buffer("a", {8}, kFloat32);
  Expr lanes = ramp(0, 1, 8);
  Stmt clear = store(a, {lanes}, broadcast(fimm(kFloat32, -1), 8));
  Stmt some = make<If>(less(lanes, broadcast(Expr(3), 8)), store(a, {lanes}, load(in, {lanes})));
  Func func = make<FuncNode>("f", std::vector<Buffer>{in, a}, int64_t{1}, seq({clear, some}));
  Tensor x = tensor_of<float>({0, 1, 2}, {3}, kFloat32), y = zeros({8}, kFloat32);
  interpret(func, std::vector{x, y});
  EXPECT_EQ(std::vector<float>(y.span<float>().begin(), y.span<float>().end()),
            (std::vector<float>{0, 1, 2, -1, -1, -1, -1, -1}));
}

TEST(Interpret, FindsBadAccesses) {
  Buffer in = buffer("in", {2, 4}, kFloat32), out = buffer("out", {4}, kFloat32),
         t = buffer("t", {2, 2}, kFloat32);
  auto func_of = [&](const Stmt& body) {
    return make<FuncNode>("f", std::vector<Buffer>{in, out}, int64_t{1}, body);
  };
  std::vector<Tensor> params{zeros({2, 4}, kFloat32), zeros({4}, kFloat32)};
  Var i = var("i");
  Stmt beyond = for_loop(i, 5, store(out, {0}, load(in, {1, i})));
  EXPECT_EQ(error_of(func_of(beyond), params), "interpret: index 4 of dimension 1 of in is outside 0..4");
  Stmt before = make<Alloc>(t, store(out, {0}, load(t, {1, 0})));
  EXPECT_EQ(error_of(func_of(before), params), "interpret: t[1, 0] is read before it is written");
  Stmt negative = store(out, {Expr(-1)}, fimm(kFloat32, 0));
  EXPECT_EQ(error_of(func_of(negative), params), "interpret: index -1 of dimension 0 of out is outside 0..4");
  // The side of a select that is not taken is not evaluated.
  Stmt guarded = for_loop(i, 4, store(out, {i}, select(less(i, 2), load(in, {i, 0}), fimm(kFloat32, 1))));
  EXPECT_EQ(error_of(func_of(guarded), params), "no error");
}

TEST(Interpret, BlocksInitAndPredicate) {
  // A sum of 5 numbers in two steps of 3: the predicate cuts the last.
  Buffer in = buffer("in", {5}, kInt32), out = buffer("out", {1}, kInt32);
  Var o = var("o"), n = var("n"), r = var("r");
  auto block = std::make_unique<Block>();
  block->name = "sum";
  block->iters = {{r, 5, IterKind::kReduce, Expr(o) * 3 + n}};
  block->predicate = less(Expr(o) * 3 + n, 5);
  block->init = store(out, {0}, imm(kInt32, 0));
  block->body = store(out, {0}, load(out, {0}) + load(in, {r}));
  Stmt nest = for_loop(o, 2, for_loop(n, 3, seal(std::move(block))));
  Func func = make<FuncNode>("f", std::vector<Buffer>{in, out}, int64_t{1}, nest);
  Tensor y = zeros({1}, kInt32);
  interpret(func, std::vector{tensor_of<int32_t>({1, 2, 3, 4, 5}, {5}, kInt32), y});
  EXPECT_EQ(y.integer(0), 15);
}

}  // namespace
}  // namespace lathe::tir
