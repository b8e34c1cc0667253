#include "core/codegen/compile.h"

#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/runtime/kernel.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/support/tensor.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::for_loop, tir::load, tir::store;

TEST(Compile, AddsVectors) {
  Buffer a = tir::buffer("a", {64}, kFloat32), b = tir::buffer("b", {64}, kFloat32);
  Var i = var("i");
  Expr at = ramp(i * 16, Expr(1), 16);
  tir::Func f = make<tir::FuncNode>("twice", std::vector{a, b}, int64_t{1},
                                    for_loop(i, 4, store(b, {at}, load(a, {at}) + load(a, {at}))));
  Artifact artifact = compile(std::span(&f, 1), host_target());
  runtime::SharedObject object(artifact.bytes);
  auto kernel = reinterpret_cast<LatheKernel>(object.find("twice"));
  ASSERT_TRUE(kernel);
  Tensor x = random_tensor({64}, kFloat32, 1), y({64}, kFloat32);
  void* buffers[] = {x.data(), y.data()};
  EXPECT_EQ(kernel(buffers, nullptr, runtime::serial_parallel()), 0);
  for (int e = 0; e < 64; ++e) EXPECT_EQ(y.as<float>()[e], 2 * x.as<float>()[e]);
}
}  // namespace
}  // namespace lathe::codegen
