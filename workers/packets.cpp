#include "workers/packets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/support/error.h"
#include "core/support/file.h"

namespace lathe::worker {

void send_packet(int socket, const void* packet, size_t size, const std::vector<int>& descriptors) {
  CHECK(descriptors.size() <= kMaxDescriptors, "{} descriptors in a packet", descriptors.size());
  iovec part{const_cast<void*>(packet), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr message{.msg_iov = &part, .msg_iovlen = 1};
  if (!descriptors.empty()) {
    const size_t bytes = sizeof(int) * descriptors.size();
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  }
  ssize_t sent;
  // Whoever has gone is an error to be told of, not a signal.
  do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(size)) fail("sandbox: cannot send a task: {}", strerror(errno));
}

bool receive_packet(int socket, void* packet, size_t size, std::vector<int>& descriptors) {
  iovec part{packet, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  // Room for as many descriptors as send_packet() sends; what else came the kernel closes (MSG_CTRUNC).
  msghdr message{.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t received;
  // A child that is started meanwhile must not inherit them.
  do received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received <= 0) return false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = descriptors.size();
    descriptors.resize(before + count);
    memcpy(descriptors.data() + before, CMSG_DATA(header), count * sizeof(int));
  }
  // The descriptors are the caller's to close, also where this is false.
  return received == static_cast<ssize_t>(size);
}

int memory_file(const char* name, std::string_view bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) fail("cannot make the memory file {}: {}", name, strerror(errno));
  if (!write_all(fd, bytes)) {
    const int error = errno;
    close(fd);
    fail("cannot write {} bytes to the memory file {}: {}", bytes.size(), name, strerror(error));
  }
  return fd;
}

void seal(int memory_file) {
  // The last seal is for the seals: nobody takes them off again.
  if (fcntl(memory_file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    fail("cannot seal a memory file: {}", strerror(errno));
}

std::string read_descriptor(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail("cannot read a memory file: {}", strerror(errno));
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    // By offset: the file's own is shared with whoever wrote it, and stands at its end.
    const ssize_t got = pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace lathe::worker
