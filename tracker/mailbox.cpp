#include "tracker/mailbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lathe::tracker {

void Mailbox::put(Finished finished) {
  finished.device = {};  // KiB of text for the journal alone
  wire::Result& result = finished.result;
  const size_t bytes = result.samples.size() * sizeof(float) + result.message.size();
  // Of a race nothing else is left; a searcher has one at a time.
  if (bytes <= left_ || finished.trial >= kFirstRace)
    left_ -= std::min(left_, bytes);
  else
    result.samples = {}, result.message = {};
  results_.push_back(std::move(finished));
}

std::vector<Finished> Mailbox::take() {
  left_ = room_;
  std::vector<Finished> results(std::make_move_iterator(results_.begin()),
                                std::make_move_iterator(results_.end()));
  results_.clear();
  return results;
}

}  // namespace lathe::tracker
