// A fresh folder that vanishes with its owner.
#pragma once

#include <cstdint>
#include <string>

#include "core/support/unfinished.h"

namespace lathe {

class TemporaryFolder {
 public:
  /// Under the system's temporary folder ($TMPDIR), for this user alone. Throws Error when it cannot be made.
  TemporaryFolder();

  const std::string& path() const { return folder_.path(); }
  /// The path of a file in it.
  std::string operator/(const std::string& name) const { return path() + "/" + name; }

 private:
  Unfinished folder_;
};

/// Why nothing of that size can be written there now; "" where it can.
std::string why_no_room(uint64_t bytes);

}  // namespace lathe
