// The system calls that a confined child may make (seccomp).
#pragma once

#include "workers/confine.h"

namespace lathe::worker {

/// Whether there is a list of calls for this architecture.
bool filters_calls();
/// Whether the system can hold a process to one: an emulator cannot.
bool has_seccomp();

/// From now on the calling process and all it becomes make no other calls than the list's; any other ends it
/// with SIGSYS. REQUIRES: no_new_privs. False, with errno, when the kernel refuses; true, and nothing
/// changes, where there is no list or no seccomp.
bool filter_calls(Confinement confinement);

}  // namespace lathe::worker
