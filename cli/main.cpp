#include <fmt/core.h>

#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "core/support/error.h"

int main(int argc, char** argv) {
  using namespace lathe;
  cli::install_interrupt_handler();
  try {
    return cli::run_command(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return cli::kBadInput;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return cli::kUnfit;
  }
}
