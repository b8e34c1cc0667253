// An error that a caller may want to tell apart: the service, not what was given to us.
#pragma once

#include "core/support/error.h"

namespace lathe {

/// What a tracker refuses, or that it cannot be reached: exit code 5.
class ServiceError : public Error {
 public:
  using Error::Error;
};

}  // namespace lathe
