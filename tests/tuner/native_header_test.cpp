#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/runtime/plan_builder.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tuner/native_library.h"

namespace lathe::tuner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Names come from a model's author, and a C compiler reads what is made of them.
TEST(NativeHeader, IsCWhateverTheModelCallsItsDimensionsAndPorts) {
  runtime::PlanBuilder builder;
  const runtime::Size n =
      builder.dimension({.name = "n */\n#error taken over\n\x1b[31m /*", .input = 0, .axis = 0}, 64);
  const int64_t x = builder.input("inputs", {{n, 4}, kFloat32});
  for (const char* name : {"inputs_shape", "x_0_1", "x.0", "x_0", "x 0", "input_x"})
    builder.input(name, {{4}, kFloat32});
  builder.output("outputs", x);
  builder.output("int", x);
  runtime::Plan plan = builder.finish().plan;
  plan.model = "a */ #error by its file";
  const std::string header = native_header(
      "net", plan,
      {"blas.gemm", "blas gemm", "functions", "\"); #error by name\n(\"", "a?\?/", "gemm_data", "gemm"});
  EXPECT_THAT(header, Not(HasSubstr("\x1b")));
  TemporaryFolder folder;
  write_file(folder / "net.h", header);
  write_file(folder / "main.c", "#include \"net.h\"\nint main(void) { return net_inputs + net_outputs; }\n");
  EXPECT_EQ(std::system(("cc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I" LATHE_H_FOLDER " " +
                         folder / "main.c")
                            .c_str()),
            0)
      << header;
}

}  // namespace
}  // namespace lathe::tuner
