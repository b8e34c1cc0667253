#include "core/support/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/npy.h"
#include "core/support/temporary_folder.h"

namespace lathe {
namespace {

TEST(Error, CaretPointsAtTheColumn) {
  EXPECT_EQ(caret_message({"a.relay", 2, 5, 8}, "one\nlet %x = 1\n", "unexpected token"),
            "a.relay:2:5: error: unexpected token\n  let %x = 1\n      ^^^");
}

TEST(Error, NearestName) {
  EXPECT_EQ(nearest("resnet81", {"vgg16", "resnet18", "dqn"}), "resnet18");
  EXPECT_EQ(nearest("bnech", {"batch", "bench"}), "bench") << "neighbours exchanged are one mistake";
  EXPECT_EQ(nearest("zzz", {"vgg16"}), "");
  EXPECT_EQ(nearest("resnet", {"resnet50v2-quantized", "resnet"}), "resnet");
  // Nothing for what a file or a stranger makes up: the table has the product of both lengths.
  EXPECT_EQ(nearest(std::string(128, 'a'), {std::string(127, 'a')}), std::string(127, 'a'));
  EXPECT_EQ(nearest(std::string(129, 'a'), {std::string(128, 'a')}), "");
}

TEST(JsonLine, TakesBytesThatAreNoUtf8) {
  EXPECT_EQ(json_line({{"file", "caf\xe9.onnx"}}), "{\"file\":\"caf\ufffd.onnx\"}");
}

TEST(WriteFile, ADeviceStaysADevice) {
  const std::filesystem::path full = "/dev/full";
  if (!std::filesystem::is_character_file(full)) GTEST_SKIP() << "no /dev/full";
  EXPECT_THROW(write_file(full, "x"), Error);
  EXPECT_TRUE(std::filesystem::is_character_file(full));
  write_file("/dev/null", "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteFile, ThreadsThatWriteOnePathDoNotMixTheirBytes) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  auto write = [&](char byte) {
    for (int i = 0; i < 50; ++i) write_file(path, std::string(100'000, byte));
  };
  std::thread other(write, 'a');
  write('b');
  other.join();
  const std::string bytes = read_file(path);
  EXPECT_EQ(bytes, std::string(100'000, bytes[0]));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path(), path) << "nothing is left behind";
}

TEST(DataTypeText, RoundTrip) {
  for (const char* text : {"float32", "bfloat16", "bool", "uint8", "int64", "handle", "float32x16"})
    EXPECT_EQ(to_string(parse_dtype(text).value()), text);
  for (const char* text : {"", "float", "float33", "int32x1", "float32 ", "boolx"})
    EXPECT_FALSE(parse_dtype(text)) << text;
}

TEST(Half, RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), bits) << value;
  }
  EXPECT_EQ(float_to_half(65520.f), 0x7c00);
  EXPECT_EQ(float_to_half(65519.f), 0x7bff);
}

/// A device without an end, and a file of more than there is memory, which takes no place.
TEST(ReadFile, HasABound) {
  TemporaryFolder folder;
  const std::string large = folder / "large";
  write_file(large, "");
  std::filesystem::resize_file(large, (uintmax_t{1} << 31) + 1);
  const auto refusal = [](const std::string& path) {
    try {
      return std::to_string(read_file(path).size());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(large), fmt::format("cannot read {}: it has more than 2147483648 bytes", large));
  EXPECT_EQ(refusal("/dev/zero"), "cannot read /dev/zero: it has more than 268435456 bytes");
  EXPECT_EQ(refusal("/dev/null"), "0");
  EXPECT_EQ(refusal(folder.path()), fmt::format("cannot read {}: Is a directory", folder.path()));
  EXPECT_GT(read_file("/proc/self/status").size(), 0U) << "whose size is said to be 0";
}

TEST(Npy, RoundTripAndMalformed) {
  auto path = (std::filesystem::temp_directory_path() / "lathe_npy_test.npy").string();
  for (DataType type : {kFloat32, kInt64, kBool, kFloat16, kUInt8}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3}, {2, 3, 4}, {0, 5}}) {
      Tensor t = random_tensor(shape, type, 7);
      save_npy(path, t);
      Tensor again = load_npy(path);
      EXPECT_EQ(again.shape(), shape);
      EXPECT_EQ(max_relative_error(again, t), 0);
    }
  }
  std::string bytes = read_file(path);
  write_file(path, bytes.substr(0, 20));
  EXPECT_THROW(load_npy(path), Error);
  EXPECT_THROW(load_npy("/nonexistent.npy"), Error);
  auto error_of_shape = [&](const std::string& shape) -> std::string {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }\n";
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 255);
    file += static_cast<char>(header.size() >> 8);
    write_file(path, file + header);
    try {
      load_npy(path);
    } catch (const Error& error) {
      return std::string(error.what()).substr(path.size());
    }
    return "no error";
  };
  EXPECT_EQ(error_of_shape("0,"), "no error");
  for (const char* large : {"9999999999999999999,", "18446744073709551616, 0", "999999999999999999,"})
    EXPECT_EQ(error_of_shape(large), ": not a .npy file: a dimension too large");
  EXPECT_EQ(error_of_shape(std::string(60000, ' ')), ": not a .npy file: the header is too long");
  EXPECT_EQ(error_of_shape("2, 3"), ": not a .npy file: 0 bytes of data, float32 (2, 3) has 24");
  std::filesystem::remove(path);
}

/// Of a device there is no end, and a reader of a pipe waits for who never comes.
TEST(Npy, IsARegularFile) {
  TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), folder.path()}) try {
      load_npy(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), fmt::format("cannot read {}: it is not a regular file", path));
    }
}

/// Whoever needs another shape need not read them.
TEST(Npy, TheDataIsReadWhenItIsAskedFor) {
  TemporaryFolder folder;
  const std::string path = folder / "large.npy";
  save_npy(path, zeros({4, 4}, kFloat32));
  std::string bytes = read_file(path).substr(0, 128);
  const std::string shape = "(4, 4)", large = "(65536, 16777216)";
  bytes.replace(bytes.find(shape), shape.size(), large).erase(128);
  bytes.back() = '\n';
  write_file(path, bytes);
  std::filesystem::resize_file(path, 128 + (uintmax_t{1} << 42));  // which take no place
  EXPECT_EQ(NpyFile(path).shape(), (std::vector<int64_t>{1 << 16, 1 << 24}));
  EXPECT_EQ(NpyFile(path).dtype(), kFloat32);
}

}  // namespace
}  // namespace lathe
