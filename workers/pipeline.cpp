#include "workers/pipeline.h"

#include <iterator>
#include <utility>

namespace lathe::worker {

void Pipeline::run(const wire::Lease& lease) {
  std::unique_ptr<Candidate> candidate = builds_.take(lease.lease);
  candidate->lease.evaluation = lease.evaluation;
  runs_.start(std::move(candidate));
}

void Pipeline::discard(uint64_t lease) {
  builds_.discard(lease);
  runs_.discard(lease);
}

std::vector<Ended> Pipeline::collect() {
  std::vector<Ended> all = builds_.collect(), ran = runs_.collect();
  std::move(ran.begin(), ran.end(), std::back_inserter(all));
  return all;
}

std::vector<int> Pipeline::descriptors() const {
  std::vector<int> all = builds_.descriptors();
  for (int descriptor : runs_.descriptors()) all.push_back(descriptor);
  return all;
}

}  // namespace lathe::worker
