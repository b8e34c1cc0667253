// How much a candidate is sampled, by what its times are for.
#pragma once

#include "db/records.h"
#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// A search wants many candidates told apart roughly, and nothing of those that have lost; winners differ by
/// percents.
inline constexpr uint32_t kMostSamples = 1000;  // that anybody asks for of a candidate

wire::Evaluation evaluation_for(db::Purpose purpose);

}  // namespace lathe::tracker
