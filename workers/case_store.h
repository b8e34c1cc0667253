// The cases (inputs and reference outputs, jobs.h) this worker has made, kept in memory files while they fit.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>

namespace lathe::worker {

class CaseStore {
 public:
  explicit CaseStore(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ~CaseStore();
  CaseStore(const CaseStore&) = delete;
  CaseStore& operator=(const CaseStore&) = delete;

  struct Case {
    std::string key;
    int descriptor = -1;
    int64_t bytes = 0;
    std::string failure;  // why there is none, then for all candidates of the workload
  };

  /// The case, most recently used from now on, or nullptr. Valid until the next add().
  const Case* find(const std::string& key);
  /// Takes over the descriptor; drops the least recently used cases beyond the limit.
  const Case* add(Case made);

 private:
  int64_t limit_bytes_;
  int64_t bytes_ = 0;
  std::list<Case> cases_;  // most recently used first
  std::map<std::string, std::list<Case>::iterator> by_key_;
};

}  // namespace lathe::worker
