#include "workers/case_store.h"

#include <unistd.h>

namespace lathe::worker {

CaseStore::~CaseStore() {
  for (const Case& made : cases_)
    if (made.descriptor >= 0) close(made.descriptor);
}

const CaseStore::Case* CaseStore::find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  cases_.splice(cases_.begin(), cases_, found->second);
  return &cases_.front();
}

const CaseStore::Case* CaseStore::add(Case made) {
  bytes_ += made.bytes;
  cases_.push_front(std::move(made));
  by_key_[cases_.front().key] = cases_.begin();
  // A child that still runs on one has a descriptor of its own.
  while (bytes_ > limit_bytes_ && cases_.size() > 1) {
    const Case& oldest = cases_.back();
    if (oldest.descriptor >= 0) close(oldest.descriptor);
    bytes_ -= oldest.bytes;
    by_key_.erase(oldest.key);
    cases_.pop_back();
  }
  return &cases_.front();
}

}  // namespace lathe::worker
