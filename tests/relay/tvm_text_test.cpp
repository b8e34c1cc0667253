// Texts as Apache TVM 0.19 prints them: fused functions, lets, data types, metadata.
#include <gtest/gtest.h>

#include "core/relay/interpret/interpreter.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/file.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

Module read(const std::string& file) {
  return parse_module(read_file(std::string(LATHE_TVM_TEXTS) + "/" + file), file);
}

/// The value of @main; what is printed of the module is read back as the same.
std::string value(const std::string& file, const std::vector<Value>& args) {
  const Module module = read(file);
  EXPECT_TRUE(structural_equal(parse_module(print(module)), module)) << print(module);
  Interpreter interpreter(module);
  return print(interpreter.call("main", args));
}

Tensor floats(const std::vector<int64_t>& shape) {
  Tensor tensor(shape, kFloat32);
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

TEST(TvmText, FusedFunctionsWithAttributesAndConstants) {
  // (0 1 2 3) times both rows, and the bias.
  EXPECT_EQ(value("fused.relay", {tensor_value(floats({1, 4}))}), "[[20.5f, 0f]]");
  const Module module = read("fused.relay");
  const std::string text = print(module);
  for (const char* each : {"hash=\"a4b80ec818532480\"", "T_sizes=[1, 2]", "T_scale=0.5f", "T_none=None",
                           "T_on=True", "Primitive=1"})
    EXPECT_NE(text.find(each), std::string::npos) << each << "\n" << text;
}

TEST(TvmText, SplitsBoxedOrNot) {
  // Rows 0 and 2 of the matrix 0 .. 23: columns 0 to 2 of the first, 3 to 5 of the third.
  EXPECT_EQ(value("split.relay", {tensor_value(floats({4, 6}))}), "[[15f, 17f, 19f, 15f, 17f, 19f]]");
}

TEST(TvmText, DataTypesLetsAndLiterals) {
  EXPECT_EQ(value("language.relay", {tensor_value(full({}, kInt32, 7)), tensor_value(floats({2}))}),
            "(12, 3i64, 1.5e-05f64, -0.5f16, [0f, 1f])");
}

TEST(TvmText, MetadataThatIsWrong) {
  const std::string text = read_file(std::string(LATHE_TVM_TEXTS) + "/fused.relay");
  auto message_with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return thrown_by([&] { parse_module(changed, "t"); });
  };
  EXPECT_NE(message_with("P6G0lvBAXt0", "Q6G0lvBAXt0").find("an array without its mark"), std::string::npos);
  EXPECT_NE(message_with("P6G0lvBAXt0", "P6G0!vBAXt0").find("no digit of base 64"), std::string::npos);
  EXPECT_NE(message_with("\"data\": [5, 6]", "\"data\": [5, 66]").find("there is no node 66"),
            std::string::npos);
  EXPECT_NE(message_with("\"data\": \"1\"", "\"data\": \"x\"").find("a number that is none"),
            std::string::npos);
  EXPECT_NE(message_with("meta[relay.Constant][1]", "meta[relay.Constant][2]").find("has 2 entries"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe::relay
