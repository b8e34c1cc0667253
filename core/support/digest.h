// SHA-256 of files, and of what others call so.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// Of the file's bytes, as sha256 (text.h) of a text; the file may be larger than memory. Throws Error
/// "cannot read PATH: reason".
std::string file_digest(const std::string& path);

/// Whether the text is 64 hexadecimal digits, as digests are written here. A name that may become a file's.
bool is_digest(std::string_view text);

}  // namespace lathe
