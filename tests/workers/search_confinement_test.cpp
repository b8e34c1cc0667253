// A searcher that its model has taken over: what it may still do, and what it is refused.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "workers/confine.h"

namespace lathe::worker {
namespace {

/// A tracker's files: its database, a key, a model that was uploaded, and two jobs' folders.
class SearchConfinement : public ::testing::Test {
 protected:
  SearchConfinement() {
    for (const char* name : {"db", "db-wal", "db-shm", "key", "model"}) write_file(path(name), "secret");
    for (const char* name : {"mine", "theirs"}) mkdir(path(name).c_str(), 0700);
    EXPECT_EQ(symlink(path("db").c_str(), path("mine/link").c_str()), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, link_), 0);
  }
  ~SearchConfinement() override {
    close(link_[0]);
    close(link_[1]);
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  /// Does the deed in a confined child: its errno (0: it was done, 255: it was not), or the signal that ended
  /// it, negated.
  int outcome(const std::function<bool()>& deed) const {
    const pid_t child = fork();
    if (child == 0) {
      setenv("TMPDIR", path("mine").c_str(), 1);
      confine({.file_bytes = 1 << 20, .folder = path("mine"), .file = path("model")}, Confinement::kSearch);
      errno = 0;
      const bool done = deed();
      _exit(done ? 0 : errno != 0 ? errno : 255);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int opening(const std::string& name, int flags) const {
    return outcome([&] { return open(path(name).c_str(), flags, 0600) >= 0; });
  }

  TemporaryFolder folder_;
  int link_[2] = {-1, -1};
};

TEST_F(SearchConfinement, DoesItsWork) {
  EXPECT_EQ(opening("model", O_RDONLY), 0);
  EXPECT_EQ(opening("mine/out.lathe", O_CREAT | O_RDWR), 0);
  EXPECT_EQ(outcome([&] { return send(link_[0], "x", 1, MSG_NOSIGNAL) == 1; }), 0);
  EXPECT_EQ(outcome([] { return std::thread([] {}).join(), true; }), 0);
  EXPECT_EQ(outcome([] { return system("/usr/bin/true") == 0; }), 0) << "a linker";
}

TEST_F(SearchConfinement, ReachesNoFileOfOthers) {
  if (!kConfines || !missing_confinement().empty()) GTEST_SKIP();
  for (const char* name : {"db", "db-wal", "db-shm", "key", "mine/link"}) {
    EXPECT_EQ(opening(name, O_RDONLY), EACCES) << name;
    EXPECT_EQ(opening(name, O_WRONLY), EACCES) << name;
  }
  EXPECT_EQ(opening("model", O_WRONLY), EACCES);
  EXPECT_EQ(opening("theirs/out.lathe", O_CREAT | O_WRONLY), EACCES);
  EXPECT_EQ(opening("theirs", O_RDONLY | O_DIRECTORY), EACCES);
  EXPECT_EQ(opening("beside", O_CREAT | O_WRONLY), EACCES);
  EXPECT_EQ(outcome([&] { return unlink(path("db").c_str()) == 0; }), EACCES);
  // Landlock of version 1 refuses every move between folders, and of version 2 what is forbidden to either.
  EXPECT_NE(outcome([&] { return rename(path("db").c_str(), path("mine/db").c_str()) == 0; }), 0);
  EXPECT_NE(outcome([&] { return rename(path("mine/link").c_str(), path("db").c_str()) == 0; }), 0);
  EXPECT_EQ(outcome([&] { return link(path("db").c_str(), path("mine/db").c_str()) == 0; }), -SIGSYS);
  EXPECT_EQ(outcome([&] { return truncate(path("db").c_str(), 0) == 0; }), -SIGSYS);
  EXPECT_EQ(read_file(path("db")), "secret");
  const std::string memory = fmt::format("/proc/{}/mem", getpid());
  EXPECT_EQ(outcome([&] { return open(memory.c_str(), O_RDWR) >= 0; }), EACCES);
  const std::string cat = "exec 2>/dev/null; cat " + path("key");
  EXPECT_NE(outcome([&] { return system(cat.c_str()) == 0; }), 0) << "nor do programs that it starts";
}

TEST_F(SearchConfinement, ReachesNoProcessAndNoNetwork) {
  if (!kConfines || !missing_confinement().empty()) GTEST_SKIP();
  const pid_t parent = getpid();
  EXPECT_EQ(outcome([&] { return kill(parent, SIGKILL) == 0; }), -SIGSYS);
  EXPECT_EQ(outcome([&] { return kill(parent, 0) == 0; }), -SIGSYS);
  EXPECT_EQ(outcome([&] { return ptrace(PTRACE_ATTACH, parent, 0, 0) == 0; }), -SIGSYS);
  EXPECT_EQ(outcome([] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }), -SIGSYS);
  EXPECT_EQ(outcome([] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }), -SIGSYS);
  EXPECT_EQ(outcome([&] {
              sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "/tmp/elsewhere"};
              return sendto(link_[0], "x", 1, MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address),
                            sizeof address) == 1;
            }),
            EISCONN)
      << "the link leads to the tracker alone";
  EXPECT_EQ(outcome([&] { return fcntl(link_[0], F_SETOWN, parent) == 0; }), EPERM);
}

TEST_F(SearchConfinement, FillsNoDisk) {
  EXPECT_EQ(outcome([&] {
              const int file = open(path("mine/large").c_str(), O_CREAT | O_WRONLY, 0600);
              return ftruncate(file, 2 << 20) == 0;
            }),
            -SIGXFSZ);
}

}  // namespace
}  // namespace lathe::worker
