#include "tests/tracker/memory_journal.h"

#include "core/support/error.h"

namespace lathe::tracker {

JournalState MemoryJournal::start() {
  JournalState state{.epoch = ++epoch_};
  for (const Entry& entry : entries_)
    if (entry.terminal == 0) state.open.push_back(entry.trial);
  for (const auto& [worker, health] : health_) state.health.push_back(health);
  state.drained.assign(drained_.begin(), drained_.end());
  return state;
}

std::vector<Submission> MemoryJournal::add(JobId job, std::span<const Candidate> candidates) {
  std::vector<Submission> submissions;
  for (const Candidate& candidate : candidates) {
    const auto spec = std::make_shared<TrialSpec>(
        TrialSpec{.job = job,
                  .workload = std::make_shared<std::string>(std::to_string(candidate.workload)),
                  .workload_id = candidate.workload,
                  .target = targets_[entries_.size() % targets_.size()]});
    const TrialId id = entries_.size() + 1;
    const CandidateId same =
        candidates_
            .try_emplace(fmt::format("{} {} {}", candidate.workload, spec->target, candidate.trace), id)
            .first->second;
    entries_.push_back({.trial = {.trial = id, .candidate = same, .spec = spec},
                        .recipe = {candidate.trace, candidate.evaluation}});
    submissions.push_back({.trial = id, .candidate = same, .spec = spec});
  }
  return submissions;
}

std::vector<Recipe> MemoryJournal::recipes(std::span<const TrialId> trials) {
  std::vector<Recipe> recipes;
  for (TrialId id : trials) recipes.push_back(entries_.at(id - 1).recipe);
  return recipes;
}

std::vector<LeaseId> MemoryJournal::commit(std::span<const Record> records) {
  const auto open = [&](TrialId id) -> Entry& {
    CHECK(id >= 1 && id <= entries_.size(), "trial {} was never submitted", id);
    CHECK(entries_[id - 1].terminal == 0, "trial {} is closed", id);
    return entries_[id - 1];
  };
  struct Write {
    MemoryJournal& journal;
    decltype(open)& entry;
    void operator()(const Leased& r) {
      OpenTrial& trial = entry(r.trial).trial;
      CHECK(!trial.leased, "trial {} is leased twice at once", r.trial);
      trial.grants.push_back(r.grant);
      trial.leased = true;
    }
    void operator()(const Released& r) {
      OpenTrial& trial = entry(r.trial).trial;
      CHECK(trial.leased && trial.grants.back().lease == r.lease, "trial {} is not leased", r.trial);
      trial.grants.back().lost = r.lost;
      trial.leased = false;
    }
    void operator()(const Finished& r) {
      Entry& e = entry(r.trial);
      e.terminal++;
      e.finished = r;
    }
    void operator()(const Cancelled& r) { entry(r.trial).terminal++; }
    void operator()(const Examined& r) {
      journal.health_[r.health.worker] = r.health;
      if (r.distrust) journal.distrusted_.push_back(r);
    }
    void operator()(const Drained& r) {
      if (r.drained)
        journal.drained_.insert(r.worker);
      else
        journal.drained_.erase(r.worker);
    }
  };
  for (const Record& record : records) std::visit(Write{*this, open}, record);
  return {};
}

}  // namespace lathe::tracker
