// The builder: a trace replayed on a workload, lowered and compiled. This is the part of a worker that needs
// the compiler.
#pragma once

#include <string>
#include <string_view>

#include "workers/sandbox.h"

namespace lathe::worker {

/// The body of the build role: the request is a BuildJob, the reply a Reply with the artifact, or with
/// kInvalidTrace or kBuildFailed and why.
std::string build_body(std::string_view request, Child& child);

/// Makes the compiler ready to be forked: what it loads and computes once.
void warm_up_compiler();

/// The main function of `tune internal-sandbox ROLE`, what supervisors of builders and runners run.
int internal_sandbox_main(int argc, char** argv);

}  // namespace lathe::worker
