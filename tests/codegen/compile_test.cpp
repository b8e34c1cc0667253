#include "core/codegen/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "core/arith/simplify.h"
#include "core/codegen/host_target.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"
#include "core/tir/interpret.h"
#include "core/tir/passes/place_allocations.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::for_loop, tir::Iteration, tir::load, tir::Stmt, tir::store;

tir::Func func(std::string name, std::vector<Buffer> params, Stmt body) {
  return make<tir::FuncNode>(std::move(name), std::move(params), int64_t{1}, std::move(body));
}

/// y = f(x) element by element.
tir::Func map_func(int64_t n, DataType from, DataType to, const std::function<Expr(Expr)>& f) {
  Buffer x = tir::buffer("x", {n}, from), y = tir::buffer("y", {n}, to);
  Var i = var("i");
  return func("map", {x, y}, for_loop(i, n, store(y, {i}, f(load(x, {i})))));
}

Tensor mapped(const Tensor& x, DataType to, const std::function<Expr(Expr)>& f) {
  std::vector<Tensor> params{x, Tensor(x.shape(), to)};
  run_kernel(map_func(x.size(), x.dtype(), to, f), host_target(), params);
  return params[1];
}

TEST(Compile, EqualProgramsGiveEqualBytes) {
  tir::Func f = map_func(64, kFloat32, kFloat32, [](Expr x) { return x + x; });
  Artifact a = compile(std::span(&f, 1), host_target()), b = compile(std::span(&f, 1), host_target());
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(a.sha256, b.sha256);
  ASSERT_EQ(a.kernels.size(), 1u);
  EXPECT_EQ(a.kernels[0].name, "map");
}

TEST(Compile, ManyKernelsShareOneObject) {
  auto named = [](const char* name, double value) {
    Buffer y = tir::buffer("y", {1}, kFloat32);
    return func(name, {y}, store(y, {Expr(0)}, Expr(value)));
  };
  std::vector<tir::Func> funcs{named("one", 1), named("two", 2)};
  Artifact artifact = compile(funcs, host_target());
  runtime::SharedObject object(artifact.bytes);
  for (auto [name, value] : {std::pair("one", 1.0f), std::pair("two", 2.0f)}) {
    Tensor y({1}, kFloat32);
    void* buffers[] = {y.data()};
    reinterpret_cast<LatheKernel>(object.find(name))(buffers, nullptr, runtime::serial_parallel(), nullptr);
    EXPECT_EQ(y.as<float>()[0], value);
  }
  EXPECT_EQ(object.find("one.compute"), nullptr);  // only kernels are exported
}

/// Each task by itself, the last one first.
void launch_backwards(void*, void (*body)(void*, int64_t, int64_t), void* closure, int64_t tasks) {
  for (int64_t i = tasks; i-- > 0;) body(closure, i, i + 1);
}

TEST(Compile, IterationsShareWorkspaceOfUnknownSize) {
  // Row by row through memory that only a run knows the size of.
  const Var n = var("n"), m = var("m"), i = var("i"), j = var("j"), k = var("k");
  Buffer x = tir::buffer("x", {n, m}, kFloat32), y = tir::buffer("y", {n, m}, kFloat32);
  Buffer row = tir::buffer("row", {n, m}, kFloat32);
  Stmt fill = for_loop(j, m, store(row, {i, j}, load(x, {i, j}) + load(x, {i, j})));
  Stmt turn = for_loop(k, m, store(y, {i, k}, load(row, {i, m - k - 1})));
  Stmt rows = for_loop(i, n, tir::seq({fill, turn}), Iteration::kParallel);
  tir::Func f = func("turned", {x, y}, make<tir::Alloc>(row, rows));
  Target target = host_target();
  target.cores = 3;
  const Expr bytes = compile(std::span(&f, 1), target).kernels[0].open_workspace;
  auto bytes_of = [&](int64_t rows) {
    return int_value(
        simplify(tir::substitute(bytes, VarMap{{n.get(), Expr(rows)}, {m.get(), Expr(16)}}, {})));
  };
  EXPECT_EQ(bytes_of(2), 2 * 64);
  EXPECT_EQ(bytes_of(1000), 6 * 64);
  runtime::ThreadPool pool(5);
  const LatheParallel backwards{launch_backwards, nullptr};
  for (int64_t rows : {0, 1, 5, 6, 7, 100})
    for (const LatheParallel* parallel : {pool.parallel(), &backwards, runtime::serial_parallel()}) {
      std::vector<Tensor> params{random_tensor({rows, 16}, kFloat32, 1), Tensor({rows, 16}, kFloat32)};
      run_kernel(f, target, params, parallel);
      for (int64_t e = 0; e < rows * 16; ++e)
        ASSERT_EQ(params[1].as<float>()[e], 2 * params[0].as<float>()[e / 16 * 16 + 15 - e % 16]) << rows;
    }
}

TEST(Compile, IterationsOfANestShareWorkspaceOfUnknownSize) {
  const Var n = var("n"), m = var("m"), i = var("i"), h = var("h"), j = var("j"), k = var("k");
  Buffer x = tir::buffer("x", {n, 3, m}, kFloat32), y = tir::buffer("y", {n, 3, m}, kFloat32);
  Buffer row = tir::buffer("row", {n, 3, m}, kFloat32);
  Stmt fill = for_loop(j, m, store(row, {i, h, j}, load(x, {i, h, j}) + load(x, {i, h, j})));
  Stmt turn = for_loop(k, m, store(y, {i, h, k}, load(row, {i, h, m - k - 1})));
  Stmt rows =
      for_loop(i, n, for_loop(h, 3, tir::seq({fill, turn}), Iteration::kParallel), Iteration::kParallel);
  tir::Func f = func("turned", {x, y}, tir::place_allocations(make<tir::Alloc>(row, rows)));
  Target target = host_target();
  target.cores = 3;
  const Expr bytes = compile(std::span(&f, 1), target).kernels[0].open_workspace;
  const VarMap large{{n.get(), Expr(1000)}, {m.get(), Expr(16)}};
  EXPECT_EQ(int_value(simplify(tir::substitute(bytes, large, {}))), 6 * 64);
  runtime::ThreadPool pool(5);
  const LatheParallel backwards{launch_backwards, nullptr};
  for (int64_t count : {0, 1, 2, 7, 50})
    for (const LatheParallel* parallel : {pool.parallel(), &backwards, runtime::serial_parallel()}) {
      std::vector<Tensor> params{random_tensor({count, 3, 16}, kFloat32, 1),
                                 Tensor({count, 3, 16}, kFloat32)};
      run_kernel(f, target, params, parallel);
      for (int64_t e = 0; e < count * 48; ++e)
        ASSERT_EQ(params[1].as<float>()[e], 2 * params[0].as<float>()[e / 16 * 16 + 15 - e % 16]) << count;
    }
}

TEST(Compile, ParallelLoopsSeeOuterVariablesAndBuffers) {
  Buffer x = tir::buffer("x", {8, 64}, kFloat32), y = tir::buffer("y", {8, 64}, kFloat32);
  Buffer twice = tir::buffer("twice", {64}, kFloat32), sum = tir::buffer("sum", {1}, kFloat32);
  Var i = var("i"), j = var("j"), k = var("k");
  Stmt fill = for_loop(j, 64, store(twice, {j}, load(x, {i, j}) + load(x, {i, j})), Iteration::kParallel);
  Stmt inner = make<tir::Alloc>(sum, tir::seq({store(sum, {Expr(0)}, load(twice, {k})),
                                               store(y, {i, k}, load(sum, {Expr(0)}) + Expr(1.0))}));
  Stmt use = for_loop(k, 64, inner, Iteration::kParallel);
  tir::Func f = func("outer", {x, y}, for_loop(i, 8, make<tir::Alloc>(twice, tir::seq({fill, use}))));
  EXPECT_EQ(compile(std::span(&f, 1), host_target()).kernels[0].workspace_bytes, 256);
  runtime::ThreadPool pool(3);
  std::vector<Tensor> params{random_tensor({8, 64}, kFloat32, 1), Tensor({8, 64}, kFloat32)};
  run_kernel(f, host_target(), params, pool.parallel());
  for (int64_t e = 0; e < 512; ++e) ASSERT_EQ(params[1].as<float>()[e], 2 * params[0].as<float>()[e] + 1);
}

TEST(Compile, OnlyTheOutermostParallelLoopLaunches) {
  Buffer y = tir::buffer("y", {4, 4}, kFloat32);
  Var i = var("i"), j = var("j");
  tir::Func f = func("nested", {y},
                     for_loop(i, 4, for_loop(j, 4, store(y, {i, j}, Expr(1.0)), Iteration::kParallel),
                              Iteration::kParallel));
  static int launches;
  launches = 0;
  LatheParallel counting{[](void*, void (*body)(void*, int64_t, int64_t), void* closure, int64_t n) {
                           ++launches;
                           body(closure, 0, n);
                         },
                         nullptr};
  std::vector<Tensor> params{Tensor({4, 4}, kFloat32)};
  run_kernel(f, host_target(), params, &counting);
  EXPECT_EQ(launches, 1);
  EXPECT_EQ(params[0].as<float>()[15], 1);
}

TEST(Compile, ConvertsVectorsOfFloatsAsItDoesSingleOnes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0,     -0.9f,         1.9f,           -2.5f,          254.7f, 3e9f,
                            -3e9f, kInfinity,     -kInfinity,     -kInfinity * 0, 127,    -128,
                            65535, 2147483520.0f, -2147483648.0f, 1e-30f};
  Tensor x = tensor_of(values, {16}, kFloat32);
  for (DataType to : {kInt32, kInt8, kUInt8, kInt16, kUInt32, kInt64, kUInt64}) {
    Buffer from = tir::buffer("x", {16}, kFloat32), result = tir::buffer("y", {16}, to);
    Expr lanes = ramp(Expr(0), Expr(1), 16);
    tir::Func f =
        func("map", {from, result}, store(result, {lanes}, cast(to.with_lanes(16), load(from, {lanes}))));
    std::vector<Tensor> params{x, Tensor({16}, to)};
    run_kernel(f, host_target(), params);
    Tensor single = mapped(x, to, [&](Expr v) { return cast(to, v); }), expected({16}, to);
    tir::interpret(f, std::vector{x, expected});
    for (int64_t i = 0; i < 16; ++i)
      EXPECT_EQ(params[1].integer(i), single.integer(i)) << values[i] << " as " << to_string(to);
    for (int64_t i = 0; i < 16; ++i)
      EXPECT_EQ(single.integer(i), expected.integer(i)) << values[i] << " as " << to_string(to);
  }
}

/// Twelve sums of one vector each and a step's vector and broadcast are 14 of 16 registers. Over two steps in
/// a row, sums that change places need more.
TEST(Compile, AddsToTwelveSumsInTheirRegisters) {
  constexpr int64_t kRows = 12, kLanes = 8;
  Buffer x = tir::buffer("x", {kRows, 64}, kFloat32), w = tir::buffer("w", {64, kLanes}, kFloat32),
         y = tir::buffer("y", {kRows, kLanes}, kFloat32),
         sums = tir::buffer("sums", {kRows, kLanes}, kFloat32, tir::Scope::kLocal);
  const Expr lanes = ramp(Expr(0), Expr(1), kLanes);
  Var step = var("step");
  std::vector<Stmt> init, adds, finish;
  for (int64_t row = 0; row < kRows; ++row) {
    init.push_back(store(sums, {row, lanes}, broadcast(Expr(0.0f), kLanes)));
    finish.push_back(store(y, {row, lanes}, load(sums, {row, lanes})));
  }
  for (int64_t k : {0, 1})
    for (int64_t row = 0; row < kRows; ++row)
      adds.push_back(store(sums, {row, lanes},
                           load(sums, {row, lanes}) + broadcast(load(x, {row, step * 2 + k}), kLanes) *
                                                          load(w, {step * 2 + k, lanes})));
  Stmt body = make<tir::Alloc>(
      sums, tir::seq({tir::seq(init), for_loop(step, 32, tir::seq(adds)), tir::seq(finish)}));
  const tir::Func program = func("tile", {x, w, y}, body);
  const std::string text = assembly_of(program, resolve_target("cpu:mcpu=haswell"));
  EXPECT_EQ(count(text, "vfmadd231ps"), 2 * kRows);
  EXPECT_EQ(count(text, "(%rsp)"), 0) << text;
  std::vector<Tensor> params{random_tensor({kRows, 64}, kFloat32, 1),
                             random_tensor({64, kLanes}, kFloat32, 2), Tensor({kRows, kLanes}, kFloat32)};
  std::vector<Tensor> expected{params[0], params[1], Tensor({kRows, kLanes}, kFloat32)};
  run_kernel(program, host_target(), params);
  tir::interpret(program, expected);
  EXPECT_LT(max_relative_error(params[2], expected[2]), 1e-6);
}

/// As of a tensor that has no element.
TEST(Compile, NothingToDo) {
  Buffer x = tir::buffer("x", {0, 3}, kFloat32), y = tir::buffer("y", {0, 3}, kFloat32);
  std::vector<Tensor> params{Tensor({0, 3}, kFloat32), Tensor({0, 3}, kFloat32)};
  run_kernel(func("nothing", {x, y}, tir::seq({})), host_target(), params);
}

TEST(Compile, RefusesTooMuchStack) {
  Buffer y = tir::buffer("y", {4}, kFloat32), big = tir::buffer("big", {1200000}, kFloat32);
  Var i = var("i");
  Stmt body = make<tir::Alloc>(big, tir::seq({store(big, {i}, Expr(1.0)), store(y, {i}, load(big, {i}))}));
  tir::Func f = func("greedy", {y}, for_loop(i, 4, body, Iteration::kParallel));
  try {
    compile(std::span(&f, 1), host_target());
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "greedy: intermediates of one thread need 4800000 bytes of stack, the limit is 4194304; "
                 "compute them in smaller tiles");
  }
}

/// Two that never live together, of which each is more than half of what there may be.
TEST(Compile, IntermediatesFollowEachOtherOnTheStack) {
  constexpr int64_t kLarge = 700000;
  Buffer x = tir::buffer("x", {4}, kFloat32), y = tir::buffer("y", {4}, kFloat32);
  Var i = var("i");
  auto through = [&](const char* name, int64_t elements, const Buffer& from, double added) {
    Buffer large = tir::buffer(name, {elements}, kFloat32);
    return tir::Stmt(
        make<tir::Alloc>(large, tir::seq({store(large, {i * 1000}, load(from, {i}) + fimm(kFloat32, added)),
                                          store(y, {i}, load(large, {i * 1000}))})));
  };
  tir::Func f =
      func("modest", {x, y},
           for_loop(i, 4, tir::seq({through("first", kLarge, x, 1), through("second", kLarge - 1, y, 10)}),
                    Iteration::kParallel));
  std::vector<Tensor> params{random_tensor({4}, kFloat32, 1), Tensor({4}, kFloat32)};
  run_kernel(f, host_target(), params);
  for (int64_t e = 0; e < 4; ++e) EXPECT_EQ(params[1].as<float>()[e], params[0].as<float>()[e] + 1 + 10);
}

TEST(Compile, RefusesLoopsOfAGpu) {
  Buffer y = tir::buffer("y", {4}, kFloat32);
  Var i = var("i");
  for (int64_t extent : {1, 4}) {
    tir::Func f = func("of_blocks", {y}, for_loop(i, extent, store(y, {i}, Expr(1.0)), Iteration::kThreadX));
    try {
      compile(std::span(&f, 1), host_target());
      FAIL() << "must throw";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "loop `i` runs on thread.x of a GPU, which this target has not");
    }
  }
}

TEST(Compile, RefusesUnknownTriple) {
  Target target = host_target();
  target.triple = "pdp11-dec-unix";
  tir::Func f = map_func(4, kFloat32, kFloat32, [](Expr x) { return x; });
  try {
    compile(std::span(&f, 1), target);
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::StartsWith("target: LLVM does not know the triple `pdp11-dec-unix`"));
  }
}

/// LLVM's own complaints end the compilation, not the process.
TEST(Compile, TurnsLlvmErrorsIntoErrors) {
#if defined(__SANITIZE_ADDRESS__)
  const __lsan::ScopedDisabler what_llvm_held_is_lost;  // make_machine
#endif
  tir::Func f = map_func(16, kFloat32, kFloat32, [](Expr x) { return intrinsic(Intrinsic::kTan, x); });
  // resolve_target() refuses those that it knows of.
  auto message = [&](const char* cpu, const char* features) -> std::string {
    Target target = resolve_target("cpu:mcpu=x86-64");
    target.cpu = cpu;
    target.features = features;
    try {
      compile(std::span(&f, 1), target);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("i386", ""), "llvm: 64-bit code requested on a subtarget that doesn't support it!");
  EXPECT_THAT(message("x86-64", "-sse"), testing::HasSubstr("SSE register return with SSE disabled"));
  EXPECT_EQ(message("haswell", ""), "");
}

TEST(Compile, ComputesNarrowFloatsInFloat32AndRounds) {
  for (DataType narrow : {kFloat16, kBFloat16}) {
    Tensor x({64}, narrow);
    for (int64_t i = 0; i < 64; ++i) x.set(i, 0.37 * static_cast<double>(i) - 9);
    x.set(63, std::nan(""));
    Tensor y = mapped(x, narrow, [&](Expr v) { return v * v + fimm(narrow, 1.0 / 3); });
    for (int64_t i = 0; i < 63; ++i) {
      Tensor expected({1}, narrow);
      expected.set(0, x.value(i) * x.value(i));
      Tensor third({1}, narrow);
      third.set(0, 1.0 / 3);
      expected.set(0, expected.value(0) + third.value(0));
      EXPECT_EQ(y.value(i), expected.value(0)) << to_string(narrow) << " " << x.value(i);
    }
    EXPECT_TRUE(std::isnan(y.value(63)));
  }
}

TEST(Compile, BooleansAreBytes) {
  Tensor x = tensor_of<float>({-1, 0, 2, 3}, {4}, kFloat32);
  Tensor y = mapped(x, kBool,
                    [](Expr v) { return logical_and(less(Expr(0.0), v), logical_not(equal(v, Expr(3.0)))); });
  EXPECT_THAT(y.span<uint8_t>(), testing::ElementsAre(0, 0, 1, 0));
  Tensor z = mapped(y, kBool, [](Expr v) { return logical_not(v); });
  EXPECT_THAT(z.span<uint8_t>(), testing::ElementsAre(1, 1, 0, 1));
}

TEST(Compile, FloorDivisionRoundsDown) {
  Tensor x = tensor_of<int64_t>({-7, -6, -1, 0, 1, 6, 7}, {7}, kInt64);
  EXPECT_THAT(mapped(x, kInt64, [](Expr v) { return floordiv(v, 3); }).span<int64_t>(),
              testing::ElementsAre(-3, -2, -1, 0, 0, 2, 2));
  EXPECT_THAT(mapped(x, kInt64, [](Expr v) { return floormod(v, 3); }).span<int64_t>(),
              testing::ElementsAre(2, 0, 2, 0, 1, 0, 1));
  EXPECT_THAT(mapped(x, kInt64, [](Expr v) { return binary(BinaryOp::kMod, v, 3); }).span<int64_t>(),
              testing::ElementsAre(-1, 0, -1, 0, 1, 0, 1));
}

/// Each of 8 remarkable numbers of a type with each: x[i], y[i] for i < 64.
std::array<Tensor, 2> pairs_of(DataType type) {
  const bool is_signed = type.code == TypeCode::kInt;
  const int64_t half = static_cast<int64_t>(uint64_t{1} << (type.bits - 1));
  const std::array<int64_t, 8> values = is_signed
                                            ? std::array<int64_t, 8>{half, half + 1, -7, -1, 0, 1, 7, ~half}
                                            : std::array<int64_t, 8>{0, 1, 2, 7, 63, half, -2, -1};
  std::array<Tensor, 2> pairs{Tensor({64}, type), Tensor({64}, type)};
  for (int64_t i = 0; i < 64; ++i) {
    pairs[0].set_integer(i, values[static_cast<size_t>(i / 8)]);
    pairs[1].set_integer(i, values[static_cast<size_t>(i % 8)]);
  }
  return pairs;
}

Expr broadcast_like(const Expr& scalar, const Expr& e) {
  return e.dtype().lanes == 1 ? scalar : broadcast(scalar, e.dtype().lanes);
}

/// f(x, y) of those pairs, in scalars and in vectors, is what the interpreter computes.
void expect_as_interpreted(DataType type, DataType to, const std::function<Expr(Expr, Expr)>& f,
                           const std::string& what) {
  auto [left, right] = pairs_of(type);
  Buffer x = tir::buffer("x", {64}, type), y = tir::buffer("y", {64}, type), z = tir::buffer("z", {64}, to);
  Var i = var("i");
  Expr lanes = ramp(Expr(0), Expr(1), 64);
  tir::Func scalars = func("f", {x, y, z}, for_loop(i, 64, store(z, {i}, f(load(x, {i}), load(y, {i})))));
  tir::Func vectors = func("f", {x, y, z}, store(z, {lanes}, f(load(x, {lanes}), load(y, {lanes}))));
  Tensor expected({64}, to);
  tir::interpret(scalars, std::vector{left, right, expected});
  for (const tir::Func& each : {scalars, vectors}) {
    Tensor result({64}, to);
    run_kernel(each, host_target(), std::vector{left, right, result});
    for (int64_t n = 0; n < 64; ++n)
      EXPECT_EQ(result.integer(n), expected.integer(n))
          << what << " of " << to_string(type) << " " << left.integer(n) << " and " << right.integer(n);
  }
}

constexpr DataType kIntegers[] = {kInt8, kUInt8, kInt32, kUInt32, kInt64, kUInt64};

TEST(Compile, DividesByAnyInteger) {
  for (DataType type : kIntegers)
    for (BinaryOp op : {BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFloorDiv, BinaryOp::kFloorMod})
      expect_as_interpreted(
          type, type, [op](Expr a, Expr b) { return binary(op, a, b); }, spelling(op));
}

TEST(Compile, DividesByAConstantMinusOne) {
  Tensor x = tensor_of<int64_t>({INT64_MIN, -1, 7}, {3}, kInt64);
  EXPECT_THAT(mapped(x, kInt64, [](Expr v) { return div(v, -1); }).span<int64_t>(),
              testing::ElementsAre(INT64_MIN, 1, -7));
}

TEST(Compile, SumsAndProductsOfDataWrap) {
  for (DataType type : kIntegers)
    for (BinaryOp op : {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul}) {
      expect_as_interpreted(
          type, type, [op](Expr a, Expr b) { return binary(op, a, b); }, spelling(op));
      // What the optimizer decides without computing, were there no overflow.
      expect_as_interpreted(
          type, kBool, [op](Expr a, Expr b) { return less(a, binary(op, a, b)); },
          std::string("< ") + spelling(op));
      expect_as_interpreted(
          type, kBool,
          [op](Expr a, Expr) {
            return less(a, binary(op, a, broadcast_like(imm(a.dtype().element(), 2), a)));
          },
          std::string("< 2 ") + spelling(op));
    }
}

TEST(Compile, PowersOfIntegersAreExactAndWrap) {
  for (DataType type : kIntegers)
    expect_as_interpreted(
        type, type, [](Expr a, Expr b) { return binary(BinaryOp::kPow, a, b); }, "pow");
  Tensor x = tensor_of<int64_t>({3, -3, 1 << 20, 10}, {4}, kInt64);
  EXPECT_THAT(mapped(x, kInt64, [](Expr v) { return binary(BinaryOp::kPow, v, 37); }).span<int64_t>(),
              testing::ElementsAre(450283905890997363, -450283905890997363, 0, 68739955140067328));
}

TEST(Compile, PowersAreIndicesToo) {
  Buffer x = tir::buffer("x", {10}, kInt32), y = tir::buffer("y", {4}, kInt32);
  Var i = var("i");
  tir::Func f = func("f", {x, y}, for_loop(i, 4, store(y, {i}, load(x, {binary(BinaryOp::kPow, i, 2)}))));
  Tensor out({4}, kInt32);
  run_kernel(f, host_target(),
             std::vector{tensor_of<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {10}, kInt32), out});
  EXPECT_THAT(out.span<int32_t>(), testing::ElementsAre(0, 1, 4, 9));
}

TEST(Compile, MaximumKeepsNanOfFirstOperand) {
  Tensor x = tensor_of<float>({NAN, -1, 2}, {3}, kFloat32);
  Tensor y = mapped(x, kFloat32, [](Expr v) { return max(v, Expr(0.0)); });
  EXPECT_TRUE(std::isnan(y.as<float>()[0]));
  EXPECT_EQ(y.as<float>()[1], 0);
  EXPECT_EQ(y.as<float>()[2], 2);
}

TEST(Compile, SelectsLoadOnlyWhatIsChosen) {
  // The lanes that are not chosen would read far outside of x.
  Buffer x = tir::buffer("x", {4}, kFloat32), y = tir::buffer("y", {16}, kFloat32);
  Expr lanes = ramp(Expr(0), Expr(1), 16);
  Expr far = ramp(Expr(0), Expr(int64_t{1} << 40), 16);
  Expr inside = select(less(lanes, broadcast(Expr(4), 16)), load(x, {lanes}), broadcast(Expr(-1.0), 16));
  Expr gathered = select(less(lanes, broadcast(Expr(1), 16)), load(x, {far}), inside);
  tir::Func f = func("pick", {x, y}, store(y, {lanes}, gathered));
  std::vector<Tensor> params{tensor_of<float>({5, 6, 7, 8}, {4}, kFloat32), Tensor({16}, kFloat32)};
  run_kernel(f, host_target(), params);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(params[1].as<float>()[i], i < 4 ? 5 + i : -1);
}

/// The last vector ends with the last element of the buffer: nothing behind it is read.
TEST(Compile, VectorsOfEveryNthElement) {
  for (DataType type : {kFloat32, kInt8, kInt64})
    for (int lanes : {4, 8, 16})
      for (int64_t stride = 1; stride <= 5; ++stride) {
        const int64_t vectors = 3, from = (vectors * lanes - 1) * stride + 1;
        tir::Buffer x = tir::buffer("x", {from}, type), y = tir::buffer("y", {vectors * lanes}, type);
        Var i = var("i");
        Expr every = ramp(i * (lanes * stride), Expr(stride), lanes);
        tir::Stmt store = tir::store(y, {ramp(i * lanes, Expr(1), lanes)}, tir::load(x, {every}));
        auto func =
            make<tir::FuncNode>("pick", std::vector{x, y}, int64_t{1}, tir::for_loop(i, vectors, store));
        std::vector<Tensor> params{random_tensor({from}, type, 3), Tensor({vectors * lanes}, type)};
        run_kernel(func, host_target(), params);
        for (int64_t k = 0; k < vectors * lanes; ++k)
          ASSERT_EQ(params[1].value(k), params[0].value(k * stride)) << lanes << " lanes, stride " << stride;
      }
}

/// Lane l of row i is element i * 16 + place(l): runs of neighbours of any lengths, in and out of order, and
/// elements that several lanes take.
TEST(Compile, VectorsOfUnequalRuns) {
  const Target target = resolve_target("cpu:mcpu=x86-64-v4");
  const Expr lane = ramp(Expr(0), Expr(1), 16);
  const auto by = [](int64_t value) { return broadcast(Expr(value), 16); };
  // Blocks of 16 shifted by 10 that are 40 apart; pairs; each element four times; two halves interleaved.
  const std::vector<Expr> places{floordiv(lane + by(10), by(16)) * by(40) + floormod(lane + by(10), by(16)),
                                 floordiv(lane, by(2)) * by(5) + floormod(lane, by(2)),
                                 floordiv(lane, by(4)) * by(7),
                                 floormod(lane, by(2)) * by(20) + floordiv(lane, by(2))};
  for (DataType type : {kFloat32, kInt64, kInt8})
    for (size_t which = 0; which < places.size(); ++which)
      for (bool masked : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, place {}, masked {}", to_string(type), which, masked));
        constexpr int64_t kRows = 16, kFrom = 400;
        Buffer x = tir::buffer("x", {kFrom}, type), y = tir::buffer("y", {kRows, 16}, type);
        Var i = var("i");
        Stmt copy = store(y, {i, lane}, load(x, {broadcast(i * 16, 16) + places[which]}));
        if (masked) copy = make<tir::If>(less(lane, broadcast(Expr(i), 16)), copy);
        tir::Func f = func("pick", {x, y}, for_loop(i, kRows, copy));
        std::vector<Tensor> params{random_tensor({kFrom}, type, 3), zeros({kRows, 16}, type)};
        std::vector<Tensor> expected{random_tensor({kFrom}, type, 3), zeros({kRows, 16}, type)};
        run_kernel(f, host_target(), params);
        tir::interpret(f, expected);
        EXPECT_EQ(max_relative_error(params[1], expected[1]), 0);
        const bool shares = which == 2;  // under a mask that is left to a gather
        if (type == kFloat32 && !(masked && shares)) {
          EXPECT_EQ(count(assembly_of(f, target), "gather"), 0);
        }
      }
}

/// Pixels of two or four channels in turn, which lie as far apart as an image has, and that a run alone
/// tells.
TEST(Compile, VectorsOfRunsThatOpenStridesPart) {
  const Target target = resolve_target("cpu:mcpu=x86-64-v4");
  const Expr lane = ramp(Expr(0), Expr(1), 16);
  const auto by = [](const Expr& value) { return broadcast(value, 16); };
  constexpr int64_t kRows = 5, kLength = 37;
  for (int64_t channels : {2, 4})
    for (bool masked : {false, true}) {
      SCOPED_TRACE(fmt::format("{} channels, masked {}", channels, masked));
      Var n = var("n"), i = var("i");
      Buffer x = tir::buffer("x", {3 * channels, n}, kFloat32), y = tir::buffer("y", {kRows, 16}, kFloat32);
      const Expr channel = floormod(lane, by(channels)) * by(2) + by(1), pixel = floordiv(lane, by(channels));
      Stmt copy = store(y, {i, lane}, load(x, {channel, by(i * 3) + pixel}));
      if (masked) copy = make<tir::If>(less(lane, by(i * 3)), copy);
      tir::Func f = func("pick", {x, y}, for_loop(i, kRows, copy));
      const auto params = [&] {
        return std::vector<Tensor>{random_tensor({3 * channels, kLength}, kFloat32, 3),
                                   zeros({kRows, 16}, kFloat32)};
      };
      std::vector<Tensor> found = params(), expected = params();
      run_kernel(f, host_target(), found);
      tir::interpret(f, expected);
      EXPECT_EQ(max_relative_error(found[1], expected[1]), 0);
      EXPECT_EQ(count(assembly_of(f, target), "gather"), 0);
    }
}

/// What a condition has computed its sides do not compute again: not through loads that are masked for one
/// side, nor from a select inside that has sides of its own.
TEST(Compile, SidesOfASelectTakeWhatItsConditionHas) {
  const Target target = resolve_target("cpu:mcpu=x86-64-v4");
  constexpr int64_t kRows = 7;
  Buffer x = tir::buffer("x", {kRows, 16}, kFloat32), w = tir::buffer("w", {2, kRows}, kFloat32),
         y = tir::buffer("y", {kRows, 16}, kFloat32);
  Var i = var("i");
  auto many = [](const Expr& e) { return broadcast(e, 16); };
  // Below zero `e` times what stands beside it.
  auto sloped = [&](const Expr& e, int64_t which) {
    return select(less(e, many(Expr(0.0))), e * many(load(w, {Expr(which), i})), e);
  };
  const Expr loaded = load(x, {i, ramp(Expr(0), Expr(1), 16)}),
             once = sloped(many(Expr(1.0)) - intrinsic(Intrinsic::kSqrt, loaded), 0),
             twice = sloped(many(Expr(0.5)) - intrinsic(Intrinsic::kSqrt, once * once), 1);
  tir::Func f =
      func("slopes", {x, w, y}, for_loop(i, kRows, store(y, {i, ramp(Expr(0), Expr(1), 16)}, twice)));
  // One for each that is written.
  EXPECT_EQ(count(assembly_of(f, target), "vsqrtps"), 2);
  auto params = [&] {
    Tensor data = random_tensor({kRows, 16}, kFloat32, 3);
    for (int64_t k = 0; k < data.size(); ++k) data.set(k, std::abs(data.value(k)) * 4);
    return std::vector<Tensor>{data, random_tensor({2, kRows}, kFloat32, 4), zeros({kRows, 16}, kFloat32)};
  };
  std::vector<Tensor> found = params(), expected = params();
  run_kernel(f, host_target(), found);
  tir::interpret(f, expected);
  EXPECT_LE(max_relative_error(found[2], expected[2]), 1e-6);
}
}  // namespace
}  // namespace lathe::codegen
