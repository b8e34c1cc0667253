// Whole models against ONNX Runtime on the same seeded inputs: the real ones that bench/fetch_models.sh put
// in the cache, and networks of the zoo through their exported files. Untuned, on one thread and on two. What
// is not at hand (no network when the models or ONNX Runtime were to be fetched) is skipped and says so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "core/codegen/host_target.h"
#include "core/frontends/onnx.h"
#include "core/frontends/onnx_export.h"
#include "core/models/zoo.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/temporary_folder.h"
#include "tests/thrown_by.h"
#include "tuner/compile.h"
#include "tuner/final_build.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"
#include "tuner/precision.h"

namespace lathe {
namespace {
namespace fs = std::filesystem;

constexpr double kTolerance = 1e-4;  // of max |a-b| / max |b|

/// Outputs where the peer's own error, absolute, is far beyond the tolerance.
struct Coarse {
  const char* model;
  size_t output;
  double error;
};
/// ppocr_v4_det ends in a sigmoid, and sees no text in noise: its arguments are below -13. There ONNX
/// Runtime's sigmoid is 8e-8 off, 8% of the largest output. Ours is within 4e-8 *of* its output, and a
/// float64 sigmoid of either's arguments gives the same to 1.5e-5 (docs/decisions/008-benchmarks.md).
constexpr Coarse kCoarse[] = {{"ppocr_v4_det", 0, 2e-7}};

double peer_error(const std::string& model, size_t output) {
  for (const Coarse& coarse : kCoarse)
    if (model == coarse.model && output == coarse.output) return coarse.error;
  return 0;
}

double largest(const Tensor& tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) most = std::max(most, std::fabs(tensor.value(i)));
  return most;
}

fs::path cache_folder() {
  if (const char* lathe = std::getenv("LATHE_CACHE")) return lathe;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME")) return fs::path(xdg) / "lathe";
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : ".") / ".cache/lathe";
}

/// What a model's input is like where its declaration or N(0, 1) does not say: open dimensions other than a
/// batch, pixels of 0 to 255.
struct GivenInput {
  std::string model, input;
  std::vector<int64_t> shape;
  double deviation = 1;
};
const GivenInput kInputs[] = {
    {"ppocr_v4_det", "x", {1, 3, 96, 160}},
    {"ppocr_v2_cls", "x", {1, 3, 48, 192}},
    {"oww_melspec", "input", {1, 12400}},
    {"oww_embedding", "input_1", {1, 76, 32, 1}},
    {"mlsd_320_tiny", "input_image_with_alpha:0", {1, 320, 320, 4}, 80},
    {"basic_pitch", "serving_default_input_2:0", {1, 43844, 1}},
    {"magika", "bytes", {1, 2048}},
};

/// Those above, and the other inputs whose batch is open: of 1.
std::vector<GivenInput> inputs_of(const std::string& model, const fs::path& file) {
  std::vector<GivenInput> inputs;
  for (const GivenInput& each : kInputs)
    if (each.model == model) inputs.push_back(each);
  for (onnx::ValueInfo& declared : onnx::declared_inputs(file.string())) {
    auto given = std::find_if(inputs.begin(), inputs.end(),
                              [&](const GivenInput& each) { return each.input == declared.name; });
    if (given != inputs.end() || declared.shape.empty() || declared.shape[0] >= 0) continue;
    declared.shape[0] = 1;
    inputs.push_back({model, declared.name, declared.shape});
  }
  return inputs;
}

/// mlsd keeps a score where it equals the largest around it and 0 elsewhere; a rounding error turns one into
/// the other. So many elements of its output 1 may differ.
constexpr double kFlippedShare = 0.01;
bool compares_for_equality(const std::string& model, size_t output) {
  return model == "mlsd_320_tiny" && output == 1;
}

/// The share of elements that are further apart than the tolerance.
double share_that_differs(const Tensor& ours, const Tensor& expected) {
  int64_t count = 0;
  double most = largest(expected);
  for (int64_t i = 0; i < expected.size(); ++i)
    count += std::fabs(ours.value(i) - expected.value(i)) > kTolerance * most;
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(expected.size(), 1));
}

bool has_onnx_runtime() {
  return fs::exists(cache_folder() / "peers/node_modules/onnxruntime-node") &&
         std::system("node --version >/dev/null 2>&1") == 0;
}

/// Writes inputs and outputs into `out`.
void run_onnx_runtime(const fs::path& model, const std::vector<GivenInput>& inputs, const fs::path& out) {
  std::string command = fmt::format("node '{}' '{}' '{}' '{}'", ORT_REFERENCE,
                                    (cache_folder() / "peers").string(), model.string(), out.string());
  for (const GivenInput& each : inputs)
    command += fmt::format(" '{}={}*{}'", each.input, fmt::join(each.shape, "x"), each.deviation);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

/// Runs the module of model `name` on the inputs in `data` and compares with the outputs there.
void compare(const std::shared_ptr<const runtime::Module>& module, const LatheParallel* parallel,
             const std::string& name, const fs::path& data, double tolerance) {
  runtime::Executor executor(module, parallel);
  for (size_t i = 0; i < executor.plan().inputs.size(); ++i)
    executor.set_input(i, load_npy((data / fmt::format("input_{}.npy", i)).string()));
  executor.run();
  for (size_t i = 0; i < executor.plan().outputs.size(); ++i) {
    Tensor expected = load_npy((data / fmt::format("output_{}.npy", i)).string());
    if (compares_for_equality(name, i) && executor.output(i).shape() == expected.shape()) {
      EXPECT_LE(share_that_differs(executor.output(i), expected), kFlippedShare) << "output " << i;
      continue;
    }
    double error = max_relative_error(executor.output(i), expected);
    EXPECT_LE(error, tolerance + peer_error(name, i) / largest(expected)) << "output " << i;
    std::printf("output %zu: relative error %.1e\n", i, error);
  }
}

/// `network` and the file `onnx` are the same model.
void check_against_onnx_runtime(const relay::Module& network, const fs::path& onnx,
                                const std::vector<GivenInput>& inputs, double tolerance = kTolerance) {
  TemporaryFolder scratch;
  ASSERT_NO_FATAL_FAILURE(run_onnx_runtime(onnx, inputs, scratch.path()));
  Target target = codegen::resolve_target("cpu");
  auto module = runtime::Module::from_image(
      tuner::final_build(tuner::optimize(network, target), target, tuner::default_schedules(target)));
  runtime::ThreadPool two(2);
  for (const LatheParallel* parallel : {runtime::serial_parallel(), two.parallel()}) {
    SCOPED_TRACE(parallel == two.parallel() ? "two threads" : "one thread");
    compare(module, parallel, onnx.stem().string(), scratch.path(), tolerance);
  }
}

constexpr const char* kNoModels = "none";
/// Takes a state and chunks, and has a test of its own.
constexpr const char* kSilero = "silero_vad_v5";

/// Spotify's basic-pitch (github.com/spotify/basic-pitch, Apache-2.0) is small enough to lie beside this
/// file.
const fs::path kOwnModels = OWN_MODELS;

/// Names of the files beside this one and in the cache; when the cache has none, kNoModels in their place.
std::vector<std::string> real_models() {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(cache_folder() / "models", missing))
    if (entry.path().extension() == ".onnx" && entry.path().stem() != kSilero)
      names.push_back(entry.path().stem().string());
  if (names.empty()) names.push_back(kNoModels);
  for (const auto& entry : fs::directory_iterator(kOwnModels))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

class RealModel : public testing::TestWithParam<std::string> {};

TEST_P(RealModel, AgreesWithOnnxRuntime) {
  if (GetParam() == kNoModels)
    GTEST_SKIP() << "no models in " << cache_folder() << ": bench/fetch_models.sh could not fetch them";
  if (!has_onnx_runtime())
    GTEST_SKIP() << "no onnxruntime-node in " << cache_folder() << "/peers (./run test installs it)";
  fs::path file = kOwnModels / (GetParam() + ".onnx");
  if (!fs::exists(file)) file = cache_folder() / "models" / file.filename();
  std::vector<GivenInput> inputs = inputs_of(GetParam(), file);
  tuner::InputShapes shapes;
  for (const GivenInput& each : inputs) shapes[each.input] = each.shape;
  check_against_onnx_runtime(tuner::load_model(file.string(), shapes), file, inputs);
}

INSTANTIATE_TEST_SUITE_P(Real, RealModel, testing::ValuesIn(real_models()), name_of);

/// A recording in chunks, each with the state that the one before left.
struct Recording {
  int64_t batch, samples, rate;
};
constexpr int kChunks = 6;

void compare_chunks(const std::shared_ptr<const runtime::Module>& module, const fs::path& file,
                    const Recording& recording) {
  SCOPED_TRACE(fmt::format("{} x {} samples of {} Hz", recording.batch, recording.samples, recording.rate));
  TemporaryFolder data;
  const std::string command =
      fmt::format("node '{}' '{}' '{}' '{}' {} input={}x{} 'state<stateN=2x{}x128' sr:={}", ORT_SEQUENCE,
                  (cache_folder() / "peers").string(), file.string(), data.path(), kChunks, recording.batch,
                  recording.samples, recording.batch, recording.rate);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  auto tensor = [&](int chunk, const char* what, int number) {
    return load_npy(data / fmt::format("{}_{}_{}.npy", chunk, what, number));
  };
  runtime::Executor executor(module, runtime::serial_parallel());
  Tensor state = tensor(0, "input", 1);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    executor.set_input(0, tensor(chunk, "input", 0));
    executor.set_input(1, state);
    executor.set_input(2, tensor(chunk, "input", 2));
    executor.run();
    for (int i = 0; i < 2; ++i)
      EXPECT_LE(max_relative_error(executor.output(static_cast<size_t>(i)), tensor(chunk, "output", i)),
                kTolerance)
          << "chunk " << chunk << ", output " << i;
    state = executor.output(1).clone();
  }
}

/// One network for two rates, the branch by a value; batch and samples open, or the samples settled, which
/// the other rate's branch does not take then.
TEST(SequenceModel, SileroAgreesWithOnnxRuntime) {
  const fs::path file = cache_folder() / "models" / (std::string(kSilero) + ".onnx");
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file << ": bench/fetch_models.sh could not fetch it";
  if (!has_onnx_runtime())
    GTEST_SKIP() << "no onnxruntime-node in " << cache_folder() << "/peers (./run test installs it)";
  const Target target = codegen::resolve_target("cpu");
  auto build = [&](const tuner::OpenDims& open, const tuner::InputShapes& shapes) {
    return runtime::Module::from_image(
        tuner::compile_model(tuner::load_model(file.string(), shapes, open), target));
  };
  const auto open = build({.all = true}, {});
  for (const Recording& recording :
       {Recording{1, 512, 16000}, Recording{3, 512, 16000}, Recording{2, 256, 8000}})
    compare_chunks(open, file, recording);
  const auto settled = build({}, {{"input", {2, 512}}, {"state", {2, 2, 128}}});
  compare_chunks(settled, file, {2, 512, 16000});
  runtime::Executor executor(settled, runtime::serial_parallel());
  executor.set_input(0, Tensor({2, 512}, kFloat32));
  executor.set_input(1, Tensor({2, 2, 128}, kFloat32));
  executor.set_input(2, full({}, kInt64, 8000));
  EXPECT_NE(thrown_by([&] { executor.run(); }).find("else_branch of a branch does not fit the sizes"),
            std::string::npos);
}

class ZooModel : public testing::TestWithParam<std::string> {};

void check_zoo_model(const std::string& name, tuner::Precision precision, double tolerance) {
  if (!has_onnx_runtime())
    GTEST_SKIP() << "no onnxruntime-node in " << cache_folder() << "/peers (./run test installs it)";
  TemporaryFolder scratch;
  relay::Module network = models::build_model(name);
  std::string file = scratch / "network.onnx";
  onnx::export_file(network, file);
  check_against_onnx_runtime(tuner::at_precision(network, precision, relay::NarrowCosts::none()), file, {},
                             tolerance);
}

TEST_P(ZooModel, AgreesWithOnnxRuntime) { check_zoo_model(GetParam(), tuner::Precision::kGiven, kTolerance); }

class DoubleModel : public ZooModel {};

TEST_P(DoubleModel, AgreesWithOnnxRuntime) { check_zoo_model(GetParam(), tuner::Precision::kFloat64, 1e-5); }

INSTANTIATE_TEST_SUITE_P(Zoo, DoubleModel, testing::Values("dqn", "mobilenet_v2", "resnet18"), name_of);

INSTANTIATE_TEST_SUITE_P(Zoo, ZooModel,
                         testing::Values("dqn", "inception_v3", "mobilenet_v1", "mobilenet_v2", "resnet18",
                                         "resnet50"),
                         name_of);

/// QDQ files: both sides compute in 8 bits. Where they round a product differently, a tensor differs by one
/// step of its scale, and what follows by parts of its own.
class QuantizedModel : public testing::TestWithParam<std::string> {};

TEST_P(QuantizedModel, AgreesWithOnnxRuntime) {
  constexpr double kSteps = 0.03;
  if (!has_onnx_runtime())
    GTEST_SKIP() << "no onnxruntime-node in " << cache_folder() << "/peers (./run test installs it)";
  TemporaryFolder scratch;
  std::string file = scratch / "quantized.onnx";
  onnx::export_file(tuner::quantize_model(models::build_model(GetParam())), file);
  check_against_onnx_runtime(tuner::load_model(file), file, {}, kSteps);
}

INSTANTIATE_TEST_SUITE_P(Zoo, QuantizedModel, testing::Values("dqn", "mobilenet_v2"), name_of);

}  // namespace
}  // namespace lathe
