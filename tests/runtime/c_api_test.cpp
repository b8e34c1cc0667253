#include <fmt/core.h>
#include <gmock/gmock.h>
#include <lathe.h>
#include <sys/resource.h>

#include <cstring>
#include <functional>
#include <thread>

#include "core/runtime/linked_library.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/runtime/test_module.h"

extern "C" float run_from_c(const char* path, lathe_error* error);

namespace lathe::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using ModulePtr = std::unique_ptr<lathe_module, decltype(&lathe_module_close)>;
using ExecutorPtr = std::unique_ptr<lathe_executor, decltype(&lathe_executor_destroy)>;

class CApi : public ::testing::Test {
 protected:
  CApi() { write_module(path_, test_image()); }

  ModulePtr open(const std::string& path, uint32_t flags = 0) {
    lathe_module* module = nullptr;
    status_ = lathe_module_open(path.c_str(), flags, &module, &error_);
    return {module, &lathe_module_close};
  }
  ModulePtr load(const std::string& bytes, uint32_t flags = 0) {
    lathe_module* module = nullptr;
    status_ = lathe_module_load(bytes.data(), bytes.size(), flags, &module, &error_);
    return {module, &lathe_module_close};
  }
  ExecutorPtr executor(const ModulePtr& module, uint32_t threads = 1) {
    lathe_executor* executor = nullptr;
    status_ = lathe_executor_create(module.get(), threads, &executor, &error_);
    return {executor, &lathe_executor_destroy};
  }
  /// y for {10 * scale, ...}, or {} when anything fails.
  std::vector<float> run(lathe_executor* executor, float scale = 1) {
    const std::vector<float> x = {10 * scale, 20 * scale, 30 * scale};
    const void* y = nullptr;
    lathe_executor_set_input(executor, 0, x.data(), 12, nullptr);
    status_ = lathe_executor_run(executor, &error_);
    if (status_ == LATHE_OK) status_ = lathe_executor_output(executor, 3, &y, &error_);
    const float* values = static_cast<const float*>(y);
    return y ? std::vector<float>(values, values + 3) : std::vector<float>{};
  }

  TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "m.lathe";
  lathe_status status_ = LATHE_OK;
  lathe_error error_{};
};

TEST_F(CApi, RunsModulesOfFilesAndOfMemory) {
  EXPECT_EQ(lathe_version(), LATHE_VERSION);
  std::string bytes = read_file(path_);
  Tensor in_place({static_cast<int64_t>(bytes.size())}, kUInt8);
  std::memcpy(in_place.data(), bytes.data(), bytes.size());
  lathe_module* borrowed = nullptr;
  ASSERT_EQ(lathe_module_load(in_place.data(), bytes.size(), LATHE_BORROW, &borrowed, nullptr), LATHE_OK);

  std::vector<ModulePtr> modules;
  modules.push_back(open(path_));
  modules.push_back(open(path_, LATHE_VERIFY));
  modules.push_back(load(bytes, LATHE_VERIFY));
  modules.emplace_back(borrowed, &lathe_module_close);
  bytes.assign(bytes.size(), 'x');  // was copied
  for (const ModulePtr& module : modules) {
    ExecutorPtr runs = executor(module, 2);
    EXPECT_THAT(run(runs.get()), ElementsAre(45, 90, 135));
    EXPECT_STREQ(error_.message, "");
  }
  ExecutorPtr left = executor(modules[2]);
  modules.clear();
  EXPECT_THAT(run(left.get()), ElementsAre(45, 90, 135)) << "executors outlive the handle";
}

TEST_F(CApi, RunsFromC) {
  EXPECT_EQ(run_from_c(path_.c_str(), &error_), 45);
  EXPECT_EQ(run_from_c("/nowhere", &error_), -LATHE_CANNOT_READ);
  EXPECT_EQ(error_.status, LATHE_CANNOT_READ);
  EXPECT_STREQ(error_.message, "cannot read /nowhere: No such file or directory");
}

TEST_F(CApi, RunsModulesWithOpenDimensions) {
  write_module(path_, open_image(2));
  ModulePtr module = open(path_);
  lathe_tensor_info tensor{};
  ASSERT_EQ(lathe_module_input(module.get(), 0, &tensor, nullptr), LATHE_OK);
  ASSERT_EQ(tensor.rank, 1u);
  EXPECT_EQ(tensor.shape[0], LATHE_OPEN);
  EXPECT_EQ(tensor.bytes, 0u);
  ExecutorPtr runs = executor(module);
  std::vector<float> x(9, 1);
  EXPECT_EQ(lathe_executor_set_input(runs.get(), 0, x.data(), 36, &error_), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("lathe_executor_set_shaped_input"));
  for (int64_t n : {1, 9, 4}) {
    ASSERT_EQ(lathe_executor_set_shaped_input(runs.get(), 0, x.data(), &n, 1, &error_), LATHE_OK)
        << error_.message;
    EXPECT_EQ(lathe_executor_describe_output(runs.get(), 0, &tensor, &error_), LATHE_NOT_READY);
    ASSERT_EQ(lathe_executor_run(runs.get(), &error_), LATHE_OK) << error_.message;
    ASSERT_EQ(lathe_executor_describe_output(runs.get(), 0, &tensor, &error_), LATHE_OK);
    EXPECT_EQ(tensor.shape[0], n);
    EXPECT_EQ(tensor.bytes, static_cast<size_t>(4 * n));
    const void* y = nullptr;
    ASSERT_EQ(lathe_executor_output(runs.get(), 0, &y, nullptr), LATHE_OK);
    EXPECT_EQ(static_cast<const float*>(y)[n - 1], 4.0f);
  }
  const int64_t bad[] = {-3, 3, 3};
  EXPECT_EQ(lathe_executor_set_shaped_input(runs.get(), 0, x.data(), bad, 1, &error_),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_executor_set_shaped_input(runs.get(), 0, x.data(), bad + 1, 2, &error_),
            LATHE_INVALID_ARGUMENT)
      << "of another rank";
  // Of which nothing is read: there is none of it.
  for (const size_t rank : {size_t{0}, size_t{1} << 61, SIZE_MAX}) {
    EXPECT_EQ(lathe_executor_set_shaped_input(runs.get(), 0, x.data(), bad + 1, rank, &error_),
              LATHE_INVALID_ARGUMENT);
    EXPECT_EQ(error_.message, fmt::format("input `x` is of rank {}, must be of rank 1", rank));
  }
  EXPECT_EQ(lathe_executor_set_shaped_input(runs.get(), 0, x.data(), nullptr, 1, &error_),
            LATHE_INVALID_ARGUMENT);
}

/// Halves of the first input, which it refuses to take of what is below 0; user_data counts the calls.
lathe_status half_of(const lathe_tensor* inputs, size_t input_count, const lathe_tensor* outputs,
                     size_t output_count, void* user_data, lathe_error* error) {
  ++*static_cast<int*>(user_data);
  const lathe_tensor &x = inputs[0], &y = outputs[0], &count = outputs[1];
  EXPECT_EQ(input_count, 1u);
  EXPECT_EQ(output_count, 2u);
  EXPECT_EQ(error->status, LATHE_OK);
  EXPECT_EQ(x.type, LATHE_FLOAT);
  EXPECT_EQ(x.bits, 32u);
  EXPECT_EQ(y.rank, 1u);
  EXPECT_EQ(y.shape[0], x.shape[0]);
  EXPECT_EQ(count.rank, 0u);
  EXPECT_EQ(count.type, LATHE_INT);
  EXPECT_EQ(count.bits, 64u);
  for (const lathe_tensor* each : {&x, &y, &count})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(each->data) % LATHE_ALIGNMENT, 0u);
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    const float value = static_cast<const float*>(x.data)[i];
    if (value < 0) {
      std::memset(error->message, 'e', sizeof error->message);  // without an end
      return LATHE_INVALID_ARGUMENT;
    }
    static_cast<float*>(y.data)[i] = value / 2;
  }
  *static_cast<int64_t*>(count.data) = x.shape[0];
  return LATHE_OK;
}

lathe_status fails_silently(const lathe_tensor*, size_t, const lathe_tensor*, size_t, void*, lathe_error*) {
  return LATHE_CANNOT_READ;
}

TEST_F(CApi, CallsLibraryFunctions) {
  write_module(path_, library_image());
  ModulePtr module = open(path_);
  ASSERT_EQ(status_, LATHE_OK) << error_.message;
  size_t functions = 0;
  const char* name = nullptr;
  ASSERT_EQ(lathe_module_function_count(module.get(), &functions, nullptr), LATHE_OK);
  EXPECT_EQ(functions, 1u);
  EXPECT_EQ(lathe_module_function(module.get(), 1, &name, &error_), LATHE_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "function 1 of 1");
  ASSERT_EQ(lathe_module_function(module.get(), 0, &name, nullptr), LATHE_OK);
  EXPECT_STREQ(name, "half.of");

  ExecutorPtr runs = executor(module), other = executor(module);
  std::vector<float> x{2, 4, 6, 8, 10};
  auto set_input = [&](lathe_executor* to, int64_t n) {
    EXPECT_EQ(lathe_executor_set_shaped_input(to, 0, x.data(), &n, 1, &error_), LATHE_OK) << error_.message;
  };
  set_input(runs.get(), 3);
  EXPECT_EQ(lathe_executor_run(runs.get(), &error_), LATHE_NOT_READY);
  EXPECT_STREQ(error_.message, "library function `half.of` is not given");
  int calls = 0;
  EXPECT_EQ(lathe_executor_set_function(runs.get(), "half.off", half_of, &calls, &error_),
            LATHE_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "the model calls no library function `half.off`; did you mean `half.of`?");
  ASSERT_EQ(lathe_executor_set_function(runs.get(), name, half_of, &calls, &error_), LATHE_OK);
  for (int64_t n : {3, 5, 0}) {
    set_input(runs.get(), n);
    ASSERT_EQ(lathe_executor_run(runs.get(), &error_), LATHE_OK) << error_.message;
    const void *y = nullptr, *count = nullptr;
    ASSERT_EQ(lathe_executor_output(runs.get(), 0, &y, nullptr), LATHE_OK);
    ASSERT_EQ(lathe_executor_output(runs.get(), 1, &count, nullptr), LATHE_OK);
    EXPECT_EQ(*static_cast<const int64_t*>(count), n);
    if (n > 0) {
      EXPECT_EQ(static_cast<const float*>(y)[n - 1], static_cast<float>(n));
    }
  }
  EXPECT_EQ(calls, 3);
  set_input(other.get(), 3);
  EXPECT_EQ(lathe_executor_run(other.get(), nullptr), LATHE_NOT_READY) << "each executor has its own";

  x[0] = -1;
  set_input(runs.get(), 2);
  EXPECT_EQ(lathe_executor_run(runs.get(), &error_), LATHE_RUN_FAILED);
  EXPECT_THAT(error_.message, StartsWith("here: library function `half.of`: eeee"));
  x[0] = 1;
  EXPECT_EQ(lathe_executor_run(runs.get(), &error_), LATHE_OK) << "goes on after an error";
  ASSERT_EQ(lathe_executor_set_function(runs.get(), name, fails_silently, nullptr, &error_), LATHE_OK);
  EXPECT_EQ(lathe_executor_run(runs.get(), &error_), LATHE_RUN_FAILED);
  EXPECT_STREQ(error_.message, "here: library function `half.of` failed with status 3");

  // A graph calls none.
  write_module(path_, test_image());
  module = open(path_);
  ASSERT_EQ(lathe_module_function_count(module.get(), &functions, nullptr), LATHE_OK);
  EXPECT_EQ(functions, 0u);
  EXPECT_EQ(lathe_executor_set_function(executor(module).get(), "f", half_of, &calls, &error_),
            LATHE_INVALID_ARGUMENT);
}

TEST_F(CApi, DescribesModules) {
  ModulePtr module = open(path_);
  lathe_module_info info{};
  ASSERT_EQ(lathe_module_describe(module.get(), &info, nullptr), LATHE_OK);
  EXPECT_STREQ(info.model, "test");
  EXPECT_EQ(info.inputs, 1u);
  EXPECT_EQ(info.outputs, 4u);
  EXPECT_EQ(info.constant_bytes, 64u);
  EXPECT_EQ(info.executor_bytes, 192u);

  lathe_tensor_info tensor{};
  ASSERT_EQ(lathe_module_output(module.get(), 0, &tensor, nullptr), LATHE_OK);
  EXPECT_STREQ(tensor.name, "column");
  EXPECT_EQ(tensor.type, LATHE_FLOAT);
  EXPECT_EQ(tensor.bits, 32u);
  EXPECT_THAT(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank), ElementsAre(3, 1));
  EXPECT_EQ(tensor.bytes, 12u);
  ASSERT_EQ(lathe_module_input(module.get(), 0, &tensor, nullptr), LATHE_OK);
  EXPECT_STREQ(tensor.name, "x");

  write_module(path_, places_image());
  module = open(path_);
  ASSERT_EQ(lathe_module_output(module.get(), 0, &tensor, nullptr), LATHE_OK);
  EXPECT_EQ(tensor.type, LATHE_INT);
  EXPECT_EQ(tensor.bits, 64u);
}

TEST_F(CApi, WorksInTheCallersMemory) {
  write_module(path_, places_image());
  ExecutorPtr runs = executor(open(path_));
  alignas(LATHE_ALIGNMENT) char memory[256];
  auto places = [&](size_t in, size_t out) {
    EXPECT_EQ(lathe_executor_set_input(runs.get(), 0, memory + in, 12, nullptr), LATHE_OK);
    EXPECT_EQ(lathe_executor_set_output(runs.get(), 0, memory + out, 16, nullptr), LATHE_OK);
    EXPECT_EQ(lathe_executor_run(runs.get(), nullptr), LATHE_OK);
    const void* data = nullptr;
    EXPECT_EQ(lathe_executor_output(runs.get(), 0, &data, nullptr), LATHE_OK);
    EXPECT_EQ(data, memory + out);
    std::array<const char*, 2> found;
    std::memcpy(found.data(), memory + out, 16);
    return found;
  };
  EXPECT_THAT(places(64, 128), ElementsAre(memory + 64, memory + 128));
  const auto copied = places(65, 129);
  EXPECT_NE(copied[0], memory + 65) << "kernels may rely on the alignment";
  EXPECT_NE(copied[1], memory + 129);
}

/// The same weights in memory once: the output that is a constant lies at one address.
TEST_F(CApi, ExecutorsInSeveralThreadsShareOneModule) {
  ModulePtr module = open(path_);
  std::vector<const void*> constants(4);
  std::vector<int> right(4);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < constants.size(); ++t) {
      threads.emplace_back([&, t] {
        lathe_executor* runs = nullptr;
        if (lathe_executor_create(module.get(), 2, &runs, nullptr) != LATHE_OK) return;
        alignas(LATHE_ALIGNMENT) float x[3], y[3];
        lathe_executor_set_input(runs, 0, x, sizeof x, nullptr);
        lathe_executor_set_output(runs, 3, y, sizeof y, nullptr);
        for (int i = 0; i < 200; ++i) {
          for (int j = 0; j < 3; ++j) x[j] = static_cast<float>(i + static_cast<int>(100 * t) + j);
          if (lathe_executor_run(runs, nullptr) != LATHE_OK) break;
          bool same = true;
          for (int j = 0; j < 3; ++j) same = same && y[j] == 4 * (x[j] + j + 1) + j + 1;
          right[t] += same;
        }
        lathe_executor_output(runs, 2, &constants[t], nullptr);
        lathe_executor_destroy(runs);
      });
    }
  }
  EXPECT_THAT(right, ::testing::Each(200));
  EXPECT_THAT(constants, ::testing::Each(constants[0]));
  EXPECT_NE(constants[0], nullptr);
}

TEST_F(CApi, ErrorsAreValues) {
  auto says = [&](lathe_status status, const std::string& message) {
    EXPECT_EQ(status_, status);
    EXPECT_EQ(error_.status, status);
    EXPECT_EQ(error_.message, message);
  };
  ModulePtr module = open(path_);
  says(LATHE_OK, "");
  open(path_, 8);
  says(LATHE_INVALID_ARGUMENT, "flags are 0x8, those known here 0x1");
  open("/tmp");
  says(LATHE_CANNOT_READ, "cannot read /tmp: it is not a regular file");
  load("short");
  says(LATHE_BAD_MODULE, "the module in memory is not a module file: it is too short");

  executor(module, 1025);
  says(LATHE_INVALID_ARGUMENT, "1025 threads, must be 0 to 1024");
  EXPECT_NE(executor(module, 0), nullptr) << "as many as there are cores";
  ExecutorPtr runs = executor(module);
  const void* data = nullptr;
  status_ = lathe_executor_output(runs.get(), 1, &data, &error_);
  says(LATHE_NOT_READY, "nothing has been run since the bindings changed");
  status_ = lathe_executor_run(runs.get(), &error_);
  says(LATHE_NOT_READY, "input `x` is not set");
  float x[3] = {};
  status_ = lathe_executor_set_input(runs.get(), 0, x, 8, &error_);
  says(LATHE_INVALID_ARGUMENT, "input `x` takes 12 bytes, 8 were given");
  status_ = lathe_executor_set_input(runs.get(), 1, x, 12, &error_);
  says(LATHE_INVALID_ARGUMENT, "input 1 of 1");
  status_ = lathe_executor_set_output(runs.get(), 4, x, 12, &error_);
  says(LATHE_INVALID_ARGUMENT, "output 4 of 4");
  lathe_executor_set_input(runs.get(), 0, x, 12, nullptr);
  lathe_executor_set_output(runs.get(), 0, x, 12, nullptr);
  status_ = lathe_executor_run(runs.get(), &error_);
  says(LATHE_NOT_READY, "the memory of output `column` overlaps that of input `x`");
  lathe_executor_set_output(runs.get(), 0, nullptr, 0, nullptr);
  EXPECT_THAT(run(runs.get()), ElementsAre(45, 90, 135)) << "goes on after a mistake";

  size_t index = 7;
  status_ = lathe_module_find_input(module.get(), "xs", &index, &error_);
  says(LATHE_INVALID_ARGUMENT, "the model has no input `xs`; did you mean `x`?");
  EXPECT_EQ(index, 0u);

  write_module(path_, refusing_image());
  ExecutorPtr refusing = executor(open(path_));
  status_ = lathe_executor_run(refusing.get(), &error_);
  says(LATHE_RUN_FAILED, "kernel refuse reports that its check 7 failed");
  status_ = lathe_executor_output(refusing.get(), 0, &data, &error_);
  says(LATHE_NOT_READY, "nothing has been run since the bindings changed");
}

TEST_F(CApi, BorrowedBytesMustBeAligned) {
  alignas(LATHE_ALIGNMENT) static const char bytes[512] = {};
  lathe_module* module = nullptr;
  EXPECT_EQ(lathe_module_load(bytes + 8, 500, LATHE_BORROW, &module, &error_), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, EndsWith(" is not a multiple of 64"));
}

TEST_F(CApi, ALibraryOfAnotherFormatIsRefused) {
  const lathe_library library{.version = 99};
  lathe_module* module = nullptr;
  EXPECT_EQ(lathe_module_link(&library, &module, &error_), LATHE_BAD_MODULE);
  EXPECT_STREQ(error_.message,
               "the model's library is of format 99, this runtime reads 3; compile the model again");
}

TEST_F(CApi, AModuleForALargerCpuIsUnfit) {
  ModuleImage image = test_image();
  image.plan.cpu_features = {"warp_drive"};
  write_module(path_, image);
  EXPECT_EQ(open(path_), nullptr);
  EXPECT_EQ(status_, LATHE_UNFIT);
  EXPECT_THAT(error_.message, HasSubstr("built for a CPU with warp_drive, which this one ("));
  EXPECT_EQ(load(read_file(path_)), nullptr);
  EXPECT_EQ(status_, LATHE_UNFIT);
}

TEST_F(CApi, DamageIsAlwaysFound) {
  const std::string good = read_file(path_);
  for (size_t at = 0; at < 600; ++at) {  // the header, and most of the plan
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 + at % 255));
    EXPECT_EQ(load(bad), nullptr) << "byte " << at;
    EXPECT_EQ(status_, LATHE_BAD_MODULE) << "byte " << at;
    EXPECT_THAT(error_.message, StartsWith("the module in memory is ")) << "byte " << at;
  }
  for (size_t length = 1; length < good.size(); length += 61) {
    EXPECT_EQ(load(good.substr(0, length)), nullptr);
    EXPECT_EQ(status_, LATHE_BAD_MODULE) << length << " bytes";
  }
  std::string bad = good;
  bad[bad.size() - 64] ^= 1;  // in a weight
  EXPECT_NE(load(bad), nullptr);
  EXPECT_EQ(load(bad, LATHE_VERIFY), nullptr);
  EXPECT_EQ(status_, LATHE_BAD_MODULE);
  EXPECT_STREQ(error_.message,
               "the module in memory is damaged: the checksum of its constants does not match");
  write_file(path_, bad);
  EXPECT_EQ(open(path_, LATHE_VERIFY), nullptr);
  EXPECT_EQ(status_, LATHE_BAD_MODULE);
}

TEST_F(CApi, EveryFunctionSurvivesNull) {
  ModulePtr module = open(path_);
  ExecutorPtr runs = executor(module);
  const lathe_library library{};
  lathe_module* no_module = nullptr;
  lathe_executor* no_executor = nullptr;
  lathe_module_info info{};
  lathe_tensor_info tensor{};
  size_t index = 0;
  const void* data = nullptr;
  const char* name = nullptr;
  float x[3] = {};
  lathe_module* m = module.get();
  lathe_executor* e = runs.get();
  const std::vector<std::pair<std::string, std::function<lathe_status(lathe_error*)>>> calls = {
      {"path", [&](lathe_error* error) { return lathe_module_open(nullptr, 0, &no_module, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_open("x", 0, nullptr, error); }},
      {"bytes", [&](lathe_error* error) { return lathe_module_load(nullptr, 9, 0, &no_module, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_load(x, 9, 0, nullptr, error); }},
      {"library", [&](lathe_error* error) { return lathe_module_link(nullptr, &no_module, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_link(&library, nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_describe(nullptr, &info, error); }},
      {"info", [&](lathe_error* error) { return lathe_module_describe(m, nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_input(nullptr, 0, &tensor, error); }},
      {"info", [&](lathe_error* error) { return lathe_module_input(m, 0, nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_output(nullptr, 0, &tensor, error); }},
      {"info", [&](lathe_error* error) { return lathe_module_output(m, 0, nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_find_input(nullptr, "x", &index, error); }},
      {"name", [&](lathe_error* error) { return lathe_module_find_input(m, nullptr, &index, error); }},
      {"index", [&](lathe_error* error) { return lathe_module_find_input(m, "x", nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_find_output(nullptr, "y", &index, error); }},
      {"name", [&](lathe_error* error) { return lathe_module_find_output(m, nullptr, &index, error); }},
      {"index", [&](lathe_error* error) { return lathe_module_find_output(m, "y", nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_function_count(nullptr, &index, error); }},
      {"count", [&](lathe_error* error) { return lathe_module_function_count(m, nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_module_function(nullptr, 0, &name, error); }},
      {"name", [&](lathe_error* error) { return lathe_module_function(m, 0, nullptr, error); }},
      {"executor",
       [&](lathe_error* error) {
         return lathe_executor_set_function(nullptr, "f", fails_silently, nullptr, error);
       }},
      {"name",
       [&](lathe_error* error) {
         return lathe_executor_set_function(e, nullptr, fails_silently, nullptr, error);
       }},
      {"function",
       [&](lathe_error* error) { return lathe_executor_set_function(e, "f", nullptr, nullptr, error); }},
      {"module", [&](lathe_error* error) { return lathe_executor_create(nullptr, 1, &no_executor, error); }},
      {"executor", [&](lathe_error* error) { return lathe_executor_create(m, 1, nullptr, error); }},
      {"executor", [&](lathe_error* error) { return lathe_executor_set_input(nullptr, 0, x, 12, error); }},
      {"data", [&](lathe_error* error) { return lathe_executor_set_input(e, 0, nullptr, 12, error); }},
      {"executor", [&](lathe_error* error) { return lathe_executor_set_output(nullptr, 0, x, 12, error); }},
      {"data", [&](lathe_error* error) { return lathe_executor_set_output(e, 0, nullptr, 12, error); }},
      {"executor", [&](lathe_error* error) { return lathe_executor_run(nullptr, error); }},
      {"executor", [&](lathe_error* error) { return lathe_executor_output(nullptr, 0, &data, error); }},
      {"data", [&](lathe_error* error) { return lathe_executor_output(e, 0, nullptr, error); }},
  };
  for (const auto& [argument, call] : calls) {
    EXPECT_EQ(call(nullptr), LATHE_INVALID_ARGUMENT) << argument;
    error_.message[0] = '\0';
    EXPECT_EQ(call(&error_), LATHE_INVALID_ARGUMENT);
    EXPECT_EQ(error_.message, argument + " is NULL");
  }
  lathe_module_close(nullptr);
  lathe_executor_destroy(nullptr);
}

TEST_F(CApi, LongMessagesAreCutBetweenCharacters) {
  std::string path;
  while (path.size() < 3000) path += "ü";
  open(path);
  EXPECT_EQ(status_, LATHE_CANNOT_READ);
  const std::string message = error_.message;
  const std::string expected = "cannot read " + path;
  EXPECT_EQ(message, expected.substr(0, 1018));  // 12 and 503 of two bytes; 1019 would halve one
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space of their own
/// In a child: the limit stays.
TEST_F(CApi, RunningOutOfThreadsOrMemoryIsAnError) {
  ModulePtr module = open(path_);
  auto limited = [&] {
    const rlimit little{uint64_t{1} << 30, uint64_t{1} << 30};  // 8 MiB of stack a thread
    setrlimit(RLIMIT_AS, &little);
    ExecutorPtr many = executor(module, 1000);
    const bool refused =
        !many && status_ == LATHE_OUT_OF_RESOURCES &&
        std::string(error_.message) == "cannot start 1000 threads: Resource temporarily unavailable";
    ExecutorPtr few = executor(module, 2);
    std::_Exit(refused && run(few.get()) == std::vector<float>{45, 90, 135} ? 0 : 1);
  };
  EXPECT_EXIT(limited(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace lathe::runtime
