// What the opaque texts of the database mean, for records that come from elsewhere (db/pack.h).
#pragma once

#include <string>

#include "db/pack.h"

namespace lathe::tuner {

/// The row of a target of that text. Code for one target runs on another when triple, processor and features
/// are equal: cores and caches may differ. Throws Error for a text that names none.
db::Target target_row(const std::string& text);

/// Texts must be as this program writes them: targets canonical, workloads canonical programs. Work and
/// digests are computed from them; a trace is replayed.
db::Meaning record_meaning();

}  // namespace lathe::tuner
