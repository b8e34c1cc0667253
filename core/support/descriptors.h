// How many files and sockets this process may have open.
#pragma once

namespace lathe {

inline constexpr unsigned kServiceDescriptors = 128;
/// Of a command that opens some files: with fewer it could not even remove what it has begun.
inline constexpr unsigned kCommandDescriptors = 32;

/// Takes up to 1024 descriptors where the system lets it. Throws Unfit where it may have fewer than `least`:
/// those of a tracker or a worker, for ZeroMQ would end the process.
void require_descriptors(unsigned least = kServiceDescriptors);

/// All that the system lets it have.
void take_all_descriptors();

}  // namespace lathe
