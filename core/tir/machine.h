// What a machine does in a cycle: the numbers that schedules decide by, without measurements of their own.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/support/dtype.h"
#include "core/tir/target.h"

namespace lathe {

/// What a cache brings in and puts out at once, in all machines here.
inline constexpr int64_t kLineBytes = 64;

/// Vector instructions that one core begins in a cycle, by the bits of the vectors; 0: it has none so wide.
struct RateByWidth {
  double bits128 = 0, bits256 = 0, bits512 = 0;
  /// For vectors of that many bits, or of the next of the three; what there is of narrower ones, where those
  /// are none.
  double at(int bits) const;
};

/// One core of a CPU; other kinds of devices will have numbers of their own. Cycles are the core's. Sizes of
/// caches and registers are the target's (target.h). The defaults are what the models of schedules/ were made
/// with (docs/decisions/017-machine-model.md).
struct MachineModel {
  RateByWidth multiply_adds{2, 2, 2};  // of float32
  RateByWidth bfloat16_dots{2, 2, 2};  // adding two products to each float32
  RateByWidth int16_dots{2, 2, 2};     // adding two products to each int32
  RateByWidth int8_dots{2, 2, 2};      // adding four products to each int32
  /// bfloat16_dots and int8_dots of 512 bits, in tile registers (AMX): 256 at a time for sixteen rows, as
  /// many columns and groups of neighbours. 0: it has none.
  double bfloat16_tiles = 0, int8_tiles = 0;
  RateByWidth loads{2, 2, 2};  // that the first-level cache answers
  double latency = 4;          // cycles from one multiply-add to the next of the same sum
  /// Places that the first-level cache has for lines whose addresses differ by a multiple of its size over
  /// them.
  double l1_ways = 8;
  // Bytes a cycle that one core reads in one stream.
  double l1_bandwidth = 64, l2_bandwidth = 32, l3_bandwidth = 25, memory_bandwidth = 7;
  double streams = 32;          // that may be read from memory at once, a piece of each in turn, at its rate
  double core_bandwidth = 4;    // of what another core has just written, from that one's caches
  double launch_cycles = 2048;  // of a parallel loop, from its start to its end, besides its work
  double task_cycles = 200;     // handing one of its tasks to a thread, and beginning that
  /// Bytes of a model that the last-level cache, shared with whoever else runs, may be trusted to keep from
  /// one run to the next.
  double kept_bytes = 32 << 20;
  double clock = 3;  // cycles a nanosecond: only rates in seconds need it
  // What a core keeps of its rates while all others work as well: less than 1 where cores are threads of one
  // core, and where they share the way to memory.
  double shared_arithmetic = 1, shared_memory = 1;
};

/// The machines known by name or kind, the most specific first; the last one stands for any.
struct MachineRow {
  const char* name;
  const char* triple;  // begins so
  const char* cpu;     // LLVM's name; "" for any
  int vector_bits;     // at least
  MachineModel model;
  const char* source;
};
std::span<const MachineRow> machine_rows();
const MachineRow& machine_row(const Target& target);

/// What was measured of the target's machine or given in its text, else its row.
const MachineModel& machine_of(const Target& target);

/// Some numbers of a machine by the names of machine_fields(): those that were measured, or that a user gave.
using MachineNumbers = std::map<std::string, double, std::less<>>;

/// "l2_bandwidth=32,latency=4": what the store and the cache keep. parse_machine_numbers is its inverse and
/// throws Error for what is no number of a machine.
std::string to_text(const MachineNumbers& numbers);
MachineNumbers parse_machine_numbers(std::string_view text);

/// The numbers of a machine among the properties of a target's text ("cpu:vector=256,latency=5"): such count
/// before what was measured. Throws Error for a value that cannot be.
MachineNumbers given_numbers(std::string_view target_text);

/// Gives the target its row with `measured` in place of the row's numbers, and `given` in place of those.
void set_machine(Target& target, const MachineNumbers& measured, const MachineNumbers& given);

/// Products of operands of this type that a lane of a dot product adds to a sum of type `sum`; 0 where there
/// is no dot product of them (docs/decisions/006-low-precision.md).
int64_t dot_length(DataType operands, DataType sum);

/// The instructions that multiply and add operands of this type, several products at a time where `dot`.
const RateByWidth& products_of(const MachineModel& machine, DataType operands, bool dot);

/// Rows of a tile register (AMX), and groups of neighbours in one of its rows.
inline constexpr int64_t kTileRows = 16;

/// Whether tile registers, where the target has them, take products of so many rows and groups of neighbours
/// that lie one behind the other in less time than vectors do: each takes its time whatever part is filled,
/// and sums go through memory.
bool tiles_pay(DataType operands, int64_t rows, int64_t groups);

/// Of vectors of dot products of such operands, how many the target's tile registers add in a cycle along so
/// many groups; 0 where it has none, and where they do not pay.
double tile_rate(const MachineModel& machine, const Target& target, DataType operands, int64_t groups);
/// What products reach of it: sums go through memory, and products wait for operands.
inline constexpr double kReachedOfTiles = 0.4;

/// The larger of what dot products of such operands reach a cycle in vectors and in tile registers, in
/// vectors.
double dot_rate(const MachineModel& machine, const Target& target, DataType operands, int64_t groups);

/// Bytes a cycle from beyond the second-level cache, as tiles read: rows of some hundred bytes here and
/// there.
double l3_rate(const MachineModel& machine);

/// Products of so few rows wait for their weights, each of which is used as often: schedules lay constant
/// ones out in panels as wide as a tile.
inline constexpr int64_t kPanelRows = 4;

/// Bytes a cycle that a core has from memory when all of the target's cores read, in so many streams: a
/// processor fetches ahead for a limited number, and the others wait for each of their lines.
double memory_rate(const Target& target, double streams = 1);

/// Of lines at these addresses, read again and again in turn, those that the first-level cache does not keep
/// although it is large enough: more than it has places for fall into one set.
double conflicting_lines(const Target& target, std::span<const int64_t> addresses);

/// Intermediates inside a parallel loop live on the stack of the thread (at most 4 MiB): what moves in may
/// take this much.
inline constexpr int64_t kStackBytes = 896 << 10;

/// Parts of the second-level cache that a working set keeps: of what is read once, while all else streams
/// through, and of a tile's, which is read again and again; and all of it, where nothing else comes in
/// between.
inline constexpr double kL2OfStreams = 0.5, kL2OfTiles = 0.75, kAllOfL2 = 1;
/// Whether so many bytes stay in that part of it.
bool stays_in_l2(const Target& target, double bytes, double part);

/// Rows at that distance from each other of which the cache holds a line each: as many as it has lines, or
/// fewer where rows share its sets.
int64_t rows_within_l1(const Target& target, int64_t row_bytes);
int64_t rows_within_l2(const Target& target, int64_t row_bytes);

/// Bytes a cycle from the cache that holds a working set of that size beside what else runs through it.
double bandwidth_within(const Target& target, double bytes);

/// Constants this large come from memory, or from a cache that all cores share, in each run of a model: the
/// others' are as many again and again. All constants of a model together do when they are more than
/// `kept_bytes`.
int64_t far_bytes(const Target& target);

/// A number of the model by its name in texts and tables.
struct MachineField {
  const char* name;
  const char* unit;
  const char* doc;
  double& (*of)(MachineModel& model);
  bool may_be_zero = false;
};
std::span<const MachineField> machine_fields();
/// Null when there is none of that name.
const MachineField* find_machine_field(std::string_view name);

/// What `threads` cores do at most, in operations (a multiply-add counts two) and bytes a second.
struct MachineLimits {
  double flops = 0, bandwidth = 0;
};
MachineLimits machine_limits(const MachineModel& machine, int cores, int threads);

}  // namespace lathe
