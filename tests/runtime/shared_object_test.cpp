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

}  // namespace
}  // namespace lathe::runtime
