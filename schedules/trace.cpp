#include "schedules/trace.h"

#include <nlohmann/json.hpp>

#include "core/support/error.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

namespace {
template <char kLetter>
std::string name_of(Handle<kLetter> handle) {
  return fmt::format("{}{}", kLetter, handle.id);
}
std::string name_of(int64_t number) { return fmt::format("{}", number); }
std::string name_of(const std::string& text) { return fmt::format("\"{}\"", text); }

template <typename Variant>
std::string names_of(const std::vector<Variant>& values) {
  std::string text;
  for (const Variant& value : values) {
    if (!text.empty()) text += ", ";
    text += std::visit([](const auto& v) { return name_of(v); }, value);
  }
  return text;
}
}  // namespace

/// "v2 = sample_categorical(4, 8, 16) -> 1": results, primitive, inputs, and the decision where it samples.
std::string to_text(const Step& step) {
  std::string text = step.outputs.empty() ? "" : names_of(step.outputs) + " = ";
  text += fmt::format("{}({})", step.primitive->name, names_of(step.inputs));
  for (size_t i = 0; i < step.decision.size(); ++i)
    text += fmt::format("{}{}", i ? ", " : " -> ", step.decision[i]);
  return text;
}

std::string to_text(const Trace& trace) {
  std::string text;
  for (const Step& step : trace.steps) text += to_text(step) + "\n";
  return text;
}

namespace {
using nlohmann::json;

/// Numbers are numbers, handles are strings such as "b0", and texts are arrays of one string, so that they
/// cannot be taken for handles.
json input_json(const Input& input) {
  if (const int64_t* number = std::get_if<int64_t>(&input)) return *number;
  if (const std::string* text = std::get_if<std::string>(&input)) return json::array({*text});
  return std::visit([](const auto& v) { return name_of(v); }, input);
}

/// Reads handles, checking that an earlier step gave them.
class TraceReader {
 public:
  Trace read(const json& steps) {
    Trace trace;
    for (const json& each : steps) trace.steps.push_back(read_step(each));
    return trace;
  }

 private:
  Step read_step(const json& each) {
    Step step{&primitive(each.at("do").get<std::string>()), {}, {}, {}};
    for (const json& input : each.at("in")) step.inputs.push_back(read_input(input));
    // Whether a decision fits is what replaying finds out: here its primitive is not asked.
    if (each.contains("decision")) step.decision = each.at("decision").get<std::vector<int64_t>>();
    if (each.contains("out"))
      for (const json& name : each.at("out")) step.outputs.push_back(read_output(name.get<std::string>()));
    return step;
  }

  Input read_input(const json& input) {
    if (input.is_number_integer()) return input.get<int64_t>();
    if (input.is_array()) return input.at(0).get<std::string>();
    auto name = input.get<std::string>();
    int id = number_in(name);
    if (id >= static_cast<int>(kinds_.size()) || kinds_[static_cast<size_t>(id)] != name[0])
      fail("trace: `{}` is used before a step gives it", name);
    return std::visit([](const auto& handle) -> Input { return handle; }, handle(name[0], id));
  }

  Output read_output(const std::string& name) {
    int id = number_in(name);
    // Results are numbered in order: the number says nothing that the place does not, and is only checked.
    if (id != static_cast<int>(kinds_.size()))
      fail("trace: result `{}` must be number {}", name, kinds_.size());
    Output output = handle(name[0], id);
    kinds_.push_back(name[0]);
    return output;
  }

  static Output handle(char letter, int id) {
    if (letter == 'b') return BlockHandle{id};
    if (letter == 'l') return LoopHandle{id};
    if (letter == 'v') return IntHandle{id};
    fail("trace: `{}{}` is no handle; they begin with b, l or v", letter, id);
  }

  static int number_in(const std::string& name) {
    // At most seven digits: std::stoi cannot overflow.
    bool digits = name.size() >= 2 && name.size() <= 8;
    for (size_t i = 1; i < name.size(); ++i) digits &= name[i] >= '0' && name[i] <= '9';
    if (!digits) fail("trace: `{}` is no handle", name);
    return std::stoi(name.substr(1));
  }

  // By id, the letter of each handle that a step has given so far.
  std::vector<char> kinds_;
};
}  // namespace

std::string to_json(const Trace& trace) {
  json steps = json::array();
  for (const Step& step : trace.steps) {
    json each{{"do", step.primitive->name}, {"in", json::array()}};
    for (const Input& input : step.inputs) each["in"].push_back(input_json(input));
    if (!step.decision.empty()) each["decision"] = step.decision;
    for (const Output& output : step.outputs)
      each["out"].push_back(std::visit([](const auto& v) { return name_of(v); }, output));
    steps.push_back(std::move(each));
  }
  return json{{"steps", std::move(steps)}}.dump();
}

/// Texts come from databases and files of others: whatever is no trace ends as an Error.
Trace parse_trace(std::string_view text) {
  try {
    return TraceReader().read(json::parse(text).at("steps"));
  } catch (const json::exception& e) {
    fail("trace: malformed JSON: {}", e.what());
  }
}

std::optional<Trace> readable_trace(std::string_view text) {
  try {
    return parse_trace(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace lathe::schedule
