#include "tracker/content_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/support/error.h"

namespace lathe::tracker {
namespace fs = std::filesystem;

ContentStore::~ContentStore() {
  std::error_code ignored;
  if (made_) fs::remove_all(folder_, ignored);
}

void ContentStore::keep(const std::string& digest, const std::string& bytes) {
  if (!made_) make_folder();
  // Not to last beyond the tracker, so it need not reach the disk.
  std::ofstream file(path_of(digest), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) fail("cannot write {}", path_of(digest));
}

void ContentStore::make_folder() {
  if (folder_.empty()) {
    folder_ = temporary_.emplace().path();
  } else {
    std::error_code error;
    fs::remove_all(folder_, error);
    fs::create_directories(folder_, error);
    if (!error) fs::permissions(folder_, fs::perms::owner_all, error);
    if (error) fail("cannot make the folder {}: {}", folder_, error.message());
  }
  made_ = true;
}

void ContentStore::forget(const std::string& digest) {
  std::error_code ignored;
  fs::remove(path_of(digest), ignored);
}

std::string ContentStore::read(const std::string& digest, uint64_t offset, size_t length) const {
  std::ifstream file(path_of(digest), std::ios::binary);
  std::string bytes(length, '\0');
  if (!file.seekg(static_cast<std::streamoff>(offset))) return "";
  file.read(bytes.data(), static_cast<std::streamsize>(length));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

}  // namespace lathe::tracker
