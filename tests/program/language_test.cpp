// Native code and the virtual machine against the interpreter: the table of right programs, and random ones.
// LATHE_PROGRAMS=FIRST-LAST runs other seeds than the test's own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/relay/interpret/interpreter.h"
#include "core/relay/text.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "tests/program/compiled.h"
#include "tests/relay/random_programs.h"
#include "tests/thrown_by.h"

namespace lathe::program {
namespace {

struct Case {
  std::string title, program, value, message;
};

std::vector<Case> programs_of(const std::string& file) {
  std::vector<Case> cases;
  for (const std::string& line : split_text(read_file(LATHE_LANGUAGE "/" + file), '\n')) {
    if (line.starts_with("== ")) cases.push_back({.title = line.substr(3)});
    if (line.starts_with("== ") || line.starts_with("# ") || line.starts_with("-> ") || cases.empty())
      continue;
    if (line.starts_with("!! "))
      cases.back().message = "t:" + line.substr(3);
    else if (line.starts_with("=> "))
      cases.back().value = line.substr(3);
    else
      cases.back().program += line + "\n";
  }
  return cases;
}

TEST(Programs, RunTheRightPrograms) {
  size_t run = 0;
  for (const Case& each : programs_of("right.txt")) {
    if (each.value.empty()) continue;
    SCOPED_TRACE(each.title);
    try {
      Compiled compiled(relay::parse_module(each.program, "t"));
      for (runtime::Machine* machine : {&compiled.machine(), &compiled.virtual_machine()})
        EXPECT_EQ(compiled.value(*machine), each.value) << runtime::program_text(compiled.program());
      ++run;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GT(run, 46u);
}

/// Whether a machine says what the interpreter says. What operators demand of sizes are equations of
/// dimensions in a plan, and conditions of numbers, which do not know whose they are.
bool says(const std::string& found, const std::string& expected) {
  const size_t place = found.find(": error: ");
  if (place == std::string::npos || found.substr(0, place) != expected.substr(0, place)) return false;
  const std::string what = found.substr(place + 9);
  return expected.starts_with(found) || what.starts_with("the model needs ") ||
         what.starts_with("a tensor of shape ") || what == "arange: start, stop and step make no range";
}

/// What the interpreter refuses when it runs the two machines refuse in the same words, though they may know
/// less: of a value that no clause matches its tag alone. What types refuse is not compiled.
TEST(Programs, RefuseTheWrongPrograms) {
  for (const Case& each : programs_of("wrong.txt")) {
    SCOPED_TRACE(each.title);
    std::unique_ptr<Compiled> compiled;
    const std::string refused =
        thrown_by([&] { compiled = std::make_unique<Compiled>(relay::parse_module(each.program, "t")); });
    EXPECT_EQ(compiled == nullptr, refused != "no error");
    if (!compiled) continue;
    for (runtime::Machine* machine : {&compiled->machine(), &compiled->virtual_machine()})
      EXPECT_TRUE(says(thrown_by([&] { compiled->value(*machine); }), each.message))
          << thrown_by([&] { compiled->value(*machine); }) << " in place of " << each.message;
  }
}

std::pair<uint64_t, uint64_t> seeds() {
  const char* given = std::getenv("LATHE_PROGRAMS");
  if (!given) return {1, 60};
  std::vector<std::string> parts = split_text(given, '-');
  return {std::stoull(parts.at(0)), std::stoull(parts.at(1))};
}

/// Its value, by one of the ways to run it; what a run leaves is a failure.
std::string value_by(const Compiled& compiled, runtime::Machine& machine) {
  const int64_t before = machine.heap().used_bytes();
  std::string found;
  try {
    found = compiled.value(machine);
  } catch (const Error& error) {
    found = std::string(error.what()).ends_with("no clause matches") ? "an error" : error.what();
  }
  EXPECT_EQ(machine.heap().used_bytes(), before) << "what a run leaves";
  return found;
}

TEST(Programs, AgreeWithTheInterpreterAtRandom) {
  auto [first, last] = seeds();
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(fmt::format("LATHE_PROGRAMS={0}-{0}", seed));
    relay::Module module = relay::random_program(seed);
    std::string expected, found, by_virtual_machine, code;
    try {
      expected = relay::print(relay::Interpreter(module).call("main"));
    } catch (const relay::RunError&) {
      expected = "an error";  // no clause matches
    }
    try {
      Compiled compiled(module);
      code = runtime::program_text(compiled.program());
      found = value_by(compiled, compiled.machine());
      by_virtual_machine = value_by(compiled, compiled.virtual_machine());
    } catch (const std::exception& error) {
      found = by_virtual_machine = error.what();
    }
    ASSERT_EQ(by_virtual_machine, expected) << relay::print(module) << code;
    ASSERT_EQ(found, expected) << "native code\n" << relay::print(module) << code;
  }
}

}  // namespace
}  // namespace lathe::program
