// A host's name may stand for several addresses, of which ZeroMQ tries one alone: where that is one of IPv6
// and the tracker, or the way to it, has none, it would be tried for ever.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::wire {

inline constexpr std::string_view kTcp = "tcp://";
/// HOST of tcp://HOST:PORT.
std::string host_of(const std::string& endpoint);

/// Of tcp://NAME:PORT the endpoints of all its addresses, in the system's order (RFC 6724). Of one that has
/// no other, or that nobody knows now, the endpoint itself: ZeroMQ asks again by itself.
std::vector<std::string> addresses_of(const std::string& endpoint);

}  // namespace lathe::wire
