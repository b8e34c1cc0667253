#include "core/runtime/module_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/runtime/executor.h"
#include "core/runtime/pages.h"
#include "core/runtime/thread_pool.h"
#include "core/support/cpu.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/unfit.h"
#include "tests/runtime/test_module.h"

namespace lathe::runtime {
namespace {

using ::testing::StartsWith;

class ModuleFile : public ::testing::Test {
 protected:
  /// What opening a file of these bytes says.
  std::string error_of(const std::string& bytes) {
    write_file(path_, bytes);
    try {
      Module::open(path_);
    } catch (const Error& error) {
      std::string text = error.what();
      EXPECT_THAT(text, StartsWith(path_));
      return text.substr(path_.size());
    }
    return "no error";
  }

  TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path(), path_ = folder_ + "/m.lathe";
};

TEST_F(ModuleFile, RunsAsTheImageDoes) {
  write_module(path_, test_image());
  auto module = Module::open(path_);
  EXPECT_EQ(module->plan().model, "test");
  Executor executor(module, serial_parallel());
  executor.set_input(0, floats({10, 20, 30}));
  executor.run();
  EXPECT_EQ(max_relative_error(executor.output(3), floats({45, 90, 135})), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(executor.output(2).data()) % 4096, 0u) << "constants start at a page";
}

/// An empty constant and the next one lie at one place.
TEST_F(ModuleFile, AnEmptyConstantHidesNoOther) {
  PlanBuilder builder;
  builder.output("empty", builder.constant(floats({})));
  int64_t three = builder.constant(floats({1, 2, 3}));
  builder.output("three", three);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  write_module(path_, image);
  for (const auto& module : {Module::from_image(image), Module::open(path_)}) {
    Tensor held(kThree.shape, kFloat32);
    std::memcpy(held.data(), module->constant(static_cast<size_t>(three)), 12);
    EXPECT_EQ(max_relative_error(held, floats({1, 2, 3})), 0);
  }
}

TEST_F(ModuleFile, ItsHeadSaysWhatItIs) {
  ModuleImage image = test_image();
  write_module(path_, image);
  const ModuleHead head = read_module_head(path_);
  EXPECT_EQ(head.plan.model, "test");
  EXPECT_EQ(head.code_bytes, executable_bytes(image.library));
  write_module(folder_ + "/same.lathe", image);
  EXPECT_EQ(read_module_head(folder_ + "/same.lathe").digest, head.digest);
  image.constants[0].data = floats({1, 2, 4});  // one weight
  write_module(folder_ + "/other.lathe", image);
  EXPECT_NE(read_module_head(folder_ + "/other.lathe").digest, head.digest);
  image.plan.cpu_features = {"of_another_machine"};
  write_module(folder_ + "/foreign.lathe", image);
  EXPECT_EQ(read_module_head(folder_ + "/foreign.lathe").plan.cpu_features[0], "of_another_machine");
}

TEST_F(ModuleFile, APlanSurvivesItsText) {
  Plan plan = test_image().plan;
  EXPECT_EQ(plan_text(parse_plan(plan_text(plan))), plan_text(plan));
}

TEST_F(ModuleFile, SaysWhatIsWrong) {
  write_module(path_, test_image());
  std::string good = read_file(path_);
  EXPECT_EQ(error_of(""), " is not a module file: it is too short");
  EXPECT_EQ(error_of(std::string(200, 'x')), " is not a module file");
  std::string newer = good;
  newer[8] = 9;
  EXPECT_EQ(error_of(newer),
            " is a module of format 9, this program reads up to 6; use a newer program, or compile the model "
            "again");
  std::string older = good;
  older[8] = 1;
  EXPECT_EQ(error_of(older), " is a module of format 1, this program reads 6; compile the model again");
  EXPECT_EQ(error_of(good.substr(0, 5000)),
            " is damaged or cut short: its 5000 bytes do not match its header");
  std::string changed = good;
  changed[200] ^= 1;
  EXPECT_EQ(error_of(changed), " is damaged: its checksum does not match");
  EXPECT_THROW(Module::open("/nowhere/m.lathe"), Error);
  EXPECT_THROW(Module::open("/tmp"), Error);
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THROW(Module::open(folder_ + "/pipe"), Error) << "and does not wait for a writer";
}

TEST_F(ModuleFile, AChangedByteBeforeTheConstantsIsAlwaysFound) {
  write_module(path_, test_image());
  std::string good = read_file(path_);
  std::mt19937 random(3);
  for (int round = 0; round < 250; ++round) {
    std::string bad = good;
    // Every byte of the header, then some of the plan.
    size_t at = round < 192 ? round : 192 + random() % 500;
    bad[at] = static_cast<char>(bad[at] ^ (1 + random() % 255));
    EXPECT_NE(error_of(bad), "no error") << "byte " << at;
    EXPECT_NE(error_of(good.substr(0, random() % good.size())), "no error");
  }
}

TEST_F(ModuleFile, OnlyVerifyingReadsTheConstants) {
  write_module(path_, test_image());
  EXPECT_NO_THROW(verify_module(map_module(path_)));
  std::string bytes = read_file(path_);
  bytes[bytes.size() - 64] ^= 1;  // in the constant
  EXPECT_EQ(error_of(bytes), "no error");
  try {
    verify_module(map_module(path_));
    FAIL() << "the change was not found";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path_ + " is damaged: the checksum of its constants does not match");
  }
  write_file(path_, bytes.substr(0, 100));
  EXPECT_THROW(verify_module(map_module(path_)), Error);
}

TEST_F(ModuleFile, ConstantsAreSharedPagesOfTheFile) {
  PlanBuilder builder;
  int64_t big = builder.constant(random_tensor({1 << 20}, kFloat32, 1));
  builder.output("big", big);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  write_module(path_, image);
  auto module = Module::open(path_);
  std::ifstream maps("/proc/self/maps");
  auto address = reinterpret_cast<uint64_t>(module->constant(0));
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    uint64_t from = 0, to = 0;
    char rights[5] = {};
    ASSERT_EQ(std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, rights), 3);
    if (from > address || address >= to) continue;
    found = true;
    EXPECT_STREQ(rights, "r--s");
    EXPECT_EQ(from % kHugePage, 0u);
    EXPECT_NE(line.find(path_), std::string::npos) << line;
  }
  EXPECT_TRUE(found);
}

TEST_F(ModuleFile, NamesAMissingKernelAndAMissingCpuFeature) {
  ModuleImage image = test_image();
  image.plan.steps[0].kernel = "subtract";
  write_module(path_, image);
  EXPECT_EQ(error_of(read_file(path_)), ": the module has no kernel subtract");
  image.plan.cpu_features = {"warp_drive"};
  write_module(path_, image);
  EXPECT_EQ(error_of(read_file(path_)), ": built for a CPU with warp_drive, which this one (" + cpu_name() +
                                            ") lacks; compile the model on this machine, or for it: --target "
                                            "cpu:mcpu=NAME");
  EXPECT_THROW(Module::open(path_), Unfit);
  EXPECT_THROW(Module::from_image(image), Unfit);
}

TEST_F(ModuleFile, AFailedWriteLeavesNothing) {
  EXPECT_THROW(write_module(folder_ + "/no/such/folder/m.lathe", test_image()), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

/// Plans are checked beyond the checksum: nothing a plan says may lead outside the arena.
TEST(Plan, RefusesPlacesOutOfRange) {
  auto error_of = [](auto&& change) {
    Plan plan = test_image().plan;
    change(plan);
    try {
      parse_plan(plan_text(plan));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of([](Plan&) {}), "no error");
  EXPECT_EQ(error_of([](Plan& p) { p.values[2].at = 1 << 20; }),
            "module: a tensor of 12 bytes lies at 1048576 of 192 bytes");
  EXPECT_EQ(error_of([](Plan& p) { p.values[2].at = 4; }),
            "module: a tensor of 12 bytes lies at 4 of 192 bytes");
  EXPECT_EQ(error_of([](Plan& p) {
              p.values[2].shape = {int64_t{1} << 62, 4};
            }),
            "module: a tensor of shape (4611686018427387904, 4)");
  EXPECT_EQ(error_of([](Plan& p) { p.values[2].shape = {-1}; }), "module: a tensor of shape (-1)");
  EXPECT_EQ(error_of([](Plan& p) { p.values[1].at = 64; }),
            "module: a constant of 12 bytes lies at 64 of 64 bytes");
  EXPECT_EQ(error_of([](Plan& p) { p.steps[0].args[2] = 1; }),
            "module: kernel add writes to an input or a constant");
  EXPECT_EQ(error_of([](Plan& p) { p.steps[0].args[0] = -1; }), "module: value -1 of 7");
  EXPECT_EQ(error_of([](Plan& p) { p.steps[0].results = 4; }),
            "module: kernel add has 3 arguments and 4 results");
  EXPECT_EQ(error_of([](Plan& p) { p.outputs[0].value = 7; }), "module: value 7 of 7");
  EXPECT_EQ(error_of([](Plan& p) { p.inputs[0].value = 1; }), "module: input 0 (`x`) is not a proper input");
  EXPECT_EQ(error_of([](Plan& p) { p.arena_bytes = -1; }), "module: -1 bytes of memory");
  EXPECT_EQ(error_of([](Plan& p) { p.values[2].place = static_cast<Place>(9); }),
            "json: 9 is none of the 3 values of its field");
}

TEST(Plan, AnyTextGivesAPlanOrAnError) {
  std::string good = plan_text(test_image().plan);
  std::mt19937 random(5);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (int changes = 1 + random() % 3; changes > 0; --changes) {
      size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = "0123456789-[]{}\",:enull"[random() % 23];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
    }
    try {
      parse_plan(text);
      ++accepted;
    } catch (const Error&) {
    }
  }
  EXPECT_LT(accepted, 2000);
}

}  // namespace
}  // namespace lathe::runtime
