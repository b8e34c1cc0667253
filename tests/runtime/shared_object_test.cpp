#include "core/runtime/shared_object.h"

#include <gmock/gmock.h>

#include "tests/runtime/test_module.h"

namespace lathe::runtime {
namespace {

TEST(SharedObject, FindsSymbols) {
  SharedObject library(test_kernels());
  EXPECT_NE(library.find("add"), nullptr);
  EXPECT_EQ(library.find("subtract"), nullptr);
}

TEST(SharedObject, CopiesAreApartAndDescriptorsAreReturned) {
  std::string bytes = test_kernels();
  SharedObject first(bytes);
  void* kept = first.find("add");
  for (int i = 0; i < 2000; ++i) {
    SharedObject other(bytes);
    ASSERT_NE(other.find("add"), nullptr);
    ASSERT_NE(other.find("add"), kept);
  }
  SharedObject moved(std::move(first));
  EXPECT_EQ(moved.find("add"), kept);
}

TEST(SharedObject, RefusesWhatIsNotALibrary) {
  auto message = [](const std::string& bytes) {
    try {
      SharedObject library(bytes);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("hello"), "shared object: the bytes are not an ELF file");
  EXPECT_EQ(message(""), "shared object: the bytes are not an ELF file");
  EXPECT_THAT(message(test_kernels().substr(0, 40)),
              ::testing::StartsWith("shared object: the system cannot load it: "));
}

TEST(SharedObject, CountsTheBytesOfItsCode) {
  const std::string bytes = test_kernels();
  EXPECT_GT(executable_bytes(bytes), 100);
  EXPECT_LT(executable_bytes(bytes), static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(executable_bytes("hello"), 0);
  for (size_t size = 0; size < bytes.size(); size += 61)
    EXPECT_LE(executable_bytes(std::string_view(bytes).substr(0, size)), executable_bytes(bytes));
}

}  // namespace
}  // namespace lathe::runtime
