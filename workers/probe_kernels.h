// Loops that do one thing over and over, as generated code does it: what machine_probe.h times.
#pragma once

#include <string>

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::worker {

/// The operands of a product and how many of them an instruction adds up.
struct ProductKind {
  const char* name;  // the number's in machine_fields(), without its width
  DataType data, weight, sum;
  int terms = 1;
};
inline constexpr ProductKind kProductKinds[] = {
    {"multiply_adds", kFloat32, kFloat32, kFloat32, 1},
    {"bfloat16_dots", kBFloat16, kBFloat16, kFloat32, 2},
    {"int16_dots", kInt16, kInt16, kInt32, 2},
    {"int8_dots", kUInt8, kInt8, kInt32, 4},
};

/// A lowered function and what it does in one run.
struct ProbeKernel {
  tir::Func func;  // its buffers: see below
  double instructions = 0;
  double bytes_read = 0;
};

/// out[row, column, lanes] += weight[column] * data[step, row, lanes], step after step: as many sums as there
/// are registers for, none of which waits for another; `sums` = 1 is one that waits for itself. Buffers:
/// weight, data, out.
ProbeKernel products_probe(std::string name, const ProductKind& kind, int bits, int registers);
ProbeKernel latency_probe(std::string name, int bits);

/// Adds up a buffer of that many bytes, once, as integers, for there are more units for these than for loads.
/// Buffers: data, out.
ProbeKernel reading_probe(std::string name, int bits, int64_t bytes);
/// The same in so many streams, a vector of each in turn.
ProbeKernel streams_probe(std::string name, int bits, int64_t bytes, int streams);
/// As the first, over and over with a few bytes and without a loop over them, whose end would be guessed
/// wrong.
ProbeKernel loads_probe(std::string name, int bits);

}  // namespace lathe::worker
