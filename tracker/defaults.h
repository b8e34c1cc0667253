// Timers, limits and ports of the service that more than one of its parts keeps, or that docs/tracker.md
// explains.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lathe::defaults {

using std::chrono::milliseconds;

inline constexpr const char* kTrackerEndpoint = "tcp://127.0.0.1:9190";
inline constexpr uint16_t kHttpPort = 9191;

// Liveness. A worker is lost after kMissedHeartbeats periods of silence; its leases are then handed out
// again.
inline constexpr milliseconds kHeartbeat{2000};
inline constexpr int kMissedHeartbeats = 5;
inline constexpr milliseconds kSilence = kHeartbeat * kMissedHeartbeats;
inline constexpr milliseconds kTick{250};

// A worker repeats HELLO and unacknowledged results this often, and doubles its pause between connections.
inline constexpr milliseconds kHelloAgain{1000};
inline constexpr milliseconds kResultAgain{2000};
inline constexpr milliseconds kReconnectFirst{100};
inline constexpr milliseconds kReconnectLongest{10000};

// Leases. One the worker does not list as held this long after it was sent is sent again.
inline constexpr milliseconds kLeaseSettles{5000};
inline constexpr milliseconds kLeaseLimit{300000};
// A candidate that took workers away is kept this long for the workers it should go to next.
inline constexpr milliseconds kPreferOther{5000};
// Races of whole modules. The modules travel first, which may take long; the first look at a race is taken
// however long its turns are, but not later than kRaceTurns; a turn that takes the rest of kRaceRun hangs.
// Where no worker is that could race, one is waited for.
inline constexpr milliseconds kRaceLimit{900000};
inline constexpr double kRaceTurns = 120, kRaceRun = 300;  // seconds
// What a worker believes of a lease: for more it keeps neither a place nor a processor.
inline constexpr milliseconds kLongestLease{3600000};
inline constexpr double kLongestStage = 900;              // seconds, of a build or a run
inline constexpr size_t kLeaseBytes = size_t{256} << 20;  // of the texts of all that it has
inline constexpr milliseconds kRaceWaits{30000};
inline constexpr milliseconds kGivesWay{60000};  // of a search whose devices have gone, to others that wait
// So long a job that has begun waits for them, in the queue too: over a night, but not for ever.
inline constexpr std::chrono::hours kWaitsForDevices{24};
inline constexpr uint32_t kOverdueToSuspect = 3;  // leases that one worker lets pass their time
// Leases that the workers of one key hand back while none of them measures anything: more than a fleet that
// drains.
inline constexpr size_t kReturnsToExpel = 65536;
// Devices that the workers of one key say they are, likewise: more than a fleet has that starts twice.
inline constexpr size_t kDevicesToExpel = 2048;
inline constexpr uint32_t kLossesToQuarantine = 3;
inline constexpr size_t kWorkersToRisk = 2;

// Canaries (tracker/health.h). A worker runs them this often between measurements; so many of the first make
// its baseline, and so many off it in a row make it suspect, as do so many candidates that failed there
// alone.
inline constexpr milliseconds kCanaryEvery{10000};
inline constexpr size_t kCanaryBaseline = 5;
inline constexpr double kCanaryTolerance = 0.05;
inline constexpr int kCanariesToSuspect = 2;
inline constexpr int kCanariesToTrust = 2;
inline constexpr size_t kFailuresToSuspect = 3;
// A worker says that a candidate takes so many times more or less than two others do, who agree. For the
// second candidate it stays suspect, whatever its canaries say.
inline constexpr double kContradicts = 1.5;
inline constexpr size_t kContradictionsToStay = 2;
// After so many failures in a row a worker's next one is tried elsewhere before it counts.
inline constexpr int kFailuresToDoubt = 2;
inline constexpr const char* kDrained = "drained by an administrator";
// What should go to another worker waits so long for one.
inline constexpr milliseconds kPreferAnother{15000};

// What a job may ask for, about 31 years. Clocks count nanoseconds in 64 bits: ten times as long would
// overflow them, and nothing would be waited for at all.
inline constexpr double kMostSeconds = 1e9;

// A searcher that does not call for so long, preparing a model or building a module, is ended.
inline constexpr std::chrono::seconds kSearchSilence{1200};

// Bounds. Recent leases are remembered to tell duplicates.
inline constexpr size_t kQueueLimit = 2'000'000;  // open trials
inline constexpr size_t kQueueOfJob = 100'000;    // of these, of one job
inline constexpr milliseconds kQueueAgain{200};   // a searcher that finds no room there asks again
inline constexpr size_t kRecentLeases = 65536;
inline constexpr uint32_t kWorkerSlotsLimit = 1024;
inline constexpr size_t kBuildsFetched = 8;  // by the tracker at once, each held in memory meanwhile
inline constexpr size_t kWorkersLimit = 1024;
inline constexpr size_t kNamesRemembered = 4096;  // of workers, with the keys they came with

// Sizes on the wire, in bytes. A larger frame never reaches the decoder.
inline constexpr size_t kFrameLimit = 16 << 20;
inline constexpr size_t kUpFrameLimit = 1 << 20;  // to the tracker, which is told no programs
// Of the messages of one connection, and of all, what may wait to be taken; more is nobody's who is well. A
// message whose frames do not end waits for ever, and 2 bytes of it take 64.
inline constexpr uint64_t kHeldOfOne = 2 << 20, kHeldOfAll = 4 << 20;
inline constexpr uint64_t kHeldWithKeys = 16 << 20;  // of all; encrypted, no frame is smaller than 35 bytes
inline constexpr size_t kHeldAside = 64 << 20;       // of all, taken while a commit waits for its disk
inline constexpr uint64_t kHeldFromTracker = 24 << 20;  // a frame, and what a worker has no time for
// What is kept of a message is within core/support/record_limits.h besides.
inline constexpr size_t kDeviceLimit = 16 << 10;    // a device's JSON: less than was taken once
inline constexpr size_t kDeviceTargetLimit = 2048;  // its target: PostgreSQL indexes no more than 2,704
inline constexpr size_t kNameLimit = 256;           // worker, backend
inline constexpr size_t kMessageLimit = 16 << 10;   // error text
inline constexpr size_t kHoldingLimit = 4096;
inline constexpr size_t kDimsLimit = 64;         // of a race
inline constexpr size_t kBlobLimit = 16 << 20;   // a built candidate
inline constexpr size_t kModuleLimit = 1 << 30;  // a module that is raced
inline constexpr size_t kChunkBytes = 256 << 10;

// Stores of built candidates: the tracker's, on disk, and a runner's, in memory. The least recently used go
// first.
inline constexpr uint64_t kTrackerStoreBytes = uint64_t{10} << 30;
inline constexpr uint64_t kRunnerStoreBytes = 64 << 20;

// Models that users uploaded. Those of unfinished jobs stay.
inline constexpr uint64_t kModelStoreBytes = uint64_t{32} << 30;
inline constexpr uint64_t kModelBytesOfOne = uint64_t{8} << 30;  // one user's of them
inline constexpr uint64_t kLeastModelBytes = 256 << 10;          // what a smaller one counts as

// What a search may have in its folder: four times its model (two builds, and what they are made of), and so
// much besides. As many files are far more than a linker makes.
inline constexpr uint64_t kSearchBytes = uint64_t{4} << 30;
inline constexpr size_t kSearchFiles = 10'000;
// So the most that a user's module can have.
inline constexpr uint64_t kFetchedLimit = 4 * kModelBytesOfOne + kSearchBytes;

// What all jobs of one user may keep: rows of the database, and modules.
inline constexpr uint64_t kKeptBytesOfOne = uint64_t{64} << 30;

// Event streams that one user may have open.
inline constexpr int kStreamsOfOne = 64;
// Of the processor time of the one thread that answers over HTTP, what one user may have, with so much at
// once.
inline constexpr double kWorkOfOne = 0.5, kWorkAtOnce = 5;  // seconds a second, seconds

}  // namespace lathe::defaults
