// A job of the service tests.
#pragma once

#include <string>

#include "tracker/farm_client.h"

namespace lathe::tracker::testing {

/// Submits the candidates of the job (once, however often it is called for the database) and waits until all
/// its trials have ended.
void run_job(FarmClient& farm, const std::string& database);

}  // namespace lathe::tracker::testing
