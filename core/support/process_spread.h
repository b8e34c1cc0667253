// How far apart processes are that time the same, and how well a sum of their times is known for it. Samples
// of one process say little of that: addresses, pages and neighbours are the same for all of them.
#pragma once

#include <optional>
#include <span>

namespace lathe {

/// Of processes around what they have in common, in relation to it: of logarithms of their medians.
class ProcessSpread {
 public:
  /// Of processes that timed the same; one alone says nothing. REQUIRES: positive and finite.
  void add(std::span<const double> medians);
  void add(const ProcessSpread& other);

  double freedom() const { return freedom_; }  // processes, less one each time
  double variance() const { return freedom_ > 0 ? squares_ / freedom_ : 0; }

 private:
  double squares_ = 0, freedom_ = 0;
};

/// Of a sum: what takes `seconds` by the median of so many processes.
struct TimedTerm {
  double seconds = 0;
  size_t processes = 1;
  ProcessSpread spread;  // of these and of others alike
};

struct TimeInterval {
  double low = 0, high = 0;
};

/// Of the sum of the terms, which are independent: it covers what the sum is with `confidence`, where
/// logarithms of processes' medians are about normal. Spreads may differ from term to term (Satterthwaite,
/// Biometrics Bulletin 2, 1946); one whose own is not known has that of all together. None where no spread is
/// known. REQUIRES: seconds and processes are positive.
std::optional<TimeInterval> interval_of_sum(std::span<const TimedTerm> terms, double confidence);

/// Student's t with so many degrees of freedom is within plus or minus this with `confidence`. REQUIRES:
/// freedom of at least 1.
double student_quantile(double confidence, double freedom);

}  // namespace lathe
