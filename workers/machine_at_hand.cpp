#include "workers/machine_at_hand.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/codegen/host_target.h"
#include "core/support/digest.h"
#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/user_folder.h"
#include "workers/device.h"

namespace lathe::worker {
namespace {

constexpr int kProbes = 3;  // counted up when a probe joins, or changes what its number means

/// This machine, its code generated as for `target`: caches that a user gave are not the machine's.
Target probed_target(const Target& target) {
  Target probed = codegen::host_target();
  probed.features = target.features;
  probed.vector_bits = target.vector_bits;
  probed.vector_registers = target.vector_registers;
  return probed;
}

std::string path_for(const Target& probed) {
  const DeviceInfo device = probe_device();
  const std::string machine =
      // The host too: a home folder may be shared by many machines of one model.
      fmt::format("{}\n{}\n{}\n{}\n{}", kProbes, device.host, device.model, device.cores, to_text(probed));
  return fmt::format("{}/machine/{}.json", cache_folder(), sha256(machine).substr(0, 16));
}

std::string to_json(const KnownMachine& known, const Target& probed) {
  const MachineReading& reading = known.reading;
  return nlohmann::json{{"target", to_text(probed)},      {"numbers", to_text(reading.numbers)},
                        {"unsettled", reading.unsettled}, {"seconds", reading.seconds},
                        {"disturbed", reading.disturbed}, {"measured", known.when}}
      .dump(2);
}

/// Throws what the library and the parser of numbers throw for a damaged file.
KnownMachine parse_known(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  KnownMachine known{.when = json.at("measured")};
  known.reading = {.numbers = parse_machine_numbers(json.at("numbers").get<std::string>()),
                   .unsettled = json.at("unsettled"),
                   .seconds = json.at("seconds"),
                   .disturbed = json.at("disturbed")};
  return known;
}

std::optional<KnownMachine> load(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  try {
    return parse_known(read_file(path));
  } catch (const Error&) {
    // A file that was cut off, or one of another release.
  } catch (const nlohmann::json::exception&) {
  }
  return {};  // measured again, then
}

/// Held while a process measures.
class Lock {
 public:
  explicit Lock(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ < 0) fail_to_write(path, errno);
    // Two that measure at once measure each other.
    while (flock(file_, LOCK_EX) != 0)
      if (errno != EINTR) {
        const int error = errno;
        close(file_);
        fail("cannot lock {}: {}", path, strerror(error));
      }
  }
  // The kernel does the same for a process that dies (flock(2)): nobody waits for a dead one.
  ~Lock() { close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

KnownMachine measure_unless(const Target& target, bool kept_counts) {
  CHECK(is_at_hand(target), "{} is not this machine", to_text(target));
  const Target probed = probed_target(target);
  const std::string path = path_for(probed);
  make_folder(std::filesystem::path(path).parent_path());
  Lock lock(path + ".lock");
  // Asked again with the lock held.
  if (kept_counts)
    if (auto known = load(path)) return *known;  // somebody else measured while we waited
  KnownMachine known{.reading = measure_machine(probed),
                     .when = fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(std::time(nullptr)))};
  write_file(path, to_json(known, probed));
  return known;
}

}  // namespace

/// Whatever its features: a target that leaves some of them out runs here all the same.
bool is_at_hand(const Target& target) {
  const Target host = codegen::host_target();
  return target.kind == host.kind && target.triple == host.triple && target.cpu == host.cpu;
}

/// Without the lock: write_file() puts a file there whole.
std::optional<KnownMachine> recall_machine(const Target& target) {
  return load(path_for(probed_target(target)));
}

KnownMachine measure_and_keep(const Target& target) { return measure_unless(target, false); }

KnownMachine recall_or_measure(const Target& target) {
  if (auto known = recall_machine(target)) return *known;
  return measure_unless(target, true);
}

DeviceInfo measured_device() {
  DeviceInfo device = probe_device();
  try {
    Target host = codegen::host_target();
    const MachineNumbers numbers = recall_or_measure(host).reading.numbers;
    // Without those that a user gave: they are not the machine's.
    set_machine(host, numbers, {});
    device.target = lathe::to_text(host);
    device.machine = lathe::to_text(numbers);
    device.limits_core = machine_limits(machine_of(host), device.cores, 1);
    device.limits = machine_limits(machine_of(host), device.cores, device.cores);
  } catch (const Error&) {  // a full disk, no linker
  }
  return device;
}

}  // namespace lathe::worker
