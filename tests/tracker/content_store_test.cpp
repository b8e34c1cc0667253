#include "tracker/content_store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "tracker/blob.h"

namespace lathe::tracker {
namespace {
namespace fs = std::filesystem;

const std::string kA(64, 'a'), kB(64, 'b');

TEST(ContentStore, KeepsBytesUntilTheyAreForgotten) {
  TemporaryFolder parent;
  const std::string folder = parent / "artifacts";
  {
    ContentStore store(folder);
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

TEST(ContentStore, TrustsNoFileThatItFinds) {
  TemporaryFolder parent;
  const std::string folder = parent / "artifacts";
  fs::create_directories(folder);
  write_file(folder + "/" + kA, "planted");
  ContentStore store(folder);
  store.keep(kB, "b");
  EXPECT_EQ(store.read(kA, 0, 10), "");
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

}  // namespace
}  // namespace lathe::tracker
