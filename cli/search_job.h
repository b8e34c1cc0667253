// A searcher: the process in which a tracker has one job's model read, searched and built.
#pragma once

namespace lathe::cli {

/// The main function of `tune internal-search`, no command for people: descriptor 3 is the link to the
/// tracker (tracker/search_link.h). Returns an ExitCode; stderr says why it is not 0.
int internal_search_main();

}  // namespace lathe::cli
