#include "db/file_system.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/support/error.h"
#include "core/support/working_folder.h"

namespace lathe::db {
namespace {

/// By statfs(2): linux/magic.h has most of the numbers, the sources of each file system the others.
struct NetworkKind {
  uint32_t magic;
  std::string_view name;
};
constexpr NetworkKind kNetworkKinds[] = {
    {0x6969, "NFS"},          {0xff534d42, "SMB"},    {0xfe534d42, "SMB"},    {0x517b, "SMB"},
    {0x01021997, "9P"},       {0x5346414f, "AFS"},    {0x6b414653, "AFS"},    {0x73757245, "Coda"},
    {0x00c36400, "Ceph"},     {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x19830326, "BeeGFS"},
    {0x01161970, "GFS2"},     {0x7461636f, "OCFS2"},  {0x786f4256, "vboxsf"}, {0xaad7aaea, "PanFS"},
    {0x20030528, "OrangeFS"},
};

constexpr uint32_t kFuse = 0x65735546;
/// In user space local ones are common too: containers without root have theirs there.
constexpr std::string_view kNetworkFuses[] = {
    "sshfs",   "rclone",    "s3fs",       "goofys",  "gcsfuse",   "mount-s3",  "blobfuse", "blobfuse2",
    "ceph",    "ceph-fuse", "glusterfs",  "juicefs", "seaweedfs", "curlftpfs", "davfs",    "davfs2",
    "moosefs", "lizardfs",  "gvfsd-fuse", "beegfs",  "afp",       "smbnetfs",
};

/// The type in the line of /proc/self/mountinfo (proc(5)) whose device is that of `folder`.
std::string mounted_as(const std::filesystem::path& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) return "";
  // By device number and not by path: a path may lead through links and bind mounts.
  const std::string device = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, of, word, type;
    words >> id >> parent >> of;
    // Optional fields, as many as there are.
    while (words >> word && word != "-") {
    }
    if (of == device && words >> type) return type;
  }
  return "";
}

}  // namespace

std::string_view network_file_system_name(uint32_t magic, std::string_view mounted_as) {
  for (const NetworkKind& kind : kNetworkKinds)
    if (kind.magic == magic) return kind.name;
  // FUSE says no more of itself than that: what is behind it is in the table of mounts.
  // "fuse" and "fuseblk" alone (NTFS, exFAT) are local disks.
  if (magic != kFuse || !mounted_as.starts_with("fuse.")) return "";
  const std::string_view type = mounted_as.substr(5);
  for (std::string_view network : kNetworkFuses)
    if (type == network) return network;
  return "";
}

std::string_view network_file_system(const std::string& path) {
  // The folder, for the file may not be there yet.
  const std::filesystem::path folder = std::filesystem::path(absolute_path(path)).parent_path();
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return "";
  // The type is a long, and some of the numbers have the highest of 32 bits.
  const auto magic = static_cast<uint32_t>(info.f_type);
  return network_file_system_name(magic, magic == kFuse ? mounted_as(folder) : "");
}

bool is_sqlite_file(const std::string& path) {
  std::error_code ignored;
  // A pipe would be waited for.
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  constexpr std::string_view kMagic("SQLite format 3\0", 16);  // sqlite.org/fileformat.html
  std::string start(kMagic.size(), ' ');
  std::ifstream(path).read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == kMagic;
}

}  // namespace lathe::db
