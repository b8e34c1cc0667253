#include "core/runtime/cpu.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <sys/utsname.h>

namespace lathe::runtime {
namespace {

struct Feature {
  std::string_view name;  // of /proc/cpuinfo
  bool (*present)();
};

#if defined(__x86_64__)
// The CPU is asked, not /proc/cpuinfo, which an emulator passes through from its host.
#define FEATURE(name, gcc)                                \
  Feature {                                               \
    name, [] { return __builtin_cpu_supports(gcc) != 0; } \
  }
const Feature kFeatures[] = {
    FEATURE("pni", "sse3"),
    FEATURE("ssse3", "ssse3"),
    FEATURE("sse4_1", "sse4.1"),
    FEATURE("sse4_2", "sse4.2"),
    FEATURE("sse4a", "sse4a"),
    FEATURE("popcnt", "popcnt"),
    FEATURE("abm", "lzcnt"),
    FEATURE("movbe", "movbe"),
    FEATURE("bmi1", "bmi"),
    FEATURE("bmi2", "bmi2"),
    FEATURE("tbm", "tbm"),
    FEATURE("gfni", "gfni"),
    FEATURE("f16c", "f16c"),
    FEATURE("fma", "fma"),
    FEATURE("fma4", "fma4"),
    FEATURE("xop", "xop"),
    FEATURE("avx", "avx"),
    FEATURE("avx2", "avx2"),
    FEATURE("avx_vnni", "avxvnni"),
    FEATURE("avx512f", "avx512f"),
    FEATURE("avx512vl", "avx512vl"),
    FEATURE("avx512bw", "avx512bw"),
    FEATURE("avx512dq", "avx512dq"),
    FEATURE("avx512cd", "avx512cd"),
    FEATURE("avx512ifma", "avx512ifma"),
    FEATURE("avx512vbmi", "avx512vbmi"),
    FEATURE("avx512_vbmi2", "avx512vbmi2"),
    FEATURE("avx512_vnni", "avx512vnni"),
    FEATURE("avx512_bitalg", "avx512bitalg"),
    FEATURE("avx512_vpopcntdq", "avx512vpopcntdq"),
    FEATURE("avx512_bf16", "avx512bf16"),
    FEATURE("avx512_fp16", "avx512fp16"),
};

/// 48 characters that three leaves of CPUID hold; "" where it has none.
std::string brand() {
  std::array<unsigned, 12> words{};
  unsigned* next = words.data();
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf, next += 4)
    if (!__get_cpuid(leaf, &next[0], &next[1], &next[2], &next[3])) return "";
  std::array<char, sizeof words + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof words);
  std::string name(text.data());
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}
#elif defined(__aarch64__)
#define FEATURE(name, which, bit)                        \
  Feature {                                              \
    name, [] { return (getauxval(which) & (bit)) != 0; } \
  }
const Feature kFeatures[] = {
    FEATURE("asimd", AT_HWCAP, HWCAP_ASIMD),     FEATURE("fphp", AT_HWCAP, HWCAP_FPHP),
    FEATURE("asimdhp", AT_HWCAP, HWCAP_ASIMDHP), FEATURE("asimdrdm", AT_HWCAP, HWCAP_ASIMDRDM),
    FEATURE("asimddp", AT_HWCAP, HWCAP_ASIMDDP), FEATURE("asimdfhm", AT_HWCAP, HWCAP_ASIMDFHM),
    FEATURE("atomics", AT_HWCAP, HWCAP_ATOMICS), FEATURE("fcma", AT_HWCAP, HWCAP_FCMA),
    FEATURE("sve", AT_HWCAP, HWCAP_SVE),         FEATURE("sve2", AT_HWCAP2, HWCAP2_SVE2),
    FEATURE("i8mm", AT_HWCAP2, HWCAP2_I8MM),     FEATURE("bf16", AT_HWCAP2, HWCAP2_BF16),
};

std::string brand() { return ""; }
#else
const std::array<Feature, 0> kFeatures;

std::string brand() { return ""; }
#endif
#undef FEATURE

bool has(const std::string& name) {
  return std::any_of(std::begin(kFeatures), std::end(kFeatures),
                     [&](const Feature& feature) { return feature.name == name && feature.present(); });
}

}  // namespace

std::string cpu_name() {
  if (std::string name = brand(); !name.empty()) return name;
  utsname system{};
  return uname(&system) == 0 ? system.machine : "of an unknown kind";
}

std::vector<std::string> missing_cpu_features(std::span<const std::string> wanted) {
  std::vector<std::string> missing;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(missing),
               [](const std::string& name) { return !has(name); });
  return missing;
}

}  // namespace lathe::runtime
