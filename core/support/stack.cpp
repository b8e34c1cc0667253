#include "core/support/stack.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>

#include "core/support/error.h"

namespace lathe {
namespace {

constexpr size_t kReserve = 256 << 10;  // what one turn of a recursion, and all it calls, has to do with
constexpr size_t kFresh = 64 << 20;     // of a fresh stack; pages that are not touched cost nothing

// Some bytes into the frame of whoever asks, which is as good as exact beside the reserve.
const char* here() { return static_cast<const char*>(__builtin_frame_address(0)); }

/// Of a process that may not read /proc, where glibc looks for the end of the first thread's stack, as a
/// confined searcher may not: half of what the stack may be, since some of it is in use already.
const char* guess_lowest() {
  constexpr size_t kUsual = 8 << 20;
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return here() - std::min<size_t>(known ? limit.rlim_cur : kUsual, kUsual) / 2;
}

/// The lowest address of this thread's stack, plus the reserve. The stack grows downwards.
const char* find_limit() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return guess_lowest() + kReserve;
  void* lowest = nullptr;
  size_t size = 0;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  return static_cast<const char*>(lowest) + kReserve;
}

struct Task {
  FunctionRef<void()> run;
  std::exception_ptr thrown;
};

void* run_task(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  try {
    task.run();
  } catch (...) {
    task.thrown = std::current_exception();
  }
  return nullptr;
}

}  // namespace

void with_enough_stack(FunctionRef<void()> f) {
  // Once a thread: for the first one pthread_getattr_np reads /proc/self/maps.
  thread_local const char* const limit = find_limit();
  if (here() > limit) return f();
  // The caller waits, so this is a call on another stack and no second thread of work. What is
  // thread_local is another there.
  Task task{f, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kFresh);
  pthread_t thread;
  // Memory for a stack of 64 MiB is an address range: pages come as it grows.
  int failure = pthread_create(&thread, &attributes, run_task, &task);
  pthread_attr_destroy(&attributes);
  if (failure) fail("nested too deep: there is no memory for another stack");
  pthread_join(thread, nullptr);
  if (task.thrown) std::rethrow_exception(task.thrown);
}

}  // namespace lathe
