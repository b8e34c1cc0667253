// What `tune compile` makes, run by liblathe-runtime.so.
#include <gtest/gtest.h>
#include <lathe.h>
#include <sys/mman.h>

#include <cstring>

#include "core/support/temporary_folder.h"
#include "core/support/tensor.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

constexpr size_t kPage = 4096;

/// Memory between two pages that nobody may touch; its last byte lies in the last line of the last page. What
/// is left of that line after it is filled with a pattern.
class FencedMemory {
 public:
  explicit FencedMemory(size_t bytes)
      : bytes_(bytes), rounded_((bytes + LATHE_ALIGNMENT - 1) / LATHE_ALIGNMENT * LATHE_ALIGNMENT) {
    const size_t inside = (rounded_ + kPage - 1) / kPage * kPage;
    mapped_ = inside + 2 * kPage;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + kPage, inside, PROT_READ | PROT_WRITE), 0);
    data_ = base_ + kPage + inside - rounded_;
    std::memset(data_ + bytes_, kPattern, rounded_ - bytes_);
  }
  ~FencedMemory() { munmap(base_, mapped_); }
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;

  void* data() { return data_; }
  bool pattern_stands() const {
    for (size_t i = bytes_; i < rounded_; ++i)
      if (data_[i] != kPattern) return false;
    return true;
  }

 private:
  static constexpr char kPattern = 0x5a;
  size_t bytes_, rounded_, mapped_ = 0;
  char *base_ = nullptr, *data_ = nullptr;
};

/// Kernels run in the caller's memory and touch nothing beyond it, to the line.
TEST(RuntimeLibrary, RunsInFencedMemoryAsTuneRuns) {
  TemporaryFolder folder;
  const std::string module_path = folder / "dqn.lathe", npy = folder / "data.npy";
  const Tensor input = random_tensor({1, 4, 84, 84}, kFloat32, 5);
  save_npy(npy, input);
  ASSERT_EQ(tune("compile --untuned --model dqn --out " + module_path).code, 0);
  ASSERT_EQ(tune("run --model " + module_path + " --input data=" + npy + " --out " + folder.path()).code, 0);
  const Tensor expected = load_npy(folder / "output_0.npy");

  lathe_error error{};
  lathe_module* module = nullptr;
  lathe_executor* executor = nullptr;
  ASSERT_EQ(lathe_module_open(module_path.c_str(), LATHE_VERIFY, &module, &error), LATHE_OK) << error.message;
  ASSERT_EQ(lathe_executor_create(module, 2, &executor, &error), LATHE_OK) << error.message;
  const auto in_bytes = static_cast<size_t>(input.bytes()), out_bytes = static_cast<size_t>(expected.bytes());
  FencedMemory in(in_bytes), out(out_bytes);
  std::memcpy(in.data(), input.data(), in_bytes);
  ASSERT_EQ(lathe_executor_set_input(executor, 0, in.data(), in_bytes, &error), LATHE_OK) << error.message;
  ASSERT_EQ(lathe_executor_set_output(executor, 0, out.data(), out_bytes, &error), LATHE_OK) << error.message;
  ASSERT_EQ(lathe_executor_run(executor, &error), LATHE_OK) << error.message;
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out_bytes), 0);
  EXPECT_EQ(std::memcmp(in.data(), input.data(), in_bytes), 0);
  EXPECT_TRUE(in.pattern_stands());
  EXPECT_TRUE(out.pattern_stands());
  lathe_executor_destroy(executor);
  lathe_module_close(module);
}

}  // namespace
}  // namespace lathe::cli
