// Small text helpers that the standard library lacks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// Pieces of `text` between `separator`s; "" gives no pieces.
std::vector<std::string> split_text(std::string_view text, char separator);

/// The items joined with `separator`.
std::string join_text(const std::vector<std::string>& items, std::string_view separator);

/// The whole file, of 2 GiB at most; what is none, a device or a pipe, up to 256 MiB. Throws Error "cannot
/// read PATH: reason".
std::string read_file(const std::string& path);

/// Writes the file through a temporary beside it and a rename, so that it is old or new, never between.
/// Throws Error "cannot write PATH: reason", leaving nothing behind; Unfit where the disk is full. What is no
/// file, a device or a pipe, is written to.
void write_file(const std::string& path, std::string_view bytes);

/// The same with the bytes in pieces, written one after another.
void write_file(const std::string& path, std::span<const std::string_view> pieces);

}  // namespace lathe
