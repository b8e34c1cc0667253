// Errors that know where in a text, or in an imported model, they are.
#pragma once

#include "core/support/error.h"

namespace lathe {

/// what() begins with the place: "file:line:column: error: ..." for text, "node: ..." for imported models,
/// whose spans have no lines.
class PlacedError : public Error {
 public:
  PlacedError(Span span, std::string message);
  const Span& span() const { return span_; }
  const std::string& message() const { return message_; }  // without the place

 private:
  Span span_;
  std::string message_;
};

}  // namespace lathe
