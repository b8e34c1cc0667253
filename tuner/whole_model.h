// The last stage of a tuning job: among the records of each task, those that make the whole model fastest
// (docs/decisions/009-whole-model-choice.md).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "core/tir/target.h"
#include "db/store.h"
#include "tuner/combination.h"
#include "tuner/tasks.h"

namespace lathe::tuner {

/// What a task may be computed by inside the model.
struct Alternative {
  std::optional<db::MeasurementId> measurement;  // none: the default schedule
  tir::Func scheduled;
  double constant_bytes = 0;  // of what one call reads
};

/// The best record for the query and up to three others: of other algorithms within 1.4 times its time, then
/// of other structures within 1.1 times, then any within 1.05 times; the default schedule when there is no
/// record. Those with the fewest bytes of constants first; `best` is the place of the best. Records that no
/// longer apply are left out.
struct Alternatives {
  std::vector<Alternative> list;
  size_t best = 0;
};
Alternatives find_alternatives(db::Reader& store, const db::BestQuery& query, const tir::Func& workload,
                               const Target& target);

struct WholeModelResult {
  int tasks = 0, exchanged = 0;
  int challengers = 0;           // 0: nothing to choose from, or no time
  double before = 0, after = 0;  // seconds of one run, timed in turn; 0 without challengers
};

/// Chooses for `key` on this machine and stores the choice (BestSchedules then builds with it); without any
/// challenger an earlier choice stays. REQUIRES: constant shapes; `key` is of the tasks of `fused`. Throws
/// Error as ModelBuilder and the store do.
WholeModelResult choose_whole_model(const relay::Module& fused, const Target& target, db::Store& store,
                                    const db::ChoiceKey& key, const ChoiceLimits& limits);

/// What a task's default schedule is called among candidates.
std::string default_fingerprint(const Task& task, const Target& target);

/// By workload.
using DefaultRecords = std::map<db::WorkloadId, db::Measurement>;

/// The records of the default schedules: what was measured for the key's target and threads, with results
/// within its error, on `device` where one is given. Workloads whose default schedule has no such record are
/// left out.
DefaultRecords default_records(db::Reader& store, const db::ChoiceKey& key, std::span<const Task> tasks,
                               const Target& target, std::optional<db::DeviceId> device = {});

/// The default schedules, which are faster together than the best of each task: by `race`, of these as
/// challenger against the defaults. Once it is stored, later builds follow it; a task whose default schedule
/// was never measured keeps its best in them.
db::Choice choice_of_defaults(const DefaultRecords& defaults, db::Reader& store, const db::ChoiceKey& key,
                              const RaceResult& race);

/// Whether what is stored for `key` is a choice_of_defaults: the next race may end otherwise.
bool has_chosen_defaults(const DefaultRecords& defaults, db::Reader& store, const db::ChoiceKey& key);

}  // namespace lathe::tuner
