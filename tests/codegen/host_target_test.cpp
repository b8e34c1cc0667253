#include "core/codegen/host_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/cpu.h"
#include "core/support/error.h"
#include "tests/thrown_by.h"

namespace lathe::codegen {
namespace {
std::string message_of(const std::string& text) {
  return thrown_by([&] { resolve_target(text); });
}

TEST(ResolveTarget, FillsInWhatTheCpuImplies) {
  Target t = resolve_target("cpu:mcpu=skylake-avx512");
  EXPECT_EQ(t.cpu, "skylake-avx512");
  EXPECT_EQ(t.vector_bits, 512);
  EXPECT_EQ(t.vector_registers, 32);
  EXPECT_EQ(resolve_target("cpu:mcpu=haswell").vector_bits, 256);
  EXPECT_EQ(resolve_target("cpu:mcpu=haswell").vector_registers, 16);
  EXPECT_EQ(resolve_target("cpu:mcpu=nehalem").vector_bits, 128);
  EXPECT_EQ(resolve_target("cpu:mcpu=skylake-avx512,mattr=-avx512f").vector_bits, 256);
}

TEST(ResolveTarget, FindsTheArchitectureOfACpu) {
  const Target board = resolve_target("cpu:mcpu=cortex-a72,cores=4");
  EXPECT_EQ(board.triple, "aarch64-linux-gnu");
  EXPECT_EQ(board.vector_bits, 128);
  EXPECT_EQ(board.cores, 4);
  EXPECT_EQ(resolve_target("cpu:mcpu=cortex-a72"),
            resolve_target("cpu:triple=aarch64-linux-gnu,mcpu=cortex-a72"))
      << "nothing of this machine";
  EXPECT_EQ(resolve_target("cpu:mcpu=sifive-u74").triple, "riscv64-linux-gnu");
  EXPECT_EQ(resolve_target(to_text(board)), board);
}

TEST(ResolveTarget, OverridesWhatIsGiven) {
  Target t = resolve_target("cpu:mcpu=skylake-avx512,vector=256,cores=3,l2=12345");
  EXPECT_EQ(t.vector_bits, 256);
  EXPECT_EQ(t.cores, 3);
  EXPECT_EQ(t.l2_bytes, 12345);
}

TEST(ResolveTarget, IsIdempotentOnItsText) {
  for (const char* text : {"cpu", "cpu:mcpu=haswell", "cpu:vector=256,mattr=-fma;-avx512f"}) {
    Target t = resolve_target(text);
    EXPECT_EQ(resolve_target(to_text(t)), t) << to_text(t);
  }
}

TEST(CpuFeatures, AreThoseOfTheSubtarget) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(cpu_features(resolve_target("cpu:mcpu=x86-64")), Names{});
  EXPECT_EQ(cpu_features(resolve_target("cpu:mcpu=nehalem")),
            (Names{"pni", "popcnt", "sse4_1", "sse4_2", "ssse3"}));
  const Names haswell{"abm",   "avx", "avx2",   "bmi1",   "bmi2",   "f16c", "fma",
                      "movbe", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"};
  EXPECT_EQ(cpu_features(resolve_target("cpu:mcpu=haswell")), haswell);
  EXPECT_EQ(cpu_features(resolve_target("cpu:mcpu=skylake-avx512,mattr=-avx512f")), haswell);
  EXPECT_THAT(cpu_features(resolve_target("cpu:mcpu=sapphirerapids")),
              testing::IsSupersetOf(
                  {"avx512f", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni"}));
  EXPECT_THAT(cpu_features(resolve_target("cpu:triple=aarch64-unknown-linux-gnu,mcpu=neoverse-n1")),
              testing::IsSupersetOf({"asimd", "asimddp", "asimdhp", "atomics"}));
}

TEST(CpuFeatures, OfThisMachineAreAllHere) {
  EXPECT_THAT(missing_cpu_features(cpu_features(host_target())), testing::IsEmpty());
  // A virtual machine may lack what its CPU's name promises, whatever else is taken from it.
  EXPECT_THAT(missing_cpu_features(cpu_features(resolve_target("cpu:vector=256,mattr=-avx512vnni"))),
              testing::IsEmpty());
}

TEST(ResolveTarget, SaysWhatIsUnknown) {
  EXPECT_EQ(message_of("gpu"), "target: `gpu` is not a kind of device; use cpu");
  EXPECT_EQ(message_of("cpu:mcpu=haswel"), "target: no CPU is called `haswel`; did you mean `haswell`?");
  EXPECT_EQ(message_of("cpu:mattr=+avx51f"),
            "target: no feature is called `avx51f`; did you mean `avx512f`?");
  EXPECT_EQ(message_of("cpu:mattr=fma"), "target: `fma` in mattr must be +feature or -feature");
  EXPECT_EQ(message_of("cpu:vector=200"), "target: vector=200: must be a power of two");
  EXPECT_EQ(message_of("cpu:vector=1024"), "target: vector=1024 must be 128, 256 or 512");
}

TEST(ResolveTarget, RefusesWhatNoKernelCanBeCalledBy) {
  const std::string x86 = "cpu:triple=x86_64-unknown-linux-gnu,";
  EXPECT_EQ(message_of(x86 + "mattr=+soft-float"),
            "target: code for x86_64 needs -soft-float, which this one is without");
  EXPECT_EQ(message_of(x86 + "mattr=-sse"), "target: code for x86_64 needs +sse2, which this one is without");
  EXPECT_EQ(message_of(x86 + "mcpu=pentium4"),
            "target: code for x86_64 needs +64bit, which this one is without");
}
}  // namespace
}  // namespace lathe::codegen
