// Manual pages in roff's man macros (man(7)), made of what the flags themselves say.
#include "cli/manual.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/commands/commands.h"
#include "cli/variables.h"
#include "core/support/text.h"

namespace lathe::cli {
namespace {

/// Text that roff takes for nothing else.
std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      // As a minus, which can be copied into a shell: a bare one is set as a hyphen (groff_char(7)).
      result += "\\-";
    else
      result += c;
  }
  // At the beginning of a line both would be requests.
  if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
  return result;
}

/// In lines of 80 bytes at most where its words allow, each ending with `line_end`.
std::string filled(std::string_view text, const char* line_end = "\n") {
  std::string result, line;
  for (const std::string& word : split_text(text, ' ')) {
    const std::string next = escaped(word);
    if (!line.empty() && line.size() + 1 + next.size() > 76) {
      result += line + line_end;
      line.clear();
    }
    line += (line.empty() ? "" : " ") + next;
  }
  return result + line + "\n";
}

/// "TAG" and what it means.
std::string item(const std::string& tag, std::string_view text) {
  return fmt::format(".TP\n{}\n{}", tag, filled(text));
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", escaped(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", escaped(text)); }

std::string flag_item(const Flag& flag) {
  std::string tag = flag.is_positional() ? italic(flag.name) : bold(flag.name);
  if (!flag.value_name.empty() && flag.value_name != flag.name) tag += " " + italic(flag.value_name);
  return item(tag, flag.description());
}

std::string flags_of_kind(const std::vector<Flag>& flags, bool positional, const char* heading) {
  std::string text;
  for (const Flag& flag : flags)
    if (flag.is_positional() == positional) text += flag_item(flag);
  return text.empty() ? "" : fmt::format(".SH {}\n{}", heading, text);
}

std::string examples(const Command& command) {
  std::string text = ".SH EXAMPLES\n.EX\n";
  for (std::string_view example : command.examples) text += filled(example, " \\\n");
  return text + ".EE\n";
}

std::string command_list() {
  std::string text = ".SH COMMANDS\n";
  for (const Command& command : commands())
    if (!command.name.empty())
      text += item(fmt::format("\\fBtune\\-{}\\fR(1)", escaped(command.name)), command.summary);
  return text;
}

std::string shared_sections() {
  std::string text =
      ".SH CONFIGURATION\n"
      "A flag that the command line does not give is taken from the environment,\n"
      "then from\n"
      ".I lathe.toml\nof the working folder, then from the user's, then it has its default.\n"
      "In a file the key\n.B threads\nbelow\n.B [bench]\nis for\n.B tune bench\nalone; before all sections "
      "it is for\n"
      "every command that has the flag. The main job's section is\n.BR [tune] .\n"
      "See\n.BR tune\\-config (1).\n"
      ".SH ENVIRONMENT\n";
  text += item("\\fBLATHE_\\fIFLAG\\fR", "sets the flag: LATHE_MAX_RELATIVE_ERROR is --max-relative-error");
  for (const Variable& variable : kVariables)
    if (!variable.for_developers) text += item(bold(variable.name), variable.help);
  text += ".SH FILES\n";
  text += item(italic("lathe.toml"), "configuration of the working folder");
  text += item(italic("$XDG_CONFIG_HOME/lathe/lathe.toml"),
               "of the user; ~/.config where the variable is not set");
  text += item(italic("$XDG_DATA_HOME/lathe"),
               "the tuning database; ~/.local/share where the variable is not set");
  return text;
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitCodeRow& row : kExitCodes)
    text += item(fmt::format("{}", static_cast<int>(row.code)), row.meaning);
  return text;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

std::string page_name(const Command& command) {
  return command.name.empty() ? "tune" : fmt::format("tune-{}", command.name);
}

std::string manual_page(const Command& command) {
  const std::vector<Flag> flags = flags_of(command);
  std::string text = fmt::format(".TH {} 1 \"{}\" \"lathe {}\" \"User Commands\"\n",
                                 upper(escaped(page_name(command))), revision_date(), version());
  text += fmt::format(".SH NAME\n{} \\-\n{}", escaped(page_name(command)), filled(command.summary));
  text += fmt::format(".SH SYNOPSIS\n{}\n{}", bold(full_name(command)), filled(command.arguments));
  text += flags_of_kind(flags, true, "ARGUMENTS");
  text += flags_of_kind(flags, false, "OPTIONS");
  if (command.name.empty()) text += command_list() + shared_sections();
  text += exit_status();
  text += examples(command);
  text += ".SH SEE ALSO\n";
  text += command.name.empty() ? ".BR tune\\-help (1)\n" : ".BR tune (1)\n";
  return text;
}

}  // namespace lathe::cli
