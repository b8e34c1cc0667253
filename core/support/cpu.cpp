#include "core/support/cpu.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__riscv)
#include <sys/auxv.h>
#endif
#include <sys/utsname.h>

namespace lathe {
namespace {

#if defined(__x86_64__)
// The CPU is asked, not /proc/cpuinfo, which an emulator passes through from its host.
enum Register : uint8_t { kEax, kEbx, kEcx, kEdx };

/// Bits of XCR0 (Intel's manual, volume 1, 13.3): the registers that the system saves, without which
/// instructions fault all the same. SSE and AVX; with them masks, the upper halves of 16 registers, and 16
/// more; tiles with all of them.
constexpr uint32_t kNone = 0, kAvx = 0x06, kAvx512 = 0xe6, kTiles = 0x600e6;

struct Feature {
  std::string_view name;  // of /proc/cpuinfo
  uint32_t leaf, subleaf;
  Register in;
  int bit;
  uint32_t state = kNone;

  bool present() const;
};

constexpr uint32_t kExtended = 0x80000001;
constexpr Feature kFeatures[] = {
    {"pni", 1, 0, kEcx, 0},
    {"ssse3", 1, 0, kEcx, 9},
    {"fma", 1, 0, kEcx, 12, kAvx},
    {"sse4_1", 1, 0, kEcx, 19},
    {"sse4_2", 1, 0, kEcx, 20},
    {"movbe", 1, 0, kEcx, 22},
    {"popcnt", 1, 0, kEcx, 23},
    {"avx", 1, 0, kEcx, 28, kAvx},
    {"f16c", 1, 0, kEcx, 29, kAvx},
    {"bmi1", 7, 0, kEbx, 3},
    {"avx2", 7, 0, kEbx, 5, kAvx},
    {"bmi2", 7, 0, kEbx, 8},
    {"avx512f", 7, 0, kEbx, 16, kAvx512},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512},
    {"avx512_vbmi2", 7, 0, kEcx, 6, kAvx512},
    {"gfni", 7, 0, kEcx, 8},
    {"avx512_vnni", 7, 0, kEcx, 11, kAvx512},
    {"avx512_bitalg", 7, 0, kEcx, 12, kAvx512},
    {"avx512_vpopcntdq", 7, 0, kEcx, 14, kAvx512},
    {"amx_bf16", 7, 0, kEdx, 22, kTiles},
    {"avx512_fp16", 7, 0, kEdx, 23, kAvx512},
    {"amx_tile", 7, 0, kEdx, 24, kTiles},
    {"amx_int8", 7, 0, kEdx, 25, kTiles},
    {"avx_vnni", 7, 1, kEax, 4, kAvx},
    {"avx512_bf16", 7, 1, kEax, 5, kAvx512},
    {"abm", kExtended, 0, kEcx, 5},
    {"sse4a", kExtended, 0, kEcx, 6},
    {"xop", kExtended, 0, kEcx, 11, kAvx},
    {"fma4", kExtended, 0, kEcx, 16, kAvx},
    {"tbm", kExtended, 0, kEcx, 21},
};

// Asked anew each time: a module is checked once, when it is opened.
bool has_bit(uint32_t leaf, uint32_t subleaf, Register in, int bit) {
  std::array<uint32_t, 4> registers{};
  // Leaves that the CPU does not have hold nothing.
  return __get_cpuid_count(leaf, subleaf, &registers[kEax], &registers[kEbx], &registers[kEcx],
                           &registers[kEdx]) &&
         (registers[in] >> bit & 1);
}

/// XCR0; 0 on a system that does not say.
uint32_t saved_state() {
  constexpr int kOsxsave = 27;
  if (!has_bit(1, 0, kEcx, kOsxsave)) return 0;
  uint32_t low = 0, high = 0;
  // An instruction of its own, which only a CPU with OSXSAVE has.
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// Linux gives tile registers to processes that ask for them, and not to those whose stacks for signals are
/// too small to save them on. What it gives it does not take away.
bool is_given_tiles() {
#if defined(__linux__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

bool Feature::present() const {
  return has_bit(leaf, subleaf, in, bit) && (state == kNone || (saved_state() & state) == state) &&
         (state != kTiles || is_given_tiles());
}

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
struct Feature {
  std::string_view name;  // of /proc/cpuinfo
  unsigned long which, bit;

  bool present() const { return (getauxval(which) & bit) != 0; }
};

constexpr Feature kFeatures[] = {
    {"asimd", AT_HWCAP, HWCAP_ASIMD},     {"fphp", AT_HWCAP, HWCAP_FPHP},
    {"asimdhp", AT_HWCAP, HWCAP_ASIMDHP}, {"asimdrdm", AT_HWCAP, HWCAP_ASIMDRDM},
    {"asimddp", AT_HWCAP, HWCAP_ASIMDDP}, {"asimdfhm", AT_HWCAP, HWCAP_ASIMDFHM},
    {"atomics", AT_HWCAP, HWCAP_ATOMICS}, {"fcma", AT_HWCAP, HWCAP_FCMA},
    {"sve", AT_HWCAP, HWCAP_SVE},         {"sve2", AT_HWCAP2, HWCAP2_SVE2},
    {"i8mm", AT_HWCAP2, HWCAP2_I8MM},     {"bf16", AT_HWCAP2, HWCAP2_BF16},
};

std::string brand() { return ""; }
#elif defined(__riscv)
struct Feature {
  std::string_view name;  // of one letter: of others HWCAP says nothing

  bool present() const { return (getauxval(AT_HWCAP) >> (name[0] - 'a') & 1) != 0; }
};

constexpr Feature kFeatures[] = {{"v"}};

std::string brand() { return ""; }
#else
struct Feature {
  std::string_view name;

  bool present() const { return false; }
};
const std::array<Feature, 0> kFeatures;

std::string brand() { return ""; }
#endif

// A name that no row has is missing: a module of a later release may ask for what this
// one has never heard of.
bool has(const std::string& name) {
  return std::any_of(std::begin(kFeatures), std::end(kFeatures),
                     [&](const Feature& feature) { return feature.name == name && feature.present(); });
}

}  // namespace

/// For messages.
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

}  // namespace lathe
