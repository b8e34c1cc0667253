#include "workers/sandbox.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "core/support/unfit.h"
#include "tests/workers/deeds.h"
#include "tests/workers/roles.h"
#include "tracker/defaults.h"
#include "workers/confine.h"
#include "workers/jobs.h"
#include "workers/measure.h"
#include "workers/module_run.h"
#include "workers/packets.h"

namespace lathe::worker {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

/// Decent candidates and builds.
std::string behave(std::string_view request, Child& child) {
  if (request == "echo") return "echo";
  if (request == "big") return std::string(8 << 20, 'x');
  if (request == "passed") return read_descriptor(child.descriptors()[0]);
  if (request == "write file")
    return std::to_string(open(kOutside.c_str(), O_CREAT | O_WRONLY, 0600) < 0 ? errno : 0);
  if (request == "read file") return std::to_string(open("/etc/passwd", O_RDONLY) < 0 ? errno : 0);
  // Each of these reached other processes of the same user; the request ends with whose number.
  if (request.starts_with("signal by descriptor ")) {
    const int owner = std::stoi(std::string(request.substr(request.rfind(' '))));
    const bool owned = fcntl(4, F_SETOWN, owner) == 0, chosen = fcntl(4, F_SETSIG, SIGCONT) == 0,
               armed = fcntl(4, F_SETFL, O_ASYNC) == 0;
    // Of sockets, as the gate is one.
    return fmt::format("{}{}{}{}", owned, chosen, armed, ioctl(3, FIOSETOWN, &owner) == 0);
  }
  if (request.starts_with("move ")) {
    const int moved = std::stoi(std::string(request.substr(request.rfind(' '))));
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return std::to_string(sched_setaffinity(moved, sizeof set, &set) == 0);
  }
  if (request == "change what it was passed") {
    const int fd = child.descriptors()[0];
    const bool wrote = pwrite(fd, "x", 1, 0) == 1, cut = ftruncate(fd, 0) == 0;
    void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return fmt::format("{}{}{}", wrote, cut, mapped != MAP_FAILED);
  }
  if (request == "folder") {
    write_file(std::string(getenv("TMPDIR")) + "/file", "left behind");
    return getenv("TMPDIR");
  }
  if (request == "fill the folder") {
    for (int i = 0; i < 8; ++i)
      write_file(fmt::format("{}/{}", getenv("TMPDIR"), i), std::string(1 << 20, 'x'));
    sleep(600);
  }
  if (request == "hide files") {
    const std::string name = std::string(getenv("TMPDIR")) + "/file", bytes(1 << 20, 'x');
    for (int i = 0; i < 8; ++i) {
      const int file = open(name.c_str(), O_CREAT | O_RDWR, 0600);
      write_all(file, bytes);
      unlink(name.c_str());
    }
    sleep(600);
  }
  if (request == "leave one behind") {
    if (fork() == 0) write_all(child.descriptors()[0], "started");
    sleep(600);
  }
  if (request == "pid") return std::to_string(getpid());
  if (request == "descriptors") {
    int open_ones = 0;
    for (int fd = 0; fd < 1024; ++fd) open_ones += fcntl(fd, F_GETFD) >= 0;
    return std::to_string(open_ones);
  }
  if (request == "gigabyte of stderr") {
    const std::string line(1 << 16, 'e');
    for (int i = 0; i < 1 << 14; ++i) write_all(2, line);
    write_all(2, "the end");
    abort();
  }
  if (request == "silence") {
    close(1);
    close(2);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return "silent";
  }
  if (request == "threads") {
    std::atomic<int> sum = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&sum, i] { sum += i; });
    for (auto& thread : threads) thread.join();
    return std::to_string(sum);
  }
  if (request == "window") {
    child.open_window();
    char told = 0;  // to close it
    if (read(child.descriptors()[0], &told, 1) != 1) return "left alone";
    child.close_window();
    return "closed";
  }
  spin();
}

/// Is killed as often as the file tells that its supervisor's command names; then it is a module's run.
std::string die_or_run(std::string_view request, Child& child) {
  const std::vector<std::string> arguments = split_text(read_file("/proc/self/cmdline"), '\0');
  const std::string file = arguments.at(2), left = read_file(file);
  if (!left.empty()) {
    write_file(file, left.substr(1));
    kill(getpid(), SIGKILL);
  }
  return module_run_body(request, child);
}

constexpr Role kRoles[] = {
    {"deed", Confinement::kRun, nullptr, commit_deed},
    {"build-deed", Confinement::kBuild, nullptr, commit_build_deed},
    {"decent", Confinement::kRun, nullptr, behave},
    {"builder", Confinement::kBuild, nullptr, behave},
    {"run", Confinement::kRun, nullptr, run_body},
    {"module", Confinement::kTrusted, nullptr, module_run_body},
    {"killed module", Confinement::kTrusted, nullptr, die_or_run},
};

Task task(const std::string& request, double seconds = 5) {
  return {.request = request,
          .limits = {.wall_seconds = seconds,
                     .cpu_seconds = 5,
                     .memory_bytes = uint64_t{400} << 20,
                     .file_bytes = 16 << 20}};
}

TEST(Sandbox, RepliesAndPassesDescriptors) {
  Sandbox sandbox(sandbox_command("decent"));
  EXPECT_EQ(sandbox.run(task("echo")).reply, "echo");
  EXPECT_THAT(sandbox.run(task("big")).reply, SizeIs(8 << 20));
  EXPECT_EQ(sandbox.run(task("threads")).reply, "6");
  EXPECT_EQ(sandbox.run(task("descriptors")).reply, "5");
  Task passing = task("passed");
  passing.descriptors = {memory_file("t", "through a file")};
  EXPECT_EQ(sandbox.run(passing).reply, "through a file");
  close(passing.descriptors[0]);
}

TEST(Sandbox, KeepsFilesAway) {
  if (!kConfines) GTEST_SKIP();
  Sandbox sandbox(sandbox_command("decent"));
  EXPECT_EQ(sandbox.run(task("write file")).reply, std::to_string(EACCES));
  EXPECT_EQ(sandbox.run(task("read file")).reply, std::to_string(EACCES));
  EXPECT_FALSE(std::filesystem::exists(kOutside));
}

TEST(Sandbox, ReachesNoOtherProcess) {
  if (!kConfines) GTEST_SKIP();
  Sandbox sandbox(sandbox_command("decent"));
  sandbox.run(task("echo"));  // which starts the supervisor
  EXPECT_EQ(sandbox.run(task(fmt::format("signal by descriptor {}", sandbox.supervisor()))).reply,
            "falsefalsefalsefalse");
  EXPECT_EQ(sandbox.run(task(fmt::format("move {}", sandbox.supervisor()))).reply, "0");
}

/// What a kernel without Landlock answers, by a filter of a process that ends with the question.
TEST(Confinement, IsRequired) {
  if (!kConfines) GTEST_SKIP();
  EXPECT_EQ(missing_confinement(), "");
  for (const char* agreed : {"", "1"}) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("LATHE_UNCONFINED", agreed, 1);
      sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
      const sock_fprog program{std::size(code), code};
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
      try {
        require_confinement();
        _exit(0);
      } catch (const Unfit& error) {
        _exit(std::string(error.what()).starts_with("this system lacks Landlock (Linux 5.13)") ? 4 : 1);
      }
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), *agreed ? 0 : 4);
  }
}

/// References are kept for the candidates that follow.
TEST(Sandbox, ChangesNothingSealed) {
  Sandbox sandbox(sandbox_command("decent"));
  Task passing = task("change what it was passed");
  passing.descriptors = {memory_file("reference", std::string(4096, 'r'))};
  seal(passing.descriptors[0]);
  EXPECT_EQ(sandbox.run(passing).reply, "falsefalsefalse");
  EXPECT_EQ(read_descriptor(passing.descriptors[0]), std::string(4096, 'r'));
  close(passing.descriptors[0]);
}

/// A tracker refuses such a result, and a worker would send it for ever.
TEST(Sandbox, RepliesThatCannotBeGoNoFurther) {
  const auto refused = [](const Reply& reply) {
    try {
      decode_reply(encode(reply));
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  const float nan = std::nanf("");
  EXPECT_FALSE(refused({.samples = {1e-3f}}));
  EXPECT_TRUE(refused({.samples = {1e-3f, nan}}));
  EXPECT_TRUE(refused({.samples = {-1}}));
  EXPECT_TRUE(refused({.samples = std::vector<float>(200000, 1.0f)}));
  EXPECT_TRUE(refused({.samples = {1}, .relative_error = nan}));
  EXPECT_TRUE(refused({.samples = {1}, .canary_seconds = nan}));
  EXPECT_TRUE(refused({.samples = {1}, .disturbance = {.clock_hz = nan}}));
  EXPECT_FALSE(refused({.outcome = Outcome::kWrongResult, .relative_error = nan}));
  EXPECT_THAT(
      decode_reply(encode(Reply{.outcome = Outcome::kCrashed, .message = std::string(20000, 'm')})).message,
      SizeIs(defaults::kMessageLimit));
}

constexpr auto name_of_deed = [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (!isalnum(c)) c = '_';
  return name;
};

class Hostile : public testing::TestWithParam<Deed> {};

TEST_P(Hostile, IsContainedAndClassed) {
  if (!kConfines) GTEST_SKIP() << "sanitizers have their own ways with crashes, and children their freedom";
  static Sandbox sandbox(sandbox_command("deed"));  // the same for all: it must survive them
  const Report report =
      sandbox.run(task(GetParam().name, GetParam().end == Report::End::kTimedOut ? 0.3 : 20));
  EXPECT_EQ(report.end, GetParam().end) << describe(report) << "\n" << report.stderr_tail;
  if (GetParam().code >= 0) {
    EXPECT_EQ(report.code, GetParam().code) << report.stderr_tail;
  }
}

INSTANTIATE_TEST_SUITE_P(Deeds, Hostile, testing::ValuesIn(hostile_candidates()), name_of_deed);

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 300; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class HostileBuild : public testing::TestWithParam<BuildDeed> {};

TEST_P(HostileBuild, IsContained) {
  if (!kConfines) GTEST_SKIP();
  setenv(kSecretVariable, "secret", 1);
  static Sandbox sandbox(sandbox_command("build-deed"));
  write_file(kKeyFile, "secret");
  const Report report = sandbox.run(task(GetParam().name, 20));
  if (*GetParam().reply) {
    EXPECT_EQ(report.end, Report::End::kReplied) << describe(report) << "\n" << report.stderr_tail;
    EXPECT_EQ(report.reply, GetParam().reply);
  } else {
    EXPECT_EQ(report.end, Report::End::kSignalled) << report.reply;
    EXPECT_EQ(report.code, SIGSYS);
  }
  EXPECT_FALSE(std::filesystem::exists(kOutside));
  EXPECT_EQ(read_file(kKeyFile), "secret");
  std::filesystem::remove(kKeyFile);
}

INSTANTIATE_TEST_SUITE_P(Deeds, HostileBuild, testing::ValuesIn(hostile_builds()), name_of_deed);

/// Also when it was killed before it could tidy up.
TEST(Sandbox, NothingOfABuildStays) {
  if (!kConfines) GTEST_SKIP();
  Sandbox sandbox(sandbox_command("builder"));
  const std::string folder = sandbox.run(task("folder")).reply;
  EXPECT_THAT(folder, HasSubstr("lathe-"));
  EXPECT_TRUE(soon([&] { return !std::filesystem::exists(folder); }));
}

/// The kernel bounds each file that it writes, and not how many there are.
TEST(Sandbox, ABuildFillsNoDisk) {
  if (!kConfines) GTEST_SKIP();
  Sandbox sandbox(sandbox_command("builder"));
  for (const char* way : {"fill the folder", "hide files"}) {
    Task filling = task(way, 30);
    filling.limits.file_bytes = 1 << 20;
    const Report report = sandbox.run(filling);
    EXPECT_EQ(report.end, Report::End::kSignalled) << way << ": " << describe(report);
    EXPECT_EQ(report.code, SIGXFSZ);
    EXPECT_EQ(report.stderr_tail, "more than 4 MiB or 1000 files in its folder\n");
  }
}

TEST(Sandbox, SaysHowItEnded) {
  EXPECT_EQ(describe({.end = Report::End::kSignalled, .code = 11}),
            "killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(describe({.end = Report::End::kExited, .code = 3}), "exited with status 3");
  EXPECT_EQ(describe({.end = Report::End::kTimedOut, .wall_seconds = 10, .cpu_seconds = 1}),
            "over its time limit after 10.0 s (1.0 s of CPU)");
}

TEST(Sandbox, KeepsTheTailOfStderr) {
  Sandbox sandbox(sandbox_command("decent"));
  const Report report = sandbox.run(task("gigabyte of stderr", 30));
  EXPECT_EQ(report.end, Report::End::kSignalled);
  EXPECT_THAT(report.stderr_tail, StartsWith("[1073741831 bytes, the last 4096:]\n"));
  EXPECT_THAT(report.stderr_tail, EndsWith("ethe end"));
  EXPECT_LT(report.stderr_tail.size(), 4200u);
}

double cpu_seconds(pid_t pid) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", pid));
  const std::vector<std::string> fields = split_text(stat.substr(stat.rfind(')') + 2), ' ');
  return (std::stod(fields.at(11)) + std::stod(fields.at(12))) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

TEST(Sandbox, WaitsForAChildThatHasClosedItsStderr) {
  Sandbox sandbox(sandbox_command("decent"));
  sandbox.run(task("echo"));  // which starts the supervisor
  const double before = cpu_seconds(sandbox.supervisor());
  EXPECT_EQ(sandbox.run(task("silence")).reply, "silent");
  EXPECT_LT(cpu_seconds(sandbox.supervisor()) - before, 0.2) << "of the second that the child slept";
}

TEST(Sandbox, ANewSupervisorFollowsAKilledOne) {
  Sandbox sandbox(sandbox_command("decent"));
  EXPECT_EQ(sandbox.run(task("echo")).reply, "echo");
  kill(sandbox.supervisor(), SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(sandbox.run(task("echo")).reply, "echo");
  sandbox.start(task("loop"));
  kill(sandbox.supervisor(), SIGKILL);
  for (;;)
    if (const auto report = sandbox.finish()) {
      EXPECT_EQ(report->end, Report::End::kLost);
      break;
    }
  EXPECT_EQ(sandbox.run(task("echo")).reply, "echo");
}

/// Cores may be taken from a container while it runs. Where a child cannot be confined nothing is known of
/// what it should have run.
TEST(Sandbox, AChildThatCannotBeginIsTheMachinesFault) {
  Sandbox sandbox(sandbox_command("decent"));
  Task on_no_core = task("echo");
  on_no_core.limits.cpus = {1000};
  EXPECT_EQ(sandbox.run(on_no_core).end, Report::End::kLost);
  EXPECT_EQ(sandbox.run(task("echo")).reply, "echo");
}

/// What becomes of a module's run whose first `deaths` processes are killed.
std::string end_with_deaths(size_t deaths) {
  const TemporaryFolder folder;
  const std::string file = folder / "deaths";
  write_file(file, std::string(deaths, 'x'));
  std::vector<std::string> command = sandbox_command("killed module");
  command.insert(command.begin() + 2, file);
  try {
    run_module(command, {.module = "/nonexistent.lathe"}, [] { return false; });
  } catch (const Unfit& error) {
    return fmt::format("unfit: {}", error.what());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RunModule, IsTriedOnceMoreWhereSomebodyElseEndsIt) {
  const std::string ran =
      "/nonexistent.lathe does not run: exited with status 1: cannot read /nonexistent.lathe: No such file "
      "or directory";
  EXPECT_EQ(end_with_deaths(0), ran);
  EXPECT_EQ(end_with_deaths(1), ran);
  EXPECT_EQ(
      end_with_deaths(2),
      "unfit: /nonexistent.lathe: its process was ended from outside, twice in a row: killed by signal 9 "
      "(Killed); is this machine short of memory?");
}

TEST(RunModule, IsUnfitWhereNoSupervisorLives) {
  for (const char* program : {"/nonexistent/lathe", "/bin/false"})
    EXPECT_THROW(run_module({program}, {.module = "x.lathe"}, [] { return false; }), Unfit) << program;
}

int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Sandbox, KeepsNothingOpenWhenItCannotStart) {
  const int64_t before = open_descriptors();
  Sandbox sandbox({"/nonexistent/lathe"});
  EXPECT_THROW(sandbox.start(task("echo")), Error);
  EXPECT_EQ(open_descriptors(), before);
}

bool alive(const std::string& command_line) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (!isdigit(entry.path().filename().string()[0])) continue;
    try {
      std::string text = read_file(entry.path() / "cmdline");
      std::string state = read_file(entry.path() / "stat");
      if (text.find(command_line) != std::string::npos && state.find(") Z") == std::string::npos) return true;
    } catch (const Error&) {
    }
  }
  return false;
}

TEST(Sandbox, NoChildOutlivesItsSandbox) {
  std::vector<std::string> command = sandbox_command("decent");
  command.insert(command.begin() + 2, "mark-of-this-test");
  {
    Sandbox sandbox(command);
    sandbox.start(task("loop", 60));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(alive("mark-of-this-test"));
    sandbox.abort();
    EXPECT_FALSE(sandbox.busy());
  }
  for (int i = 0; i < 100 && alive("mark-of-this-test"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(alive("mark-of-this-test"));
}

/// A linker, say. The parent-death signal of the child is its own alone.
TEST(Sandbox, NothingThatAChildHasStartedOutlivesItsSandbox) {
  for (const bool killed : {false, true}) {
    int held[2];
    ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
    const pid_t worker = fork();
    if (worker == 0) {
      Sandbox sandbox(sandbox_command("builder"));
      Task leaving = task("leave one behind", 600);
      leaving.descriptors = {held[1]};
      sandbox.start(leaving);
      pollfd started{.fd = held[0], .events = POLLIN};
      poll(&started, 1, -1);
      if (killed) kill(getpid(), SIGKILL);
      sandbox.abort();
      _exit(0);
    }
    close(held[1]);
    waitpid(worker, nullptr, 0);
    char text[8];
    EXPECT_EQ(read(held[0], text, sizeof text), 7) << "of what was started";
    // The pipe ends when nobody holds it any more.
    pollfd ended{.fd = held[0], .events = POLLIN};
    EXPECT_TRUE(poll(&ended, 1, 5000) == 1 && (ended.revents & POLLHUP) != 0) << killed;
    close(held[0]);
  }
}

/// The state letter of the one child of `parent`: 'R' running, 'T' stopped; ' ' when there is none.
char state_of_child(pid_t parent) {
  const std::string children = read_file(fmt::format("/proc/{0}/task/{0}/children", parent));
  if (children.empty()) return ' ';
  const std::string stat = read_file(fmt::format("/proc/{}/stat", std::stoi(children)));
  return stat[stat.rfind(')') + 2];
}

TEST(Sandbox, BuildersStandStillInATimedWindow) {
  Sandbox builder(sandbox_command("builder")), runner(sandbox_command("decent"));
  // Open until somebody says so, however long a supervisor takes to start beside others.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Task window = task("window", 60);
  window.stop_builders = true;
  window.descriptors = {ends[0]};
  builder.start(task("loop", 60));
  EXPECT_TRUE(soon([&] { return state_of_child(builder.supervisor()) == 'R'; }));
  runner.start(window);
  EXPECT_TRUE(soon([&] { return state_of_child(builder.supervisor()) == 'T'; }));
  // One that starts while the window is open stands still too.
  Sandbox second(sandbox_command("builder"));
  second.start(task("loop", 60));
  EXPECT_TRUE(soon([&] { return state_of_child(second.supervisor()) == 'T'; }));
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_TRUE(soon([&] { return runner.finish().has_value(); }));
  EXPECT_TRUE(soon([&] { return state_of_child(builder.supervisor()) == 'R'; }));
  EXPECT_TRUE(soon([&] { return state_of_child(second.supervisor()) == 'R'; }));
  // And a runner killed in its window leaves nobody standing.
  runner.start(window);
  EXPECT_TRUE(soon([&] { return state_of_child(builder.supervisor()) == 'T'; }));
  kill(runner.supervisor(), SIGKILL);
  EXPECT_TRUE(soon([&] { return state_of_child(builder.supervisor()) == 'R'; }));
  for (const int end : ends) close(end);
}

}  // namespace

std::span<const Role> test_roles() { return kRoles; }

}  // namespace lathe::worker
