// A journal in memory, for tests and simulations.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracker/journal.h"

namespace lathe::tracker {

/// Keeps everything in memory; survives a tracker destroyed and made again, not the process.
class MemoryJournal final : public Journal {
 public:
  /// The trials' targets, in turn.
  explicit MemoryJournal(std::vector<std::string> targets = {"cpu"}) : targets_(std::move(targets)) {}
  JournalState start() override;
  /// The workload's text is its number.
  std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) override;
  std::vector<Recipe> recipes(std::span<const TrialId> trials) override;
  std::string owner(JobId) override { return ""; }
  void ping() override {}
  /// CHECKs that each trial's records come in a legal order, with at most one terminal.
  std::vector<LeaseId> commit(std::span<const Record> records) override;

  /// Of trials from now on.
  void set_targets(std::vector<std::string> targets) { targets_ = std::move(targets); }
  /// As a damaged row would.
  void spoil(TrialId trial, std::string problem) {
    entries_.at(trial - 1).recipe.problem = std::move(problem);
  }

  struct Entry {
    OpenTrial trial;
    Recipe recipe;
    int terminal = 0;  // records
    Finished finished;
  };
  const std::vector<Entry>& entries() const { return entries_; }  // trial id - 1 is the index
  const std::vector<Examined>& distrusted() const { return distrusted_; }

 private:
  std::vector<std::string> targets_;
  uint64_t epoch_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, CandidateId> candidates_;   // by workload, target and trace
  std::map<std::string, db::WorkerHealth> health_;  // by worker
  std::set<std::string> drained_;
  std::vector<Examined> distrusted_;
};

}  // namespace lathe::tracker
