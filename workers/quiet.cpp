#include "workers/quiet.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/support/error.h"
#include "core/support/private_file.h"
#include "core/support/unfit.h"

namespace lathe::worker {
namespace {

// Within the affinity that was given: by taskset, a container, or a test.
std::vector<int> my_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity: {}", strerror(errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

/// The first hardware thread of the physical core that `cpu` belongs to.
int physical_core(int cpu) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  int first = cpu;
  // "0,4" or "0-1": the first number either way.
  file >> first;
  return first;
}

/// When the process started, in clock ticks since boot. 0: gone.
uint64_t start_time(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::stringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  const size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

/// A process's id and (the low half of) its start: a name that is not used again, in one word, so that a slot
/// is taken and given up whole. 0: none.
uint64_t name_of(pid_t pid) {
  // Numbers of processes are used again; with when it began it is one process for ever.
  // 22nd field of proc(5).
  const uint64_t start = start_time(pid);
  return start == 0 ? 0 : start << 32 | static_cast<uint32_t>(pid);
}
pid_t group_of(uint64_t name) { return static_cast<pid_t>(static_cast<uint32_t>(name)); }
bool is_alive(uint64_t name) { return name != 0 && name_of(group_of(name)) == name; }

/// The folders in which the file may be, the usual one first.
std::vector<std::string> shared_folders() {
  std::vector<std::string> folders = {access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"};
  // Of this user alone; not of every process of theirs, by which it is second.
  if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own && *own == '/') folders.emplace_back(own);
  return folders;
}

std::string shared_name() {
  // Process ids mean something only within their namespace, and signals reach only one's own processes.
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  return fmt::format("/lathe-quiet-2-{}-{}", getuid(), space.st_ino);  // 2: of its layout
}

/// Throws Unfit when another user was there first, everywhere: they could stop all measurements, and have any
/// process group of this user stopped for a builder.
std::string open_shared(int& file) {
  std::string problems;
  for (const std::string& folder : shared_folders()) {
    const std::string path = folder + shared_name();
    try {
      file = open_private_file(path);
      return path;
    } catch (const Unfit& error) {
      problems += problems.empty() ? error.what() : fmt::format("; {}", error.what());
    }
  }
  throw Unfit(fmt::format(
      "{}; whose it is has to remove it, or root, or set XDG_RUNTIME_DIR to a folder of yours", problems));
}

/// What this process might use when it began, and has said of itself.
const size_t cores_at_start = my_cpus().size();

}  // namespace

CorePlan plan_cores(int threads) {
  std::vector<int> cpus = my_cpus();
  if (threads < 1 || static_cast<size_t>(threads) > cpus.size()) {
    const std::string fault =
        fmt::format("threads is {}, must be 1..{} (the cores this process may use)", threads, cpus.size());
    if (threads >= 1 && static_cast<size_t>(threads) <= cores_at_start) throw Unfit(fault);
    throw Error(fault);
  }
  CorePlan plan;
  // The last ones: interrupts and the system's own threads favour the first.
  plan.run.assign(cpus.end() - threads, cpus.end());
  for (int cpu : cpus) {
    // Threads of one physical core share its units: whoever computes on one slows the other.
    const bool shared = std::any_of(plan.run.begin(), plan.run.end(),
                                    [&](int run) { return physical_core(run) == physical_core(cpu); });
    if (!shared) plan.build.push_back(cpu);
  }
  if (plan.build.empty()) {
    plan.build = cpus;
    // Nowhere to build beside: builders stand still while somebody is timed.
    plan.stop_builders = true;
  }
  return plan;
}

// Shared between all workers of a user on the machine, mapped from a file in memory; all zeros is a state in
// which nobody measures.
struct Quiet::Shared {
  std::atomic<uint32_t> stopping;  // builders must stand still, provided that the lock is held
  std::atomic<uint64_t> builders[64];
};

Quiet::Quiet() {
  const std::string path = open_shared(lock_);
  if (ftruncate(lock_, sizeof(Shared)) != 0) fail("cannot open {}: {}", path, strerror(errno));
  // A new file is zeros: nobody stops, nobody builds.
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, lock_, 0);
  if (memory == MAP_FAILED) fail("cannot map {}: {}", path, strerror(errno));
  shared_ = static_cast<Shared*>(memory);
}

Quiet::~Quiet() {
  leave();
  close();
  munmap(shared_, sizeof(Shared));
  ::close(lock_);
}

bool Quiet::try_open(bool stop_builders) {
  // A lock ends with its process, however that ends: nobody waits for a dead one's window.
  // Never waits: its caller is a loop with limits to look after.
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) return false;
  stopping_ = stop_builders;
  // Order: first the flag, then the signals. A builder registers first and then looks at the flag (enter), so
  // one of both sees the other.
  shared_->stopping = stop_builders;
  // A builder that enters from now on sees `stopping`; those that entered before are seen here.
  if (stop_builders) signal_builders(SIGSTOP);
  return true;
}

// Also without a window: to unlock what is not locked does nothing.
void Quiet::close() {
  if (stopping_) {
    shared_->stopping = 0;
    signal_builders(SIGCONT);
    stopping_ = false;
  }
  flock(lock_, LOCK_UN);
}

void Quiet::signal_builders(int signal) {
  for (const std::atomic<uint64_t>& slot : shared_->builders)
    // Else the number may be another process's by now.
    if (const uint64_t builder = slot; is_alive(builder)) kill(-group_of(builder), signal);
}

void Quiet::enter(pid_t group) {
  leave();
  builder_ = name_of(group);
  if (builder_ == 0) return;  // gone already
  for (std::atomic<uint64_t>& slot : shared_->builders) {
    // compare_exchange: another worker may take the same slot at this moment.
    uint64_t before = slot;
    // Slots of the dead are free. Where all are taken, obey() still sees an open window by itself.
    if (!is_alive(before) && slot.compare_exchange_strong(before, builder_)) break;
  }
  obey();
}

void Quiet::leave() {
  if (builder_ != 0)
    for (std::atomic<uint64_t>& slot : shared_->builders) {
      uint64_t own = builder_;
      // Only while it is ours: somebody may have found us dead, and taken it.
      slot.compare_exchange_strong(own, 0);
    }
  builder_ = 0;
  stopped_ = false;
}

bool Quiet::window_is_open() {
  if (!shared_->stopping) return false;
  // Set, but is the one who set it alive? Then the lock is taken.
  if (flock(lock_, LOCK_SH | LOCK_NB) != 0) return true;
  flock(lock_, LOCK_UN);
  return false;
}

bool Quiet::obey() {
  if (builder_ == 0) return false;
  const bool stop = window_is_open();
  // Once: a process that is stopped stays so.
  if (stop && !stopped_) kill(-group_of(builder_), SIGSTOP);
  if (!stop) kill(-group_of(builder_), SIGCONT);  // whoever stopped it
  return stopped_ = stop;
}

}  // namespace lathe::worker
