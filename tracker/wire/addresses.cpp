#include "tracker/wire/addresses.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

namespace lathe::wire {

std::string host_of(const std::string& endpoint) {
  const std::string address = endpoint.substr(kTcp.size());
  return address.substr(0, address.rfind(':'));
}

std::vector<std::string> addresses_of(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon < kTcp.size()) return {endpoint};
  const std::string host = host_of(endpoint), port = endpoint.substr(colon);
  const addrinfo wanted{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return {endpoint};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    char text[NI_MAXHOST] = "";
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    const bool is_v6 = one->ai_family == AF_INET6;
    std::string address = fmt::format("{}{}{}{}{}", kTcp, is_v6 ? "[" : "", text, is_v6 ? "]" : "", port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
      addresses.push_back(std::move(address));
  }
  if (addresses.size() < 2) return {endpoint};
  return addresses;
}

}  // namespace lathe::wire
