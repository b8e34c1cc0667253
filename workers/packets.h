// What a worker and its supervisors hand each other over a local socket: small fixed packets and descriptors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::worker {

inline constexpr size_t kMaxDescriptors = 8;  // in one packet

struct TaskPacket {
  double wall_seconds, cpu_seconds;
  uint64_t memory_bytes, file_bytes;
  uint64_t cpus[16];  // bit mask; none set: any
  uint8_t stop_builders;
};  // with: request, then the task's descriptors

struct ReportPacket {
  uint8_t end;
  int32_t code;
  double wall_seconds, cpu_seconds;
  uint64_t peak_bytes;
};  // with: reply, stderr tail

/// Sends all or throws Error.
void send_packet(int socket, const void* packet, size_t size, const std::vector<int>& descriptors);
/// False at the end of the stream or for a packet of another size; takes over the descriptors sent along.
bool receive_packet(int socket, void* packet, size_t size, std::vector<int>& descriptors);

/// An anonymous file with these bytes. Throws Error.
int memory_file(const char* name, std::string_view bytes);
/// From now on nobody changes it, whoever has it open. REQUIRES: nobody maps it for writing. Throws Error.
void seal(int memory_file);
/// All of a file, from its start. Throws Error.
std::string read_descriptor(int descriptor);

}  // namespace lathe::worker
