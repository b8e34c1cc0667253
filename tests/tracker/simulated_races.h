// Races of two builds in the simulated farm, as the searches see them that wait for one: they die with their
// tracker, and sometimes alone, and ask again. Says where the farm breaks what docs/tracker.md promises.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracker/farm.h"
#include "workers/agent.h"

namespace lathe::tracker::testing {

/// Trials from here on are races, counted anew in each life of the tracker.
inline constexpr TrialId kFirstRace = TrialId{1} << 62;

/// A search that ends with a race.
struct RacingSearch {
  JobId job = 0;
  std::string target;
  bool kills = false;  // its race takes away whoever runs it
};

class SimulatedRaces {
 public:
  using Fits = std::function<bool(const std::string& worker, const std::string& target)>;
  using Violated = std::function<void(std::string rule)>;
  SimulatedRaces(const std::vector<RacingSearch>& searches, Fits fits, Violated violated);

  size_t count() const { return searches_.size(); }
  bool waits(size_t search) const { return searches_[search].race != 0; }
  /// What a search says that asks for its race, for the first time or in another life of its own; nothing
  /// once it is over.
  std::vector<Event> ask(size_t search);
  /// A client cancels the search's job.
  CancelJob cancel(size_t search);
  /// The tracker is gone, with all searches.
  void tracker_died();

  // What the farm decides, in this order in a step; and what a search is told, after the commit.
  void decided(const Record& record) const;
  void decided(const std::string& worker, const wire::Lease& lease);
  void decided(const Finished& finished);
  void told(const Finished& finished);

  // What a worker makes of a race.
  bool kills(const worker::Run& run) const { return searches_.at(search_of(run)).is.kills; }
  wire::Result run(const worker::Run& run) const;

  bool over() const;
  /// Searches that have got the turns of their race.
  int raced() const;
  bool none_in(const Farm& farm) const;

 private:
  /// Whose race it is.
  static size_t search_of(const worker::Run& run) { return run.lease.evaluation.threads - 1; }

  struct Search {
    RacingSearch is;
    TrialId race = 0;  // that it waits for
    bool over = false, raced = false;
  };
  struct Race {
    size_t search = 0;
    std::map<LeaseId, std::string> leases;  // with their workers
    bool over = false;                      // it has ended, or nobody waits for it any more
  };

  std::vector<Search> searches_;
  std::map<TrialId, Race> races_;  // of this life of the tracker
  std::set<TrialId> told_;         // of these
  const Fits fits_;
  const Violated violated_;
};

}  // namespace lathe::tracker::testing
