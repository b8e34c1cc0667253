// SHA-256 of texts and files, and of what others call so.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// SHA-256 of `bytes` as 64 hexadecimal digits. The digest of workloads, artifacts and messages.
std::string sha256(std::string_view bytes);

/// The same of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::string_view bytes);
  /// Of all that was added. REQUIRES: not asked before.
  std::string digest();

 private:
  void* state_;
};

/// Of the file's bytes, as sha256 of a text; the file may be larger than memory. Throws Error
/// "cannot read PATH: reason".
std::string file_digest(const std::string& path);

/// Whether the text is 64 hexadecimal digits, as digests are written here. A name that may become a file's.
bool is_digest(std::string_view text);

}  // namespace lathe
