// Which simulated GPU is current, its streams and its events. Work is done when it is asked for, so
// that streams keep their order by themselves and events have always happened.

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>

#include "base/thread_context.h"
#include "simulated/gpus.h"
#include "simulated/registration.h"
#include "simulated/torch_version.h"

namespace cohort::internal {
namespace {

struct Current {
  int device = 0;
  std::array<c10::StreamId, kMaxSimulatedGpus> streams = {};  // by device; 0: the default stream
};

Current& current() {
  static constinit ContextSlot<Current> slot;
  return slot.get();
}

c10::Device device_number(int index) { return {kSimulated, static_cast<c10::DeviceIndex>(index)}; }

struct Event {
  std::atomic<int64_t> records = 0;
};

class CurrentDevice final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kSimulated; }

  c10::Device getDevice() const override { return device_number(current().device); }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() < simulated_gpu_count(), "there is no simulated device ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current().device = device.index();
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(simulated_gpu_count());
  }

  c10::Stream getStream(c10::Device device) const COHORT_STREAM_NOEXCEPT override {
    const c10::Device known = known_device(device);
    return stream(known, current().streams[static_cast<size_t>(known.index())]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream(known_device(device), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> made = 0;
    return stream(known_device(device), ++made);
  }
#if COHORT_TORCH_2
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStreamFromGlobalPool(device, false);
  }
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
#endif
  c10::Stream exchangeStream(c10::Stream next) const COHORT_STREAM_NOEXCEPT override {
    const c10::Stream before = getStream(next.device());
    current().streams[static_cast<size_t>(next.device_index())] = next.id();
    return before;
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    ++static_cast<Event*>(*event)->records;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }

 private:
  c10::Device known_device(c10::Device device) const {
    return device.has_index() ? device : getDevice();
  }
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
};

}  // namespace

c10::Device current_simulated_device() { return device_number(current().device); }

c10::DeviceIndex exchange_simulated_device(c10::DeviceIndex index) {
  const int before = current().device;
  if (index >= 0) current().device = index;
  return static_cast<c10::DeviceIndex>(before);
}

void register_guard() {
  const c10::impl::DeviceGuardImplRegistrar registered(kSimulated, new CurrentDevice);
}

}  // namespace cohort::internal
