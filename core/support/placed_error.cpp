#include "core/support/placed_error.h"

namespace lathe {
namespace {

std::string with_place(const Span& span, const std::string& message) {
  if (span.line > 0) return fmt::format("{}:{}:{}: error: {}", span.source, span.line, span.column, message);
  return span.source.empty() ? message : fmt::format("{}: {}", span.source, message);
}

}  // namespace

PlacedError::PlacedError(Span span, std::string message)
    : Error(with_place(span, message)), span_(std::move(span)), message_(std::move(message)) {}

}  // namespace lathe
