#include "transport/shared_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "transport/ending.h"

namespace cohort::internal {

// Returns whether it was the first to say so.
bool SharedEnd::set(Status why, bool ours) {
  const std::lock_guard lock(mutex_);
  if (why_) return false;
  why_ = std::move(why);
  ours_.store(ours, std::memory_order_release);
  known_.store(true, std::memory_order_release);
  return true;
}

void SharedEnd::close(const Status& why) {
  if (this->why() || !set(closed_here(why, peer_), true)) return;
  leave_farewell(closed_by_peer(why, self_));
  bells_.shut();
}

void SharedEnd::fail(const Status& why) {
  if (!set(why, true)) return;
  leave_farewell(why);
  bells_.shut();
}

std::optional<Status> SharedEnd::why() {
  if (!known_.load(std::memory_order_acquire)) {
    // In this order: who closes leaves its farewell first.
    const bool broken = bells_.is_broken();
    if (in_.closed.load(std::memory_order_acquire) != 0) {
      set(read_farewell(), false);
    } else if (broken) {
      set({Code::Unavailable, fmt::format("[SharedMemory] the process of {} is gone", peer_.name)},
          false);
    } else {
      return std::nullopt;
    }
  }
  const std::lock_guard lock(mutex_);
  return why_;
}

void SharedEnd::leave_farewell(const Status& why) {
  Message message;
  MessageWriter writer(message);
  write_status(why, self_.name, writer);
  const size_t size = std::min(message.header.size(), SharedDirection::kMaxFarewell);
  std::memcpy(out_.farewell, message.header.data(), size);
  out_.farewell_size.store(static_cast<uint32_t>(size), std::memory_order_relaxed);
  out_.closed.store(1, std::memory_order_release);
}

Status SharedEnd::read_farewell() const {
  const size_t size = std::min<size_t>(in_.farewell_size.load(std::memory_order_relaxed),
                                       SharedDirection::kMaxFarewell);
  const Message copy{std::string(reinterpret_cast<const char*>(in_.farewell), size)};
  Status why;
  const Status outcome = capture_status([&] {
    MessageReader reader(copy, "the reason for closing a connection");
    why = read_status(reader);
  });
  return closed_by_peer(outcome.ok() ? why : outcome, peer_);
}

}  // namespace cohort::internal
