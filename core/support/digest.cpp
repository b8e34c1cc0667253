#include "core/support/digest.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/support/error.h"

namespace lathe {

std::string sha256(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.digest();
}

std::string file_digest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read {}: {}", path, strerror(errno));
  Sha256 sum;
  // In pieces: files may be larger than memory.
  std::vector<char> chunk(1 << 20);
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    sum.add({chunk.data(), static_cast<size_t>(file.gcount())});
  }
  if (file.bad()) fail("cannot read {}: {}", path, strerror(errno));
  return sum.digest();
}

bool is_digest(std::string_view text) {
  // Lower case alone: a digest is a name of a file and a key, and has one spelling.
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace lathe
