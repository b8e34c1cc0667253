#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/search_job.h"
#include "cli/terminal.h"
#include "core/support/service_error.h"
#include "core/support/unfit.h"
#include "workers/build.h"

namespace lathe::cli {
namespace {

int refuse(ExitCode code, std::string_view message) {
  fmt::print(stderr, "{} {}\n", colored("error:", Color::kRed, STDERR_FILENO), message);
  return code;
}

/// Data that did not arrive is no success.
int flush_stdout(int code) {
  if (fflush(stdout) != 0 && code == kSuccess)
    throw std::system_error(errno, std::generic_category(), "cannot write to stdout");
  return code;
}

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  using namespace lathe;
  using cli::refuse;
  // Not a command for people: the supervisor of builds and measurements (workers/sandbox.h).
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return worker::internal_sandbox_main(argc, argv);
  cli::install_interrupt_handler();
  try {
    if (argc == 2 && std::string_view(argv[1]) == "internal-search") return cli::internal_search_main();
    return cli::flush_stdout(cli::run_command(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const Unfit& error) {
    return refuse(cli::kUnfit, error.what());
  } catch (const ServiceError& error) {
    return refuse(cli::kService, error.what());
  } catch (const Error& error) {
    return refuse(cli::kBadInput, error.what());
  } catch (const std::system_error& error) {  // of std::filesystem, and of a full stdout
    return refuse(cli::kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return refuse(cli::kUnfit, "out of memory");
  }
}
