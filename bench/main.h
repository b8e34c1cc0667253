// What the main functions of benchmarks share: bad flags and errors are one message and exit code 2.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

namespace lathe::bench {

/// Thrown to end the program.
struct Exit {
  int code;
};

/// Throws Exit when the flags are bad, or ask for help.
inline void parse_flags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    throw Exit{app.exit(e) == 0 ? 0 : 2};
  }
}

/// The exit code of `run`, of an Exit that it throws, or 2 with the message of another exception.
inline int guarded_main(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 2;
  }
}

}  // namespace lathe::bench
