// How much a candidate is sampled, by what its times are for.
#pragma once

#include "db/records.h"
#include "tracker/wire.h"

namespace lathe::tracker {

/// A search wants many candidates told apart roughly, and nothing of those that have lost; winners differ by
/// percents.
wire::Evaluation evaluation_for(db::Purpose purpose);

}  // namespace lathe::tracker
