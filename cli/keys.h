// Files with keys, so that no secret is ever on a command line.
#pragma once

#include <string>

#include "tracker/wire/socket.h"

namespace lathe::cli {

/// Throws Error when others may read the file.
void require_private(const std::string& path);
/// A new file that only its owner can read. Throws Error when it exists.
void save_secret(const std::string& path, const std::string& text);
/// The same for keys: the public key on the first line, the secret one on the second.
void save_keys(const std::string& path, const wire::KeyPair& keys);
/// Prints the other half of a secret that was just saved. The file is taken back when that fails: of what
/// nobody can be told it would be in the way of the next try.
void print_other_half(const std::string& path, const std::string& line);
/// Throws Error when the file is malformed, or others may read it.
wire::KeyPair load_keys(const std::string& path);

}  // namespace lathe::cli
