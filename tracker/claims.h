// Who works on a database: a tracker on all of it, or processes on jobs of their own.
#pragma once

#include <cstdint>
#include <string>

namespace lathe::tracker {

/// Locks of the file DATABASE-claims, byte by byte, which end with the process however it ends (open file
/// description locks, fcntl(2)). Two that acknowledge results of one job would each believe to have recorded
/// what the other did.
class Claims {
 public:
  /// Throws Error when the file cannot be made.
  explicit Claims(const std::string& database);
  ~Claims();
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  /// All jobs, those to come too. Throws Error when any is another's.
  void claim_all();
  /// To make new jobs. Throws Error when all are another's.
  void claim_new();
  /// Throws Error when it is another's.
  void claim_job(uint64_t job);

 private:
  bool lock(short kind, int64_t start, int64_t length);

  std::string database_;
  int file_ = -1;
};

}  // namespace lathe::tracker
