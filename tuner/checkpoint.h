// Where a session stands, as bytes in the database: a job that was interrupted goes on from there, and
// proposes what it would have proposed (docs/decisions/029-searches-go-on.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/budget.h"
#include "tuner/search.h"
#include "tuner/session.h"

namespace lathe::tuner {

/// What a task's measurements taught the cost model. The features are those of the program, which the
/// database has.
struct Lesson {
  std::string fingerprint;
  double seconds = 0;  // infinite: it failed
};

/// A candidate that was submitted, and whose answer was not yet learnt from.
struct OpenCandidate {
  int64_t number = 0;  // in the order of submission over all tasks, from 0
  schedule::Trace trace;
  std::string fingerprint;
  double score = 0;
};

/// What all tasks share, when a task's checkpoint was written. That of the latest round holds.
struct SharedState {
  int round = 0;        // rounds of candidates that were proposed
  uint64_t random = 0;  // schedule::Random::state()
  int64_t submitted = 0;
  size_t window = 0;      // Session: answers that a proposal may be ahead of
  size_t trained_on = 0;  // lessons
  RankQuality quality;
};

struct TaskCheckpoint {
  SharedState shared;
  SearchState search;
  std::vector<double> best_after;  // TaskProgress
  TaskState state;
  std::vector<Lesson> lessons;
  std::vector<OpenCandidate> open;
};

std::string to_bytes(const TaskCheckpoint& checkpoint);
/// Throws Error for bytes that to_bytes of this version did not write. The traces need not fit any program.
TaskCheckpoint parse_task_checkpoint(std::string_view bytes);

}  // namespace lathe::tuner
