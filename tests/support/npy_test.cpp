#include "core/support/npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe {
namespace {

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
