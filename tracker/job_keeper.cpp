#include "tracker/job_keeper.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <utility>

#include "core/support/disk_use.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/printable.h"
#include "db/database_error.h"
#include "tracker/farm.h"
#include "tracker/job_request.h"
#include "tracker/kept_search.h"
#include "tracker/own_folder.h"
#include "tracker/search_server.h"
#include "tracker/searcher.h"

namespace lathe::tracker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kCrashes = 3;  // of a searcher, before its job has failed
constexpr milliseconds kLook{500}, kStopWait{4000};
/// From the end of its link to that of a searcher, which frees its memory meanwhile.
constexpr milliseconds kEndWait{60000};

// A searcher may write in a folder of its own within the job's. What stands beside that is ours: it is
// opened, replaced and shown again in each life, whatever a searcher might have put there.
std::string search_folder(const std::string& job_folder) { return job_folder + "/search"; }
std::string log_file(const std::string& job_folder) { return job_folder + "/search.log"; }

/// Its size. Where a searcher left no module, or something else under its name, there is none.
uint64_t take_module(const std::string& name, const fs::path& from, const fs::path& to) {
  // A row of the database, which may come from anybody, leads nowhere else.
  if (fs::path(name).filename() != name || !fs::is_regular_file(fs::symlink_status(from / name))) return 0;
  fs::rename(from / name, to / name);
  return fs::file_size(to / name);
}

/// What a searcher has said stays when its life is over, in its owner's share. A next life begins another
/// log, and counts anew what the job keeps.
void count_log(const std::string& log, db::ServedJobId job, db::Store& store) {
  std::error_code none;
  const uintmax_t bytes = fs::file_size(log, none);
  if (!none) store.add_served_kept(job, static_cast<int64_t>(bytes));
}

/// Null while it serves.
std::exception_ptr failure_of(FarmClient& farm) {
  try {
    farm.status();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// Removes it when it goes.
struct RemovedFolder {
  const std::string path;
  ~RemovedFolder() {
    try {
      remove_folder(path);
    } catch (const Error&) {
      // The next life says so.
    }
  }
};

}  // namespace

JobKeeper::JobKeeper(KeeperSettings settings, ServiceFarm& farm)
    : settings_(std::move(settings)), farm_(farm), folder_(settings_.folder) {
  for (const char* part : {"/jobs", "/blobs"}) make_own_folder(settings_.folder + part);
  db::Store store(settings_.database);  // throws here, not on the thread
  thread_ = std::thread([this] { keep(); });
}

JobKeeper::~JobKeeper() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    // SIGTERM: the searcher writes its last checkpoint.
    for (auto& [id, search] : searches_) {
      // Their rows stay as they are: the next tracker takes up running jobs first.
      if (search->wanted == db::JobState::kDone) search->wanted = db::JobState::kRunning;
      if (search->pid > 0) signal_searcher(search->pid, SIGTERM);
    }
    changed_.notify_all();
  }
  // First the thread that starts searches, so that none begins after this.
  thread_.join();
  {
    // All of them at once, kStopWait in all; then they are killed, for a service that is stopped has seconds
    // (systemd's TimeoutStopSec).
    std::unique_lock lock(mutex_);
    const auto all_ended = [&] {
      return std::all_of(searches_.begin(), searches_.end(), [](const auto& s) { return s.second->ended; });
    };
    if (!changed_.wait_for(lock, kStopWait, all_ended))
      for (auto& [id, search] : searches_)
        if (search->pid > 0) signal_searcher(search->pid, SIGKILL);
  }
  // Without the lock: each takes it at its end.
  for (auto& [id, search] : searches_) search->thread.join();
}

void JobKeeper::log(const std::string& line) const {
  if (settings_.log) settings_.log(line);
}

void JobKeeper::wake() {
  std::lock_guard lock(mutex_);
  awake_ = true;
  changed_.notify_all();
}

std::string JobKeeper::job_folder(const std::string& uuid) const {
  // Of the database, which may come from anybody.
  if (!db::is_uuid(uuid))
    fail("the database has a job called `{}`, which no program of ours made", printable(uuid));
  return settings_.folder + "/jobs/" + uuid;
}
std::string JobKeeper::blob_path(const std::string& digest) const {
  return settings_.folder + "/blobs/" + digest;
}

/// Gives the job that state and asks its search, if it has one, to end; keep() sees to it. False when the
/// state it has is final.
bool JobKeeper::end(db::ServedJobId id, db::JobState state, int signal) {
  // Lock order: deciding_, then mutex_. deciding_ keeps start_some() from starting what is ended here between
  // its look at the row and its process.
  std::lock_guard deciding(deciding_);
  // Callers are on threads of others (HTTP's); a connection is of one thread.
  db::Store store(settings_.database, {.made = true});
  if (!store.set_served_state(id, state)) return false;
  std::lock_guard lock(mutex_);
  const auto found = searches_.find(id);
  const bool searched = found != searches_.end() && !found->second->ended;
  if (searched) {
    // Its thread reads `wanted` when the process has ended; the row has the state already.
    Search& search = *found->second;
    search.wanted = state;
    search.kill_at = Clock::now() + kStopWait;
    if (search.pid > 0) signal_searcher(search.pid, signal);
    changed_.notify_all();
  } else if (state == db::JobState::kCancelled) {
    // Where a searcher runs, its thread does that at its end, when nothing can be submitted any more.
    cancel_trials(store, id);
  }
  return true;
}

void JobKeeper::cancel_trials(db::Store& store, db::ServedJobId id) {
  if (auto search = store.served_job(id).job) farm_.cancel(static_cast<JobId>(*search));
}

// A cancelled search has nothing left to keep; a paused one writes its last checkpoint.
bool JobKeeper::cancel(db::ServedJobId id) { return end(id, db::JobState::kCancelled, SIGKILL); }
bool JobKeeper::pause(db::ServedJobId id) { return end(id, db::JobState::kStopped, SIGTERM); }

bool JobKeeper::resume(db::ServedJobId id) {
  std::lock_guard deciding(deciding_);
  db::Store store(settings_.database, {.made = true});
  if (store.served_job(id).state != db::JobState::kStopped) return false;
  const bool done = store.set_served_state(id, db::JobState::kQueued);
  wake();
  return done;
}

void JobKeeper::keep() {
  // Of this thread, on which nothing may throw: a server that was there a moment ago may be gone.
  std::optional<db::Store> store;
  bool failed = false;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const bool woken = std::exchange(awake_, false);
    for (auto it = searches_.begin(); it != searches_.end();) {
      Search& search = *it->second;
      if (!search.ended) {
        if (search.pid > 0 && Clock::now() >= search.kill_at) signal_searcher(search.pid, SIGKILL);
        ++it;
        continue;
      }
      // It has said `ended` as its last act under the lock: this does not wait.
      search.thread.join();
      // Where it goes on later it has waited for them since then.
      if (search.wanted == db::JobState::kQueued)
        absences_[it->first] = {search.device.name, needs_of_request(search.job.request), search.seen};
      it = searches_.erase(it);
    }
    lock.unlock();
    watch_folders();
    try {
      if (!store) store.emplace(settings_.database, db::StoreOptions{.made = true});
      start_some(*store, woken || std::exchange(failed, false));
      tell_what_searches_wait_for(*store);
    } catch (const std::exception& error) {  // a full disk, say: another time, perhaps
      failed = true;
      log(fmt::format("jobs wait: {}", error.what()));
    }
    lock.lock();
    // Also without being woken: a worker of the wanted class may have come, of which nobody tells us.
    changed_.wait_for(lock, kLook, [&] { return closing_ || awake_; });
  }
}

/// The kernel bounds each file that a searcher writes, and not how many there are. REQUIRES: keep()'s thread,
/// for no other one erases a search.
void JobKeeper::watch_folders() {
  struct Life {
    Search* search;
    pid_t pid;
    std::string folder;
    uint64_t most_bytes;
  };
  std::vector<Life> lives;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, search] : searches_)
      if (search->pid > 0)
        lives.push_back({search.get(), search->pid, job_folder(search->job.uuid), search->most_bytes});
  }
  for (const auto& [search, pid, folder, most_bytes] : lives) {
    // A disk may be slow: without the lock.
    DiskUse use = disk_use(search_folder(folder), pid, defaults::kSearchFiles);
    std::error_code no_log;
    if (const uintmax_t size = fs::file_size(log_file(folder), no_log); !no_log) use.bytes += size;
    std::string excess;
    if (use.files > defaults::kSearchFiles)
      excess = fmt::format("its search has made more than {} files", defaults::kSearchFiles);
    else if (use.bytes > most_bytes)
      excess = fmt::format("its search has filled its folder with {} MiB, and may have {} there",
                           use.bytes >> 20, most_bytes >> 20);
    std::lock_guard lock(mutex_);
    // Twice: what comes and goes may look so for a moment.
    if (std::exchange(search->uncounted, use.uncounted) && use.uncounted && excess.empty())
      excess = "its search has files that cannot be counted";
    if (excess.empty() || search->pid != pid) continue;
    search->excess = excess;
    signal_searcher(pid, SIGKILL);
  }
}

/// REQUIRES: deciding_ is held.
void JobKeeper::start(db::Store& store, const db::ServedJob& job, DeviceClass device) {
  store.set_served_device_class(job.id, device.name);
  // Before the process is there: a tracker that dies in between finds a job that runs, and runs it.
  store.set_served_state(job.id, db::JobState::kRunning);
  db::ServedJob begun = store.served_job(job.id);
  std::lock_guard lock(mutex_);
  // Its row says running: the next tracker takes it up.
  if (closing_) return;
  auto made = std::make_unique<Search>();
  Search& search = *made;
  search.job = std::move(begun);
  search.device = std::move(device);
  search.seen.wall_ms = store.now_ms();
  if (const auto absence = absences_.extract(job.id)) search.seen = absence.mapped().seen;
  // One thread a search, for it waits in read(): searches are few (--searches), and simple to follow so.
  search.thread = std::thread([this, &search] {
    std::optional<db::Store> own;
    try {
      own.emplace(settings_.database, db::StoreOptions{.made = true});
      run(search, *own);
    } catch (const std::exception& error) {  // the disk: it runs again when there is room
      log(fmt::format("job {}: {}", search.job.uuid, error.what()));
      // Until keep() starts it again; a full disk does not empty within a round.
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    // Who cancels a job finds a search that has ended, or leaves its trials to this.
    std::lock_guard deciding(deciding_);
    try {
      // What it left to be measured is for nobody.
      // Only after the searcher's end, and only where it will not go on: a paused job's trials
      // stay, and are measured.
      if (own && db::is_final(own->served_job(search.job.id).state)) cancel_trials(*own, search.job.id);
    } catch (const std::exception& error) {
      log(fmt::format("job {}: {}", search.job.uuid, error.what()));
    }
    own.reset();
    std::lock_guard ended(mutex_);
    search.ended = true;
    awake_ = true;
    changed_.notify_all();
  });
  // Not before it has a thread, which the system may refuse.
  searches_[job.id] = std::move(made);
}

void JobKeeper::run(Search& search, db::Store& store) {
  log(fmt::format("job {} of {}: {} on {}", search.job.uuid, search.job.owner, search.job.model_name,
                  search.device.name));
  // A second between two lives: one that dies at once shall not do so a thousand times.
  // Woken at once when somebody ends the job.
  while (!run_once(search, store)) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(1), [&] { return search.wanted != db::JobState::kDone; });
  }
}

/// What a searcher is started with.
struct JobKeeper::Order {
  SearchOrder order;
  uint64_t model_bytes = 0;
  double seconds = 0;  // of its budget, over all lives; 0: none
};

/// How a searcher ended, and what of.
struct JobKeeper::Life {
  SearchEnding ending;
  std::string nonsense;     // what it said that cannot be; or ""
  std::string excess;       // what it wanted too much of; or ""
  std::exception_ptr ours;  // what failed, and was not it
  int status = 0;           // of the process
};

/// One life of the searcher. True when the job needs no other one now.
bool JobKeeper::run_once(Search& search, db::Store& store) {
  {
    // For this thread alone to write, but others read it.
    db::ServedJob job = store.served_job(search.job.id);
    std::lock_guard lock(mutex_);
    search.job = std::move(job);
  }
  const std::string its_folder = search_folder(job_folder(search.job.uuid));
  // All that a life leaves to the next one is in the database. A tracker may have been killed during the
  // last.
  remove_folder(its_folder);
  const RemovedFolder removed{its_folder};
  fs::create_directories(its_folder);
  Order made = prepare_order(search, store);
  // Its searcher would fail for good, for what its owner can mend.
  if (const std::string& file = made.order.file; !file.empty() && !fs::exists(file)) {
    store.set_served_state(search.job.id, db::JobState::kStopped,
                           fmt::format("the tracker has lost its model, {}: submit that again, which uploads "
                                       "it, and resume this job, or cancel it",
                                       fs::path(file).filename().string()));
    return true;
  }
  std::optional<Life> life = live(search, store, std::move(made));
  if (!life) {
    count_log(log_file(job_folder(search.job.uuid)), search.job.id, store);
    return true;
  }
  if (!search.excess.empty()) life->excess = search.excess;
  if (life->ours && life->excess.empty()) std::rethrow_exception(life->ours);
  // Whatever the search has failed with, it was not its fault, and the job goes on with the next tracker.
  require_folder();
  return settle(search.job, store, *life);
}

JobKeeper::Order JobKeeper::prepare_order(const Search& search, db::Store& store) const {
  const JobRequest request = parse_job_request(search.job.request);
  const std::string folder = job_folder(search.job.uuid);
  Order made{.order = {.request = search.job.request,
                       .target = search.device.target,
                       .machine = search.device.machine,
                       .folder = search_folder(folder),
                       .resume = search.job.job},
             .seconds = request.seconds};
  SearchOrder& order = made.order;
  if (const auto kind = kind_of_class(search.device.name)) order.cores = kind->cores;
  // Its budget of time is for all lives together.
  if (order.resume) order.seconds_used = store.job(*order.resume).seconds_used;
  if (!request.model_digest.empty()) {  // under its own name, whose ending says what it is
    order.file = folder + "/" + fs::path(request.model).filename().string();
    // Left by an earlier life.
    fs::remove(order.file);
    fs::create_symlink(blob_path(request.model_digest), order.file);
    std::error_code none;  // which its searcher says
    if (const uintmax_t size = fs::file_size(order.file, none); !none) made.model_bytes = size;
  }
  return made;
}

/// Nothing where somebody has asked for its end, and it has delivered nothing.
std::optional<JobKeeper::Life> JobKeeper::live(Search& search, db::Store& store, Order made) {
  std::unique_lock lock(mutex_);
  if (search.wanted != db::JobState::kDone) return std::nullopt;
  search.kill_at = Clock::time_point::max();
  // Started under the lock: who ends the job either finds the process here, or was seen above.
  Searcher searcher(settings_.searcher, log_file(job_folder(search.job.uuid)));
  search.most_bytes = settings_.search_bytes + 4 * made.model_bytes;
  search.uncounted = false;
  // A job may ask for more than a clock counts to.
  constexpr double kYear = 365 * 86400;
  search.over_at = Clock::time_point::max();
  if (const double left = made.seconds - made.order.seconds_used; made.seconds > 0 && left < kYear)
    search.over_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(std::max(0.0, left)));
  search.pid = searcher.pid();
  lock.unlock();
  // Here for as long as the search goes on: calls of the searcher are answered on this thread.
  Life life;
  bool served = false;
  try {
    life.ending =
        SearchServer(
            searcher.socket(), std::move(made.order), search.job, store, farm_, defaults::kSearchSilence,
            settings_.kept_bytes ? settings_.kept_bytes(search.job.owner) : defaults::kKeptBytesOfOne,
            [&] {
              std::lock_guard looking(mutex_);
              return is_given_up(search.seen);
            })
            .serve();
    served = true;
  } catch (const QuotaError& error) {
    life.excess = error.what();
  } catch (const db::RefusedValueError& error) {  // nor would its next life be any better
    // Where the database lies is nothing that the job's owner could know.
    log(fmt::format("job {}: {}", search.job.uuid, error.what()));
    life.nonsense = "told of what the database refuses";
  } catch (const db::DatabaseError&) {  // a full disk is no crash of the searcher
    life.ours = std::current_exception();
  } catch (const Error& error) {
    life.nonsense = error.what();
  } catch (...) {
    life.ours = std::current_exception();
  }
  // What the farm has failed with ends every search that asks it for something.
  if (!life.nonsense.empty()) life.ours = failure_of(farm_);
  if (!served) signal_searcher(searcher.pid(), SIGKILL);
  // One that has closed the link may still not end; nobody waits for it with the lock held.
  lock.lock();
  search.kill_at = std::min(search.kill_at, Clock::now() + kEndWait);
  lock.unlock();
  searcher.await_end();
  lock.lock();
  // Under the lock, and before its number is given back: from here on nobody signals it.
  search.pid = -1;
  life.status = searcher.wait();
  // One that had delivered when it was asked to end is done all the same, unless its row is final already:
  // see set_served_state.
  if (search.wanted != db::JobState::kDone && !life.ending.done) return std::nullopt;
  return life;
}

/// Writes down what becomes of the job. False when it is to have another life.
bool JobKeeper::settle(const db::ServedJob& job, db::Store& store, const Life& life) {
  const std::string folder = job_folder(job.uuid), its_folder = search_folder(folder);
  const int status = life.status;
  if (life.ending.done && life.excess.empty() && WIFEXITED(status)) {
    // The state last: who sees a job that is done finds all that it left.
    store.set_served_report(job.id, life.ending.report);
    write_file(folder + "/report.txt", life.ending.text);
    const uint64_t module_bytes = take_module(job.model_name + ".lathe", its_folder, folder);
    store.set_served_kept(job.id, life.ending.kept_bytes + static_cast<int64_t>(module_bytes));
    count_log(log_file(folder), job.id, store);
    store.set_served_state(job.id, db::JobState::kDone);
    return true;
  }
  count_log(log_file(folder), job.id, store);
  if (!life.excess.empty()) {  // and would again
    log(fmt::format("job {}: {}", job.uuid, life.excess));
    store.set_served_state(job.id, db::JobState::kFailed, life.excess);
    return true;
  }
  // Shown to the job's owner, who is not to learn of this machine what is none of their business.
  std::string said = tail_of_log(log_file(folder));
  // Where a file lies here is nothing that its owner could know.
  for (const std::string& prefix : {its_folder + "/", folder + "/"})
    while (said.find(prefix) != std::string::npos) said.erase(said.find(prefix), prefix.size());
  // Nothing is wrong with the job: when there is memory or room, its owner resumes it. Not by itself, for who
  // parses a stranger's model may say so for ever.
  if (life.nonsense.empty() && WIFEXITED(status) && WEXITSTATUS(status) == kSearcherUnfit) {
    log(fmt::format("job {} is stopped: {}", job.uuid, said));
    store.set_served_state(job.id, db::JobState::kStopped, said);
    return true;
  }
  // An exit code is a decision of the program (bad model, no schedule); a signal is not, and
  // may not come again.
  if (life.nonsense.empty() && WIFEXITED(status) &&
      WEXITSTATUS(status) != 0) {  // it says why, and would again
    store.set_served_state(job.id, db::JobState::kFailed, said);
    return true;
  }
  const std::string how = !life.nonsense.empty() ? life.nonsense
                          : WIFSIGNALED(status)  ? fmt::format("killed by signal {} ({})", WTERMSIG(status),
                                                               strsignal(WTERMSIG(status)))
                                                 : "ended early";
  // Kept in the database: three lives are three lives, whichever tracker saw them.
  const int crashes = store.count_served_crash(job.id);
  log(fmt::format("job {}: its searcher {} (crash {} of {})", job.uuid, how, crashes, kCrashes));
  if (crashes < kCrashes) return false;
  store.set_served_state(job.id, db::JobState::kFailed,
                         fmt::format("its searcher ended {} times; the last: {}{}{}", crashes, how,
                                     said.empty() ? "" : "\n", said));
  return true;
}

}  // namespace lathe::tracker
