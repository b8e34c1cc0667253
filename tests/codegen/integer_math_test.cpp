// Divisions of vectors of integers, and conversions between floats and integers of 32 and 64 bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/codegen/host_target.h"
#include "core/tir/interpret.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::load, tir::store;

/// All of AVX-512 or what this machine has; without conversions of 64 bits; without vectors of 256 bits.
constexpr const char* kTargets[] = {"cpu", "cpu:mcpu=haswell", "cpu:mcpu=nehalem"};
constexpr const char* kVectorTargets[] = {"cpu:mcpu=znver4", "cpu:mcpu=haswell", "cpu:mcpu=nehalem"};
constexpr BinaryOp kDivisions[] = {BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFloorDiv, BinaryOp::kFloorMod};
constexpr DataType kIntegers[] = {kInt8, kUInt8, kInt16, kUInt16, kInt32, kUInt32, kInt64, kUInt64};

constexpr int kLanes = 16;

/// y[i] = f(x[i], z[i]) for vectors of kLanes, or one by one.
tir::Func map_of(int64_t n, DataType from, DataType to, int lanes,
                 const std::function<Expr(const Expr& x, const Expr& z)>& f) {
  Buffer x = tir::buffer("x", {n}, from), z = tir::buffer("z", {n}, from), y = tir::buffer("y", {n}, to);
  Var i = var("i");
  const Expr place = lanes == 1 ? Expr(i) : ramp(i * lanes, Expr(1), lanes);
  const std::vector<Buffer> buffers{x, z, y};
  return make<tir::FuncNode>(
      std::string("map"), buffers, int64_t{1},
      tir::for_loop(i, n / lanes, store(y, {place}, f(load(x, {place}), load(z, {place})))));
}

/// What vectors make of `x` and `z` on each target is what the interpreter does, one by one, bit for bit.
void expect_as_interpreted(const Tensor& x, const Tensor& z, DataType to,
                           const std::function<Expr(const Expr& x, const Expr& z)>& f,
                           const std::string& what) {
  const int64_t n = x.shape()[0];
  Tensor expected({n}, to);
  tir::interpret(map_of(n, x.dtype(), to, 1, f), std::vector{x, z, expected});
  for (const char* target : kTargets) {
    Tensor found({n}, to);
    run_kernel(map_of(n, x.dtype(), to, kLanes, f), resolve_target(target), std::vector{x, z, found});
    for (int64_t i = 0; i < n; ++i)
      ASSERT_TRUE(to.is_float() ? found.value(i) == expected.value(i)
                                : found.integer(i) == expected.integer(i))
          << what << " of " << to_string(x.dtype()) << " " << x.value(i) << " and " << z.value(i) << " is "
          << found.value(i) << ", must be " << expected.value(i) << " on " << target;
  }
}

/// Numbers of every size, those next to powers of two, and their multiples and what is next to these.
std::vector<std::pair<uint64_t, uint64_t>> dividends_and_divisors() {
  std::mt19937_64 random(5);
  std::vector<uint64_t> edges{0, 1, 2, 3, 5, 7, 10};
  for (int bit = 2; bit < 64; ++bit)
    for (const uint64_t by : {-1, 0, 1}) edges.push_back((uint64_t{1} << bit) + by);
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const uint64_t a : edges)
    for (const uint64_t b : edges)
      for (const uint64_t negated : {0, 1})
        pairs.emplace_back(a, b), pairs.emplace_back(-a, b), pairs.emplace_back(negated ? -a : a, -b);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t b = random() >> (random() % 63), multiple = b * (random() >> (random() % 63));
    pairs.emplace_back(random() >> (random() % 63), b);
    pairs.emplace_back(multiple + random() % 3 - 1, random() % 2 ? b : -b);
  }
  pairs.resize(pairs.size() / kLanes * kLanes);
  return pairs;
}

TEST(IntegerMath, DividesVectorsExactly) {
  const auto pairs = dividends_and_divisors();
  const auto n = static_cast<int64_t>(pairs.size());
  for (const DataType type : kIntegers) {
    Tensor x({n}, type), z({n}, type);
    for (int64_t i = 0; i < n; ++i) {
      const auto& [a, b] = pairs[static_cast<size_t>(i)];
      x.set_integer(i, static_cast<int64_t>(a)), z.set_integer(i, static_cast<int64_t>(b));
    }
    for (const BinaryOp op : kDivisions)
      expect_as_interpreted(
          x, z, type, [op](const Expr& a, const Expr& b) { return binary(op, a, b); }, spelling(op));
  }
}

TEST(IntegerMath, DividesNoLaneByItself) {
  for (const DataType type : kIntegers)
    for (const BinaryOp op : kDivisions)
      for (const char* target : kVectorTargets) {
        // Where nothing converts integers of 64 bits it would take longer than one by one.
        if (type.bits == 64 && target != kVectorTargets[0]) continue;
        const std::string text =
            assembly_of(map_of(kLanes, type, type, kLanes,
                               [op](const Expr& a, const Expr& b) { return binary(op, a, b); }),
                        resolve_target(target));
        for (const char* one_by_one : {"\tidiv", "\tdivb", "\tdivw", "\tdivl", "\tdivq"})
          EXPECT_EQ(count(text, one_by_one), 0)
              << one_by_one << " for " << spelling(op) << " of " << to_string(type) << " on " << target;
      }
}

Expr converted(const Expr& x, DataType to) { return cast(to.with_lanes(x.dtype().lanes), x); }

constexpr DataType kFloats[] = {kFloat32, kFloat64};
constexpr DataType kWide[] = {kInt32, kUInt32, kInt64, kUInt64};

/// Random bits among them: what is far beyond all integers, and NaN.
TEST(Casts, OfFloatsToIntegersSaturate) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> numbers{kInf, -kInf, std::nan(""), 0, -0.0, 0.9, -0.9, 1, -1, 1e300, -1e300, 1e-300};
  for (const int bits : {7, 8, 15, 16, 31, 32, 52, 53, 62, 63, 64})
    for (const double by : {-1.0, -0.5, 0.0, 0.5, 1.0})
      for (const double sign : {-1.0, 1.0}) {
        const double edge = std::ldexp(sign, bits);
        numbers.insert(numbers.end(), {edge + by, std::nextafter(edge, 0), std::nextafter(edge, edge * 2)});
      }
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    numbers.push_back(
        std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -static_cast<int>(random() % 70)));
    numbers.push_back(std::bit_cast<double>(random()));
  }
  numbers.resize(numbers.size() / kLanes * kLanes);
  const auto n = static_cast<int64_t>(numbers.size());
  for (const DataType from : kFloats) {
    Tensor x({n}, from);
    for (int64_t i = 0; i < n; ++i) x.set(i, numbers[static_cast<size_t>(i)]);
    for (const DataType to : kIntegers)
      expect_as_interpreted(
          x, x, to, [to](const Expr& v, const Expr&) { return converted(v, to); }, to_string(to));
  }
}

/// Those that float64 has not, and lie at the middle between two of float32 or next to it.
TEST(Casts, OfIntegersToFloatsRoundOnce) {
  std::mt19937_64 random(4);
  std::vector<uint64_t> numbers{0, 1, ~uint64_t{0}};
  for (int bit = 1; bit < 64; ++bit)
    for (int i = 0; i < 300; ++i) {
      const uint64_t top = uint64_t{1} << bit | (random() & ((uint64_t{1} << bit) - 1));
      const int below = bit - 24;  // the first bit that float32 has not
      const uint64_t middle = below > 0 ? (top >> below | 1) << below : top;
      for (const uint64_t by : {-1, 0, 1}) numbers.push_back(middle + by), numbers.push_back(-(middle + by));
    }
  numbers.resize(numbers.size() / kLanes * kLanes);
  const auto n = static_cast<int64_t>(numbers.size());
  for (const DataType from : kWide) {
    Tensor x({n}, from);
    for (int64_t i = 0; i < n; ++i) x.set_integer(i, static_cast<int64_t>(numbers[static_cast<size_t>(i)]));
    for (const DataType to : kFloats)
      expect_as_interpreted(
          x, x, to, [to](const Expr& v, const Expr&) { return converted(v, to); }, to_string(to));
  }
}

TEST(Casts, ConvertNoLaneByItself) {
  auto expect_vectors = [](DataType from, DataType to) {
    for (const char* target : kVectorTargets) {
      // An instruction for one of these is not slower than many for a vector.
      if ((from == kInt64 || to == kInt64) && target != kVectorTargets[0]) continue;
      const std::string text = assembly_of(
          map_of(kLanes, from, to, kLanes, [to](const Expr& v, const Expr&) { return converted(v, to); }),
          resolve_target(target));
      for (const char* one_by_one : {"cvttss2", "cvttsd2", "cvtsi2s", "cvtusi2s", "extractps"})
        EXPECT_EQ(count(text, one_by_one), 0)
            << one_by_one << " for " << to_string(from) << " as " << to_string(to) << " on " << target;
    }
  };
  for (const DataType real : kFloats) {
    for (const DataType integer : kIntegers) expect_vectors(real, integer);
    for (const DataType integer : kWide) expect_vectors(integer, real);
  }
}

}  // namespace
}  // namespace lathe::codegen
