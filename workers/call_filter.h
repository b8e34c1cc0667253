// The system calls that a confined child may make (seccomp).
#pragma once

#include "workers/confine.h"

namespace lathe::worker {

/// Whether there is a list of calls for this architecture.
bool filters_calls();

/// From now on the calling process and all it becomes make no other calls than the list's; any other ends it
/// with SIGSYS. REQUIRES: no_new_privs. False, with errno, when the kernel refuses; true where there is no
/// list.
bool filter_calls(Confinement confinement);

}  // namespace lathe::worker
