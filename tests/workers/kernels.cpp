// Good and bad kernels with the ABI of generated code: y[i] = a[i] + b[i], 4096 floats.
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/runtime/kernel.h"

namespace {

constexpr int64_t kSize = 4096;

struct Buffers {
  float *a, *b, *y;
  explicit Buffers(void* const* buffers)
      : a(static_cast<float*>(buffers[0])),
        b(static_cast<float*>(buffers[1])),
        y(static_cast<float*>(buffers[2])) {}
};

void add(const Buffers& buffers) {
  for (int64_t i = 0; i < kSize; ++i) buffers.y[i] = buffers.a[i] + buffers.b[i];
}

/// The output in bfloat16.
uint16_t* fill_with_ones(void* const* buffers) {
  auto* y = static_cast<uint16_t*>(buffers[2]);
  std::fill(y, y + kSize, uint16_t{0x3f80});
  return y;
}

}  // namespace

extern "C" {

int32_t good(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  add(Buffers(buffers));
  return 0;
}

/// Of any number of elements: y[i] = a[i] + b[i].
int32_t good_open(void* const* buffers, void*, const LatheParallel*, const int64_t* dims) {
  const Buffers it(buffers);
  for (int64_t i = 0; i < dims[0]; ++i) it.y[i] = it.a[i] + it.b[i];
  return 0;
}

/// As one whose last vector of 8 loses an element where a whole one is not there.
int32_t wrong_at_seventeen(void* const* buffers, void*, const LatheParallel*, const int64_t* dims) {
  const Buffers it(buffers);
  for (int64_t i = 0; i < dims[0]; ++i) it.y[i] = it.a[i] + it.b[i];
  if (dims[0] == 17) it.y[16] = 0;
  return 0;
}

int32_t good_parallel(void* const* buffers, void*, const LatheParallel* parallel, const int64_t*) {
  parallel->launch(
      parallel->pool,
      [](void* closure, int64_t begin, int64_t end) {
        const Buffers it(static_cast<void* const*>(closure));
        for (int64_t i = begin; i < end; ++i) it.y[i] = it.a[i] + it.b[i];
      },
      const_cast<void**>(buffers), kSize);
  return 0;
}

int32_t slow(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  add(Buffers(buffers));
  const timespec pause{0, 20'000'000};
  nanosleep(&pause, nullptr);
  return 0;
}

int32_t works_a_while(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  for (int i = 0; i < 200; ++i) {
    add(Buffers(buffers));
    asm volatile("" ::: "memory");
  }
  return 0;
}

int32_t wrong_at_one_place(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  add(Buffers(buffers));
  Buffers(buffers).y[1234] += 1;
  return 0;
}

int32_t ones(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  fill_with_ones(buffers);
  return 0;
}

int32_t next_to_one(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  fill_with_ones(buffers)[1234] += 1;
  return 0;
}

int32_t beyond_the_next(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  fill_with_ones(buffers)[1234] += 2;
  return 0;
}

int32_t wide_ones(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  std::fill_n(static_cast<float*>(buffers[2]), kSize, 1.0F);
  return 0;
}

int32_t near_wide_ones(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  std::fill_n(static_cast<float*>(buffers[2]), kSize, 1.0F);
  static_cast<float*>(buffers[2])[1234] = 1 + 0x1p-8F;
  return 0;
}

int32_t forgets_the_end(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  const Buffers it(buffers);
  for (int64_t i = 0; i < kSize - 1; ++i) it.y[i] = it.a[i] + it.b[i];
  return 0;
}

int32_t writes_outside(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  add(Buffers(buffers));
  Buffers(buffers).y[kSize] = 0;
  return 0;
}

int32_t changes_inputs(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  add(Buffers(buffers));
  Buffers(buffers).a[0] = 7;
  return 0;
}

int32_t refuses(void* const*, void*, const LatheParallel*, const int64_t*) { return 7; }

/// m[i] = 2 b[i]. Refuses to run again in the same process.
int32_t doubles(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  static bool ran = false;
  if (std::exchange(ran, true)) return 3;
  for (int64_t i = 0; i < kSize; ++i)
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
  return 0;
}

int32_t doubles_half(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  for (int64_t i = 0; i < kSize / 2; ++i)
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
  return 0;
}

int32_t doubles_and_more(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  for (int64_t i = 0; i <= kSize; ++i)
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i % kSize];
  return 0;
}

/// y[i] = a[i] + m[i] / 2.
int32_t adds_half(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  const Buffers it(buffers);
  for (int64_t i = 0; i < kSize; ++i) it.y[i] = it.a[i] + it.b[i] / 2;
  return 0;
}

int32_t adds_half_and_spoils(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  const Buffers it(buffers);
  for (int64_t i = 0; i < kSize; ++i) it.y[i] = it.a[i] + it.b[i] / 2;
  it.b[7] = 0;
  return 0;
}

/// Would have its reference, and that of those after it, be other numbers (descriptor 6: inputs, then
/// outputs).
int32_t rewrites_the_reference(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  add(Buffers(buffers));
  const float other[kSize] = {};
  (void)!pwrite(6, other, sizeof other, 2 * sizeof other);
  return 0;
}

int32_t loops(void* const*, void*, const LatheParallel*, const int64_t*) {
  for (volatile int i = 0;;) i = i + 1;
}

int32_t aborts(void* const*, void*, const LatheParallel*, const int64_t*) { abort(); }

int32_t illegal(void* const*, void*, const LatheParallel*, const int64_t*) { __builtin_trap(); }

int32_t opens_a_socket(void* const*, void*, const LatheParallel*, const int64_t*) {
  return socket(AF_UNIX, SOCK_STREAM, 0) < 0;
}

int32_t far_store(void* const*, void*, const LatheParallel*, const int64_t*) {
  *reinterpret_cast<volatile int*>(uintptr_t{0x1234567890}) = 1;
  return 0;
}
}
