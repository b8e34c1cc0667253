#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/search_job.h"
#include "workers/build.h"

int main(int argc, char** argv) {
  using namespace lathe;
  // Not a command for people: the supervisor of builds and measurements (workers/sandbox.h).
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return worker::internal_sandbox_main(argc, argv);
  cli::install_interrupt_handler();
  return cli::exit_code_of([&] {
    if (argc == 3 && std::string_view(argv[1]) == "internal-search")
      return cli::internal_search_main(atoi(argv[2]));
    return cli::run_command(std::vector<std::string>(argv + 1, argv + argc));
  });
}
