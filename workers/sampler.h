// How many samples of a candidate are taken, and which of them count.
#pragma once

#include <vector>

#include "tracker/wire/wire.h"

namespace lathe::worker {

/// Which samples count, and when to stop sampling. Those before a much faster one do not: the process was
/// warming up. A disturbed sample is taken again, and counts only where time is over with fewer than the
/// smallest number of others, the fastest first (a disturbance makes none faster), or when as many as the
/// largest number were disturbed already: then that is how this machine is. It stops when the 95% interval of
/// the median (by order statistics, so for any distribution) is narrower than asked for; or the budget is
/// spent; or the candidate is surely slower than the incumbent: three times after one sample, by less the
/// more there are, with fewer than the smallest number too. What it is measured by then is never less than
/// the incumbent.
class Sampler {
 public:
  explicit Sampler(const wire::Evaluation& evaluation) : evaluation_(evaluation) {}
  void add(double seconds, bool disturbed);
  bool done(double elapsed_seconds) const;
  /// At least one when one was added.
  std::vector<float> samples() const;

 private:
  bool has_lost() const;

  const wire::Evaluation& evaluation_;
  std::vector<float> samples_, retaken_;
  bool warming_ = true;
};

/// Half the width of the 95% interval of the median, over the median; 1 for fewer than 6 samples.
double relative_interval(std::vector<float> samples);

}  // namespace lathe::worker
