#include "core/support/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "core/support/error.h"
#include "core/support/text.h"

extern char** environ;

namespace lathe {
namespace {

/// What the system's libraries, drivers and this program read in a child; NAME_ stands for all that begin so.
/// Any other may be a secret: PGPASSWORD, LATHE_TOKEN, the credentials of a cloud.
constexpr std::string_view kHarmless[] = {"PATH",
                                          "HOME",
                                          "TMPDIR",
                                          "LANG",
                                          "LC_",
                                          "TZ",
                                          "LD_",
                                          "MALLOC_",
                                          "GLIBC_TUNABLES",
                                          "OMP_",
                                          "GOMP_",
                                          "XDG_CACHE_HOME",
                                          "XDG_RUNTIME_DIR",
                                          "LATHE_CACHE",
                                          "LATHE_UNCONFINED",
                                          "CUDA_",
                                          "NVIDIA_",
                                          "HIP_",
                                          "ROCR_",
                                          "ASAN_OPTIONS",
                                          "LSAN_OPTIONS",
                                          "TSAN_OPTIONS",
                                          "UBSAN_OPTIONS",
                                          "QEMU_"};

bool is_harmless(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return std::any_of(std::begin(kHarmless), std::end(kHarmless), [&](std::string_view known) {
    return known.ends_with('_') ? name.starts_with(known) : name == known;
  });
}

std::vector<char*> environment_of(const ChildProgram& child) {
  std::vector<char*> variables;
  for (char** entry = environ; *entry; ++entry)
    if (!child.nothing_else || is_harmless(*entry)) variables.push_back(*entry);
  variables.push_back(nullptr);
  return variables;
}

struct FileActions {
  posix_spawn_file_actions_t actions;

  // posix_spawn and not fork: a service with threads and gigabytes of memory need not be copied, and no lock
  // of another thread is held in the child.
  explicit FileActions(const ChildProgram& child) {
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    int last = STDERR_FILENO;
    for (const auto& [number, path] : child.files) {
      // 0600: what a searcher or a job writes to its log is its owner's.
      const int flags = number == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
      CHECK(posix_spawn_file_actions_addopen(&actions, number, path.c_str(), flags, 0600) == 0);
      last = std::max(last, number);
    }
    for (const auto& [number, ours] : child.descriptors) {
      // Clears close-on-exec, also where both are one number.
      CHECK(posix_spawn_file_actions_adddup2(&actions, ours, number) == 0);
      last = std::max(last, number);
    }
    if (!child.nothing_else) return;
    // By hand up to the last that is given, and everything beyond it at once: descriptors that another thread
    // opens meanwhile are closed too.
    for (int number = STDERR_FILENO + 1; number < last; ++number)
      if (!child.files.contains(number) && !child.descriptors.contains(number))
        CHECK(posix_spawn_file_actions_addclose(&actions, number) == 0);
    CHECK(posix_spawn_file_actions_addclosefrom_np(&actions, last + 1) == 0);
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
};

struct Attributes {
  posix_spawnattr_t attributes;

  explicit Attributes(const ChildProgram& child) {
    CHECK(posix_spawnattr_init(&attributes) == 0);
    int flags = 0;
    if (child.own_group) {
      // So that the terminal's signals reach the parent alone.
      flags |= POSIX_SPAWN_SETPGROUP;
      posix_spawnattr_setpgroup(&attributes, 0);
    }
    if (child.all_signals) {
      flags |= POSIX_SPAWN_SETSIGMASK;
      sigset_t none;
      sigemptyset(&none);
      posix_spawnattr_setsigmask(&attributes, &none);
    }
    // What this program ignores ends the child of another program, or a sandbox, as it always does.
    flags |= POSIX_SPAWN_SETSIGDEF;
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, static_cast<short>(flags));
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

}  // namespace

bool has_program(const std::string& name) {
  const char* path = getenv("PATH");
  for (const std::string& folder : split_text(path ? path : "", ':'))
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  return false;
}

pid_t spawn(const ChildProgram& child) {
  std::vector<char*> arguments;
  // The signature wants char*; posix_spawn does not write to them.
  for (const std::string& word : child.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const FileActions files(child);
  const Attributes attributes(child);
  const std::vector<char*> environment = environment_of(child);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &files.actions, &attributes.attributes, arguments.data(),
                                 environment.data());
  if (error != 0) fail("cannot run `{}`: {}", child.command[0], std::strerror(error));
  return pid;
}

}  // namespace lathe
