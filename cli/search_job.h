// A searcher: the process in which a tracker has one job's model read, searched and built.
#pragma once

#include <sys/types.h>

namespace lathe::cli {

/// The main function of `tune internal-search PID`, no command for people: `tracker` is the process that
/// started it, descriptor 3 the link to that (tracker/search_link.h). Returns an ExitCode; stderr says why it
/// is not 0.
int internal_search_main(pid_t tracker);

}  // namespace lathe::cli
