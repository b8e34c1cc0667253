// Running a module allocates no memory: malloc of the whole process is counted.
#include <gtest/gtest.h>

#include <atomic>

#include "core/codegen/host_target.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/compile.h"
#include "tuner/load_model.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LATHE_COUNTS_ALLOCATIONS

namespace {
std::atomic<int64_t> allocations = 0;
}

// The C library's own, under the names that it exports for this use.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return ++allocations, __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) { return ++allocations, __libc_realloc(memory, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return ++allocations, __libc_memalign(alignment, bytes);
}
}
#endif

namespace lathe::tuner {
namespace {

TEST(Executor, ARunAllocatesNothing) {
#ifndef LATHE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer has malloc";
#else
  runtime::ModuleImage image = compile_model(load_model("dqn", {}), codegen::host_target());
  runtime::ThreadPool pool(2);
  runtime::Executor executor(runtime::Module::from_image(std::move(image)), pool.parallel());
  const runtime::Value& input = executor.plan().values[executor.plan().inputs.at(0).value];
  executor.set_input(0, random_tensor(input.shape, input.dtype, 1));
  for (int round = 0; round < 3; ++round) {  // the first one too
    int64_t before = allocations;
    executor.run();
    EXPECT_EQ(allocations, before);
  }
  int64_t before = allocations;
  EXPECT_EQ(zeros({64}, kFloat32).size(), 64);
  EXPECT_GT(allocations, before) << "the count counts";
#endif
}

}  // namespace
}  // namespace lathe::tuner
