#include "db/job_names.h"

#include "core/support/error.h"

namespace lathe::db {

void require_telling(const std::string& beginning) {
  constexpr size_t kLeast = 4;
  if (!beginning.empty() && beginning.size() < kLeast)
    fail("`{}` may be the beginning of any job; give {} letters at least", beginning, kLeast);
}

void require_one(const std::string& beginning, size_t jobs) {
  if (jobs > 1) fail("several jobs begin with `{}`; give more of the name", beginning);
}

}  // namespace lathe::db
