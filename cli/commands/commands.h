// The commands' functions, one a file of this folder. Each declares its flags, parses, and returns an
// ExitCode.
#pragma once

#include <string_view>

#include "cli/flags.h"

namespace lathe::cli {

int bench_command(Flags& flags);
int cancel_command(Flags& flags);
int compile_command(Flags& flags);
int completion_command(Flags& flags);
int config_command(Flags& flags);
int db_command(Flags& flags);
int device_command(Flags& flags);
int doctor_command(Flags& flags);
int drain_command(Flags& flags);
int eval_command(Flags& flags);
int export_command(Flags& flags);
int fetch_command(Flags& flags);
int gate_command(Flags& flags);
int help_command(Flags& flags);
int jobs_command(Flags& flags);
int keygen_command(Flags& flags);
int man_command(Flags& flags);
int opt_command(Flags& flags);
int pause_command(Flags& flags);
int quantize_command(Flags& flags);
int query_command(Flags& flags);
int resume_command(Flags& flags);
int retune_command(Flags& flags);
int run_model_command(Flags& flags);
int submit_command(Flags& flags);
int timeline_command(Flags& flags);
int token_command(Flags& flags);
int tracker_command(Flags& flags);
int trust_command(Flags& flags);
int tune_command(Flags& flags);
int version_command(Flags& flags);
int watch_command(Flags& flags);
int worker_command(Flags& flags);

/// As "0.1.0".
std::string_view version();
/// Of git, that this program was built from, and its day as 2026-11-23; "" where git told none.
std::string_view revision();
std::string_view revision_date();

}  // namespace lathe::cli
