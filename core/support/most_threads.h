#pragma once

namespace lathe {

/// The most threads of a kernel, anywhere: as many as a set of processors (cpu_set_t) can name.
inline constexpr int kMostThreads = 1024;

}  // namespace lathe
