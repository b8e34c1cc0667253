// The error of a machine rather than of its user.
#pragma once

#include "core/support/error.h"

namespace lathe {

/// What was given is right, and this machine cannot do it: exit code 4.
class Unfit : public Error {
 public:
  using Error::Error;
};

/// For want of memory or threads: another time it may have them.
class OutOfResources : public Unfit {
 public:
  using Unfit::Unfit;
};

}  // namespace lathe
