#include "core/codegen/host_target.h"

#include <gtest/gtest.h>

#include "core/support/error.h"

namespace lathe::codegen {
namespace {
std::string message_of(const std::string& text) {
  try {
    resolve_target(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
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

TEST(ResolveTarget, SaysWhatIsUnknown) {
  EXPECT_EQ(message_of("gpu"), "target: `gpu` is not a kind of device; use cpu");
  EXPECT_EQ(message_of("cpu:mcpu=haswel"), "target: no CPU is called `haswel`; did you mean `haswell`?");
  EXPECT_EQ(message_of("cpu:mattr=+avx51f"),
            "target: no feature is called `avx51f`; did you mean `avx512f`?");
  EXPECT_EQ(message_of("cpu:mattr=fma"), "target: `fma` in mattr must be +feature or -feature");
  EXPECT_EQ(message_of("cpu:vector=200"), "target: vector=200 must be 128, 256 or 512");
}
}  // namespace
}  // namespace lathe::codegen
