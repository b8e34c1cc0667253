#include "core/tir/target.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "core/support/error.h"
#include "core/support/text.h"
#include "core/tir/machine.h"

namespace lathe {
namespace {
/// The numbers of a target by their names in text.
struct NumberField {
  // Of these two pointers one is null.
  const char* name;
  int Target::*small;
  int64_t Target::*large;
};
constexpr NumberField kNumbers[] = {
    {"vector", &Target::vector_bits, nullptr}, {"registers", &Target::vector_registers, nullptr},
    {"cores", &Target::cores, nullptr},        {"l1", nullptr, &Target::l1_bytes},
    {"l2", nullptr, &Target::l2_bytes},        {"l3", nullptr, &Target::l3_bytes},
};
struct TextField {
  const char* name;
  std::string Target::*member;
};
constexpr TextField kTexts[] = {
    {"triple", &Target::triple}, {"mcpu", &Target::cpu}, {"mattr", &Target::features}};

std::vector<std::string> field_names() {
  std::vector<std::string> names;
  for (const TextField& f : kTexts) names.push_back(f.name);
  for (const NumberField& f : kNumbers) names.push_back(f.name);
  for (const MachineField& f : machine_fields()) names.push_back(f.name);
  return names;
}

int64_t parse_number(const std::string& name, const std::string& text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > (int64_t{1} << 40))
    fail("target: {}={} must be a whole number from 0 to 2^40", name, text);
  return value;
}

void set_field(Target& target, const std::string& name, const std::string& value) {
  for (const TextField& f : kTexts) {
    if (name != f.name) continue;
    target.*f.member = value;
    // Features are separated by `;` here, since `,` separates fields.
    // No feature of LLVM has a semicolon in its name.
    for (char& c : target.*f.member)
      if (c == ';') c = ',';
    return;
  }
  for (const NumberField& f : kNumbers) {
    if (name != f.name) continue;
    int64_t number = parse_number(name, value);
    if (f.large)
      target.*f.large = number;
    else if (number > 1 << 20)
      fail("target: {}={} is too large", name, number);
    else
      target.*f.small = static_cast<int>(number);
    return;
  }
  // Numbers of the machine (given_numbers) are no part of what code is generated for.
  if (!find_machine_field(name))
    fail("target: no property is called `{}`{}", name, did_you_mean(name, field_names()));
}
}  // namespace

// By the text, which keys the store: measured numbers of the machine have no say.
bool Target::operator==(const Target& other) const { return to_text(*this) == to_text(other); }

bool Target::converts_half() const { return vector_bits >= 256 || triple.starts_with("aarch64"); }

bool Target::broadcasts_operands() const { return vector_bits >= 512 || !triple.starts_with("x86_64"); }

std::string to_text(const Target& target) {
  std::vector<std::string> fields;
  for (const TextField& f : kTexts) {
    std::string value = target.*f.member;
    // The inverse of what set_field does.
    for (char& c : value)
      if (c == ',') c = ';';
    if (!value.empty()) fields.push_back(fmt::format("{}={}", f.name, value));
  }
  for (const NumberField& f : kNumbers)
    fields.push_back(fmt::format("{}={}", f.name, f.large ? target.*f.large : target.*f.small));
  return target.kind + ":" + join_text(fields, ",");
}

Target parse_target_text(const std::string& text) {
  size_t colon = text.find(':');
  Target target;
  target.kind = text.substr(0, colon);
  constexpr std::string_view kGpus[] = {"cuda", "hip", "metal", "opencl", "rocm", "vulkan"};
  if (std::find(std::begin(kGpus), std::end(kGpus), target.kind) != std::end(kGpus))
    fail("target: nothing compiles for GPUs (`{}`) yet; use cpu", target.kind);
  if (target.kind != "cpu") fail("target: `{}` is not a kind of device; use cpu", target.kind);
  if (colon == std::string::npos) return target;
  for (const std::string& field : split_text(std::string_view(text).substr(colon + 1), ',')) {
    size_t equals = field.find('=');
    if (equals == std::string::npos) fail("target: `{}` must be property=value", field);
    set_field(target, field.substr(0, equals), field.substr(equals + 1));
  }
  // What would be divided by later.
  if (target.vector_bits < 32 || target.vector_registers < 1 || target.cores < 1)
    fail("target: vector={} registers={} cores={}: must be at least 32, 1 and 1", target.vector_bits,
         target.vector_registers, target.cores);
  // Vectors are halved until they fit (tails, fewer lanes), and types are powers of two themselves.
  if (!std::has_single_bit(static_cast<uint64_t>(target.vector_bits)))
    fail("target: vector={}: must be a power of two", target.vector_bits);
  if (MachineNumbers given = given_numbers(text); !given.empty()) set_machine(target, {}, given);
  return target;
}

}  // namespace lathe
