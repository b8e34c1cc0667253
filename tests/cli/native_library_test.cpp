// What `tune compile --native` makes, linked with a C program.
#include <gtest/gtest.h>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/tensor.h"
#include "core/support/text.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

/// A data type, closures, recursion, a branch on numbers and one on data, tensors and numbers as outputs.
constexpr const char* kProgram = R"(
import "list"
def @down(%n: int32) -> List[int32] { if (%n == 0) { Nil } else { Cons(%n, @down(%n - 1)) } }
def @main(%n: int32, %x: Tensor[(4), float32]) {
  let %numbers = @down(%n);
  let %step = fn (%a: Tensor[(4), float32], %i: int32) {
    if (%i < 3) { tanh(%a) * 1.5f + %x } else { %a - cast(%i, dtype="float32") }
  };
  (@foldl(%step, %x, %numbers), @foldl(add, 0, %numbers))
}
)";

constexpr const char* kCaller = R"(
#include <stdio.h>
#include <string.h>

#include "folds.h"
int main(int argc, char** argv) {
  lathe_error error;
  lathe_module* module = NULL;
  lathe_executor* executor = NULL;
  int32_t n = argc, sum = 0;
  float x[4] = {1, 2, -3, 0.5f}, y[4];
  if (folds_open(&module, &error) != LATHE_OK || lathe_executor_create(module, 1, &executor, &error) != LATHE_OK ||
      folds_run(executor, &n, x, y, &sum, &error) != LATHE_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  lathe_executor_destroy(executor);
  lathe_module_close(module);
  printf("%d inputs, sum %d, %a %a %a %a\n", folds_inputs, sum, y[0], y[1], y[2], y[3]);
  (void)argv;
  return 0;
}
)";

TEST(NativeLibrary, IsLinkedWithACProgram) {
  TemporaryFolder folder;
  write_file(folder / "folds.relay", kProgram);
  write_file(folder / "main.c", kCaller);
  const Finished compiled = tune("compile --untuned --native --model " + folder / "folds.relay" + " --out " +
                                 folder / "libfolds.so");
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  const std::string runtime = RUNTIME_LIBRARY;
  const Finished built = run_command(fmt::format(
      "cd {0} && cc -std=c99 -Wall -Wextra -Wpedantic -Werror -I{1} main.c -o main -L. -lfolds {2} -lm "
      "-Wl,-rpath,{0} -Wl,-rpath,{3}",
      folder.path(), LATHE_H_FOLDER, runtime, runtime.substr(0, runtime.rfind('/'))));
  ASSERT_EQ(built.code, 0) << built.output;
  const Finished ran = run_command(folder / "main" + " 2 3 4 5 6");
  ASSERT_EQ(ran.code, 0) << ran.output;

  // The same as a model.
  save_npy(folder / "n.npy", tensor_of<int32_t>({6}, {}, kInt32));
  save_npy(folder / "x.npy", tensor_of<float>({1, 2, -3, 0.5f}, {4}, kFloat32));
  const Finished model = tune(
      fmt::format("run --untuned --model {0}/folds.relay --input n={0}/n.npy --input x={0}/x.npy --out {0}",
                  folder.path()));
  ASSERT_EQ(model.code, 0) << model.output;
  const Tensor y = load_npy(folder / "output_0.npy"), sum = load_npy(folder / "output_1.npy");
  EXPECT_EQ(sum.value(0), 21);
  char expected[200];
  std::snprintf(expected, sizeof expected, "2 inputs, sum 21, %a %a %a %a\n", y.value(0), y.value(1),
                y.value(2), y.value(3));
  EXPECT_EQ(ran.output, expected);

  // Nothing else leaves it.
  const Finished symbols = run_command("nm --dynamic --defined-only " + folder / "libfolds.so");
  EXPECT_EQ(symbols.output.substr(symbols.output.find_last_of(' ')), " folds_library\n");
  EXPECT_EQ(split_text(symbols.output, '\n').size(), 2u);  // the second is empty
}

TEST(NativeLibrary, NamesAreIdentifiersAndGraphsAreLibrariesToo) {
  TemporaryFolder folder;
  const Finished compiled = tune("compile --untuned --native --model dqn --out " + folder / "9-dqn.so");
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  EXPECT_NE(read_file(folder / "9-dqn.h").find("model_9_dqn_open(lathe_module** module"), std::string::npos);
  EXPECT_EQ(tune("compile --untuned --native --model dqn --out " + folder / "dqn").output,
            "error: a shared library is called FILE.so, not " + folder / "dqn" + "\n");
}

}  // namespace
}  // namespace lathe::cli
