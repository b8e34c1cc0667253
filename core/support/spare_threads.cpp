#include "core/support/spare_threads.h"

#include <fmt/core.h>

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/support/unfit.h"

namespace lathe {

void require_threads() {
  constexpr size_t kNeeded = 8;
  std::latch all(1);  // alive at once
  std::vector<std::thread> threads;
  std::string refusal;
  try {
    while (threads.size() < kNeeded) threads.emplace_back([&] { all.wait(); });
  } catch (const std::system_error& error) {
    refusal = fmt::format("this process may start {} threads, and needs {}: {}; see `ulimit -u`",
                          threads.size(), kNeeded, error.code().message());
  }
  all.count_down();
  for (std::thread& thread : threads) thread.join();
  if (!refusal.empty()) throw Unfit(refusal);
}

}  // namespace lathe
