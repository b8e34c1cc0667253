#include "cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>

#include "cli/exit_codes.h"

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
