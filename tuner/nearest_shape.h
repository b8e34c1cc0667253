// The same operators with other extents: what is known of those is where a search may start.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/reader.h"
#include "schedules/trace.h"

namespace lathe::tuner {

/// A program's text with its integers set apart: programs of one structure differ in extents alone.
struct Shape {
  std::string structure;
  std::vector<int64_t> numbers;
};
Shape shape_of(const std::string& workload_text);

/// How many times as large the numbers are as the others, or as small, all together, in powers of two.
/// REQUIRES: of one structure.
double distance(const Shape& a, const Shape& b);

/// The best of the nearest workload of the same structure. A trace that applies makes a correct program (each
/// primitive checks that it does), but how fast that one is was never measured: `measurement` is of the other
/// workload.
struct NearestShape {
  db::Measurement measurement;
  double distance = 0;
  schedule::Trace trace;  // empty when it cannot be read
  bool applies = false;   // to the workload asked about
};

/// Of the query's workload, which itself does not count; nothing when no other of its structure has a best by
/// the query. Reads the texts of all workloads measured for the target.
std::optional<NearestShape> nearest_shape(db::Reader& store, const db::BestQuery& query);

}  // namespace lathe::tuner
