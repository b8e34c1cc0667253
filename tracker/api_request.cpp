#include "tracker/api_request.h"

#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/loopback.h"

namespace lathe::tracker {

using http::Request;
using http::Response;
using nlohmann::json;

Response json_response(const json& value, int status) {
  return {.status = status, .body = json_line(value) + "\n"};
}

Response refusal(const Refused& refused) {
  Response response = json_response({{"error", refused.text}}, refused.status);
  response.headers = refused.headers;
  return response;
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  // Not stoll(), which takes blanks before a number and what follows it, and minds the locale.
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

int64_t number(const Request& request, const std::string& key, int64_t otherwise, int64_t least,
               int64_t most) {
  const auto found = request.query.find(key);
  if (found == request.query.end()) return otherwise;
  const std::optional<int64_t> value = whole_number(found->second);
  if (!value || *value < least || *value > most)
    throw Refused{
        400, fmt::format("{}={}: must be a number from {} to {}", key, found->second, least, most), {}};
  return *value;
}

std::string word(const Request& request, const std::string& key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

namespace {

/// Of Host: NAME[:PORT] (RFC 9110, 7.2), where an IPv6 address stands in brackets for the sake of its colons.
std::string_view name_in(std::string_view host) {
  return host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.rfind(':'));
}

}  // namespace

void require_own_page(const Request& request) {
  // DNS rebinding: a page of evil.com whose name has come to mean 127.0.0.1 is of our origin to its browser,
  // but names evil.com. What is no browser may leave Host out.
  if (!request.host.empty() && !is_loopback(name_in(request.host)))
    throw Refused{403,
                  fmt::format("this service is for its own machine, and not called {}; for others it needs "
                              "--principals",
                              request.host),
                  {}};
  // Cross-site requests: a form or a fetch() of another page reaches us, and the browser says whose it is.
  if (!request.origin.empty() && request.origin != "http://" + request.host &&
      request.origin != "https://" + request.host)
    throw Refused{403, fmt::format("a page of {} may not ask here", request.origin), {}};
  // A script or a picture of another page: a GET without an Origin, of which browsers say this much
  // (W3C Fetch Metadata).
  if (!request.fetch_site.empty() && request.fetch_site != "same-origin" && request.fetch_site != "none")
    throw Refused{403, "a page of another site may not ask here", {}};
}

}  // namespace lathe::tracker
