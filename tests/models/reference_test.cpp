// Whole models against ONNX Runtime on the same seeded inputs: the real ones that bench/fetch_models.sh put
// in the cache, and networks of the zoo through their exported files. Untuned, on one thread and on two. What
// is not at hand (no network when the models or ONNX Runtime were to be fetched) is skipped and says so.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/codegen/host_target.h"
#include "core/frontends/onnx.h"
#include "core/frontends/onnx_export.h"
#include "core/models/zoo.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/final_build.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"

namespace lathe {
namespace {
namespace fs = std::filesystem;

constexpr double kTolerance = 1e-4;  // max |a-b| / max |b|

fs::path cache_folder() {
  if (const char* lathe = std::getenv("LATHE_CACHE")) return lathe;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME")) return fs::path(xdg) / "lathe";
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : ".") / ".cache/lathe";
}

/// Shapes for models with dynamic dimensions other than a batch.
struct GivenShape {
  const char *model, *input;
  std::vector<int64_t> shape;
};
const GivenShape kShapes[] = {
    {"ppocr_v4_det", "x", {1, 3, 96, 160}},
    {"ppocr_v2_cls", "x", {1, 3, 48, 192}},
    {"oww_melspec", "input", {1, 12400}},
    {"oww_embedding", "input_1", {1, 76, 32, 1}},
};

tuner::InputShapes shapes_of(const std::string& model) {
  tuner::InputShapes shapes;
  for (const GivenShape& each : kShapes)
    if (each.model == model) shapes[each.input] = each.shape;
  return shapes;
}

/// A folder that vanishes with the test.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "lathe-reference-XXXXXX").string();
    CHECK(mkdtemp(pattern.data()));
    path_ = pattern;
  }
  ~Scratch() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool has_onnx_runtime() {
  return fs::exists(cache_folder() / "peers/node_modules/onnxruntime-node") &&
         std::system("node --version >/dev/null 2>&1") == 0;
}

/// Writes inputs and outputs into `out`.
void run_onnx_runtime(const fs::path& model, const tuner::InputShapes& shapes, const fs::path& out) {
  std::string command = fmt::format("node '{}' '{}' '{}' '{}'", ORT_REFERENCE,
                                    (cache_folder() / "peers").string(), model.string(), out.string());
  for (const auto& [input, shape] : shapes) {
    std::string dims;
    for (int64_t dim : shape) dims += (dims.empty() ? "" : "x") + std::to_string(dim);
    command += fmt::format(" '{}={}'", input, dims);
  }
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

/// Runs the module on the inputs in `data` and compares with the outputs there.
void compare(const std::shared_ptr<const runtime::Module>& module, const LatheParallel* parallel,
             const fs::path& data) {
  runtime::Executor executor(module, parallel);
  for (size_t i = 0; i < executor.plan().inputs.size(); ++i)
    executor.set_input(i, load_npy((data / fmt::format("input_{}.npy", i)).string()));
  executor.run();
  for (size_t i = 0; i < executor.plan().outputs.size(); ++i) {
    Tensor expected = load_npy((data / fmt::format("output_{}.npy", i)).string());
    double error = max_relative_error(executor.output(i), expected);
    EXPECT_LE(error, kTolerance) << "output " << i;
    std::printf("output %zu: relative error %.1e\n", i, error);
  }
}

/// `network` and the file `onnx` are the same model.
void check_against_onnx_runtime(const relay::Module& network, const fs::path& onnx,
                                const tuner::InputShapes& shapes) {
  Scratch scratch;
  ASSERT_NO_FATAL_FAILURE(run_onnx_runtime(onnx, shapes, scratch.path()));
  Target target = codegen::resolve_target("cpu");
  auto module = runtime::Module::from_image(
      tuner::final_build(tuner::optimize(network, target), target, tuner::default_schedules(target)));
  runtime::ThreadPool two(2);
  for (const LatheParallel* parallel : {runtime::serial_parallel(), two.parallel()}) {
    SCOPED_TRACE(parallel == two.parallel() ? "two threads" : "one thread");
    compare(module, parallel, scratch.path());
  }
}

constexpr const char* kNoModels = "none";

/// Names of the files in the cache; kNoModels alone when there are none.
std::vector<std::string> fetched_models() {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(cache_folder() / "models", missing))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  if (names.empty()) names.push_back(kNoModels);
  return names;
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

class RealModel : public testing::TestWithParam<std::string> {};

TEST_P(RealModel, AgreesWithOnnxRuntime) {
  if (GetParam() == kNoModels)
    GTEST_SKIP() << "no models in " << cache_folder() << ": bench/fetch_models.sh could not fetch them";
  if (!has_onnx_runtime())
    GTEST_SKIP() << "no onnxruntime-node in " << cache_folder() << "/peers (./run test installs it)";
  fs::path file = cache_folder() / "models" / (GetParam() + ".onnx");
  tuner::InputShapes shapes = shapes_of(GetParam());
  check_against_onnx_runtime(tuner::load_model(file.string(), shapes), file, shapes);
}

INSTANTIATE_TEST_SUITE_P(Fetched, RealModel, testing::ValuesIn(fetched_models()), name_of);

class ZooModel : public testing::TestWithParam<std::string> {};

TEST_P(ZooModel, AgreesWithOnnxRuntime) {
  if (!has_onnx_runtime())
    GTEST_SKIP() << "no onnxruntime-node in " << cache_folder() << "/peers (./run test installs it)";
  Scratch scratch;
  relay::Module network = models::build_model(GetParam());
  fs::path file = scratch.path() / "network.onnx";
  onnx::export_file(network, file.string());
  check_against_onnx_runtime(network, file, {});
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooModel,
                         testing::Values("dqn", "inception_v3", "mobilenet_v1", "mobilenet_v2", "resnet18",
                                         "resnet50"),
                         name_of);

}  // namespace
}  // namespace lathe
