// The commands' functions, one a file of this folder. Each declares its flags, parses, and returns an
// ExitCode.
#pragma once

#include "cli/flags.h"

namespace lathe::cli {

int bench_command(Flags& flags);
int run_model_command(Flags& flags);
int version_command(Flags& flags);

}  // namespace lathe::cli
