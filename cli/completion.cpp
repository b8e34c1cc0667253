// Completions of three shells, each as a script that asks nothing of `tune` at the prompt: what may be typed
// is known when it is written.
#include "cli/completion.h"

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/configuration.h"
#include "cli/shell.h"
#include "core/models/zoo.h"
#include "core/support/text.h"

namespace lathe::cli {
namespace {

/// What may stand where a flag's value or an argument does.
struct Offer {
  std::vector<std::string> words;
  bool files = false, folders = false;
};

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (!command.name.empty()) names.emplace_back(command.name);
  return names;
}

Offer offer_of(const Flag& flag) {
  if (flag.value_name == "MODEL") {
    Offer models{.files = true};
    for (const models::Model& model : models::zoo()) models.words.emplace_back(model.name);
    return models;
  }
  if (flag.value_name == "COMMAND") return {.words = command_names()};
  if (flag.value_name == "DIR") return {.folders = true};
  if (flag.value_name.find("FILE") != std::string::npos || flag.value_name == "TEXT") return {.files = true};
  return {.words = flag.choices()};
}

// ---- bash

std::string bash_offer(const Offer& offer) {
  std::string text;
  if (!offer.words.empty()) text += fmt::format(" words={}", quoted(join_text(offer.words, " ")));
  if (offer.files) text += " paths=-f";
  if (offer.folders) text += " paths=-d";
  return text.empty() ? " :" : text;
}

std::string bash_command(const Command& command) {
  std::vector<std::string> names;
  std::string values, positional;
  for (const Flag& flag : flags_of(command)) {
    if (flag.is_positional()) {
      positional += bash_offer(offer_of(flag));
      continue;
    }
    names.push_back(flag.name);
    if (flag.kind != Flag::Kind::kSwitch)
      values += fmt::format("        {}) takes=1{} ;;\n", flag.name, bash_offer(offer_of(flag)));
  }
  return fmt::format(
      "    {})\n      flags={}\n      case $flag in\n{}        *){} ;;\n      esac\n      ;;\n",
      quoted(std::string(command.name)), quoted(join_text(names, " ")), values,
      positional.empty() ? " :" : positional);
}

constexpr const char* kBashHead = R"(# bash completion of tune, made by `tune completion bash`
_tune() {
  local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} command='' flags='' words='' paths='' takes=''
  # bash takes --flag=value apart at the equals sign
  if [[ $current == = ]]; then
    current=''
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  fi
  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]] && command=${COMP_WORDS[1]}
)";

constexpr const char* kBashTail = R"(  COMPREPLY=()
  if [[ -z $takes && $current == -* ]]; then
    words=$flags paths=''
  elif [[ -z $takes && $COMP_CWORD -eq 1 ]]; then
    words=$commands paths=''
  fi
  local reply
  while IFS= read -r reply; do COMPREPLY+=("$reply"); done < <(
    compgen -W "$words" -- "$current"
    [[ -n $paths ]] && compgen "$paths" -- "$current")
  [[ -n $paths ]] && compopt -o filenames 2>/dev/null
  return 0
}
complete -F _tune tune
)";

// ---- zsh

/// Inside the brackets of a specification.
std::string zsh_help(const std::string& help) {
  std::string text;
  for (char c : help) {
    // They part a specification into its fields.
    if (c == '[' || c == ']' || c == ':' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

std::string zsh_action(const Offer& offer) {
  std::vector<std::string> actions;
  if (!offer.words.empty()) actions.push_back(fmt::format("compadd -- {}", join_text(offer.words, " ")));
  if (offer.files) actions.emplace_back("_files");
  if (offer.folders) actions.emplace_back("_files -/");
  return actions.empty() ? " " : fmt::format("{{ {} }}", join_text(actions, "; "));
}

std::string zsh_command(const Command& command) {
  // -S: behind -- there are no flags.
  std::string text = fmt::format("    {})\n      _arguments -S", quoted(std::string(command.name)));
  for (const Flag& flag : flags_of(command)) {
    const bool many = flag.kind == Flag::Kind::kTexts;
    std::string spec;
    if (flag.is_positional())
      spec = fmt::format("{}:{}:{}", many ? "*" : "", zsh_help(flag.name), zsh_action(offer_of(flag)));
    else if (flag.kind == Flag::Kind::kSwitch)
      spec = fmt::format("{}[{}]", flag.name, zsh_help(flag.help));
    else
      spec = fmt::format("{}{}=[{}]:{}:{}", many ? "*" : "", flag.name, zsh_help(flag.help),
                         zsh_help(flag.value_name), zsh_action(offer_of(flag)));
    text += " \\\n        " + quoted(spec);
  }
  return text + "\n      ;;\n";
}

// ---- fish

std::string fish_offer(const Offer& offer) {
  std::string text = offer.files || offer.folders ? " -F" : " -f";
  if (!offer.words.empty()) text += " -a " + quoted(join_text(offer.words, " "));
  return text;
}

std::string fish_command(const Command& command) {
  std::string text;
  const std::string condition = quoted(fmt::format("test \"$(__tune_command)\" = \"{}\"", command.name));
  for (const Flag& flag : flags_of(command)) {
    if (flag.is_positional()) {
      text += fmt::format("complete -c tune -n {}{} -d {}\n", condition, fish_offer(offer_of(flag)),
                          quoted(flag.help));
      continue;
    }
    const bool is_switch = flag.kind == Flag::Kind::kSwitch;
    text += fmt::format("complete -c tune -n {} -l {}{} -d {}\n", condition, flag.key(),
                        is_switch ? "" : " -r" + fish_offer(offer_of(flag)), quoted(flag.help));
  }
  return text;
}

}  // namespace

std::string bash_completion() {
  std::string text = kBashHead;
  text += fmt::format("  local commands={}\n  case $command in\n", quoted(join_text(command_names(), " ")));
  for (const Command& command : commands()) text += bash_command(command);
  return text + "  esac\n" + kBashTail;
}

std::string zsh_completion() {
  std::string text = "#compdef tune\n# zsh completion of tune, made by `tune completion zsh`\n_tune() {\n";
  text += "  local command=''\n  local -a commands=(\n";
  for (const Command& command : commands())
    if (!command.name.empty())
      text += fmt::format("    {}\n", quoted(fmt::format("{}:{}", command.name, command.summary)));
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    _describe command commands\n    return\n  "
      "fi\n"
      "  if [[ $words[2] != -* ]]; then\n    command=$words[2]\n    shift words\n    (( CURRENT-- ))\n  fi\n"
      "  case $command in\n";
  for (const Command& command : commands()) text += zsh_command(command);
  return text + "  esac\n}\n_tune \"$@\"\n";
}

std::string fish_completion() {
  std::string text =
      "# fish completion of tune, made by `tune completion fish`\n"
      "function __tune_command\n"
      "  set -l words (commandline -opc)\n"
      "  if test (count $words) -gt 1; and not string match -q -- '-*' $words[2]\n"
      "    echo $words[2]\n"
      "  end\n"
      "end\n"
      "complete -c tune -f\n";
  for (const Command& command : commands())
    if (!command.name.empty())
      text += fmt::format("complete -c tune -n 'test (count (commandline -opc)) -eq 1' -a {} -d {}\n",
                          command.name, quoted(std::string(command.summary)));
  for (const Command& command : commands()) text += fish_command(command);
  return text;
}

}  // namespace lathe::cli
