// What the tracker writes down before it speaks: trials, leases and results. `db/` keeps it on disk
// (tracker/store_journal.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "db/records.h"
#include "tracker/needs.h"
#include "tracker/race_modules.h"
#include "tracker/wire/wire.h"

namespace lathe::tracker {

using TrialId = uint64_t;
using LeaseId = uint64_t;
using JobId = uint64_t;
/// Trials of one candidate have one workload, target and trace.
using CandidateId = int64_t;

/// What the farm decides by, of candidates to be measured or of a race. Immutable, and shared by the trials
/// of a job's task: a queue has millions of them.
struct TrialSpec {
  JobId job = 0;
  std::shared_ptr<const std::string> workload;  // text
  int64_t workload_id = 0;                      // its number in the journal
  std::string target;
  double fastest_seconds = 0;  // what takes less was not measured (fastest_believable, core/tir/roofline.h)
  std::string device_class;    // of the devices that may measure it (device_class.h); "": any that can run it
  Properties needs;            // what their devices must have at least
  std::string owner;           // of its job, with whom devices are shared by weight
  double weight = 1;
  bool is_open = false;  // its kernels take dimensions, which workers know from wire::kOpenVersion on
  /// Of a race, which has no workload and no trace, and is never written down: it ends with its tracker.
  std::shared_ptr<const RaceModules> race;
};

/// What only whoever measures a trial needs to know of it. It is in the journal alone until the trial is
/// leased.
struct Recipe {
  std::string trace;
  wire::Evaluation evaluation;
  uint64_t seed = 0;    // of the inputs
  std::string problem;  // why there is no recipe; "" when there is one
};

/// A lease that was given out, ever, for a trial still open. A result counts when it names one of these.
struct Grant {
  LeaseId lease = 0;
  uint32_t attempt = 1;
  std::string worker;  // its name, not its connection
  bool lost = false;   // the worker went away with it

  bool operator==(const Grant&) const = default;
};

/// What a worker said before that a candidate takes.
struct Testimony {
  std::string worker, device_class;
  double seconds = 0;
  bool suspect = false;  // it is not believed
};

/// What the tuner would like to see measured, of a workload that the journal knows.
struct Candidate {
  int64_t workload = 0;
  std::string trace;
  std::string program;   // structural hash of the scheduled program: equal ones are one candidate
  double predicted = 0;  // the cost model's score
  db::Purpose purpose = db::Purpose::kSearch;

  bool is_first() const { return purpose == db::Purpose::kSearch; }  // else it was measured before
  wire::Evaluation evaluation;
};

/// What became of it.
struct Submission {
  enum class Status : uint8_t {
    kQueued,
    kDuplicate,  // the job has tried it, or is about to
    kMeasured,   // another job has measured it on that device
  };
  Status status = Status::kQueued;
  TrialId trial = 0;        // 0 for kMeasured
  int64_t measurement = 0;  // of the store, for kMeasured
  // For kQueued:
  CandidateId candidate = 0;
  std::shared_ptr<const TrialSpec> spec;
  std::vector<Testimony> said;  // of one to be confirmed, the latest last: others are to, where there are any
};

// --- the records, in the order they may occur for a trial

/// Written before LEASE is sent.
struct Leased {
  TrialId trial = 0;
  Grant grant;
  std::string device;  // the worker's JSON fingerprint
};

/// The lease ended without a result. `lost`: with its worker, which may be the candidate's fault.
struct Released {
  TrialId trial = 0;
  LeaseId lease = 0;
  bool lost = false;
};

/// The one terminal record of a trial. Never changes.
struct Finished {
  TrialId trial = 0;
  JobId job = 0;
  std::string worker;
  std::string device;  // JSON fingerprint
  wire::Result result;
  std::string revision;  // of the program that built it, where that was another than the worker's
};

/// The other terminal record: nobody waits for the trial any more.
struct Cancelled {
  TrialId trial = 0;
};

/// What is now known of a worker.
struct Examined {
  db::WorkerHealth health;
  bool good = false;      // a canary was as it should be just now
  bool distrust = false;  // what it measured since its last good canary is out until measured again
  std::chrono::milliseconds unproven{0};  // where it never had one: how long it has been here
  bool lied = false;                      // canaries do not tell of that: all that it ever measured is out
};

/// A worker takes no more leases until an administrator says otherwise; or does again.
struct Drained {
  std::string worker;
  bool drained = true;
};

using Record = std::variant<Leased, Released, Finished, Cancelled, Examined, Drained>;

/// A trial with no terminal record, as found at start.
struct OpenTrial {
  TrialId trial = 0;
  CandidateId candidate = 0;
  std::shared_ptr<const TrialSpec> spec;
  std::vector<Testimony> said;  // as in Submission
  std::vector<Grant> grants;    // in the order given
  bool leased = false;          // the last grant was never released
};

struct JournalState {
  uint64_t epoch = 1;          // of this start; greater than that of any lease
  std::deque<OpenTrial> open;  // in the order submitted
  std::vector<db::WorkerHealth> health;
  std::vector<std::string> drained;  // workers
};

class Journal {
 public:
  virtual ~Journal() = default;
  /// Reads what is open. Called once, first.
  virtual JournalState start() = 0;
  /// Writes down new trials; on disk when it returns. Throws Error.
  virtual std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) = 0;
  /// Of open trials, in their order. What cannot be read of one (a damaged row, say) is its recipe's problem.
  virtual std::vector<Recipe> recipes(std::span<const TrialId> trials) = 0;
  /// For whom the job's trials are: TrialSpec::owner.
  virtual std::string owner(JobId job) = 0;
  /// Throws Error when what it is written to cannot be reached any more.
  virtual void ping() = 0;
  /// All of `records` or none; on disk when it returns. Throws Error (a full disk, say): then nothing that
  /// rests on the records may be sent. Returns the leases whose results were not written down, since somebody
  /// else had ended their trials.
  virtual std::vector<LeaseId> commit(std::span<const Record> records) = 0;
};

}  // namespace lathe::tracker
