// What `tune --help` prints.
#pragma once

namespace lathe::cli {

void print_overview();

}  // namespace lathe::cli
