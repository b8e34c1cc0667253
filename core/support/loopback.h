#pragma once

#include <string_view>

namespace lathe {

/// Whether `host` can only be this machine: localhost, 127.x.y.z in digits (127.example.com is a name, and
/// may be anybody's address), ::1 or [::1]. No name is looked up.
bool is_loopback(std::string_view host);

}  // namespace lathe
