// Copies of a database in use, and where databases can be.
#include "db/backup.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "core/support/file.h"
#include "db/file_system.h"
#include "db/pack.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::HasSubstr;

class BackupTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& from, const std::string& to) {
    return thrown_by([&] { back_up(from, to); });
  }
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "lathe.db";
};

TEST_F(BackupTest, ACopyWhileOthersWriteIsOfOneMoment) {
  { Farm farm(path_); }
  std::atomic<bool> stop = false;
  std::atomic<int> written = 0;
  std::thread writer([&] {
    Farm farm(path_);
    for (int i = 0; !stop; ++i) {
      Transaction group = farm.store.begin();  // whole, or not in a copy
      for (int k = 0; k < 4; ++k) farm.measured(fmt::format("{} {}", i, k), {1e-3f});
      group.commit();
      ++written;
    }
  });
  size_t last = 0;
  for (int copy = 0; copy < 5; ++copy) {
    for (int goal = written + 3; written < goal;) std::this_thread::yield();
    const std::string file = folder_ / fmt::format("{}.db", copy);
    back_up(path_, file);
    Store store(file);
    EXPECT_TRUE(store.problems().empty());
    const size_t size = store.history(1, 1).size();
    EXPECT_EQ(size % 4, 0u);
    EXPECT_GT(size, last);
    last = size;
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(problems_of(path_).empty());
}

TEST_F(BackupTest, NothingIsOverwrittenOrLeftBehind) {
  { Farm farm(path_); }
  for (const char* own : {"-journal", "-wal", "-shm", "-claims"})
    EXPECT_EQ(refusal(path_, path_ + own),
              fmt::format("{0}{1}: what ends in {1} belongs to a database; name another file", path_, own));
  write_file(folder_ / "a.db", "precious");
  EXPECT_EQ(refusal(path_, folder_ / "a.db"), folder_ / "a.db exists; a backup is a new file");
  EXPECT_EQ(read_file(folder_ / "a.db"), "precious");
  EXPECT_THAT(refusal(path_, folder_ / "none/a.db"), HasSubstr("cannot write"));
  EXPECT_EQ(refusal(folder_ / "none.db", folder_ / "b.db"), "there is no database " + folder_ / "none.db");
  EXPECT_THAT(refusal(folder_ / "a.db", folder_ / "b.db"), HasSubstr("is not a database of lathe"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.db"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.db.partial"));
}

/// What is called like a copy in work may be a user's.
TEST_F(BackupTest, AUsersFilesOfSuchNamesStay) {
  { Farm farm(path_); }
  write_file(folder_ / "b.db.partial", "precious");
  back_up(path_, folder_ / "b.db");
  EXPECT_EQ(read_file(folder_ / "b.db.partial"), "precious");
  std::filesystem::create_directories(folder_ / "a.pack.partial");
  Store store(path_);
  export_pack(store, folder_ / "a.pack", {});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a.pack.partial"));
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    entries += entry.path().string().find(".partial") != std::string::npos;
  EXPECT_EQ(entries, 2) << "nothing of ours is left";
}

TEST_F(BackupTest, NamesMayHoldAnyCharacter) {
  { Farm farm(path_); }
  const std::string copy = folder_ / "50% of #1?.db";
  back_up(path_, copy);
  EXPECT_TRUE(problems_of(copy).empty());
  // A script's "$FOLDER/copy.db" where FOLDER ends with a slash, or is one.
  back_up(path_, "/" + folder_ / "second.db");
  EXPECT_TRUE(problems_of(folder_ / "second.db").empty());
}

/// A copy has indexes of its own, so damage to those of the original is not in it.
TEST_F(BackupTest, ACopyOfADamagedDatabaseIsWholeOrIsRefused) {
  {
    Farm farm(path_);
    for (int i = 0; i < 100; ++i) farm.measured(std::to_string(i) + std::string(300, 't'), {1e-3f});
    farm.store.database().run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const std::string sound = read_file(path_);
  int refused = 0, page = 1;
  for (; page < static_cast<int>(sound.size() / 4096); page += 3) {
    std::string bytes = sound;
    write_file(path_, bytes.replace(page * 4096, 4096, std::string(4096, '\xa5')));
    const std::string copy = folder_ / fmt::format("{}.db", page), message = refusal(path_, copy);
    if (message == "no error") {
      Store store(copy);
      EXPECT_EQ(store.history(1, 1).size(), 100u) << page;
    } else {
      ++refused;
      EXPECT_FALSE(std::filesystem::exists(copy));
    }
  }
  EXPECT_GT(refused, page / 6);
}

TEST(FileSystems, ThoseOfNetworksAreKnownByNumberOrMount) {
  const struct {
    uint32_t magic;
    const char* mounted;
    const char* name;
  } cases[] = {
      {0x6969, "nfs4", "NFS"},
      {0xfe534d42, "cifs", "SMB"},
      {0x01021997, "9p", "9P"},
      {0x00c36400, "ceph", "Ceph"},
      {0x0bd00bd0, "lustre", "Lustre"},
      {0x65735546, "fuse.sshfs", "sshfs"},
      {0x65735546, "fuse.s3fs", "s3fs"},
      {0x65735546, "fuse.fuse-overlayfs", ""},
      {0x65735546, "fuseblk", ""},
      {0x65735546, "", ""},
      {0xef53, "ext4", ""},
      {0x58465342, "xfs", ""},
      {0x01021994, "tmpfs", ""},
      {0x794c7630, "overlay", ""},
      {0x9123683e, "btrfs", ""},
  };
  for (const auto& [magic, mounted, name] : cases)
    EXPECT_EQ(network_file_system_name(magic, mounted), name) << mounted;
  TemporaryFolder folder;
  EXPECT_EQ(network_file_system(folder / "lathe.db"), "");
}

}  // namespace
}  // namespace lathe::db
