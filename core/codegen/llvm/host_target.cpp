#include "core/codegen/host_target.h"

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>
#include <unistd.h>

#include <span>
#include <thread>

#include "core/codegen/llvm/machine.h"
#include "core/support/cpu.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "core/tir/machine.h"

namespace lathe::codegen {
namespace {
std::vector<std::string> known_cpus(const llvm::MCSubtargetInfo& info) {
  std::vector<std::string> names;
  for (const llvm::SubtargetSubTypeKV& cpu : info.getAllProcessorDescriptions()) names.push_back(cpu.Key);
  return names;
}

std::vector<std::string> known_features(const llvm::MCSubtargetInfo& info) {
  std::vector<std::string> names;
  for (const llvm::SubtargetFeatureKV& feature : info.getAllProcessorFeatures()) names.push_back(feature.Key);
  return names;
}

/// Linear: lists of some hundred names, asked a few times a process.
bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Checks names first: LLVM would print a warning on stderr and go on with a generic CPU.
std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const Target& target) {
  initialize_llvm();
  std::string error;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!llvm_target) fail("target: LLVM does not know the triple `{}`: {}", target.triple, error);
  // Of no CPU in particular: to look names up in.
  std::unique_ptr<llvm::MCSubtargetInfo> any(llvm_target->createMCSubtargetInfo(target.triple, "", ""));
  if (!target.cpu.empty() && !any->isCPUStringValid(target.cpu))
    fail("target: no CPU is called `{}`{}", target.cpu, did_you_mean(target.cpu, known_cpus(*any)));
  std::vector<std::string> features = known_features(*any);
  for (const std::string& feature : split_text(target.features, ',')) {
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-'))
      fail("target: `{}` in mattr must be +feature or -feature", feature);
    if (!contains(features, feature.substr(1)))
      fail("target: no feature is called `{}`{}", feature.substr(1),
           did_you_mean(feature.substr(1), features));
  }
  return std::unique_ptr<llvm::MCSubtargetInfo>(
      llvm_target->createMCSubtargetInfo(target.triple, target.cpu, target.features));
}

/// The vector registers that the CPU and features give.
void set_vectors(Target& target) {
  std::unique_ptr<llvm::MCSubtargetInfo> info = subtarget(target);
  auto has = [&](const char* feature) { return info->checkFeatures(feature); };
  // NEON: 32 registers of 128 bits. For other architectures it is a guess.
  if (!target.triple.starts_with("x86_64")) {
    target.vector_bits = 128;
    target.vector_registers = 32;
    return;
  }
  // Kernels pass and return numbers in these registers; without them LLVM emits other calls, or none for
  // ever.
  for (const char* needed : {"+64bit", "+sse2", "-soft-float"})
    if (!has(needed)) fail("target: code for x86_64 needs {}, which this one is without", needed);
  // avx512f alone has neither narrower vectors nor lanes of 8 and 16 bits.
  bool avx512 = has("+avx512f") && has("+avx512vl") && has("+avx512bw") && has("+avx512dq");
  target.vector_bits = avx512 ? 512 : has("+avx") ? 256 : 128;
  target.vector_registers = avx512 ? 32 : 16;
}

/// A feature as LLVM and as /proc/cpuinfo call it.
struct FeatureName {
  const char *llvm, *cpuinfo;
};
constexpr FeatureName kX86Features[] = {
    {"sse3", "pni"},
    {"ssse3", "ssse3"},
    {"sse4.1", "sse4_1"},
    {"sse4.2", "sse4_2"},
    {"sse4a", "sse4a"},
    {"popcnt", "popcnt"},
    {"lzcnt", "abm"},
    {"movbe", "movbe"},
    {"bmi", "bmi1"},
    {"bmi2", "bmi2"},
    {"tbm", "tbm"},
    {"gfni", "gfni"},
    {"f16c", "f16c"},
    {"fma", "fma"},
    {"fma4", "fma4"},
    {"xop", "xop"},
    {"avx", "avx"},
    {"avx2", "avx2"},
    {"avxvnni", "avx_vnni"},
    {"avx512f", "avx512f"},
    {"avx512vl", "avx512vl"},
    {"avx512bw", "avx512bw"},
    {"avx512dq", "avx512dq"},
    {"avx512cd", "avx512cd"},
    {"avx512ifma", "avx512ifma"},
    {"avx512vbmi", "avx512vbmi"},
    {"avx512vbmi2", "avx512_vbmi2"},
    {"avx512vnni", "avx512_vnni"},
    {"avx512bitalg", "avx512_bitalg"},
    {"avx512vpopcntdq", "avx512_vpopcntdq"},
    {"avx512bf16", "avx512_bf16"},
    {"avx512fp16", "avx512_fp16"},
    {"amx-tile", "amx_tile"},
    {"amx-bf16", "amx_bf16"},
    {"amx-int8", "amx_int8"},
};
constexpr FeatureName kAarch64Features[] = {
    {"neon", "asimd"},       {"fullfp16", "asimdhp"}, {"rdm", "asimdrdm"},   {"dotprod", "asimddp"},
    {"fp16fml", "asimdfhm"}, {"lse", "atomics"},      {"complxnum", "fcma"}, {"sve", "sve"},
    {"sve2", "sve2"},        {"i8mm", "i8mm"},        {"bf16", "bf16"},
};
constexpr FeatureName kRiscv64Features[] = {
    {"v", "v"}, {"zba", "zba"}, {"zbb", "zbb"}, {"zbs", "zbs"}, {"zfh", "zfh"}, {"zfhmin", "zfhmin"},
};

std::span<const FeatureName> feature_names(const Target& target) {
  if (target.triple.starts_with("x86_64")) return kX86Features;
  if (target.triple.starts_with("aarch64")) return kAarch64Features;
  if (target.triple.starts_with("riscv64")) return kRiscv64Features;
  return {};
}

/// Features that the CPU's name promises and this machine (a virtual one, say) withholds.
std::string withheld_features(const Target& host) {
  std::unique_ptr<llvm::MCSubtargetInfo> info = subtarget(host);
  std::vector<std::string> withheld;
  llvm::StringMap<bool> present = llvm::sys::getHostCPUFeatures();
  // LLVM asks the processor, and not whether the system lets this process use tile registers.
  for (const auto& [llvm, cpuinfo] : feature_names(host)) {
    const std::string name = cpuinfo;
    if (name.starts_with("amx_") && !missing_cpu_features(std::span(&name, 1)).empty()) present[llvm] = false;
  }
  for (const auto& feature : present)
    if (!feature.second && contains(known_features(*info), feature.first().str()) &&
        info->checkFeatures("+" + feature.first().str()))
      withheld.push_back("-" + feature.first().str());
  // The map has no order, and the target's text is a key.
  std::sort(withheld.begin(), withheld.end());
  return join_text(withheld, ",");
}

/// What the system does not tell (in a container, on other architectures) stays as the target has it.
void set_caches(Target& target) {
  auto read = [](int name, int64_t& bytes) {
    if (int64_t found = sysconf(name); found > 0) bytes = found;
  };
  read(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  read(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  read(_SC_LEVEL3_CACHE_SIZE, target.l3_bytes);
}

/// Whether the text gives the property, and not its default.
bool names_property(const std::string& text, const std::string& property) {
  return text.find(":" + property + "=") != std::string::npos ||
         text.find("," + property + "=") != std::string::npos;
}
}  // namespace

std::vector<std::string> cpu_features(const Target& target) {
  std::unique_ptr<llvm::MCSubtargetInfo> info = subtarget(target);
  std::vector<std::string> features;
  for (const auto& [llvm, cpuinfo] : feature_names(target))
    if (info->checkFeatures("+" + std::string(llvm))) features.emplace_back(cpuinfo);
  std::sort(features.begin(), features.end());
  return features;
}

Target host_target() {
  // Once: the machine does not change.
  static const Target host = [] {
    Target target;
    target.triple = llvm::sys::getProcessTriple();
    target.cpu = llvm::sys::getHostCPUName().str();
    target.features = withheld_features(target);
    set_vectors(target);
    set_caches(target);
    target.cores = std::max(1u, std::thread::hardware_concurrency());
    return target;
  }();
  return host;
}

/// A machine of `triple` about which nothing else is known; this one, if it is of its kind.
Target base_target(const std::string& triple) {
  Target base = host_target();
  if (triple.substr(0, triple.find('-')) != base.triple.substr(0, base.triple.find('-'))) base = Target();
  base.triple = triple;
  return base;
}

/// Of the first architecture that has such a CPU; the host's when none has.
std::string triple_with(const std::string& cpu) {
  const std::string host = host_target().triple;
  for (const std::string& triple : {host, std::string("aarch64-linux-gnu"), std::string("riscv64-linux-gnu"),
                                    std::string("x86_64-linux-gnu")}) {
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target) continue;
    std::unique_ptr<llvm::MCSubtargetInfo> any(target->createMCSubtargetInfo(triple, "", ""));
    if (any->isCPUStringValid(cpu)) return triple;
  }
  return host;
}

/// The features of this machine, which tell what its CPU lacks of its name's, but for those that are given: a
/// text that names no CPU says what is to be otherwise, and no more.
std::string overridden(const std::string& features, const std::string& given) {
  const std::vector<std::string> changed = split_text(given, ',');
  const auto name_of = [](std::string_view feature) { return feature.substr(!feature.empty()); };  // "-fma"
  std::vector<std::string> all;
  for (const std::string& feature : split_text(features, ','))
    if (std::none_of(changed.begin(), changed.end(),
                     [&](const std::string& other) { return name_of(other) == name_of(feature); }))
      all.push_back(feature);
  all.insert(all.end(), changed.begin(), changed.end());
  return join_text(all, ",");
}

Target resolve_target(const std::string& text) {
  Target given = parse_target_text(text), target = host_target();
  if (names_property(text, "triple"))
    target = base_target(given.triple);
  else if (names_property(text, "mcpu"))
    target = base_target(triple_with(given.cpu));
  if (names_property(text, "mcpu")) {
    target.cpu = given.cpu;
    // A name has all features of its CPU, also where this machine's has that name and lacks some (a virtual
    // one's): a text means the same on every machine.
    target.features.clear();
  }
  if (names_property(text, "mattr")) {
    const bool here = !names_property(text, "triple") && !names_property(text, "mcpu");
    target.features = here ? overridden(target.features, given.features) : given.features;
  }
  set_vectors(target);
  // After the CPU and its features, which imply one.
  if (names_property(text, "vector")) {
    target.vector_bits = given.vector_bits;
    if (given.vector_bits != 128 && given.vector_bits != 256 && given.vector_bits != 512)
      fail("target: vector={} must be 128, 256 or 512", given.vector_bits);
  }
  // Single numbers last: they override whatever the CPU implies.
  if (names_property(text, "registers")) target.vector_registers = given.vector_registers;
  if (names_property(text, "cores")) target.cores = given.cores;
  if (names_property(text, "l1")) target.l1_bytes = given.l1_bytes;
  if (names_property(text, "l2")) target.l2_bytes = given.l2_bytes;
  if (names_property(text, "l3")) target.l3_bytes = given.l3_bytes;
  if (MachineNumbers numbers = given_numbers(text); !numbers.empty()) set_machine(target, {}, numbers);
  return target;
}

}  // namespace lathe::codegen
