#include "core/support/user_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lathe {
namespace {

/// Sets a variable for as long as it lives; null: unsets it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

TEST(UserFolder, TheMostParticularVariableCounts) {
  Environment home("HOME", "/home/somebody"), cache("XDG_CACHE_HOME", nullptr),
      data("XDG_DATA_HOME", nullptr), config("XDG_CONFIG_HOME", nullptr), own("LATHE_CACHE", nullptr);
  EXPECT_EQ(cache_folder(), "/home/somebody/.cache/lathe");
  EXPECT_EQ(data_folder(), "/home/somebody/.local/share/lathe");
  EXPECT_EQ(config_folder(), "/home/somebody/.config/lathe");
  Environment xdg_cache("XDG_CACHE_HOME", "/cache"), xdg_data("XDG_DATA_HOME", "relative");
  EXPECT_EQ(cache_folder(), "/cache/lathe");
  EXPECT_EQ(data_folder(), "/home/somebody/.local/share/lathe") << "the specification takes no relative path";
  Environment xdg_config("XDG_CONFIG_HOME", "/etc");
  EXPECT_EQ(config_folder(), "/etc/lathe");
  Environment lathe("LATHE_CACHE", "/mine");
  EXPECT_EQ(cache_folder(), "/mine");
}

}  // namespace
}  // namespace lathe
