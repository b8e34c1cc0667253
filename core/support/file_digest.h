// The digest of a file that may be larger than memory.
#pragma once

#include <string>

namespace lathe {

/// SHA-256 of the file's bytes, as sha256 (text.h). Throws Error "cannot read PATH: reason".
std::string file_digest(const std::string& path);

}  // namespace lathe
