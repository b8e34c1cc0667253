// Manual pages, from the table of commands and the flags that they declare.
#pragma once

#include <string>

#include "cli/command.h"

namespace lathe::cli {

/// "tune", "tune-bench"
std::string page_name(const Command& command);

/// The page, section 1, for groff's and mandoc's man macros. The page of `tune` itself has what all commands
/// share: configuration, environment, files, exit codes.
std::string manual_page(const Command& command);

}  // namespace lathe::cli
