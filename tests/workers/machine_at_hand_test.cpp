#include "workers/machine_at_hand.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe::worker {
namespace {

class MachineAtHand : public testing::Test {
 protected:
  MachineAtHand() { setenv("LATHE_CACHE", folder_.path().c_str(), 1); }
  ~MachineAtHand() override { unsetenv("LATHE_CACHE"); }

  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "machine"))
      if (entry.path().extension() == ".json") paths.push_back(entry.path());
    return paths;
  }

  TemporaryFolder folder_;
  const Target host_ = codegen::host_target();
};

TEST_F(MachineAtHand, IsMeasuredOnceAndKept) {
  EXPECT_FALSE(recall_machine(host_));
  const KnownMachine known = recall_or_measure(host_);
  const auto again = recall_machine(host_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->reading.numbers, known.reading.numbers);
  EXPECT_EQ(again->reading.unsettled, known.reading.unsettled);
  EXPECT_EQ(again->when, known.when);
  EXPECT_EQ(recall_or_measure(host_).reading.seconds, known.reading.seconds) << "not measured again";

  Target fewer_cores = host_;
  fewer_cores.cores = 1;
  fewer_cores.l2_bytes *= 2;
  EXPECT_TRUE(recall_machine(fewer_cores)) << "what a user says of cores and caches changes no machine";
  Target narrower = host_;
  narrower.vector_bits = 128;
  EXPECT_FALSE(recall_machine(narrower)) << "other code, other numbers";

  ASSERT_EQ(files().size(), 1u);
  for (const char* damage : {"", "{}", "[1, 2",
                             R"({"numbers": "speed=9", "measured": "", "unsettled": [], )"
                             R"("seconds": 1, "disturbed": 0, "target": ""})"}) {
    write_file(files()[0], damage);
    EXPECT_FALSE(recall_machine(host_)) << damage;
  }
}

TEST_F(MachineAtHand, IsNoOtherCpu) {
  EXPECT_TRUE(is_at_hand(codegen::resolve_target("cpu:vector=128,cores=1")));
  EXPECT_FALSE(is_at_hand(codegen::resolve_target("cpu:mcpu=haswell")) && host_.cpu != "haswell");
  EXPECT_FALSE(is_at_hand(codegen::resolve_target(host_.triple.starts_with("riscv64")
                                                      ? "cpu:triple=x86_64-linux-gnu,mcpu=nehalem"
                                                      : "cpu:triple=riscv64-linux-gnu,mcpu=generic-rv64")));
}

TEST_F(MachineAtHand, WithoutAPlaceToKeepItNothingIsMeasured) {
  write_file(folder_ / "file", "");
  setenv("LATHE_CACHE", (folder_ / "file").c_str(), 1);
  EXPECT_THROW(recall_or_measure(host_), Error);
  EXPECT_EQ(measured_device().machine, "");
}

}  // namespace
}  // namespace lathe::worker
