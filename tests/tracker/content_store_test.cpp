#include "tracker/content_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "db/database_error.h"
#include "tests/thrown_by.h"
#include "tracker/wire/blob.h"

namespace {
std::vector<std::string> synced;  // paths, in the order in which they were
}  // namespace

// In the place of the library's, which it calls.
extern "C" int fsync(int file) {
  synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)));
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace lathe::tracker {
namespace {
namespace fs = std::filesystem;

const std::string kA(64, 'a'), kB(64, 'b');

TEST(ContentStore, KeepsBytesUntilTheyAreForgotten) {
  TemporaryFolder parent;
  const std::string folder = parent / "artifacts";
  {
    ContentStore store({.folder = folder});
    EXPECT_FALSE(fs::exists(folder)) << "nothing is stored yet";
    store.keep(kA, "abcdef");
    store.keep(kB, "b");
    EXPECT_EQ(store.read(kA, 0, 4), "abcd");
    EXPECT_EQ(store.read(kA, 4, 4), "ef");
    EXPECT_EQ(store.read(kA, 6, 4), "");
    EXPECT_EQ(store.read(kA, 1000, 4), "");
    store.forget(kA);
    EXPECT_EQ(store.read(kA, 0, 4), "");
    EXPECT_EQ(store.read(kB, 0, 4), "b");
  }
  EXPECT_FALSE(fs::exists(folder)) << "builds last as long as their tracker";
}

/// By that a tracker knows that the disk has failed, and nothing that it was asked for.
TEST(ContentStore, FailsAsADatabaseDoes) {
  TemporaryFolder parent;
  write_file(parent / "file", "");
  ContentStore nowhere({.folder = parent / "file/artifacts"});
  EXPECT_THROW(nowhere.keep(kA, "a"), db::DatabaseError);
  ContentStore store({.folder = parent / "artifacts"});
  store.keep(kA, "a");
  fs::create_directories(parent / ("artifacts/" + kB));
  EXPECT_THROW(store.keep(kB, "b"), db::DatabaseError);
  EXPECT_EQ(std::distance(fs::directory_iterator(parent / "artifacts"), fs::directory_iterator()), 2)
      << "nothing stays of what was on its way";
  ContentStore small({.folder = parent / "small", .limit_bytes = 1});
  EXPECT_THROW(small.keep(kA, "ab"), db::DatabaseError);
}

/// Else a runner would get half of it, and nobody would count the rest.
TEST(ContentStore, HoldsNothingHalf) {
  TemporaryFolder parent;
  ContentStore store({.folder = parent / "artifacts"});
  const std::string large(1 << 20, 'l'), digest = sha256(large);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit full{1 << 16, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_THROW(store.keep(digest, large), db::DatabaseError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  EXPECT_EQ(store.read(digest, 0, 10), "");
  EXPECT_TRUE(fs::is_empty(parent / "artifacts"));
  store.keep(digest, large);
  EXPECT_EQ(store.find(digest), large.size());
}

TEST(ContentStore, TrustsNoFileThatItFinds) {
  TemporaryFolder parent;
  const std::string folder = parent / "artifacts";
  fs::create_directories(folder);
  write_file(folder + "/" + kA, "planted");
  ContentStore store({.folder = folder});
  store.keep(kB, "b");
  EXPECT_EQ(store.read(kA, 0, 10), "");
}

/// Sends `bytes` in two pieces; the digest.
std::string upload(ContentStore& store, const std::string& bytes) {
  ContentStore::Incoming incoming(store);
  incoming.add(std::string_view(bytes).substr(0, bytes.size() / 2));
  incoming.add(std::string_view(bytes).substr(bytes.size() / 2));
  incoming.sync();
  incoming.keep();
  return incoming.digest();
}

/// Or the answer that it is here would not survive a loss of power.
TEST(ContentStore, WhatIsUploadedIsOnTheDisk) {
  TemporaryFolder parent;
  const std::string folder = parent / "models";
  ContentStore store({.folder = folder, .lasting = true});
  synced.clear();
  upload(store, "a model");
  EXPECT_EQ(synced, (std::vector<std::string>{folder + "/incoming-1", folder}))
      << "its bytes before it has its name, and then the name";
}

TEST(ContentStore, WhatIsUploadedLasts) {
  TemporaryFolder parent;
  const std::string folder = parent / "models";
  const std::string bytes(100'000, 'm');
  {
    ContentStore store({.folder = folder, .lasting = true});
    EXPECT_EQ(upload(store, bytes), sha256(bytes));
    EXPECT_EQ(upload(store, bytes), sha256(bytes)) << "the same again";
    ContentStore::Incoming(store).add("half of a mod");
  }
  write_file(folder + "/incoming-7", "from a tracker that was killed");
  ContentStore store({.folder = folder, .lasting = true});
  EXPECT_EQ(store.find(sha256(bytes)), bytes.size());
  EXPECT_EQ(store.read(sha256(bytes), 99'999, 10), "m");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "nothing half";
}

/// Whoever has filled the folder may have meant it for a tracker that takes it over.
TEST(ContentStore, ABlobIsAFileOfItsOwn) {
  TemporaryFolder parent;
  const std::string folder = parent / "models", mine(64, 'c'), empty(64, 'd');
  write_file(parent / "secret", "a file elsewhere");
  fs::create_directories(folder + "/" + kB);
  fs::create_symlink(parent / "secret", folder + "/" + kA);
  write_file(folder + "/" + mine, "a model");
  ASSERT_EQ(mkfifo((folder + "/" + mine + ".owner").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder + "/" + empty).c_str(), 0600), 0);
  ContentStore store({.folder = folder, .lasting = true});
  for (const std::string& none : {kA, kB, empty}) EXPECT_FALSE(store.find(none)) << none;
  EXPECT_EQ(store.find(mine), 7);
  EXPECT_EQ(store.bytes_of(""), 7) << "nobody's";
  EXPECT_TRUE(fs::exists(parent / "secret"));
}

/// Its job, and all later ones of that model, had failed until the tracker was started again.
TEST(ContentStore, WhatSomebodyHasRemovedIsNotHere) {
  TemporaryFolder parent;
  const std::string a(40, 'a'), digest = sha256(a);
  ContentStore store({.folder = parent / "models", .lasting = true});
  upload(store, a);
  fs::remove(parent / "models/" + digest);
  EXPECT_FALSE(store.find(digest));
  EXPECT_EQ(store.bytes_of(""), 0);
  upload(store, a);
  EXPECT_EQ(store.find(digest), 40);
  EXPECT_EQ(read_file(parent / "models/" + digest), a);
}

TEST(ContentStore, TheLeastRecentlyUsedGoButNotWhatIsPinned) {
  TemporaryFolder parent;
  ContentStore::Pinned pinned;
  ContentStore::Settings settings{.folder = parent / "models", .lasting = true, .limit_bytes = 100};
  settings.pinned = [&] { return pinned; };
  const std::string a(40, 'a'), b(40, 'b'), c(40, 'c');
  {
    ContentStore store(settings);
    upload(store, a);
    upload(store, b);
    EXPECT_TRUE(store.find(sha256(a)));
    upload(store, c);
    EXPECT_FALSE(store.find(sha256(b))) << "used before a";
    EXPECT_TRUE(store.find(sha256(a)));
  }
  ContentStore store(settings);  // c was used before a, also for the next store
  pinned = {{sha256(c), {""}}};
  upload(store, b);
  EXPECT_TRUE(store.find(sha256(c)));
  EXPECT_FALSE(store.find(sha256(a)));
}

/// Also with uploads that are under way: many of them at once hold no more than one may.
TEST(ContentStore, RefusesWhatThereIsNoRoomFor) {
  TemporaryFolder parent;
  ContentStore::Pinned pinned;
  ContentStore store(
      {.folder = parent / "models", .lasting = true, .limit_bytes = 100, .pinned = [&] { return pinned; }});
  pinned = {{upload(store, std::string(60, 'a')), {""}}};
  EXPECT_THROW(upload(store, std::string(41, 'b')), Error);
  ContentStore::Incoming first(store);
  first.add(std::string(30, 'c'));
  ContentStore::Incoming second(store);
  EXPECT_THROW(second.add(std::string(30, 'd')), Error);
  second.add(std::string(10, 'd'));
  second.sync();
  second.keep();
  EXPECT_TRUE(store.find(sha256(std::string(10, 'd'))));
}

/// Of an owner who may have 100 bytes.
std::string put(ContentStore& store, char c, size_t size, const std::string& owner) {
  ContentStore::Incoming incoming(store, {owner, 100});
  incoming.add(std::string(size, c));
  incoming.sync();
  incoming.keep();
  return incoming.digest();
}

/// One owner's models make room for themselves alone, also in the life of another store.
TEST(ContentStore, BoundsWhatOneOwnerHas) {
  TemporaryFolder parent;
  ContentStore::Pinned pinned;
  const ContentStore::Settings settings{
      .folder = parent / "models", .lasting = true, .limit_bytes = 1000, .pinned = [&] { return pinned; }};
  std::string a, b, c;
  {
    ContentStore store(settings);
    b = put(store, 'b', 90, "bob");
    EXPECT_EQ(put(store, 'b', 90, "alice"), b) << "it is there, and bob's";
    a = put(store, 'a', 60, "alice");
    EXPECT_EQ(store.bytes_of("alice"), 60u);
  }
  ContentStore store(settings);
  EXPECT_EQ(store.bytes_of("alice"), 60u);
  c = put(store, 'c', 70, "alice");
  EXPECT_FALSE(store.find(a)) << "her oldest went";
  EXPECT_TRUE(store.find(b)) << "another's did not";
  EXPECT_THROW(put(store, 'd', 101, "alice"), ShareFull);
  EXPECT_TRUE(store.find(c)) << "nothing goes for what is refused";
  pinned = {{c, {"alice"}}};
  EXPECT_THROW(put(store, 'd', 31, "alice"), ShareFull);
  put(store, 'd', 30, "alice");
  EXPECT_EQ(store.bytes_of("alice"), 100u);
  store.forget(c);
  EXPECT_EQ(store.bytes_of("alice"), 30u);
  EXPECT_FALSE(fs::exists(parent / "models/" + c + ".owner"));
}

/// Else whoever has a model of another's could fill that one's share with a job of their own that waits.
TEST(ContentStore, WhatOnlyOthersNeedIsTheirs) {
  TemporaryFolder parent;
  ContentStore::Pinned pinned;
  const ContentStore::Settings settings{
      .folder = parent / "models", .lasting = true, .limit_bytes = 1000, .pinned = [&] { return pinned; }};
  {
    ContentStore store(settings);
    const std::string a = put(store, 'a', 60, "alice"), b = put(store, 'b', 40, "alice");
    pinned = {{a, {"bob"}}, {b, {"alice", "bob"}}};
    put(store, 'c', 50, "alice");
    EXPECT_TRUE(store.find(a)) << "a job needs it";
    EXPECT_EQ(store.bytes_of("alice"), 90u);
    EXPECT_EQ(store.bytes_of("bob"), 60u);
    EXPECT_THROW(put(store, 'd', 61, "alice"), ShareFull) << "beside what her own job needs";
  }
  ContentStore store(settings);
  EXPECT_EQ(store.bytes_of("alice"), 90u);
  EXPECT_EQ(store.bytes_of("bob"), 60u);
}

/// Else a share of bytes would be as many files.
TEST(ContentStore, ASmallOneCountsAsMuchAsAFile) {
  TemporaryFolder parent;
  const ContentStore::Settings settings{
      .folder = parent / "models", .lasting = true, .limit_bytes = 1000, .least_bytes = 40, .pinned = {}};
  const auto put = [](ContentStore& store, const std::string& bytes) {
    ContentStore::Incoming incoming(store, {"alice", 100});
    for (char byte : bytes) incoming.add(std::string(1, byte));
    incoming.sync();
    incoming.keep();
    return incoming.digest();
  };
  {
    ContentStore store(settings);
    const std::string a = put(store, "a"), b = put(store, std::string(50, 'b'));
    EXPECT_EQ(store.bytes_of("alice"), 90u);
    EXPECT_EQ(store.find(a), 1u);
    EXPECT_EQ(put(store, "a"), a);
    put(store, "c");
    EXPECT_FALSE(store.find(b)) << "her oldest went for a byte";
    EXPECT_EQ(store.bytes_of("alice"), 80u);
  }
  ContentStore store(settings);
  EXPECT_EQ(store.bytes_of("alice"), 80u);
  const std::string d = put(store, std::string(60, 'd'));
  EXPECT_EQ(store.bytes_of("alice"), 100u);
  store.forget(d);
  EXPECT_EQ(store.bytes_of("alice"), 40u);
  store.forget(put(store, ""));
  EXPECT_EQ(store.bytes_of("alice"), 40u);
}

TEST(BlobCache, DropsTheLeastRecentlyUsed) {
  wire::BlobCache cache(10);
  const auto bytes = [](const char* text) { return std::make_shared<const std::string>(text); };
  cache.add("a", bytes("1234"));
  cache.add("b", bytes("1234"));
  EXPECT_TRUE(cache.find("a"));
  cache.add("c", bytes("1234"));
  EXPECT_FALSE(cache.find("b"));
  EXPECT_EQ(*cache.find("a"), "1234");
  cache.add("large", bytes("more than all of it"));
  EXPECT_TRUE(cache.find("large")) << "the one that is needed now";
  EXPECT_FALSE(cache.find("a"));
}

/// Late, doubled and wrong pieces change nothing.
TEST(BlobFetch, TakesThePieceThatIsNext) {
  const std::string bytes(300000, 'x');
  wire::BlobFetch fetch(wire::blob_of(bytes));
  const wire::BlobChunk first = wire::chunk_of(bytes, fetch.next(1));
  EXPECT_FALSE(fetch.add({first.digest, 1, "x"}));
  EXPECT_FALSE(fetch.add({kA, 0, "x"}));
  EXPECT_TRUE(fetch.add(first));
  EXPECT_FALSE(fetch.add(first));
  EXPECT_FALSE(fetch.complete());
  EXPECT_FALSE(fetch.add({first.digest, fetch.next(1).offset, std::string(200000, 'x')})) << "too long";
  EXPECT_TRUE(fetch.add(wire::chunk_of(bytes, fetch.next(1))));
  ASSERT_TRUE(fetch.complete());
  EXPECT_TRUE(fetch.verify());
  EXPECT_EQ(fetch.take(), bytes);
}

TEST(BlobFetch, BeginsAnewWhenTheBytesAreNotThose) {
  wire::BlobFetch fetch(wire::blob_of("good"));
  EXPECT_TRUE(fetch.add({fetch.blob().digest, 0, "evil"}));
  ASSERT_TRUE(fetch.complete());
  EXPECT_FALSE(fetch.verify());
  EXPECT_FALSE(fetch.complete());
  EXPECT_EQ(fetch.next(1).offset, 0u);
}

/// Beside a database in /tmp somebody else may have been first: what is removed there would be theirs to
/// choose.
TEST(ContentStore, TakesNoFolderOfAnother) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file another user's";
  constexpr uid_t kSomebody = 65534;
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "home");
  write_file(folder / "home/letter", "dear");
  std::filesystem::create_directory_symlink(folder / "home", folder / "link");
  std::filesystem::create_directories(folder / "theirs");
  ASSERT_EQ(lchown((folder / "link").c_str(), kSomebody, kSomebody), 0);
  ASSERT_EQ(chown((folder / "theirs").c_str(), kSomebody, kSomebody), 0);
  for (const char* name : {"link", "theirs"})
    EXPECT_EQ(
        thrown_by([&] { ContentStore({.folder = folder / name, .lasting = true}); }),
        fmt::format("the folder {} is another user's; name another one, or another database", folder / name));
  EXPECT_TRUE(std::filesystem::exists(folder / "home/letter"));
  // One's own link to another disk is an arrangement.
  std::filesystem::create_directories(folder / "disk");
  std::filesystem::create_directory_symlink(folder / "disk", folder / "mine");
  EXPECT_EQ(thrown_by([&] { ContentStore({.folder = folder / "mine", .lasting = true}); }), "no error");
}

}  // namespace
}  // namespace lathe::tracker
