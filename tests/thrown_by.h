#pragma once

#include <string>

#include "core/support/error.h"

namespace lathe {

/// The message of the Error that `action` ends with, or "no error".
std::string thrown_by(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace lathe
