// That the probes do what their names say: as many instructions, and these sums.
#include "workers/probe_kernels.h"

#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::worker {
namespace {

using codegen::assembly_of, codegen::count, codegen::resolve_target;

Tensor filled(const tir::Buffer& buffer, double value) {
  Tensor tensor(tir::constant_shape(buffer), buffer->dtype);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, value);
  return tensor;
}

TEST(ProbeKernels, ProductsAreAddedUpStepByStep) {
  const Target host = codegen::host_target();
  for (const ProductKind& kind : kProductKinds)
    for (int bits : {128, 256, 512}) {
      if (bits > host.vector_bits) continue;
      const ProbeKernel probe = products_probe("probe", kind, bits, host.vector_registers);
      std::vector<Tensor> params;
      for (const tir::Buffer& param : probe.func->params) params.push_back(filled(param, 2));
      codegen::run_kernel(probe.func, host, params);
      // Two, and four for each term of each of the steps.
      const double sums = static_cast<double>(params.back().size()) / (bits / 32);
      EXPECT_EQ(params.back().value(0), 2 + 4 * kind.terms * probe.instructions / sums) << kind.name << bits;
      EXPECT_EQ(params.back().value(params.back().size() - 1), params.back().value(0)) << kind.name << bits;
    }
}

TEST(ProbeKernels, BytesAreReadOnce) {
  const Target host = codegen::host_target();
  EXPECT_EQ(reading_probe("probe", 128, 4096).bytes_read, 4096);
  EXPECT_EQ(streams_probe("probe", 128, 4096, 3).bytes_read, 3 * 85 * 16) << "an odd number of each stream";
  for (const ProbeKernel& probe :
       {reading_probe("probe", 128, 4096), streams_probe("probe", 128, 4096, 3), loads_probe("probe", 128)}) {
    std::vector<Tensor> params{filled(probe.func->params[0], 1), filled(probe.func->params[1], 0)};
    codegen::run_kernel(probe.func, host, params);
    double sum = 0;
    for (int64_t i = 0; i < params[1].size(); ++i) sum += params[1].value(i);
    EXPECT_EQ(sum, probe.bytes_read / 4);
  }
}

/// One instruction for each sum and nothing beside it in the loop that would take its unit.
TEST(ProbeKernels, BecomeTheInstructionsTheyAreNamedFor) {
  const Target haswell = resolve_target("cpu:mcpu=haswell"),
               cooperlake = resolve_target("cpu:mcpu=cooperlake");
  auto text = [](int kind, const Target& target) {
    return assembly_of(
        products_probe("probe", kProductKinds[kind], target.vector_bits, target.vector_registers).func,
        target);
  };
  EXPECT_EQ(count(text(0, haswell), "vfmadd"), 12);
  EXPECT_EQ(count(text(0, haswell), "(%rsp)"), 0) << "spills";
  EXPECT_EQ(count(text(0, cooperlake), "vfmadd"), 24);
  EXPECT_EQ(count(text(1, cooperlake), "vdpbf16ps"), 24);
  EXPECT_EQ(count(text(2, haswell), "vpmaddwd"), 12);
  EXPECT_EQ(count(text(2, haswell), "(%rsp)"), 0) << "spills";
  EXPECT_EQ(count(text(3, cooperlake), "vpdpbusd"), 24);
  EXPECT_EQ(count(text(3, haswell), "vpdpbusd"), 0) << "what takes its place is timed";
  EXPECT_EQ(count(assembly_of(latency_probe("probe", 256).func, haswell), "vfmadd"), 1);
  EXPECT_EQ(count(assembly_of(loads_probe("probe", 512).func, cooperlake), "vpaddd"), 2048 / 64);
}

}  // namespace
}  // namespace lathe::worker
