#include "core/support/host_name.h"

#include <sys/utsname.h>

namespace lathe {

std::string host_name() {
  utsname system{};
  return uname(&system) == 0 && *system.nodename ? system.nodename : "localhost";
}

}  // namespace lathe
