#include "core/tir/machine.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe {
namespace {

/// As measured, and as in "Software Optimization Guide for the AMD Zen4 Microarchitecture", 2.8 and 2.11: 512
/// bits go through units of 256, and a cycle loads one such vector or two of 256 bits. Between cores it
/// depends on whether they share a third-level cache (20 bytes a cycle, 600 cycles a launch) or not (7,
/// 2400).
constexpr MachineModel znver4() {
  MachineModel model;
  model.multiply_adds = model.bfloat16_dots = model.int16_dots = model.int8_dots = model.loads = {2, 2, 1};
  model.l3_bandwidth = 27;
  model.memory_bandwidth = 9;
  model.streams = 20;
  model.core_bandwidth = 7;
  model.clock = 3.7;
  return model;
}

/// Without instructions for them, dot products are several others, which share units: what kernels reach on
/// Zen 3 beside 2 multiply-adds (bench/results/2026-11-26-fewer-bits.md).
constexpr double kBFloat16Dots = 0.5, kInt16Dots = 1.4, kInt8Dots = 0.65;
constexpr MachineModel widest_256() {
  MachineModel model;
  model.multiply_adds = model.loads = {2, 2, 0};
  model.bfloat16_dots = {kBFloat16Dots, kBFloat16Dots, 0};
  model.int16_dots = {kInt16Dots, kInt16Dots, 0};
  model.int8_dots = {kInt8Dots, kInt8Dots, 0};
  return model;
}
constexpr MachineModel widest_128() {
  MachineModel model;
  model.multiply_adds = model.loads = {2, 0, 0};
  model.bfloat16_dots = {kBFloat16Dots, 0, 0};
  model.int16_dots = {kInt16Dots, 0, 0};
  model.int8_dots = {kInt8Dots, 0, 0};
  return model;
}
/// AVX-512 before it had dot products of bfloat16, and before it had those of bytes.
constexpr MachineModel without_bfloat16() {
  MachineModel model;
  model.bfloat16_dots = {kBFloat16Dots, kBFloat16Dots, kBFloat16Dots};
  return model;
}
constexpr MachineModel without_bytes() {
  MachineModel model = without_bfloat16();
  model.int16_dots = {kInt16Dots, kInt16Dots, kInt16Dots};
  model.int8_dots = {kInt8Dots, kInt8Dots, kInt8Dots};
  return model;
}
/// 48 KiB have twelve ways: Sunny Cove, and Zen 5.
constexpr MachineModel twelve_ways(MachineModel model) {
  model.l1_ways = 12;
  return model;
}
/// Golden Cove with AMX. Of bfloat16 it has dot products of vectors at a quarter of the rate of float32's
/// multiply-adds, and tiles at sixteen vectors a cycle (bench/results/2026-11-26-tiles.md).
constexpr MachineModel with_tiles() {
  MachineModel model = twelve_ways({});
  model.bfloat16_dots = {kBFloat16Dots, kBFloat16Dots, kBFloat16Dots};
  model.bfloat16_tiles = model.int8_tiles = 16;
  model.l3_bandwidth = 10;
  model.core_bandwidth = 7;
  model.launch_cycles = 1500;
  return model;
}

/// Neoverse N1: 64 KiB in four ways. Pairs of int16 have no instruction.
constexpr MachineModel aarch64() {
  MachineModel model = widest_128();
  model.int16_dots = {kInt8Dots, 0, 0};
  model.int8_dots = {2, 0, 0};
  model.l1_ways = 4;
  return model;
}
/// Armv8.0: before dot products of bytes.
constexpr MachineModel armv8() {
  MachineModel model = aarch64();
  model.int8_dots = model.int16_dots;
  return model;
}

constexpr char kTwoUnits[] = "two units of 512 bits; bandwidths as znver5";
constexpr char kTiles[] = "measured on a virtual machine of two cores of Sapphire Rapids";
constexpr char kArmv8[] = "as aarch64, without dot products";
constexpr char kFitted[] = "what the models of schedules were fitted to, on Zen 5";
// The first that fits counts (machine_row): from the one processor to any.
constexpr MachineRow kRows[] = {
    {"znver5", "", "znver5", 0, twelve_ways({}), kFitted},
    {"znver4", "", "znver4", 0, znver4(), "measured on a virtual machine of two cores"},
    {"skylake-avx512", "x86_64", "skylake-avx512", 512, without_bytes(), kTwoUnits},
    {"cascadelake", "x86_64", "cascadelake", 512, without_bfloat16(), kTwoUnits},
    {"icelake-server", "x86_64", "icelake-server", 512, twelve_ways(without_bfloat16()), kTwoUnits},
    {"icelake-client", "x86_64", "icelake-client", 512, twelve_ways(without_bfloat16()), kTwoUnits},
    {"tigerlake", "x86_64", "tigerlake", 512, twelve_ways(without_bfloat16()), kTwoUnits},
    {"rocketlake", "x86_64", "rocketlake", 512, twelve_ways(without_bfloat16()), kTwoUnits},
    {"sapphirerapids", "x86_64", "sapphirerapids", 512, with_tiles(), kTiles},
    {"emeraldrapids", "x86_64", "emeraldrapids", 512, with_tiles(), kTiles},
    {"graniterapids", "x86_64", "graniterapids", 512, with_tiles(), kTiles},
    {"x86-64 with AVX-512", "x86_64", "", 512, {}, kTwoUnits},
    {"x86-64 with AVX2", "x86_64", "", 256, widest_256(), "two units of 256 bits; bandwidths as znver5"},
    {"x86-64", "x86_64", "", 0, widest_128(), "two units of 128 bits; bandwidths as znver5"},
    {"generic aarch64", "aarch64", "generic", 0, armv8(), kArmv8},
    {"cortex-a35", "aarch64", "cortex-a35", 0, armv8(), kArmv8},
    {"cortex-a53", "aarch64", "cortex-a53", 0, armv8(), kArmv8},
    {"cortex-a57", "aarch64", "cortex-a57", 0, armv8(), kArmv8},
    {"cortex-a72", "aarch64", "cortex-a72", 0, armv8(), kArmv8},
    {"cortex-a73", "aarch64", "cortex-a73", 0, armv8(), kArmv8},
    {"aarch64", "aarch64", "", 0, aarch64(), "two units of 128 bits (Neoverse N1); bandwidths as znver5"},
    {"any", "", "", 0, {}, kFitted},
};

// A macro, since a captureless lambda is what names a member of a member as a function.
#define LATHE_FIELD(name, unit, doc, member, ...)                                     \
  MachineField {                                                                      \
    name, unit, doc, [](MachineModel& m) -> double& { return m.member; }, __VA_ARGS__ \
  }
// A machine may have no vectors so wide.
constexpr bool kMayBeZero = true;
constexpr MachineField kFields[] = {
    LATHE_FIELD("multiply_adds_128", "a cycle", "float32, vectors of 128 bits", multiply_adds.bits128),
    LATHE_FIELD("multiply_adds_256", "a cycle", "float32, vectors of 256 bits", multiply_adds.bits256,
                kMayBeZero),
    LATHE_FIELD("multiply_adds_512", "a cycle", "float32, vectors of 512 bits", multiply_adds.bits512,
                kMayBeZero),
    LATHE_FIELD("bfloat16_dots_128", "a cycle", "pairs of bfloat16, 128 bits", bfloat16_dots.bits128),
    LATHE_FIELD("bfloat16_dots_256", "a cycle", "pairs of bfloat16, 256 bits", bfloat16_dots.bits256,
                kMayBeZero),
    LATHE_FIELD("bfloat16_dots_512", "a cycle", "pairs of bfloat16, 512 bits", bfloat16_dots.bits512,
                kMayBeZero),
    LATHE_FIELD("int16_dots_128", "a cycle", "pairs of 16-bit integers, 128 bits", int16_dots.bits128),
    LATHE_FIELD("int16_dots_256", "a cycle", "pairs of 16-bit integers, 256 bits", int16_dots.bits256,
                kMayBeZero),
    LATHE_FIELD("int16_dots_512", "a cycle", "pairs of 16-bit integers, 512 bits", int16_dots.bits512,
                kMayBeZero),
    LATHE_FIELD("int8_dots_128", "a cycle", "fours of 8-bit integers, 128 bits", int8_dots.bits128),
    LATHE_FIELD("int8_dots_256", "a cycle", "fours of 8-bit integers, 256 bits", int8_dots.bits256,
                kMayBeZero),
    LATHE_FIELD("int8_dots_512", "a cycle", "fours of 8-bit integers, 512 bits", int8_dots.bits512,
                kMayBeZero),
    LATHE_FIELD("bfloat16_tiles", "a cycle", "pairs of bfloat16, 512 bits of a tile", bfloat16_tiles,
                kMayBeZero),
    LATHE_FIELD("int8_tiles", "a cycle", "fours of 8-bit integers, 512 bits of a tile", int8_tiles,
                kMayBeZero),
    LATHE_FIELD("loads_128", "a cycle", "from the first-level cache, 128 bits", loads.bits128),
    LATHE_FIELD("loads_256", "a cycle", "from the first-level cache, 256 bits", loads.bits256, kMayBeZero),
    LATHE_FIELD("loads_512", "a cycle", "from the first-level cache, 512 bits", loads.bits512, kMayBeZero),
    LATHE_FIELD("latency", "cycles", "from one multiply-add of a sum to the next", latency),
    LATHE_FIELD("l1_ways", "lines", "a set of the first-level cache", l1_ways),
    LATHE_FIELD("l1_bandwidth", "bytes a cycle", "one core reads the first-level cache", l1_bandwidth),
    LATHE_FIELD("l2_bandwidth", "bytes a cycle", "one core reads the second-level cache", l2_bandwidth),
    LATHE_FIELD("l3_bandwidth", "bytes a cycle", "one core reads the third-level cache", l3_bandwidth),
    LATHE_FIELD("memory_bandwidth", "bytes a cycle", "one core reads memory", memory_bandwidth),
    LATHE_FIELD("streams", "streams", "one core reads memory in, a piece of each in turn", streams),
    LATHE_FIELD("core_bandwidth", "bytes a cycle", "what another core has just written", core_bandwidth),
    LATHE_FIELD("launch_cycles", "cycles", "a parallel loop besides its work", launch_cycles),
    LATHE_FIELD("task_cycles", "cycles", "handing out a task of a parallel loop", task_cycles),
    LATHE_FIELD("kept_bytes", "bytes", "kept by the last-level cache between runs", kept_bytes),
    LATHE_FIELD("clock", "GHz", "cycles of a core", clock),
    LATHE_FIELD("shared_arithmetic", "share", "of its arithmetic, while all cores compute",
                shared_arithmetic),
    LATHE_FIELD("shared_memory", "share", "of its memory bandwidth, while all cores read", shared_memory),
};
#undef LATHE_FIELD

/// Positive and finite, 0 where a field may be: models divide by these.
double parse_number(const MachineField& field, std::string_view text) {
  constexpr double kMost = 1e12;
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // From_chars reads "inf" and "nan" as well.
  const bool number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (!number || value > kMost || !(field.may_be_zero ? value >= 0 : value > 0))
    fail("target: {}={} must be a number {} 0", field.name, text,
         field.may_be_zero ? "of at least" : "above");
  return value;
}

}  // namespace

double RateByWidth::at(int bits) const {
  // A width that the machine has not got computes as its widest.
  if (bits > 256 && bits512 > 0) return bits512;
  return bits > 128 && bits256 > 0 ? bits256 : bits128;
}

std::span<const MachineRow> machine_rows() { return kRows; }
std::span<const MachineField> machine_fields() { return kFields; }

/// The first row that fits; the last one fits all and need not be asked.
const MachineRow& machine_row(const Target& target) {
  return *std::find_if(std::begin(kRows), std::end(kRows) - 1, [&](const MachineRow& row) {
    return target.triple.starts_with(row.triple) && (!*row.cpu || target.cpu == row.cpu) &&
           target.vector_bits >= row.vector_bits;
  });
}

const MachineField* find_machine_field(std::string_view name) {
  auto found = std::find_if(std::begin(kFields), std::end(kFields),
                            [&](const MachineField& field) { return field.name == name; });
  return found == std::end(kFields) ? nullptr : found;
}

const MachineModel& machine_of(const Target& target) {
  return target.measured ? *target.measured : machine_row(target).model;
}

std::string to_text(const MachineNumbers& numbers) {
  std::vector<std::string> pairs;
  for (const auto& [name, value] : numbers) pairs.push_back(fmt::format("{}={}", name, value));
  return join_text(pairs, ",");
}

MachineNumbers parse_machine_numbers(std::string_view text) {
  MachineNumbers numbers;
  for (const std::string& pair : split_text(text, ',')) {
    const std::string_view all = pair;
    const size_t equals = all.find('=');
    const MachineField* field = equals == all.npos ? nullptr : find_machine_field(all.substr(0, equals));
    if (!field) fail("`{}` is no number of a machine", pair);
    numbers[field->name] = parse_number(*field, all.substr(equals + 1));
  }
  return numbers;
}

MachineNumbers given_numbers(std::string_view target_text) {
  MachineNumbers numbers;
  const size_t colon = target_text.find(':');
  if (colon == target_text.npos) return numbers;
  for (const std::string& property : split_text(target_text.substr(colon + 1), ','))
    if (find_machine_field(property.substr(0, property.find('='))))
      for (const auto& [name, value] : parse_machine_numbers(property)) numbers[name] = value;
  return numbers;
}

void set_machine(Target& target, const MachineNumbers& measured, const MachineNumbers& given) {
  // From the row, so that numbers that did not settle, and those of older files, have a value.
  auto model = std::make_shared<MachineModel>(machine_row(target).model);
  // In this order: what the user gave replaces what was measured.
  for (const MachineNumbers* numbers : {&measured, &given})
    for (const auto& [name, value] : *numbers) {
      const MachineField* field = find_machine_field(name);
      CHECK(field, "a machine has no number {}", name);
      field->of(*model) = value;
    }
  target.measured = std::move(model);
}

MachineLimits machine_limits(const MachineModel& machine, int cores, int threads) {
  const auto& [bits128, bits256, bits512] = machine.multiply_adds;
  // By the width that computes fastest, which need not be the widest.
  // Of float32: 4, 8 and 16 in a vector.
  const double lanes = std::max({bits128 * 4, bits256 * 8, bits512 * 16});
  auto scaled = [&](double rate, double shared) {
    // What all cores have together: `cores * shared` times the rate of one, and not less than that.
    const double all = rate * std::max(1.0, cores * shared);
    // A few threads have all that a core can; many share what all cores have together.
    return std::min(threads * rate, all) * machine.clock * 1e9;
  };
  return {scaled(2 * lanes, machine.shared_arithmetic),
          scaled(machine.memory_bandwidth, machine.shared_memory)};
}

int64_t dot_length(DataType operands, DataType sum) {
  if (sum == kFloat32) return operands == kBFloat16 ? 2 : 0;
  if (sum != kInt32) return 0;
  return operands == kInt16 ? 2 : operands == kInt8 || operands == kUInt8 ? 4 : 0;
}

const RateByWidth& products_of(const MachineModel& machine, DataType operands, bool dot) {
  if (!dot) return machine.multiply_adds;
  if (operands == kBFloat16) return machine.bfloat16_dots;
  return operands == kInt16 ? machine.int16_dots : machine.int8_dots;
}

bool tiles_pay(DataType operands, int64_t rows, int64_t groups) {
  // Vectors of bytes have an instruction at the rate of multiply-adds, those of bfloat16 one at a quarter of
  // it (sapphirerapids).
  if (operands == kBFloat16) return groups >= 4;
  return (operands == kInt8 || operands == kUInt8) && rows >= 4 && groups >= kTileRows;
}

double tile_rate(const MachineModel& machine, const Target& target, DataType operands, int64_t groups) {
  // Virtual machines withhold them from processors that have them.
  if (target.vector_bits < 512 || target.features.find("-amx") != std::string::npos ||
      !tiles_pay(operands, kTileRows, groups))
    return 0;
  const int64_t steps = (groups + kTileRows - 1) / kTileRows;
  return (operands == kBFloat16 ? machine.bfloat16_tiles : machine.int8_tiles) * static_cast<double>(groups) /
         static_cast<double>(steps * kTileRows);
}

double dot_rate(const MachineModel& machine, const Target& target, DataType operands, int64_t groups) {
  return std::max(products_of(machine, operands, true).at(target.vector_bits),
                  kReachedOfTiles * tile_rate(machine, target, operands, groups));
}

double l3_rate(const MachineModel& machine) {
  // Fitted. Where an operand is larger than the second-level cache, tiles read it in pieces that end before
  // the processor has begun to fetch ahead.
  constexpr double kOfAStream = 0.4;
  return kOfAStream * machine.l3_bandwidth;
}

double memory_rate(const Target& target, double streams) {
  const MachineModel& machine = machine_of(target);
  const double one = machine.memory_bandwidth * (target.cores > 1 ? machine.shared_memory : 1);
  return one * std::min(1.0, machine.streams / streams);
}

namespace {
/// Sets of a cache: a power of two, whatever the two numbers say together.
int64_t sets_of(int64_t bytes, int64_t ways) {
  return static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(bytes / kLineBytes / ways, 1))));
}

int64_t rows_within(int64_t cache_bytes, int64_t ways, int64_t row_bytes) {
  const int64_t sets = sets_of(cache_bytes, ways);
  return ways * sets / std::gcd(row_bytes / kLineBytes, sets);
}
}  // namespace

/// A set of the cache is chosen by the line's address modulo the number of sets.
double conflicting_lines(const Target& target, std::span<const int64_t> addresses) {
  // More than fit put out each other, not only the ones that came first: twice as many as are too many, at
  // most all (8 to 14 rows of a product on Zen 4: bench/results/2026-11-22-any-model.md).
  constexpr double kPutOut = 2;
  // An L1 cache is indexed by the address: sets are bytes / line / ways.
  // A user may give any number above 0; of less than one line a set is none, and there is no dividing by it.
  const double ways = std::max(machine_of(target).l1_ways, 1.0);
  const int64_t sets = sets_of(target.l1_bytes, static_cast<int64_t>(ways));
  std::set<int64_t> lines;
  for (int64_t address : addresses) lines.insert(address / kLineBytes);
  std::map<int64_t, double> in_set;
  for (int64_t line : lines) ++in_set[line % sets];
  double conflicting = 0;
  for (const auto& [set, count] : in_set)
    if (count > ways) conflicting += std::min(count, kPutOut * (count - ways));
  return conflicting;
}

int64_t rows_within_l1(const Target& target, int64_t row_bytes) {
  const auto ways = static_cast<int64_t>(std::max(machine_of(target).l1_ways, 1.0));
  return rows_within(target.l1_bytes, ways, row_bytes);
}

int64_t rows_within_l2(const Target& target, int64_t row_bytes) {
  constexpr int64_t kWays = 16;
  return rows_within(target.l2_bytes, kWays, row_bytes);
}

bool stays_in_l2(const Target& target, double bytes, double part) {
  return bytes <= part * static_cast<double>(target.l2_bytes);
}

/// A working set is given the share of a cache that streams through it leave: three quarters of the first
/// level, half of the second.
double bandwidth_within(const Target& target, double bytes) {
  const MachineModel& machine = machine_of(target);
  if (!stays_in_l2(target, bytes, kL2OfStreams)) return l3_rate(machine);
  return bytes > static_cast<double>(target.l1_bytes) * 3 / 4 ? machine.l2_bandwidth : machine.l1_bandwidth;
}

int64_t far_bytes(const Target& target) { return target.l2_bytes / 32; }

// Layouts of tensors follow from this, and workloads that key the database from those: the table's number
// counts, not a measurement of it.
int Target::lanes_at_once() const {
  const RateByWidth& rates = machine_row(*this).model.multiply_adds;
  int bits = vector_bits;
  while (bits > 128 && rates.at(bits / 2) >= 2 * rates.at(bits)) bits /= 2;
  return bits / 32;
}

}  // namespace lathe
