#include "core/support/descriptors.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>

#include "core/support/unfit.h"

namespace lathe {
namespace {

constexpr rlim_t kUsual = 1024;

/// At least so many, or all that there are; returns how many it has then.
rlim_t take_descriptors(rlim_t wanted) {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return wanted;
  if (descriptors.rlim_cur >= wanted) return descriptors.rlim_cur;
  descriptors.rlim_cur = std::min(wanted, descriptors.rlim_max);
  setrlimit(RLIMIT_NOFILE, &descriptors);
  return descriptors.rlim_cur;
}

}  // namespace

void require_descriptors(unsigned least) {
  if (const rlim_t there = take_descriptors(kUsual); there < least)
    throw Unfit(fmt::format("this process may have {} files and sockets open, and needs {}: see `ulimit -n`",
                            there, least));
}

// What a process may have at first, 1024 mostly, is for programs that call select(2).
void take_all_descriptors() { take_descriptors(RLIM_INFINITY); }

}  // namespace lathe
