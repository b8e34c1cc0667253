// How many files and sockets this process may have open.
#pragma once

namespace lathe {

/// For whoever makes sockets and processes: takes up to 1024 descriptors where the system lets it. Throws
/// Unfit where it may have less than a tracker or a worker needs: ZeroMQ would end the process.
void require_descriptors();

/// All that the system lets it have.
void take_all_descriptors();

}  // namespace lathe
