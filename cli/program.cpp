// What `tune` and `lathe-runner` have in common: the command is found and run, and exceptions become exit
// codes.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/command.h"
#include "cli/messages.h"
#include "cli/overview.h"
#include "cli/terminal.h"
#include "core/support/descriptors.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/printable.h"
#include "core/support/service_error.h"
#include "core/support/unfit.h"
#include "db/database_error.h"

namespace lathe::cli {
namespace {

int refuse(ExitCode code, std::string_view message) {
  // Some hold a whole program, which is worth reading; names that fill the screen are not.
  constexpr size_t kMost = 256 << 10;
  put_on_stderr(fmt::format("{} {}\n", colored("error:", Color::kRed, STDERR_FILENO),
                            printable(shortened(message, kMost))));
  return code;
}

/// Data that did not arrive is no success.
int flush_stdout(int code) {
  // Most of it is still in the buffer: a full disk shows here.
  if (fflush(stdout) == 0) return code;
  const std::system_error lost(errno, std::generic_category(), "cannot write to stdout");
  if (code == kSuccess) throw lost;
  // A regression is one all the same.
  return refuse(static_cast<ExitCode>(code), lost.what());
}

/// fmt calls whatever it prints to a file.
std::string text_of(const std::system_error& error) {
  return ferror(stdout) ? "cannot write to stdout: " + error.code().message() : error.what();
}

}  // namespace

std::span<const Command> commands() { return program().commands; }

const Command& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    if (!command.name.empty()) names.emplace_back(command.name);
  }
  std::string hint = did_you_mean(name, names);
  fail("unknown command `{}`{}", name, hint.empty() ? fmt::format("; see {} --help", program().name) : hint);
}

std::string full_name(const Command& command) {
  return command.name.empty() ? std::string(program().name)
                              : fmt::format("{} {}", program().name, command.name);
}

bool has_help_command() {
  return std::any_of(commands().begin(), commands().end(),
                     [](const Command& command) { return command.name == "help"; });
}

std::string help_command_of(const Command& command) {
  return command.name.empty() && has_help_command() ? fmt::format("{0} help {0}", program().name)
                                                    : full_name(command) + " --help";
}

std::vector<Flag> flags_of(const Command& command) {
  Flags flags(command, {}, Flags::Purpose::kDeclare);
  command.run(flags);
  return flags.table();
}

int run_command(const std::vector<std::string>& arguments) {
  std::string first = arguments.empty() ? "--help" : arguments[0];
  if (first == "--help" || first == "-h") {
    print_overview();
    return kSuccess;
  }
  if (first == "--version") first = "version";
  const bool named = !first.starts_with('-');
  const Command& command = find_command(named ? first : "");
  require_descriptors(kCommandDescriptors);
  Flags flags(command, {arguments.begin() + (named ? 1 : 0), arguments.end()});
  return command.run(flags);
}

int exit_code_of(const std::function<int()>& body) {
  // A limit on the size of files (ulimit -f) is a full disk like any other: whoever writes is told so by
  // errno.
  std::signal(SIGXFSZ, SIG_IGN);
  // From the special to the general: Unfit, DiskFullError and ServiceError are Errors. What is none of these
  // is a bug of ours and aborts, with a core file for whoever looks.
  try {
    return flush_stdout(body());
  } catch (const Unfit& error) {
    return refuse(kUnfit, error.what());
  } catch (const db::DiskFullError& error) {
    return refuse(kUnfit, error.what());
  } catch (const ServiceError& error) {
    return refuse(kService, error.what());
  } catch (const Error& error) {
    return refuse(kBadInput, error.what());
  } catch (const std::system_error& error) {  // of std::filesystem, and of stdout
    return refuse(says_full(error.code().value()) ? kUnfit : kBadInput, text_of(error));
  } catch (const nlohmann::json::exception& error) {  // a file's name that is no UTF-8, in --json or in a job
    return refuse(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return refuse(kUnfit, "out of memory");
  }
}

}  // namespace lathe::cli
