#include "core/tir/machine.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/support/error.h"
#include "tests/thrown_by.h"

namespace lathe {
namespace {

Target target_of(const std::string& triple, const std::string& cpu, int vector_bits) {
  Target target;
  target.triple = triple;
  target.cpu = cpu;
  target.vector_bits = vector_bits;
  return target;
}

TEST(MachineRows, FarIsNeverFasterThanNear) {
  std::set<std::string> names;
  for (const MachineRow& row : machine_rows()) {
    const MachineModel& m = row.model;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GE(m.l1_bandwidth, m.l2_bandwidth) << row.name;
    EXPECT_GE(m.l2_bandwidth, m.l3_bandwidth) << row.name;
    EXPECT_GE(m.l3_bandwidth, m.memory_bandwidth) << row.name;
    EXPECT_GE(m.l2_bandwidth, m.core_bandwidth) << row.name;
    EXPECT_GE(m.launch_cycles, m.task_cycles) << row.name;
    for (const RateByWidth& rates : {m.multiply_adds, m.bfloat16_dots, m.int16_dots, m.int8_dots, m.loads}) {
      EXPECT_GT(rates.bits128, 0) << row.name;
      EXPECT_GE(rates.bits128, rates.bits256) << row.name;
      EXPECT_GE(rates.bits256, rates.bits512) << row.name;
    }
  }
}

TEST(MachineRows, TheMostSpecificOneCounts) {
  auto row = [](const std::string& triple, const std::string& cpu, int vector_bits) {
    return std::string(machine_row(target_of(triple, cpu, vector_bits)).name);
  };
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "znver4", 512), "znver4");
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "znver5", 256), "znver5");
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "sapphirerapids", 512), "sapphirerapids");
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "cooperlake", 512), "x86-64 with AVX-512");
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "skylake-avx512", 512), "skylake-avx512") << "no dot products";
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "skylake-avx512", 256), "x86-64 with AVX2");
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "haswell", 256), "x86-64 with AVX2");
  EXPECT_EQ(row("x86_64-unknown-linux-gnu", "nehalem", 128), "x86-64");
  EXPECT_EQ(row("aarch64-unknown-linux-gnu", "neoverse-n1", 128), "aarch64");
  EXPECT_EQ(row("riscv64-unknown-linux-gnu", "", 128), "any");
}

TEST(MachineRows, HalfOfWideVectorsAtOnceWhereUnitsAreNarrower) {
  EXPECT_EQ(target_of("", "znver4", 512).lanes_at_once(), 8);
  EXPECT_EQ(target_of("", "znver4", 256).lanes_at_once(), 8);
  EXPECT_EQ(target_of("", "znver5", 512).lanes_at_once(), 16);
  EXPECT_EQ(target_of("x86_64-unknown-linux-gnu", "haswell", 256).lanes_at_once(), 8);
  EXPECT_EQ(target_of("", "", 128).lanes_at_once(), 4);
}

TEST(Machine, TilesAsFarAsTheyAreFilled) {
  Target target = target_of("x86_64-unknown-linux-gnu", "sapphirerapids", 512);
  const auto rate = [&](DataType operands, int64_t groups) {
    return tile_rate(machine_row(target).model, target, operands, groups);
  };
  EXPECT_EQ(rate(kBFloat16, 32), 16);
  EXPECT_EQ(rate(kBFloat16, 8), 8) << "half of each tile is empty";
  EXPECT_EQ(rate(kBFloat16, 24), 12) << "of the second one";
  EXPECT_EQ(rate(kInt8, 64), 16);
  EXPECT_EQ(rate(kInt8, 8), 0) << "vectors are faster";
  EXPECT_EQ(rate(kInt16, 64), 0);
  EXPECT_EQ(rate(kFloat32, 64), 0);
  target.features = "-amx-tile";
  EXPECT_EQ(rate(kBFloat16, 32), 0) << "withheld";
  target = target_of("x86_64-unknown-linux-gnu", "znver4", 512);
  EXPECT_EQ(rate(kBFloat16, 32), 0);
}

TEST(Machine, RatesOfWidthsInBetween) {
  EXPECT_EQ((RateByWidth{4, 2, 1}.at(64)), 4);
  EXPECT_EQ((RateByWidth{4, 2, 1}.at(192)), 2);
  EXPECT_EQ((RateByWidth{4, 2, 1}.at(384)), 1);
  EXPECT_EQ((RateByWidth{4, 2, 0}.at(512)), 2) << "two of half the width";
  EXPECT_EQ((RateByWidth{4, 0, 0}.at(512)), 4);
}

TEST(Machine, FieldsNameEachNumberOnce) {
  EXPECT_EQ(machine_fields().size() * sizeof(double), sizeof(MachineModel));
  MachineModel model;
  std::set<std::string> names;
  std::set<double*> numbers;
  for (const MachineField& field : machine_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(numbers.insert(&field.of(model)).second) << field.name;
  }
}

TEST(Machine, WhatWasMeasuredCountsAndIsNoPartOfTheKey) {
  Target target = target_of("x86_64-unknown-linux-gnu", "znver5", 512), measured = target;
  MachineModel model;
  model.l2_bandwidth = 57;
  measured.measured = std::make_shared<const MachineModel>(model);
  EXPECT_EQ(machine_of(target).l2_bandwidth, 32);
  EXPECT_EQ(machine_of(measured).l2_bandwidth, 57);
  EXPECT_EQ(to_text(measured), to_text(target));
  EXPECT_EQ(measured, target);
  EXPECT_EQ(measured.lanes_at_once(), target.lanes_at_once());
}

TEST(MachineNumbers, TextRoundTrip) {
  const MachineNumbers numbers{{"latency", 4}, {"l3_bandwidth", 26.5}, {"loads_512", 0}};
  EXPECT_EQ(to_text(numbers), "l3_bandwidth=26.5,latency=4,loads_512=0");
  EXPECT_EQ(parse_machine_numbers(to_text(numbers)), numbers);
  EXPECT_TRUE(parse_machine_numbers("").empty());
}

TEST(MachineNumbers, BadTextIsTheUsersError) {
  auto error_of = [](const char* text) -> std::string {
    return thrown_by([&] { parse_machine_numbers(text); });
  };
  EXPECT_EQ(error_of("speed=4"), "`speed=4` is no number of a machine");
  EXPECT_EQ(error_of("latency"), "`latency` is no number of a machine");
  for (const char* value : {"", "0", "-1", "nan", "inf", "1e30", "4x"})
    EXPECT_EQ(error_of(fmt::format("latency={}", value).c_str()),
              fmt::format("target: latency={} must be a number above 0", value));
  EXPECT_EQ(error_of("loads_512=-1"), "target: loads_512=-1 must be a number of at least 0");
}

TEST(MachineNumbers, GivenOnesCountBeforeMeasuredOnesAndTheseBeforeTheRow) {
  EXPECT_EQ(given_numbers("cpu:vector=256,latency=5,loads_128=3"),
            (MachineNumbers{{"latency", 5}, {"loads_128", 3}}));
  EXPECT_TRUE(given_numbers("cpu").empty());
  Target target = target_of("x86_64-unknown-linux-gnu", "znver4", 512);
  set_machine(target, {{"latency", 6}, {"l2_bandwidth", 30}}, {{"latency", 5}});
  EXPECT_EQ(machine_of(target).latency, 5);
  EXPECT_EQ(machine_of(target).l2_bandwidth, 30);
  EXPECT_EQ(machine_of(target).loads.bits512, 1) << "the row's";
}

TEST(Machine, LimitsOfSeveralCores) {
  MachineModel model;
  model.multiply_adds = {2, 2, 1};
  model.clock = 2;
  model.memory_bandwidth = 10;
  model.shared_memory = 0.5;
  EXPECT_EQ(machine_limits(model, 8, 1).flops, 64e9) << "2 a cycle of 8 lanes or 1 of 16, at 2 GHz";
  EXPECT_EQ(machine_limits(model, 8, 4).flops, 256e9);
  EXPECT_EQ(machine_limits(model, 8, 1).bandwidth, 20e9);
  EXPECT_EQ(machine_limits(model, 8, 8).bandwidth, 80e9) << "half of what each core has alone";
  EXPECT_EQ(machine_limits(model, 8, 16).flops, 512e9) << "more threads than cores";
}

TEST(Machine, MemoryIsSharedByCoresAndByStreams) {
  Target target;
  set_machine(target, {{"memory_bandwidth", 8}, {"shared_memory", 0.5}, {"streams", 16}}, {});
  EXPECT_EQ(memory_rate(target), 8);
  EXPECT_EQ(memory_rate(target, 16), 8);
  EXPECT_EQ(memory_rate(target, 32), 4);
  target.cores = 2;
  EXPECT_EQ(memory_rate(target), 4);
}

TEST(Machine, LinesOfOneSetPutOutEachOther) {
  const Target target;  // 64 sets of 8 lines
  auto rows = [](int64_t count, int64_t stride) {
    std::vector<int64_t> addresses;
    for (int64_t row = 0; row < count; ++row) addresses.push_back(row * stride);
    return addresses;
  };
  EXPECT_EQ(conflicting_lines(target, rows(8, 4096)), 0);
  EXPECT_EQ(conflicting_lines(target, rows(10, 4096)), 4);
  EXPECT_EQ(conflicting_lines(target, rows(20, 3 * 4096)), 20);
  EXPECT_EQ(conflicting_lines(target, rows(20, 4096 + 64)), 0);
  EXPECT_EQ(conflicting_lines(target, rows(20, 2048)), 8) << "ten in each of two sets";
  EXPECT_EQ(conflicting_lines(target, rows(40, 4)), 0) << "three lines";
  const Target odd = parse_target_text("cpu:l1_ways=0.5");
  EXPECT_EQ(conflicting_lines(odd, rows(2, 32768)), 2) << "taken for one way";
}

TEST(Machine, BandwidthOfWorkingSets) {
  const Target target;  // 32 KiB and 1 MiB
  EXPECT_EQ(bandwidth_within(target, 16 << 10), MachineModel{}.l1_bandwidth);
  EXPECT_EQ(bandwidth_within(target, 32 << 10), MachineModel{}.l2_bandwidth);
  EXPECT_EQ(bandwidth_within(target, 1 << 20), l3_rate(MachineModel{}));
  EXPECT_EQ(far_bytes(target), 32 << 10);
}

}  // namespace
}  // namespace lathe
