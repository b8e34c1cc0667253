#include "cli/messages.h"

namespace lathe::cli {
namespace {
bool quiet_now = false;
}

void set_quiet(bool quiet) { quiet_now = quiet; }
bool is_quiet() { return quiet_now; }

}  // namespace lathe::cli
