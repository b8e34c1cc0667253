// Whole files, read and written.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lathe {

/// The whole file, of 2 GiB at most; what is none, a device or a pipe, up to 256 MiB. Throws Error "cannot
/// read PATH: reason".
std::string read_file(const std::string& path);

/// Writes the file through a temporary beside it and a rename, so that it is old or new, never between.
/// Throws Error "cannot write PATH: reason", leaving nothing behind; Unfit where the disk is full. What is no
/// file, a device or a pipe, is written to.
void write_file(const std::string& path, std::string_view bytes);

/// The same with the bytes in pieces, written one after another.
void write_file(const std::string& path, std::span<const std::string_view> pieces);

/// Writes all of `bytes` to an open descriptor, however many writes that takes; whether it could, else errno
/// says why. Calls nothing but write(2): a process that is confined may use it.
bool write_all(int descriptor, std::string_view bytes);

}  // namespace lathe
