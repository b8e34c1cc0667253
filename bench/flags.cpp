#include "bench/flags.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

namespace lathe::bench {
namespace {
/// Thrown to end the program.
struct Exit {
  int code;
};
}  // namespace

struct Flags::Parser {
  CLI::App app;
};

Flags::Flags(const char* description) : parser_(std::make_unique<Parser>()) {
  parser_->app.description(description);
  parser_->app.option_defaults()->always_capture_default();
}
Flags::~Flags() = default;

void Flags::add(const char* name, std::string& value, const char* help, Need need) {
  parser_->app.add_option(name, value, help)->required(need == Need::kRequired);
}

void Flags::add(const char* name, std::vector<std::string>& values, const char* help, Need need) {
  parser_->app.add_option(name, values, help)->required(need == Need::kRequired)->delimiter(',');
}

void Flags::add(const char* name, bool& value, const char* help) { parser_->app.add_flag(name, value, help); }

template <typename Number>
void Flags::add(const char* name, Number& value, std::type_identity_t<Number> least,
                std::type_identity_t<Number> most, const char* help) {
  parser_->app.add_option(name, value, help)->check(CLI::Range(least, most));
}
template void Flags::add(const char*, int&, int, int, const char*);
template void Flags::add(const char*, int64_t&, int64_t, int64_t, const char*);
template void Flags::add(const char*, uint32_t&, uint32_t, uint32_t, const char*);
template void Flags::add(const char*, uint64_t&, uint64_t, uint64_t, const char*);
template void Flags::add(const char*, double&, double, double, const char*);

void Flags::add(const char* name, std::vector<int64_t>& values, int64_t least, int64_t most,
                const char* help) {
  parser_->app.add_option(name, values, help)->delimiter(',')->check(CLI::Range(least, most));
}

void Flags::add_duration(const char* name, double& seconds, double least, double most, const char* help) {
  const std::map<std::string, double> units{{"s", 1}, {"m", 60}, {"h", 3600}};
  parser_->app.add_option(name, seconds, help)
      ->transform(CLI::AsNumberWithUnit(units))
      ->check(CLI::Range(least, most));
}

void Flags::hide(const char* name) { parser_->app.get_option(name)->group(""); }

void Flags::parse(int argc, char** argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    throw Exit{parser_->app.exit(e) == 0 ? 0 : 2};
  }
}

int guarded_main(int (*run)(int argc, char** argv), int argc, char** argv) {
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
