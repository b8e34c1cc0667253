// The messages between tracker and workers, as plain structs, and their encoding (protobuf; wire.proto).
// docs/tracker.md has the conversation in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/support/outcome.h"

namespace lathe::wire {

/// Versions this build can speak. HELLO carries the worker's range; WELCOME names the one both will use.
inline constexpr uint32_t kNewestVersion = 6;
inline constexpr uint32_t kOldestVersion = 1;
/// From here on a lease may be of one part, code travels between builders and runners, and a refusal may say
/// more.
inline constexpr uint32_t kPartsVersion = 2;
/// From here on workers send canaries.
inline constexpr uint32_t kCanaryVersion = 3;
/// From here on a lease may be a race.
inline constexpr uint32_t kRaceVersion = 4;
/// From here on workloads and modules may have open dimensions.
inline constexpr uint32_t kOpenVersion = 5;
/// From here on a lease says whose candidate it is, and an acknowledgement what others are compared with.
inline constexpr uint32_t kIncumbentVersion = 6;

/// Evaluation::incumbent_seconds of a search of whose candidates none is believed yet.
inline constexpr double kNoIncumbent = 1e6;

/// How a candidate is to be measured. Times are seconds.
struct Evaluation {
  uint32_t threads = 1;
  uint32_t warmup = 1;       // untimed runs before the first sample
  uint32_t min_samples = 3;  // no candidate wins by fewer
  uint32_t max_samples = 100;
  double budget_seconds = 0.3;  // stop sampling after this long
  double relative_interval =
      0.01;  // stop when the 95% interval of the median is narrower than this, either side
  /// A candidate that is surely slower is given up early. 0: it is measured in full. A search says
  /// kNoIncumbent; a lease what the farm believes by then (incumbents.h).
  double incumbent_seconds = 0;
  double tolerance = 1e-4;  // largest accepted difference from the reference, relative to its largest value
  double build_limit_seconds = 30;
  double run_limit_seconds = 10;  // the whole child process, input preparation and checking included
  bool cold_cache = true;         // evict inputs from the cache between samples
  bool far_weights = false;       // constants from all caches: of a model whose weights no cache holds
  /// Of a race, what the open dimensions of both modules are; empty where none is open. A workload says
  /// itself at which sizes it is measured (schedules/family.h).
  std::vector<int64_t> dims = {};

  bool operator==(const Evaluation&) const = default;
};

/// What the evaluation asks for that no lease may, so that every worker would refuse to read it; "" when it
/// may. Whoever lets one in asks this first: a lease that nobody reads passes its time, for which workers are
/// blamed.
std::string fault_of(const Evaluation& evaluation);

/// Worker -> tracker, first on every connection. Names the leases it still holds, so that a tracker that was
/// restarted takes them up again.
struct Hello {
  uint32_t oldest_version = kOldestVersion;
  uint32_t newest_version = kNewestVersion;
  std::string worker;                 // stable across restarts: host name and device
  std::string device;                 // JSON fingerprint (workers/device.h)
  std::vector<std::string> backends;  // what target texts may start with: "cpu"
  std::vector<uint64_t> holding;
  std::vector<std::string> builds;  // platforms ("cpu/aarch64") that it builds for others' runners
  bool runner_only = false;         // it links no compiler: what it runs is built elsewhere
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  uint32_t version = kNewestVersion;
  uint64_t epoch = 0;  // counts the tracker's starts
  bool operator==(const Welcome&) const = default;
};

/// How many leases the worker is willing to hold at once. Absolute, so that saying it twice does no harm.
struct Credit {
  uint32_t slots = 0;
  bool operator==(const Credit&) const = default;
};

/// Bytes by their name: the SHA-256 of them, in 64 hexadecimal digits.
struct Blob {
  std::string digest;
  uint64_t size = 0;
  bool operator==(const Blob&) const = default;
};

/// What a lease asks for.
enum class Part : uint8_t {
  kWhole,  // build and measure
  kBuild,  // for a runner elsewhere: BUILT says what came of it, or RESULT why nothing did
  kRun,    // measure what was built elsewhere: `artifact`, against the outputs of `reference`
  kRace,   // time the module `artifact` in turn with the module `reference`, until one is clearly the faster
};

struct Lease {
  uint64_t lease = 0;  // unique for ever
  uint64_t trial = 0;
  uint32_t attempt = 1;
  uint32_t limit_ms = 0;  // from receipt to result
  std::string workload, trace, target;
  Evaluation evaluation;
  uint64_t seed = 0;  // of the inputs
  Part part = Part::kWhole;
  Blob artifact, reference;  // for kRun: the candidate and the unscheduled program (workers/jobs.h); for
                             // kRace: the challenger and the incumbent
  uint64_t job = 0;          // whose candidate it is,
  int64_t workload_id = 0;   // and for what; 0, as job: from a tracker that does not say
  bool operator==(const Lease&) const = default;
};

/// What else ran while a candidate was timed (workers/disturbance.h). All 0 from a worker that does not
/// watch.
struct Disturbance {
  uint32_t taken = 0;      // samples, those that were taken again included
  uint32_t disturbed = 0;  // of these
  double canary = 0;       // the slowest canary, times the best
  double clock_hz = 0;     // of a core, right after the last sample
  bool operator==(const Disturbance&) const = default;
};

struct Result {
  uint64_t lease = 0;
  uint64_t trial = 0;
  uint32_t attempt = 1;
  Outcome outcome = Outcome::kOk;
  std::vector<float> samples;  // seconds; of a race: the incumbent's and the challenger's, turn by turn
  std::string message;         // tail of stderr, or what went wrong
  int32_t signal = 0;          // that ended the child, or 0
  double relative_error = 0;
  double build_seconds = 0;
  double run_seconds = 0;
  std::string artifact;  // sha256 of the machine code
  Disturbance disturbance;
  /// Of the processor, when the samples had ended; none: no sensor of it is told of.
  std::optional<double> celsius;
  double timer_seconds = 0;  // what reading the clock adds to each sample; 0: not known
  bool operator==(const Result&) const = default;
};

/// Worker -> tracker: the lease's candidate and its reference are built, and the worker has them until this
/// is acknowledged. The tracker gets what it lacks by BLOB_GET.
struct Built {
  uint64_t lease = 0;
  uint64_t trial = 0;
  uint32_t attempt = 1;
  Blob artifact, reference;
  bool operator==(const Built&) const = default;
};

/// Both ways: the next piece of a blob of the lease is wanted.
struct BlobGet {
  uint64_t lease = 0;
  std::string digest;
  uint64_t offset = 0;
  bool operator==(const BlobGet&) const = default;
};

/// Both ways: the piece that was wanted. What nobody asked for is ignored.
struct BlobChunk {
  std::string digest;
  uint64_t offset = 0;
  std::string bytes;
  bool operator==(const BlobChunk&) const = default;
};

/// Worker -> tracker: how long fixed work takes on its device now (workers/canary.h). Both times are 0 when
/// the worker could not do it.
struct Canary {
  uint32_t number = 0;   // counted by the worker's process from 1: a copy says nothing new
  uint32_t kernels = 0;  // which work: times of one number compare
  double compute_seconds = 0, memory_seconds = 0;
  bool operator==(const Canary&) const = default;
};

/// Sent after the commit; only then does a result leave the worker's spool.
struct ResultAck {
  enum class Verdict : uint8_t { kRecorded, kDuplicate, kStale };
  uint64_t lease = 0;
  Verdict verdict = Verdict::kRecorded;
  /// What other candidates of its job for its workload are compared with from now on; 0: as before.
  double incumbent_seconds = 0;
  bool operator==(const ResultAck&) const = default;
};

/// Both ways. From a worker, `holding` lists every lease it has and has no acknowledgement for.
struct Heartbeat {
  std::vector<uint64_t> holding;
  uint64_t epoch = 0;
  bool operator==(const Heartbeat&) const = default;
};

/// Tracker -> worker: the lease is void, its result will not count.
struct Cancel {
  uint64_t lease = 0;
  bool operator==(const Cancel&) const = default;
};

/// Worker -> tracker: no more leases, and these, not yet begun, are handed back.
struct Drain {
  std::vector<uint64_t> returned;
  bool operator==(const Drain&) const = default;
};

/// Worker -> tracker: gone for good, handing these back.
struct Bye {
  std::vector<uint64_t> returned;
  bool operator==(const Bye&) const = default;
};

struct Refusal {
  enum class Code : uint8_t {
    kMalformed,     // the last message could not be read
    kVersion,       // no common version: give up
    kHelloFirst,    // the tracker does not know this peer: say HELLO
    kShuttingDown,  // the tracker is on its way out: come back later
    kNotAllowed,    // the worker's key does not allow what it is, or how it is called: give up
    kFull,          // as many workers as the tracker takes: come back later
    kSuspect,       // a result of this worker cannot be: give up
    kPaused,        // it gets no leases for now, or not all it wants
  };
  Code code = Code::kMalformed;
  std::string text;
  bool operator==(const Refusal&) const = default;
};

using Message = std::variant<Hello, Welcome, Credit, Lease, Result, ResultAck, Heartbeat, Cancel, Drain, Bye,
                             Refusal, Built, BlobGet, BlobChunk, Canary>;

std::string encode(const Message& message);

/// Throws Error saying what is wrong with `frame`: not an envelope, an empty one, a text, list or number over
/// its limit (tracker/defaults.h), an enumerator this version does not know. Never anything worse.
Message decode(std::string_view frame);

/// The message's name for logs: "HELLO".
std::string_view name_of(const Message& message);

}  // namespace lathe::wire
