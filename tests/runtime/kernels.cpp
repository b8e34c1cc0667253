// Kernels of three floats with the ABI of generated code.
#include "core/runtime/kernel.h"

namespace {
constexpr int64_t kSize = 3;
const float* input(void* const* buffers, int i) { return static_cast<const float*>(buffers[i]); }
float* output(void* const* buffers, int i) { return static_cast<float*>(buffers[i]); }
}  // namespace

extern "C" {

int32_t add(void* const* buffers, void*, const LatheParallel* parallel, const int64_t*) {
  parallel->launch(
      parallel->pool,
      [](void* closure, int64_t begin, int64_t end) {
        void* const* buffers = static_cast<void* const*>(closure);
        for (int64_t i = begin; i < end; ++i)
          output(buffers, 2)[i] = input(buffers, 0)[i] + input(buffers, 1)[i];
      },
      const_cast<void**>(buffers), kSize);
  return 0;
}

// Doubles by way of the workspace, which it fills first.
int32_t twice(void* const* buffers, void* workspace, const LatheParallel*, const int64_t*) {
  float* scratch = static_cast<float*>(workspace);
  for (int64_t i = 0; i < kSize; ++i) scratch[i] = 2 * input(buffers, 0)[i];
  for (int64_t i = 0; i < kSize; ++i) output(buffers, 1)[i] = scratch[i];
  return 0;
}

// Two integers: where its input of three floats and where its output lie.
int32_t places(void* const* buffers, void*, const LatheParallel*, const int64_t*) {
  for (int i = 0; i < 2; ++i) static_cast<int64_t*>(buffers[1])[i] = reinterpret_cast<int64_t>(buffers[i]);
  return 0;
}

// Of as many floats as its dimension says, by way of a workspace of as many.
int32_t twice_open(void* const* buffers, void* workspace, const LatheParallel*, const int64_t* dims) {
  float* scratch = static_cast<float*>(workspace);
  for (int64_t i = 0; i < dims[0]; ++i) scratch[i] = 2 * input(buffers, 0)[i];
  for (int64_t i = 0; i < dims[0]; ++i) output(buffers, 1)[i] = scratch[i];
  return 0;
}

int32_t refuse(void* const*, void*, const LatheParallel*, const int64_t*) { return 7; }
}
