// The tests' binary is also the supervisor of its own children, as `tune` is.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "tests/workers/roles.h"
#include "workers/local_worker.h"

int main(int argc, char** argv) {
  const bool forges = argc > 1 && strcmp(argv[1], "forging-sandbox") == 0;
  if (forges || (argc > 1 && strcmp(argv[1], "internal-sandbox") == 0)) {
    try {
      return lathe::worker::supervise(forges ? lathe::worker::forging_roles() : lathe::worker::test_roles(),
                                      {argv, argv + argc});
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
      return 2;
    }
  }
  // As a LocalWorker starts it: of a machine that can do nothing.
  if (argc > 1 && strcmp(argv[1], "worker") == 0) return lathe::worker::kUnfitStatus;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
