// A journal that passes on what it is given, for tests that disturb one thing of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tracker/journal.h"

namespace lathe::tracker {

class PassingJournal : public Journal {
 public:
  /// REQUIRES: `journal` outlives this, or is a member of what derives from it.
  explicit PassingJournal(Journal& journal) : journal_(journal) {}
  JournalState start() override { return journal_.start(); }
  std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) override {
    return journal_.add(job, candidates);
  }
  std::vector<Recipe> recipes(std::span<const TrialId> trials) override { return journal_.recipes(trials); }
  std::string owner(JobId job) override { return journal_.owner(job); }
  void ping() override { journal_.ping(); }
  std::vector<LeaseId> commit(std::span<const Record> records) override { return journal_.commit(records); }

 private:
  Journal& journal_;
};

}  // namespace lathe::tracker
