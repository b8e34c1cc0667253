// Whose word about a candidate is contradicted by what others say of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "db/records.h"

namespace lathe::tracker {

/// What a worker says that a candidate takes.
struct Word {
  std::string worker, owner;        // owner: of its key; "" where there are none
  double seconds = 0;               // the median of what it said
  db::CanaryLevel compute, memory;  // its baselines, for machines of one class may differ; 0 s: none yet
};

struct Contradicted {
  std::string worker, reason;
};

struct Dispute {
  /// Each by two others who agree with each other, while nobody agrees with it. All workers of another owner
  /// are one voice, so that nobody is outvoted by a crowd of one user's; those of its own are on their own.
  std::vector<Contradicted> contradicted;
  /// What two say of whom nobody tells who is right; "": there is no such thing.
  std::string open;
};

/// Of workers on devices of one class, about one candidate.
Dispute find_dispute(std::span<const Word> words);

}  // namespace lathe::tracker
