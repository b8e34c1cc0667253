// NVIDIA's management library as a machine of three GPUs would have it: the second has failed. Which clocks
// the others run at is in the environment, as "now most reasons", and with a fourth number how busy they are;
// confined children are given what is called NVIDIA_.
// NVIDIA_FAKE_DIPS, as "megahertz every", is what each so many-th reading of a clock tells instead.
#include <cstdio>
#include <cstdlib>

namespace {

// Handles are only looked at by who gave them out.
int gpus[3];

struct State {
  unsigned now = 0, most = 0;
  unsigned long long reasons = 0;
  int busy = -1;
};

State state_of(void* device) {
  State state;
  const char* text = getenv(device == &gpus[0] ? "NVIDIA_FAKE_0" : "NVIDIA_FAKE_2");
  if (text && sscanf(text, "%u %u %llx %d", &state.now, &state.most, &state.reasons, &state.busy) < 3)
    abort();
  return state;
}

constexpr int kSuccess = 0, kNotSupported = 3, kFailed = 15;  // NVML_ERROR_GPU_IS_LOST
int open_calls = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++open_calls;
  return kSuccess;
}
int nvmlShutdown() { return --open_calls == 0 ? kSuccess : kFailed; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = open_calls == 1 ? 3 : 0;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus[index];
  return index == 1 ? kFailed : kSuccess;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  snprintf(name, size, "Fake %d", device == &gpus[0] ? 0 : 2);
  return kSuccess;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* megahertz) {
  *megahertz = state_of(device).now;
  unsigned dip = 0, every = 0;
  static unsigned readings = 0;
  if (const char* dips = getenv("NVIDIA_FAKE_DIPS"); dips && sscanf(dips, "%u %u", &dip, &every) == 2)
    if (++readings % every == 0) *megahertz = dip;
  return type == 1 ? kSuccess : kFailed;
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* megahertz) {
  *megahertz = state_of(device).most;
  return type == 1 ? kSuccess : kFailed;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* percent) {
  const int busy = state_of(device).busy;
  if (busy < 0) return kNotSupported;
  percent[0] = static_cast<unsigned>(busy);
  percent[1] = 7;  // of the time memory was read or written
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = state_of(device).reasons;
  return kSuccess;
}

}  // extern "C"
