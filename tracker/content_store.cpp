#include "tracker/content_store.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/support/digest.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "db/database_error.h"
#include "tracker/own_folder.h"

namespace lathe::tracker {
namespace fs = std::filesystem;

// What does not last makes its folder with the first blob: most trackers never see one.
ContentStore::ContentStore(Settings settings) : settings_(std::move(settings)) {
  if (settings_.lasting) {
    make_folder();
    take_up_files();
  }
}

ContentStore::~ContentStore() {
  std::error_code ignored;
  // Only what this store has made itself.
  if (made_ && !settings_.lasting) fs::remove_all(settings_.folder, ignored);
}

void ContentStore::make_folder() {
  if (std::exchange(made_, true)) return;
  if (settings_.folder.empty()) {
    settings_.folder = temporary_.emplace().path();
    return;
  }
  std::error_code error;
  // What an earlier life left there may have been written by anybody since.
  if (!settings_.lasting) fs::remove_all(settings_.folder, error);
  make_own_folder(settings_.folder);
  // Models are their users', not the machine's.
  fs::permissions(settings_.folder, fs::perms::owner_all, error);
  if (error) fail_to_make_folder(settings_.folder, error.value());
}

namespace {

constexpr uintmax_t kLongestOwner = 4096;

/// Not where a link leads to, nor a pipe, of which a reader would wait: others may have filled the folder.
bool is_file(const fs::path& path) {
  std::error_code missing;
  return fs::symlink_status(path, missing).type() == fs::file_type::regular;
}

/// "" where it says none.
std::string read_owner(const std::string& path) {
  std::error_code missing;
  return is_file(path) && fs::file_size(path, missing) <= kLongestOwner ? read_file(path) : "";
}

}  // namespace

/// In the order of their last use. What is no blob was on its way when the last store ended.
void ContentStore::take_up_files() {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(settings_.folder, error)) {
    const std::string name = file.path().filename();
    // DIGEST.owner names who uploaded DIGEST; one without its blob is left over from a crash.
    const bool is_owner = file.path().extension() == ".owner" && is_file(path_of(file.path().stem()));
    if (is_digest(name) && is_file(file.path()))
      found.emplace_back(file.last_write_time(error), name);
    else if (!is_owner)
      fs::remove_all(file.path(), error);
  }
  if (error) fail("cannot read the folder {}: {}", settings_.folder, error.message());
  // find() keeps the times of files, so that the order of use outlives the store.
  std::sort(found.begin(), found.end());
  for (const auto& [time, name] : found) {
    const uint64_t bytes = fs::file_size(path_of(name), error);
    if (error) fail("cannot read {}: {}", path_of(name), error.message());
    const std::string owner = read_owner(owner_path_of(name));
    bytes_ += counted(bytes);
    // No owner ("") is nobody's share: models of before there were shares.
    owned_[owner] += counted(bytes);
    enter(name, bytes, owner);
  }
}

void ContentStore::keep(const std::string& digest, std::string_view bytes) {
  // The same name is the same bytes.
  if (find(digest)) return;
  std::string path;
  std::error_code failure;
  try {
    path = path_of_incoming();
    make_room(counted(bytes.size()));
    // Not to last beyond the tracker, so it need not reach the disk.
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) fail("cannot write {}", path_of(digest));
    // Under its digest a blob is whole, or not there.
    fs::rename(path, path_of(digest), failure);
    if (failure) fail("cannot write {}: {}", path_of(digest), failure.message());
  } catch (const Error& error) {
    fs::remove(path, failure);
    // As when the database cannot grow: the disk's failure, which may pass, and nobody's who asked for it.
    throw db::DatabaseError(error.what());
  }
  bytes_ += counted(bytes.size());
  owned_[""] += counted(bytes.size());
  enter(digest, bytes.size(), "");
}

/// Under no digest: what a crash leaves of it is removed when a store takes up the folder.
std::string ContentStore::path_of_incoming() {
  make_folder();
  return path_of(fmt::format("incoming-{}", ++incoming_));
}

void ContentStore::enter(const std::string& digest, uint64_t bytes, const std::string& owner) {
  entries_[digest] = {bytes, owner, by_use_.insert(by_use_.end(), digest)};
}

uint64_t ContentStore::bytes_of(const std::string& owner) const {
  const auto found = owned_.find(owner);
  return found == owned_.end() ? 0 : found->second;
}

void ContentStore::forget(const std::string& digest) {
  const auto found = entries_.find(digest);
  if (found == entries_.end()) return;
  bytes_ -= counted(found->second.bytes);
  owned_[found->second.owner] -= counted(found->second.bytes);
  by_use_.erase(found->second.use);
  entries_.erase(found);
  std::error_code ignored;
  fs::remove(path_of(digest), ignored);
  fs::remove(owner_path_of(digest), ignored);
}

void ContentStore::shrink(const std::string& owner, const std::function<bool()>& is_over) {
  if (!is_over()) return;
  // Asked for only now, when something has to go: it is a query to the database.
  const Pinned stay = pinned();
  for (auto it = by_use_.begin(); it != by_use_.end() && is_over();) {
    // Forgetting takes the entry out of the list under the iterator.
    // A copy of it too, for the entry goes.
    const std::string digest = *it++;
    if (!owner.empty() && entries_.at(digest).owner != owner) continue;
    const auto needed = stay.find(digest);
    if (needed == stay.end())
      forget(digest);
    else if (!owner.empty() && !needed->second.contains(owner))
      give(digest, *needed->second.begin());
  }
}

void ContentStore::give(const std::string& digest, const std::string& owner) {
  Entry& entry = entries_.at(digest);
  owned_[entry.owner] -= counted(entry.bytes);
  owned_[owner] += counted(entry.bytes);
  entry.owner = owner;
  write_file(owner_path_of(digest), owner);
}

void ContentStore::make_room(uint64_t bytes) {
  // Of all owners' together, whoever's goes: the least recently used.
  const auto is_over = [&] { return bytes_ + bytes > settings_.limit_bytes; };
  shrink("", is_over);
  if (is_over()) fail("no room: of {} bytes {} are in use", settings_.limit_bytes, bytes_);
}

ContentStore::Pinned ContentStore::pinned() const { return settings_.pinned ? settings_.pinned() : Pinned(); }

uint64_t ContentStore::spare_of(const std::string& owner) const {
  const Pinned stay = pinned();
  const auto is_needed = [&](const std::string& digest) {
    const auto found = stay.find(digest);
    return found != stay.end() && found->second.contains(owner);
  };
  uint64_t spare = 0;
  for (const auto& [digest, entry] : entries_)
    // What an upload may push out of its owner's share, but only does when it is kept: see keep().
    if (entry.owner == owner && !is_needed(digest)) spare += counted(entry.bytes);
  return spare;
}

std::string ContentStore::read(const std::string& digest, uint64_t offset, size_t length) const {
  std::ifstream file(path_of(digest), std::ios::binary);
  std::string bytes(length, '\0');
  if (!file.seekg(static_cast<std::streamoff>(offset))) return "";
  file.read(bytes.data(), static_cast<std::streamsize>(length));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

std::optional<uint64_t> ContentStore::find(const std::string& digest) {
  const auto found = entries_.find(digest);
  if (found == entries_.end()) return std::nullopt;
  // Somebody has tidied up: who asks sends it again.
  if (std::error_code unknown; !fs::exists(path_of(digest), unknown)) {
    forget(digest);
    return std::nullopt;
  }
  by_use_.splice(by_use_.end(), by_use_, found->second.use);
  std::error_code ignored;  // the next store is told by the file's time
  if (settings_.lasting) fs::last_write_time(path_of(digest), fs::file_time_type::clock::now(), ignored);
  return found->second.bytes;
}

ContentStore::Incoming::Incoming(ContentStore& store, Owner owner)
    : store_(store), owner_(std::move(owner)), path_(store.path_of_incoming()) {
  file_.open(path_, std::ios::binary);
  if (!file_) fail("cannot write {}", path_);
}

ContentStore::Incoming::~Incoming() {
  // Of one that was kept nothing is left to give back.
  store_.bytes_ -= counted_;
  store_.owned_[owner_.name] -= counted_;
  file_.close();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void ContentStore::Incoming::add(std::string_view bytes) {
  // Piece by piece: a length that a client announces is its word alone.
  const uint64_t more = store_.counted(bytes_ + bytes.size()) - counted_;
  require_share(more);
  store_.make_room(more);
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file_) fail("no room: cannot write all of it");
  sum_.add(bytes);
  bytes_ += bytes.size();
  // Counted while it comes: uploads at the same time share what room there is.
  counted_ += more;
  store_.bytes_ += more;
  store_.owned_[owner_.name] += more;
}

void ContentStore::Incoming::require_share(uint64_t more) {
  const uint64_t held = store_.bytes_of(owner_.name) + more;
  if (owner_.name.empty() || held <= owner_.limit_bytes) return;
  // Once an upload, as it asks the database which jobs are open; keep() asks anew.
  if (!spare_) spare_ = store_.spare_of(owner_.name);
  const uint64_t needed = held - std::min(held, *spare_);
  if (needed > owner_.limit_bytes)
    throw ShareFull(
        fmt::format("the models of {} may have {:.1f} MiB, of which unfinished jobs and uploads need {:.1f}: "
                    "no room for more",
                    owner_.name, static_cast<double>(owner_.limit_bytes) / (1 << 20),
                    static_cast<double>(needed - more) / (1 << 20)));
}

const std::string& ContentStore::Incoming::digest() {
  if (digest_.empty()) digest_ = sum_.digest();
  return digest_;
}

void ContentStore::Incoming::sync() {
  file_.close();
  if (!file_) fail("no room: cannot write all of it");
  sync_to_disk(path_);
  synced_ = true;
}

void ContentStore::Incoming::keep() {
  // A job that names the model rests on it: it must not be gone after a power failure.
  CHECK(synced_, "{} is kept before it is on the disk", path_);
  // Two uploads of one model: the second one's bytes are given back by the destructor.
  if (store_.find(digest())) return;
  spare_.reset();  // jobs may have begun since
  require_share(0);
  if (!owner_.name.empty())
    store_.shrink(owner_.name, [&] { return store_.bytes_of(owner_.name) > owner_.limit_bytes; });
  std::error_code error;
  // Before the blob has its name: a blob without an owner would count for nobody, an owner
  // without a blob is removed.
  if (!owner_.name.empty()) write_file(store_.owner_path_of(digest()), owner_.name);
  // In one step: under a digest a blob is whole for whoever opens it.
  fs::rename(path_, store_.path_of(digest()), error);
  if (error) fail("cannot write {}: {}", store_.path_of(digest()), error.message());
  store_.enter(digest(), bytes_, owner_.name);
  counted_ = 0;
  sync_to_disk(store_.settings_.folder);  // where the name is
}

}  // namespace lathe::tracker
