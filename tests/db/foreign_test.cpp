// Records of AutoTVM and MetaSchedule, as those write them.
#include "db/foreign.h"

#include <filesystem>
#include <fstream>

#include "core/support/file.h"
#include "db/pack.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFixtures = FOREIGN_FIXTURES;

class ForeignTest : public ::testing::Test {
 protected:
  std::string fixture(const std::string& name) const { return std::string(kFixtures) + "/" + name; }
  std::string with(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  std::string refusal(const std::string& text) {
    const std::string path = with("log.json", text);
    return thrown_by([&] { import_autotvm(store_, path); });
  }

  TemporaryFolder folder_;
  Farm farm_{database_in(folder_, "lathe.db")};
  Store& store_ = farm_.store;
};

TEST_F(ForeignTest, AutoTvmSaysWhatItMeasured) {
  const ForeignReport report = import_autotvm(store_, fixture("autotvm.json"));
  EXPECT_EQ(report.added, 4);
  EXPECT_EQ(report.bad, 0);
  const std::vector<ForeignRecord> records = store_.foreign_records("conv2d_NCHWc.x86", 10);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].format, "autotvm");
  EXPECT_EQ(records[0].target, "llvm -keys=cpu -mcpu=skylake-avx512");
  EXPECT_EQ(
      records[0].arguments,
      R"([["TENSOR",[1,3,224,224],"float32"],["TENSOR",[64,3,7,7],"float32"],[2,2],[3,3,3,3],[1,1],"NCHW","NCHW","float32"])");
  EXPECT_DOUBLE_EQ(records[0].seconds.value(), (0.0035 + 0.0037) / 2);
  EXPECT_EQ(records[0].n, 2);
  EXPECT_EQ(records[0].measured_ms, 1676344759909);
  EXPECT_THAT(records[0].schedule, HasSubstr(R"("tile_ow","sp",[-1,64])"));
  EXPECT_DOUBLE_EQ(records[1].seconds.value(), 0.0045656413);
  EXPECT_EQ(records[2].seconds, std::nullopt) << "it failed";
  EXPECT_EQ(store_.foreign_records("", 10).size(), 4u);
}

TEST_F(ForeignTest, MetaScheduleSaysWhatItMeasured) {
  const ForeignReport report = import_metaschedule(store_, fixture("metaschedule/database_workload.json"),
                                                   fixture("metaschedule/database_tuning_record.json"));
  EXPECT_EQ(report.added, 3);
  const std::vector<ForeignRecord> records = store_.foreign_records("matmul", 10);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].format, "metaschedule");
  EXPECT_EQ(records[0].workload_key, "7414384178216439264");
  EXPECT_DOUBLE_EQ(records[0].seconds.value(), 0.00025);
  EXPECT_EQ(
      records[0].arguments,
      R"([["TENSOR","float32",[128,128]],["TENSOR","float32",[128,128]],["TENSOR","float32",[128,128]]])");
  EXPECT_THAT(records[0].target, HasSubstr(R"("kind":"llvm")"));
  EXPECT_THAT(records[0].schedule, HasSubstr("SamplePerfectTile"));
  EXPECT_EQ(records[1].seconds, std::nullopt) << "1e10 s: it failed";
  EXPECT_EQ(store_.foreign_records("T_relu", 10).at(0).workload_key, "1234605616436508552");
}

TEST_F(ForeignTest, TheyAreNeverAmongOurs) {
  import_autotvm(store_, fixture("autotvm.json"));
  farm_.measured("ours", {1.0f});
  EXPECT_EQ(farm_.best(true)->measurement.trace, "ours");
  EXPECT_EQ(store_.history(farm_.workload, farm_.target).size(), 1u);
  EXPECT_TRUE(store_.problems().empty());
}

TEST_F(ForeignTest, ImportedTwiceTheyAddNothing) {
  for (int64_t added : {4, 0}) {
    const ForeignReport report = import_autotvm(store_, fixture("autotvm.json"));
    EXPECT_EQ(report.added, added);
    EXPECT_EQ(report.known, 4 - added);
  }
}

TEST_F(ForeignTest, ATornLineIsNamedAndMoreAreRefused) {
  std::string sound, log = read_file(fixture("autotvm.json"));
  for (int i = 0; i < 150; ++i) {
    std::string line = log.substr(0, log.find('\n') + 1);
    sound += line.replace(line.find("172"), 3, std::to_string(1000 + i));
  }
  const ForeignReport report =
      import_autotvm(store_, with("torn.json", sound + R"({"input": ["llvm", "conv)"));
  EXPECT_EQ(report.added, 150);
  EXPECT_THAT(report.reasons, ElementsAre(folder_ / "torn.json:151: is no JSON; is it cut off?"));
  const std::string message = refusal(sound + "{}\n{}\n");
  EXPECT_THAT(message, HasSubstr("2 of 152 lines are no records of it; nothing was imported"));
  EXPECT_THAT(message, HasSubstr("log.json:151: `version` is missing"));
}

TEST_F(ForeignTest, WhatIsNoLogIsRefused) {
  const std::string line =
      R"({"input": ["llvm", "t", [], {}], "config": {}, "result": [RESULT], "version": 0.2})";
  const auto with_result = [&](const std::string& result) {
    std::string text = line;
    return refusal(text.replace(text.find("RESULT"), 6, result) + "\n");
  };
  EXPECT_THAT(with_result("[-1.0], 0, 1, 2"), HasSubstr("a time of -1 s was not measured"));
  EXPECT_THAT(with_result("[\"x\"], 0, 1, 2"), HasSubstr("the times must be a list of numbers"));
  EXPECT_THAT(with_result("[], 0, 1, 2"), HasSubstr("the times must be a list of numbers"));
  EXPECT_THAT(with_result("[1.0]"), HasSubstr("the error number is missing"));
  EXPECT_THAT(refusal(R"({"i": [], "r": [], "v": 0.1})"), HasSubstr("`version` is missing"));
  EXPECT_THAT(refusal(R"({"version": 0.3})"), HasSubstr("is of version `0.3`, 0.2 is read"));
  EXPECT_LT(refusal(fmt::format(R"({{"version": "{}"}})", std::string(100'000, 'x'))).size(), 1000u);
  EXPECT_THAT(refusal(std::string(100'000, '[') + "\n"), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(refusal("[1]\n"), HasSubstr("`version` is missing"));
  EXPECT_THAT(thrown_by([&] { import_autotvm(store_, folder_ / "none"); }),
              HasSubstr("there is no such file"));
  EXPECT_THAT(thrown_by([&] { import_autotvm(store_, folder_.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(store_.foreign_records("", 10), IsEmpty());
}

/// Of terabytes that take no room on the disk, and would be read for hours.
TEST_F(ForeignTest, WhatHasNoEndOfLineIsReadForAMoment) {
  std::filesystem::create_directory(folder_ / "pack");
  for (const char* name : {"log.json", "pack/manifest.json"}) {
    const std::string hole = folder_ / name;
    std::ofstream(hole) << "{";
    std::filesystem::resize_file(hole, uintmax_t{1} << 40);
    const std::string message = thrown_by([&] {
      if (hole.ends_with("log.json"))
        import_autotvm(store_, hole);
      else
        import_pack(store_, folder_ / "pack", {});
    });
    EXPECT_EQ(message, hole + ":1 goes on for more than 64 MiB: this is no log, nor a file of a pack");
  }
  EXPECT_THAT(store_.foreign_records("", 10), IsEmpty());
}

TEST_F(ForeignTest, APickleIsNeverRead) {
  for (const std::string& bytes : {std::string("\x80\x04\x95\x10\0\0\0", 7), std::string("\x80\x02}q\0.", 6),
                                   std::string("llvm\tgASVDAAAAAAAAACMCA==\tgASV\tgASV\n")})
    EXPECT_THAT(refusal(bytes), HasSubstr("is a Python pickle, which may run any program when it is read"));
}

TEST_F(ForeignTest, ARecordOfAWorkloadThatIsNotThereIsBad) {
  const std::string none = with("w.json", "");
  EXPECT_THAT(thrown_by([&] {
                import_metaschedule(store_, none, fixture("metaschedule/database_tuning_record.json"));
              }),
              HasSubstr("workload `0` is not among the 0 of the database"));
}

}  // namespace
}  // namespace lathe::db
