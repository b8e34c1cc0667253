#include "core/support/disk_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/support/error.h"

namespace lathe {
namespace {

constexpr int kDepth = 32;  // of folders; more have no honest use here

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

/// A link is not followed. None: errno says why.
Folder open_folder(int beside, const char* name) {
  const int descriptor = openat(beside, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return Folder(descriptor < 0 ? nullptr : fdopendir(descriptor));
}

/// The next name, without `.` and `..`; null at the end.
const char* next_name(const Folder& folder) {
  while (const dirent* entry = readdir(folder.get()))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) return entry->d_name;
  return nullptr;
}

bool is_number(std::string_view name) { return name.find_first_not_of("0123456789") == name.npos; }

class Counter {
 public:
  Counter(const std::string& folder, size_t most_files) : folder_(folder), most_(most_files) {}

  DiskUse count(pid_t group) {
    struct stat status {};
    std::error_code ignored;
    // As the kernel calls it.
    path_ = std::filesystem::canonical(folder_, ignored).string() + "/";
    // Before the folder: what loses its name in between is seen there at least.
    if (group != 0 && stat(folder_.c_str(), &status) == 0) {
      device_ = status.st_dev;
      add_group(group);
    }
    add_folder(AT_FDCWD, folder_.c_str(), 0);
    return use_;
  }

 private:
  bool is_over() const { return use_.files > most_; }

  /// What has gone is nobody's any more; what is refused is somebody's secret.
  void note_failure() {
    if (errno != ENOENT && errno != ESRCH) use_.uncounted = true;
  }

  void add(const struct stat& status) {
    constexpr uint64_t kBlock = 512;  // whatever the file system's are: stat(2)
    use_.bytes += kBlock * static_cast<uint64_t>(status.st_blocks);
    ++use_.files;
  }

  void add_folder(int beside, const char* name, int depth) {
    const Folder folder = depth <= kDepth ? open_folder(beside, name) : nullptr;
    if (!folder) {
      if (depth > kDepth) errno = ELOOP;
      return note_failure();
    }
    while (const char* entry = is_over() ? nullptr : next_name(folder)) {
      struct stat status {};
      if (fstatat(dirfd(folder.get()), entry, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        note_failure();
        continue;
      }
      add(status);
      if (S_ISDIR(status.st_mode)) add_folder(dirfd(folder.get()), entry, depth + 1);
    }
  }

  void add_group(pid_t group) {
    const Folder processes = open_folder(AT_FDCWD, "/proc");
    if (!processes) return note_failure();
    while (const char* name = is_over() ? nullptr : next_name(processes)) {
      if (!is_number(name) || getpgid(atoi(name)) != group) continue;
      const std::string process = fmt::format("/proc/{}", name);
      // Threads may have descriptors of their own.
      const Folder threads = open_folder(AT_FDCWD, (process + "/task").c_str());
      if (!threads) note_failure();
      while (const char* thread = threads && !is_over() ? next_name(threads) : nullptr)
        add_descriptors(fmt::format("{}/task/{}/fd", process, thread));
      add_mappings(process + "/maps");
    }
  }

  void add_descriptors(const std::string& path) {
    const Folder descriptors = open_folder(AT_FDCWD, path.c_str());
    if (!descriptors) return note_failure();
    while (const char* name = is_over() ? nullptr : next_name(descriptors)) {
      struct stat status {};
      if (fstatat(dirfd(descriptors.get()), name, &status, 0) != 0) {
        note_failure();
      } else if (S_ISREG(status.st_mode) && status.st_nlink == 0 && status.st_dev == device_ &&
                 nameless_.insert(status.st_ino).second) {
        add(status);
      }
    }
  }

  /// A line of it is "from-to modes offset device inode path", where the path of a file without a name is the
  /// one that it had, and " (deleted)" (proc(5)). How large such a file is nobody may ask who is not root.
  void add_mappings(const std::string& path) {
    constexpr std::string_view kDeleted = " (deleted)";
    std::ifstream file(path);
    if (!file) return note_failure();
    for (std::string line; std::getline(file, line);) {
      const size_t at = line.find(path_);
      if (at == std::string::npos || !line.ends_with(kDeleted)) continue;
      const std::string head = line.substr(0, line.find_last_not_of(' ', at - 1) + 1);
      const ino_t inode = strtoull(head.c_str() + head.rfind(' ') + 1, nullptr, 10);
      if (!nameless_.contains(inode)) use_.uncounted = true;
    }
  }

  const std::string folder_;
  const size_t most_;
  std::string path_;
  dev_t device_ = 0;
  std::set<ino_t> nameless_;  // that a descriptor has
  DiskUse use_;
};

}  // namespace

DiskUse disk_use(const std::string& folder, pid_t group, size_t most_files) {
  return Counter(folder, most_files).count(group);
}

// Folders in folders are moved up beside those that hold them, so that neither paths nor descriptors grow
// with the depth.
void remove_folder(const std::string& path) {
  const auto check = [&](bool done) {
    if (!done && errno != ENOENT) fail("cannot remove the folder {}: {}", path, strerror(errno));
  };
  const Folder top = open_folder(AT_FDCWD, path.c_str());
  if (!top) return check(false);
  const int here = dirfd(top.get());
  uint64_t moved = 0;
  // Read anew after each round, which has added names.
  for (bool found = true; std::exchange(found, false);) {
    rewinddir(top.get());
    while (const char* name = next_name(top)) {
      found = true;
      if (unlinkat(here, name, 0) == 0 || errno == ENOENT) continue;
      check(errno == EISDIR || errno == EPERM);  // of a folder, by the file system
      // Of the owner, who may have taken them away.
      check(fchmodat(here, name, 0700, 0) == 0);
      const Folder folder = open_folder(here, name);
      check(folder != nullptr);
      while (const char* inner = folder ? next_name(folder) : nullptr) {
        const int there = dirfd(folder.get());
        if (unlinkat(there, inner, 0) == 0) continue;
        check(errno == EISDIR || errno == EPERM);
        check(fchmodat(there, inner, 0700, 0) == 0);
        int gone = -1;
        do gone = renameat(there, inner, here, fmt::format("moved-{}", moved++).c_str());
        while (gone != 0 && (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR));
        check(gone == 0);
      }
      check(unlinkat(here, name, AT_REMOVEDIR) == 0);
    }
  }
  check(rmdir(path.c_str()) == 0);
}

}  // namespace lathe
