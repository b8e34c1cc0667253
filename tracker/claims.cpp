#include "tracker/claims.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/support/error.h"

namespace lathe::tracker {

// A file beside the database, never the database itself: SQLite's own locks are on that, and by POSIX any
// close() of it in this process would drop them.
Claims::Claims(const std::string& database) : database_(database) {
  const std::string path = database + "-claims";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) fail("{}: cannot open: {}", path, strerror(errno));
}

Claims::~Claims() { close(file_); }

bool Claims::lock(short kind, int64_t start, int64_t length) {
  struct flock wanted {};
  wanted.l_type = kind;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = start;
  wanted.l_len = length;
  // Of the open file, not of the process: two claims within one process exclude each other too, and no other
  // descriptor's close() ends them.
  if (fcntl(file_, F_OFD_SETLK, &wanted) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  fail("{}-claims: cannot lock: {}", database_, strerror(errno));
}

// Byte 0 stands for making jobs, byte N for job N. They need not exist to be locked: the file stays empty.

void Claims::claim_all() {
  if (!lock(F_WRLCK, 0, 0)) fail("{} is in use: a tracker serves it, or `tune` runs a job of it", database_);
}

void Claims::claim_new() {
  // Shared: several may make jobs side by side, but not beside a tracker, which has all bytes.
  if (!lock(F_RDLCK, 0, 1))
    fail("{} is served by a tracker: stop that one, or tune with another --db", database_);
}

void Claims::claim_job(uint64_t job) {
  if (!lock(F_WRLCK, static_cast<int64_t>(job), 1))
    fail("another process works on job {} of {}", job, database_);
}

}  // namespace lathe::tracker
