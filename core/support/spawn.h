// Starting programs as children of this process.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace lathe {

/// What a child has that differs from its parent. Whatever confines it, it does so itself, once it runs: none
/// of our memory is in it by then.
struct ChildProgram {
  std::vector<std::string> command;  // arguments after the program, which $PATH says unless it has a slash
  /// Opened for it, by the number that it has them under: 0 to be read, others written anew, for this user
  /// alone.
  std::map<int, std::string> files;
  /// Of ours, or of `files`, by the number that it has them under.
  std::map<int, int> descriptors;
  /// It has these and 0, 1 and 2 alone, and no variable that could be a secret: what is confined could tell
  /// it. Else it has all of ours that are not close-on-exec, and our environment.
  bool nothing_else = false;
  bool own_group = false;    // a terminal's interrupt does not reach it
  bool all_signals = false;  // none is blocked, whatever we block
};

/// Whether PATH has a program of this name.
bool has_program(const std::string& name);

/// Its process id, for the caller to wait for. Throws Error when it cannot be started.
pid_t spawn(const ChildProgram& child);

}  // namespace lathe
