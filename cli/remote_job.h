// A tuning job that a tracker does for us: submitted, followed, fetched.
#pragma once

#include <string>

#include "cli/service_client.h"
#include "cli/tune_job.h"

namespace lathe::cli {

/// Uploads the job's model if it is a file that the service has not got, and submits the job. Returns its id.
/// `key`: said twice, it is submitted once; "": a new one.
std::string submit_job(const TuneJob& job, const std::string& key, ServiceClient& service);

/// Shows what happens to the job until it has ended, or until Ctrl-C, which leaves it as it is. Throws Error
/// when it failed or was cancelled. Returns kSuccess or kInterrupted.
int watch_job(const std::string& id, bool quiet, const ServicePlace& place, ServiceClient& service);

/// Writes the job's module into `folder`; "": lathe-out/MODEL. Returns its path.
std::string fetch_module(const std::string& id, const std::string& folder, ServiceClient& service);

/// All of it: what `tune --tracker http://...` does. Returns an ExitCode.
int run_tune_job_there(const TuneJob& job, const ServicePlace& place);

/// The same of a job that was paused there, from where it stands; of `job` what a resumed one is asked anew
/// counts.
int resume_tune_job_there(const std::string& id, const TuneJob& job, const ServicePlace& place);

}  // namespace lathe::cli
