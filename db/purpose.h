// What a trial is for, as two columns of its row: `purpose`, whose values were fixed before some told, and
// `tells`.
#pragma once

#include <string_view>

#include "db/database.h"
#include "db/records.h"

namespace lathe::db {

inline std::string_view purpose_text(Purpose purpose) {
  return purpose == Purpose::kSearch ? "search" : "confirm";
}

/// From the next two columns.
inline Purpose read_purpose(Query& row) {
  const bool confirms = row.text() == "confirm", tells = row.boolean();
  return !confirms ? Purpose::kSearch : tells ? Purpose::kTell : Purpose::kConfirm;
}

}  // namespace lathe::db
