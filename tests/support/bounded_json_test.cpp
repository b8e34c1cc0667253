#include "core/support/bounded_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lathe {
namespace {

TEST(JsonLine, TakesBytesThatAreNoUtf8) {
  EXPECT_EQ(json_line({{"file", "caf\xe9.onnx"}}), "{\"file\":\"caf\ufffd.onnx\"}");
}

}  // namespace
}  // namespace lathe
