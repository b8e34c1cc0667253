// Library functions from the outside: --library, the header of a native library, and Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/tensor.h"
#include "tests/cli/tune.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;

/// (x, by) -> x + by, and how many elements that has.
constexpr const char* kFunctions = R"(
#include <lathe.h>
#include <stdio.h>
static lathe_status shifted(const lathe_tensor* in, size_t ins, const lathe_tensor* out, size_t outs, void* data,
                            lathe_error* error) {
  const float *x = (const float*)in[0].data, by = *(const float*)in[1].data;
  int64_t count = in[0].shape[0];
  (void)data;
  if (ins != 2 || outs != 2 || by < 0) {
    snprintf(error->message, sizeof error->message, "the shift is %g", by);
    return LATHE_INVALID_ARGUMENT;
  }
  for (int64_t i = 0; i < count; ++i) ((float*)out[0].data)[i] = x[i] + by;
  *(int64_t*)out[1].data = count;
  return LATHE_OK;
}
)";
constexpr const char* kTable =
    "const lathe_named_function lathe_functions[] = {{\"shift.by\", shifted, NULL}, {NULL, NULL, NULL}};\n";

constexpr const char* kProgram = R"(
def @main(%x: Tensor[(4), float32], %by: float32) {
  let %y = call_dps_library("shift.by", (tanh(%x), %by), (Tensor[(4), float32], int64));
  (%y.0 * 2f, %y.1)
}
def @twice(%by: float32) { call_dps_library("shift.by", ([1f, 2f], %by), (Tensor[(2), float32], int64)) }
)";

class LibraryFunctions : public ::testing::Test {
 protected:
  LibraryFunctions() {
    write_file(folder_ / "p.relay", kProgram);
    library("good", std::string(kFunctions) + kTable);
    save_npy(folder_ / "x.npy", tensor_of<float>({0, 0, 0, 0}, {4}, kFloat32));
    save_npy(folder_ / "by.npy", tensor_of<float>({1.5}, {}, kFloat32));
  }

  void library(const std::string& name, const std::string& text) {
    write_file(folder_ / name + ".c", text);
    const Finished built =
        run_command(fmt::format("cd {0} && cc -std=c99 -Wall -Wextra -Wpedantic -Werror -fvisibility=hidden "
                                "-shared -fPIC -I{1} {2}.c -o {2}.so",
                                folder_.path(), LATHE_H_FOLDER, name));
    ASSERT_EQ(built.code, 0) << built.output;
  }
  /// `tune` in the folder.
  Finished in_folder(const std::string& arguments) {
    return run_command(fmt::format("cd {} && {} {}", folder_.path(), TUNE, arguments));
  }

  TemporaryFolder folder_;
};

TEST_F(LibraryFunctions, AreGivenOnTheCommandLine) {
  const std::string expr = "eval p.relay --expr '@twice(0.5f)'";
  for (const char* by : {"", " --compiled"}) {
    EXPECT_EQ(in_folder(expr + by + " --library good.so").output, "([1.5f, 2.5f], 2i64)\n");
    const Finished failed =
        in_folder("eval p.relay --expr '@twice(-1f)' --library good.so" + std::string(by));
    EXPECT_EQ(failed.code, 2);
    EXPECT_THAT(failed.output, HasSubstr("library function `shift.by`: the shift is -1"));
    EXPECT_EQ(in_folder(expr + by).code, 2);
  }
  EXPECT_EQ(
      in_folder(expr + " --compiled").output,
      "error: the model calls library function `shift.by`; give the shared library that has it by --library "
      "FILE\n");

  const std::string inputs = " --input x=x.npy --input by=by.npy";
  const Finished compiled = in_folder("compile --untuned --model p.relay --out p.lathe");
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  for (const char* model : {"p.relay --untuned", "p.lathe"}) {
    const Finished ran = in_folder(fmt::format("run --model {} --library good.so{}", model, inputs));
    EXPECT_EQ(
        ran.output,
        "output_0: float32 (4), min 3, mean 3, max 3 at 0\noutput_1: int64 (), min 4, mean 4, max 4 at 0\n");
    const Finished missing = in_folder(fmt::format("run --model {}{}", model, inputs));
    EXPECT_EQ(missing.code, 2);
    EXPECT_THAT(missing.output, HasSubstr("error: the model calls library function `shift.by`; give"));
  }
  const Finished profile =
      in_folder("bench --model p.lathe --time 0.1s --profile --library good.so" + inputs);
  EXPECT_EQ(profile.code, 0) << profile.output;
  EXPECT_THAT(profile.output, HasSubstr("shift.by (library)\n"));
}

TEST_F(LibraryFunctions, CountOnlyWhereATableGivesThem) {
  library("empty", std::string(kFunctions) +
                       "const lathe_named_function lathe_functions[] = {{\"shift.byte\", shifted, "
                       "NULL}, {NULL, NULL, NULL}};\n");
  library("null",
          "#include <lathe.h>\nconst lathe_named_function lathe_functions[] = {{\"f\", NULL, NULL}, {NULL, "
          "NULL, NULL}};\n");
  library("none", "int shift(void);\nint shift(void) { return 1; }\n");
  auto refused = [&](const std::string& libraries) {
    const Finished run = in_folder("run --untuned --model p.relay " + libraries);
    EXPECT_EQ(run.code, 2) << run.output;
    return run.output;
  };
  EXPECT_EQ(
      refused("--library empty.so"),
      "error: the model calls library function `shift.by`; give the shared library that has it by --library "
      "FILE; did you mean `shift.byte`?\n");
  EXPECT_EQ(refused("--library none.so"),
            "error: --library none.so: it exports no table `lathe_functions`, as lathe.h has it\n");
  EXPECT_EQ(refused("--library null.so"), "error: --library null.so: its function `f` is NULL\n");
  EXPECT_EQ(refused("--library good.so --library good.so"),
            "error: --library good.so: function `shift.by` is given twice\n");
  EXPECT_THAT(refused("--library nowhere.so"),
              HasSubstr("error: --library nowhere.so: ./nowhere.so: cannot open"));
  // What a process has is nothing that a module may name.
  write_file(folder_ / "system.relay", "def @main() { call_dps_library(\"system\", (1,), int32) }\n");
  EXPECT_EQ(
      in_folder("run --untuned --model system.relay --library good.so").output,
      "error: the model calls library function `system`; give the shared library that has it by --library "
      "FILE\n");
  // A folder's settings load nothing.
  write_file(folder_ / "lathe.toml", "library = [\"good.so\"]\n");
  const Finished configured = in_folder("eval p.relay --expr 1");
  EXPECT_EQ(configured.code, 2);
  EXPECT_THAT(configured.output, HasSubstr("lathe.toml:1: unknown key `library`"));
}

constexpr const char* kCaller = R"(
#include "p.h"
int main(void) {
  lathe_error error;
  lathe_module* module = NULL;
  lathe_executor* executor = NULL;
  float x[4] = {0, 0, 0, 0}, by = 1.5f, y[4];
  int64_t count = 0;
  if (p_open(&module, &error) != LATHE_OK || lathe_executor_create(module, 1, &executor, &error) != LATHE_OK)
    return 2;
  if (p_run(executor, x, &by, y, &count, &error) != LATHE_NOT_READY) return 3;
  puts(error.message);
  if (p_set_functions(executor, shifted, NULL, &error) != LATHE_OK ||
      p_run(executor, x, &by, y, &count, &error) != LATHE_OK) {
    puts(error.message);
    return 4;
  }
  printf("%g %d\n", (double)y[3], (int)count);
  by = -2;
  if (p_run(executor, x, &by, y, &count, &error) != LATHE_RUN_FAILED) return 5;
  puts(error.message);
  lathe_executor_destroy(executor);
  lathe_module_close(module);
  return 0;
}
)";

TEST_F(LibraryFunctions, AreSetByTheHeaderOfANativeLibrary) {
  const Finished compiled = in_folder("compile --untuned --native --model p.relay --out libp.so");
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  write_file(folder_ / "main.c", std::string(kFunctions) + kCaller);
  const std::string runtime = RUNTIME_LIBRARY;
  const Finished built = run_command(fmt::format(
      "cd {0} && cc -std=c99 -Wall -Wextra -Wpedantic -Werror -I{1} main.c -o main -L. -lp {2} -lm "
      "-Wl,-rpath,{0} -Wl,-rpath,{3}",
      folder_.path(), LATHE_H_FOLDER, runtime, runtime.substr(0, runtime.rfind('/'))));
  ASSERT_EQ(built.code, 0) << built.output;
  const Finished ran = run_command(folder_ / "main");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(
      ran.output,
      "library function `shift.by` is not given\n3 4\np.relay:3:12: error: library function `shift.by`: the "
      "shift is -2\n");
}

constexpr const char* kPython = R"(
import array, sys
import run_module
def shifted(inputs, outputs):
    x, by = (array.array("f", bytes(each.memory())) for each in inputs)
    if by[0] < 0:
        raise ValueError(f"the shift is {by[0]}")
    outputs[0].memory()[:] = array.array("f", [each + by[0] for each in x]).tobytes()
    outputs[1].memory()[:] = len(x).to_bytes(8, "little")
module = run_module.Module("p.lathe")
module.set_function("shift.by", shifted)
run = lambda by: module.run({"x": array.array("f", [0] * 4), "by": array.array("f", [by])})
y, count = run(1.5)
print(list(array.array("f", bytes(y))), int.from_bytes(count, "little"))
for wrong in (lambda: run(-1), lambda: module.set_function("shift.bye", shifted)):
    try:
        wrong()
    except ValueError as error:
        print(error)
)";

TEST_F(LibraryFunctions, MayBeWrittenInPython) {
  ASSERT_EQ(in_folder("compile --untuned --model p.relay --out p.lathe").code, 0);
  write_file(folder_ / "main.py", kPython);
  const std::string runtime = RUNTIME_LIBRARY;
  const Finished ran = run_command(
      fmt::format("cd {} && LD_LIBRARY_PATH={} PYTHONPATH={} PYTHONDONTWRITEBYTECODE=1 python3 main.py",
                  folder_.path(), runtime.substr(0, runtime.rfind('/')), LATHE_EXAMPLES));
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output,
            "[3.0, 3.0, 3.0, 3.0] 4\np.relay:3:12: error: library function `shift.by`: the shift is -1.0\n"
            "the model calls no library function `shift.bye`; did you mean `shift.by`?\n");
}

}  // namespace
}  // namespace lathe::cli
