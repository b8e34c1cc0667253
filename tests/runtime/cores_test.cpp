#include "core/runtime/cores.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe::runtime {
namespace {

namespace fs = std::filesystem;

class Cgroups : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((fs::path(root_) / path).parent_path());
    write_file((fs::path(root_) / path).string(), text);
  }

  TemporaryFolder temporary_;
  const std::string root_ = temporary_.path();
};

TEST_F(Cgroups, TheTightestLimitOfTheParentsCounts) {
  write("cpu.max", "max 100000\n");
  write("team/cpu.max", "150000 100000\n");
  write("team/job/cpu.max", "400000 100000\n");
  write("other/cpu.max", "100000 100000\n");
  EXPECT_EQ(cgroup_core_limit("0::/team/job\n", root_), 1.5);
  EXPECT_EQ(cgroup_core_limit("0::/team\n", root_), 1.5);
  EXPECT_EQ(cgroup_core_limit("0::/\n", root_), 0);
  EXPECT_EQ(cgroup_core_limit("0::/gone/job\n", root_), 0);
}

TEST_F(Cgroups, VersionOneHasAFolderForEachController) {
  write("cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/free/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/free/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_core_limit("9:memory:/job\n4:cpu,cpuacct:/job\n", root_), 2.5);
  EXPECT_EQ(cgroup_core_limit("4:cpu,cpuacct:/free\n", root_), 0);
}

TEST_F(Cgroups, OddTextMeansNoLimit) {
  write("cpu.max", "soon\n");
  for (const char* text : {"", "\n", "0", "0:", "::", "0::", "0::/\n"})
    EXPECT_EQ(cgroup_core_limit(text, root_), 0) << text;
}

TEST(Cores, ThereIsAtLeastOneAndNoMoreThanAllowed) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), static_cast<int>(allowed_cores().size()));
}

}  // namespace
}  // namespace lathe::runtime
