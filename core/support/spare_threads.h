// Whether this process may start threads.
#pragma once

namespace lathe {

/// For whoever makes sockets: throws Unfit where fewer threads can be started now than a tracker or a worker
/// has of its own and ZeroMQ's, which would end the process.
void require_threads();

}  // namespace lathe
