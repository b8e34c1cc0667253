#include "core/tir/target.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/machine.h"
#include "tests/thrown_by.h"

namespace lathe {
namespace {

std::string error_of(const std::string& text) {
  return thrown_by([&] { parse_target_text(text); });
}

TEST(Target, TextRoundTrip) {
  Target target;
  EXPECT_EQ(to_text(target), "cpu:vector=128,registers=16,cores=1,l1=32768,l2=1048576,l3=8388608");
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = "sapphirerapids";
  target.features = "+avx512f,+fma";
  target.vector_bits = 512;
  EXPECT_EQ(parse_target_text(to_text(target)), target);
  EXPECT_EQ(parse_target_text("cpu"), Target());
}

TEST(Target, NumbersOfItsMachineAreNoPartOfTheCanonicalText) {
  const Target target = parse_target_text("cpu:cores=2,latency=5");
  EXPECT_EQ(machine_of(target).latency, 5);
  EXPECT_EQ(to_text(target), to_text(parse_target_text("cpu:cores=2")));
  EXPECT_EQ(error_of("cpu:latency=slow"), "target: latency=slow must be a number above 0");
  EXPECT_EQ(error_of("cpu:latencies=5"),
            "target: no property is called `latencies`; did you mean `latency`?");
}

TEST(Target, BadTextIsTheUsersError) {
  EXPECT_EQ(error_of("toaster"), "target: `toaster` is not a kind of device; use cpu");
  EXPECT_EQ(error_of("cuda"), "target: nothing compiles for GPUs (`cuda`) yet; use cpu");
  EXPECT_EQ(error_of("cpu:vecto=512"), "target: no property is called `vecto`; did you mean `vector`?");
  EXPECT_EQ(error_of("cpu:vector=wide"), "target: vector=wide must be a whole number from 0 to 2^40");
  EXPECT_EQ(error_of("cpu:vector"), "target: `vector` must be property=value");
  EXPECT_EQ(error_of("cpu:vector=96"), "target: vector=96: must be a power of two");
  EXPECT_EQ(error_of("cpu:cores=0"), "target: vector=128 registers=16 cores=0: must be at least 32, 1 and 1");
}

}  // namespace
}  // namespace lathe
