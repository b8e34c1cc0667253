#include "tuner/dataflow.h"

#include <gtest/gtest.h>

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Expr;
using relay::Function;

const relay::Type kVector = relay::tensor_type(std::vector<int64_t>{3}, kFloat32);
const relay::Type kPair = relay::tuple_type({kVector, kVector});

template <typename T>
Expr typed(const Ref<T>& expr, const relay::Type& type) {
  auto copy = mutate(*expr);
  copy->checked_type = type;
  return seal(std::move(copy));
}

Expr call(const Expr& callee, std::vector<Expr> args) {
  return typed(make<Call>(callee, std::move(args)), kVector);
}

const Expr kKernel = make<relay::PrimFunc>();

std::vector<int64_t> masks(std::vector<relay::Var> params, const Expr& body) {
  std::vector<int64_t> masks;
  for (const KernelCall& call : kernel_calls(relay::make_module(
           make<Function>(std::vector<relay::TypeVar>(), std::move(params), relay::Type(), body))))
    masks.push_back(call.constants);
  return masks;
}

using Masks = std::vector<int64_t>;

/// The product of these would be below 0.
TEST(FlatTypes, RefuseWhatNoMemoryHolds) {
  constexpr int64_t kMany = 999'999'999'999;
  try {
    flat_types(relay::tensor_type(std::vector<int64_t>{kMany, kMany, 16}, kFloat32));
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the model has a tensor float32 (999999999999, 999999999999, 16), which is larger than any "
                 "memory");
  }
  EXPECT_EQ(flat_types(relay::tensor_type(std::vector<int64_t>{kMany, 0}, kFloat32)).size(), 1u)
      << "an empty one needs none";
}

TEST(KernelCalls, ArgumentsThatAreConstantsAreMarked) {
  relay::Var x = relay::make_var("x", kVector);
  Expr c = relay::constant(zeros({3}, kFloat32));
  EXPECT_EQ(masks({x}, call(kKernel, {x, c})), Masks{0b10});
  EXPECT_EQ(masks({x}, call(kKernel, {c, x, c})), Masks{0b101});
  EXPECT_EQ(masks({x}, call(kKernel, {call(kKernel, {c}), x})), (Masks{0b1, 0b00}));
}

TEST(KernelCalls, ConstantsAreSeenThroughLetsTuplesAndProjections) {
  relay::Var x = relay::make_var("x", kVector), v = relay::make_var("v"), w = relay::make_var("w");
  Expr c = relay::constant(zeros({3}, kFloat32));
  EXPECT_EQ(masks({x}, make<relay::Let>(v, c, make<relay::Let>(w, v, call(kKernel, {x, w, v})))),
            Masks{0b110});
  Expr pair = typed(make<relay::Tuple>(std::vector<Expr>{x, c}), kPair);
  EXPECT_EQ(masks({x}, call(kKernel, {c, pair, x})), Masks{0b0101});  // a tuple is two tensors
  auto item = [&](int64_t index) { return typed(make<relay::Projection>(pair, index), kVector); };
  EXPECT_EQ(masks({x}, call(kKernel, {item(0), item(1)})), Masks{0b10});
}

TEST(KernelCalls, ParamsBeyondTheMaskAreNotMarked) {
  Expr c = relay::constant(zeros({3}, kFloat32));
  EXPECT_EQ(masks({}, call(kKernel, std::vector<Expr>(70, c))), Masks{(int64_t{1} << 62) - 1});
}

TEST(KernelCalls, ACalleeMayBeCalledWithAndWithoutConstants) {
  relay::Var x = relay::make_var("x", kVector);
  Expr c = relay::constant(zeros({3}, kFloat32));
  EXPECT_EQ(masks({x}, call(kKernel, {call(kKernel, {x, c}), x})), (Masks{0b10, 0}));
}

}  // namespace
}  // namespace lathe::tuner
