#include "cli/interrupt.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/exit_codes.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe::cli {
namespace {

TEST(Interrupt, EndsTheProcessAndSaysHowToGoOn) {
  const auto run = [] {
    install_interrupt_handler();
    const InterruptHint hint("go on with: tune");
    raise(SIGINT);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(kInterrupted), "^go on with: tune\n$");
}

TEST(Interrupt, TheFirstOfAScopeIsItsOwnTheSecondEndsTheProcess) {
  const auto run = [] {
    install_interrupt_handler();
    const InterruptHint hint("go on with: tune");
    InterruptScope scope;
    raise(SIGTERM);
    if (!scope.interrupted()) _exit(1);
    fputs("draining; ", stderr);
    raise(SIGTERM);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(kInterrupted), "^draining; go on with: tune\n$");
}

TEST(Interrupt, AClosedTerminalIsOneUnlessItIsIgnored) {
  const auto run = [](auto before) {
    std::signal(SIGHUP, before);
    install_interrupt_handler();
    InterruptScope scope;
    raise(SIGHUP);
    _exit(scope.interrupted() ? 1 : 0);
  };
  EXPECT_EXIT(run(SIG_DFL), ::testing::ExitedWithCode(1), "");
  EXPECT_EXIT(run(SIG_IGN), ::testing::ExitedWithCode(0), "");
}

TEST(Interrupt, LeavesNothingUnfinishedBehind) {
  const TemporaryFolder parent;
  const auto run = [&](int number) {
    install_interrupt_handler();
    setenv("TMPDIR", parent.path().c_str(), 1);
    const TemporaryFolder folder;
    write_file(folder / "file", "x");
    raise(number);
  };
  EXPECT_EXIT(run(SIGINT), ::testing::ExitedWithCode(kInterrupted), "^$");
  EXPECT_TRUE(std::filesystem::is_empty(parent.path()));
  EXPECT_EXIT(run(SIGPIPE), ::testing::KilledBySignal(SIGPIPE), "^$");
  EXPECT_TRUE(std::filesystem::is_empty(parent.path()));
}

/// As where somebody copies another module over one that runs.
TEST(Interrupt, SaysThatAFileWasCutShort) {
  const TemporaryFolder folder;
  write_file(folder / "module", std::string(1 << 20, 'x'));
  const auto run = [&] {
    install_interrupt_handler();
    const int file = open((folder / "module").c_str(), O_RDONLY);
    const auto* mapped =
        static_cast<const volatile char*>(mmap(nullptr, 1 << 20, PROT_READ, MAP_SHARED, file, 0));
    if (truncate((folder / "module").c_str(), 0) != 0) _exit(1);
    _exit(mapped[1 << 19]);
  };
  EXPECT_EXIT(
      run(), ::testing::ExitedWithCode(kBadInput),
      "^error: a file was cut short, or its disk failed, while it was read; replace files that are in "
      "use by renaming others\n$");
}

TEST(Interrupt, AHintIsGoneWithItsScope) {
  const auto run = [] {
    install_interrupt_handler();
    { const InterruptHint hint("go on with: tune"); }
    raise(SIGINT);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(kInterrupted), "^$");
}

}  // namespace
}  // namespace lathe::cli
