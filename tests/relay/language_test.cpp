// The tables of right and wrong programs: language/right.txt, language/wrong.txt.
#include <gtest/gtest.h>

#include <set>

#include "core/relay/interpret/interpreter.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "tests/thrown_by.h"

namespace lathe::relay {
namespace {

struct Case {
  std::string title, program, type, value, message;
};

std::vector<Case> read_cases(const char* file) {
  std::vector<Case> cases;
  for (const std::string& line : split_text(read_file(std::string(LATHE_LANGUAGE) + "/" + file), '\n')) {
    auto is = [&](const char* mark) { return line.starts_with(mark); };
    if (is("== ")) cases.push_back({.title = line.substr(3)});
    if (is("== ") || is("# ") || cases.empty()) continue;
    std::string* into = is("-> ")   ? &cases.back().type
                        : is("=> ") ? &cases.back().value
                        : is("!! ") ? &cases.back().message
                                    : nullptr;
    if (into)
      *into = line.substr(3);
    else
      cases.back().program += line + "\n";
  }
  return cases;
}

TEST(Language, RightPrograms) {
  std::vector<Case> cases = read_cases("right.txt");
  EXPECT_GT(cases.size(), 40u);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.title);
    try {
      Module module = parse_module(each.program, "t");
      Module again = parse_module(print(module));
      EXPECT_TRUE(structural_equal(module, again, /*map_free=*/true)) << print(module);
      Interpreter interpreter(module);
      const Ref<Function>& main = interpreter.module()->functions.at("main");
      EXPECT_EQ(print(main->body->checked_type), each.type);
      EXPECT_TRUE(infer_type(interpreter.module()) == interpreter.module());
      // With all types written out it is the same program.
      std::string typed = print(interpreter.module());
      EXPECT_EQ(print(infer_type(parse_module(typed))), typed);
      if (each.value.empty()) continue;
      Value value = interpreter.call("main");
      EXPECT_EQ(print(value), each.value);
      EXPECT_TRUE(has_type(value, main->result_type, *interpreter.module()));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

/// docs/language.md: a line for each production and rule, whose last columns name programs here.
TEST(Language, EachProductionAndRuleHasPrograms) {
  std::set<std::string> right, wrong;
  for (const Case& each : read_cases("right.txt")) right.insert(each.title);
  for (const Case& each : read_cases("wrong.txt")) wrong.insert(each.title);
  int lines = 0;
  auto check = [](const std::string& cell, const std::set<std::string>& titles, const std::string& line) {
    int named = 0;
    for (const std::string& each : split_text(cell, ';')) {
      const size_t first = each.find_first_not_of(' '), last = each.find_last_not_of(' ');
      const std::string title = first == std::string::npos ? "" : each.substr(first, last + 1 - first);
      EXPECT_TRUE(titles.count(title)) << "`" << title << "` of " << line;
      ++named;
    }
    EXPECT_GT(named, 0) << line;
  };
  for (const std::string& line : split_text(read_file(LATHE_LANGUAGE_PAGE), '\n')) {
    std::vector<std::string> cells = split_text(line, '|');
    // `| production | written | right | wrong |`, where rules have no spelling; an empty cell at each end.
    if (cells.size() < 5 || line.starts_with("|---") || line.find("| right |") != std::string::npos) continue;
    check(cells[cells.size() - 3], right, line);
    check(cells[cells.size() - 2], wrong, line);
    ++lines;
  }
  EXPECT_GT(lines, 60);
}

std::string message_of(const std::string& program) {
  return thrown_by([&] { Interpreter(parse_module(program, "t")).call("main"); });
}

TEST(Language, WrongPrograms) {
  std::vector<Case> cases = read_cases("wrong.txt");
  EXPECT_GT(cases.size(), 40u);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.title);
    std::string message = message_of(each.program);
    // The parser shows the line, too.
    EXPECT_EQ(message.substr(0, message.find('\n')), "t:" + each.message);
  }
}

}  // namespace
}  // namespace lathe::relay
