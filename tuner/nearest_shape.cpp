#include "tuner/nearest_shape.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "core/support/error.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"

namespace lathe::tuner {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }

size_t end_of_digits(std::string_view text, size_t begin) {
  while (begin < text.size() && is_digit(text[begin])) ++begin;
  return begin;
}

/// Where the number that begins at `begin` ends: "64", "1.5", "1e-05"; of the range "0..8" after the 0.
size_t end_of_number(std::string_view text, size_t begin) {
  const auto at = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  size_t end = end_of_digits(text, begin);
  if (at(end) == '.' && is_digit(at(end + 1))) end = end_of_digits(text, end + 1);
  if (at(end) == 'e') {
    const size_t digits = end + (at(end + 1) == '-' || at(end + 1) == '+' ? 2 : 1);
    if (is_digit(at(digits))) end = end_of_digits(text, digits);
  }
  return end;
}

}  // namespace

Shape shape_of(const std::string& text) {
  Shape shape;
  for (size_t i = 0; i < text.size();) {
    // Digits of a name (conv2d) are no number.
    // Everything else is structure, spaces and newlines included: programs are printed in one way.
    if (!is_digit(text[i]) || (i > 0 && is_word(text[i - 1]))) {
      shape.structure += text[i++];
      continue;
    }
    const size_t end = end_of_number(text, i);
    // Only integers are extents; a float is a value, and part of the structure.
    if (end == end_of_digits(text, i)) {
      int64_t number = 0;
      std::from_chars(text.data() + i, text.data() + end, number);
      shape.numbers.push_back(number);
      shape.structure += '#';
    } else {
      shape.structure.append(text, i, end - i);
    }
    i = end;
  }
  return shape;
}

double distance(const Shape& a, const Shape& b) {
  double sum = 0;
  for (size_t i = 0; i < a.numbers.size(); ++i)
    // One more than each, so that 0 has a logarithm.
    sum += std::abs(
        std::log2((1.0 + static_cast<double>(a.numbers[i])) / (1.0 + static_cast<double>(b.numbers[i]))));
  return sum;
}

/// One pass over the texts of all workloads. The nearest without a best by the query is passed over for one
/// farther away that has it.
std::optional<NearestShape> nearest_shape(db::Reader& store, const db::BestQuery& query) {
  const std::string asked = store.workload(query.workload).text;
  const Shape shape = shape_of(asked);
  std::optional<NearestShape> nearest;
  // One text of some KiB for each workload that was ever measured; only for tasks that nothing is known of.
  for (db::WorkloadId id : store.measured_workloads(query.target)) {
    if (id == query.workload) continue;
    const Shape other = shape_of(store.workload(id).text);
    // Equal structure means equally many numbers, in the same places: distance() may compare them one by one.
    if (other.structure != shape.structure) continue;
    const double away = distance(shape, other);
    // Asking for the best comes last: it is the slowest question.
    if (nearest && away >= nearest->distance) continue;
    db::BestQuery there = query;
    there.workload = id;
    if (auto best = store.best(there))
      nearest = NearestShape{.measurement = std::move(best->measurement), .distance = away};
  }
  if (!nearest) return nearest;
  try {
    nearest->trace = schedule::parse_trace(nearest->measurement.trace);
    // Only to see whether it applies; whoever uses the trace replays it anew.
    schedule::replay(nearest->trace, tir::parse_func(asked));
    nearest->applies = true;
  } catch (const Error&) {  // of another version, or its decisions do not fit these extents
  }
  return nearest;
}

}  // namespace lathe::tuner
