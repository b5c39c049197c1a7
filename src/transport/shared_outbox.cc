#include <algorithm>
#include <cstring>

#include "transport/shared_connection.h"

namespace cohort::internal {
namespace {

constexpr uint32_t kBlocks = SharedDirection::kMaxBlocks;
// So that the receiver copies one part while the sender writes the next.
constexpr uint64_t kMaxPart = uint64_t{8} << 20;
// Copying this much takes about as long as waking a sleeping thread.
constexpr uint64_t kWorthWaking = uint64_t{128} << 10;

// The receiver keeps at most half of the blocks and half of the arena (SharedInbox). Wherever these
// lie, a gap of this size exists once all other blocks were given back: so sending always goes on.
uint64_t smallest_part(uint64_t arena_bytes) {
  const uint64_t gap = arena_bytes / 2 / (kBlocks / 2 + 1);
  return std::max(gap / BlockArena::kGranule, uint64_t{1}) * BlockArena::kGranule;
}

}  // namespace

// Returns whether this call was the first.
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
  write_close_status(closed_by_peer(why, self_));
  signals_.shut();
}

void SharedEnd::fail(const Status& why) {
  if (!set(why, true)) return;
  write_close_status(why);
  signals_.shut();
}

std::optional<Status> SharedEnd::why() {
  if (!known_.load(std::memory_order_acquire)) {
    // In this order: a side that closes writes its status before it shuts the sockets.
    const bool broken = signals_.is_broken();
    if (in_.closed.load(std::memory_order_acquire) != 0) {
      set(read_close_status(), false);
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

void SharedEnd::write_close_status(const Status& why) {
  Message message;
  MessageWriter(message, self_.name)(why);
  const size_t size = std::min(message.header.size(), SharedDirection::kMaxCloseStatus);
  std::memcpy(out_.close_status, message.header.data(), size);
  out_.close_status_size.store(static_cast<uint32_t>(size), std::memory_order_relaxed);
  out_.closed.store(1, std::memory_order_release);
}

Status SharedEnd::read_close_status() const {
  const size_t size = std::min<size_t>(in_.close_status_size.load(std::memory_order_relaxed),
                                       SharedDirection::kMaxCloseStatus);
  const Message copy{std::string(reinterpret_cast<const char*>(in_.close_status), size)};
  Status why;
  const Status outcome = capture_status([&] {
    MessageReader reader(copy, "the reason for closing a connection");
    why = decode_next<Status>(reader);
  });
  return closed_by_peer(outcome.ok() ? why : outcome, peer_);
}

SharedOutbox::SharedOutbox(SharedDirection& shared, std::span<std::byte> arena,
                           PeerSignals& signals, SharedEnd& end)
    : shared_(shared),
      arena_(arena),
      min_part_(smallest_part(arena.size())),
      signals_(signals),
      end_(end),
      ring_(shared),
      blocks_(arena.size(), kBlocks) {}

void SharedOutbox::send(Message message, WhenFull when_full) {
  Outgoing outgoing(std::move(message));
  std::unique_lock lock(mutex_);
  if (end_.may_have_ended()) {
    if (const auto why = end_.why()) throw_if_error(*why);
  }
  // A message never passes one that waits.
  if (queue_.empty() && advance_or_fail(outgoing)) return;
  auto queued = std::make_shared<Outgoing>(std::move(outgoing));
  queue_.push_back(queued);
  has_queue_ = true;
  if (when_full == WhenFull::Wait) {
    await(lock, *queued);
  } else if (!led_) {
    signals_.wake(PeerSignals::Background);  // a sleeping reader would not lead
  }
}

void SharedOutbox::await(std::unique_lock<std::mutex>& lock, const Outgoing& outgoing) {
  while (!outgoing.finished) {
    if (const auto why = end_.why()) throw_if_error(*why);
    if (led_) {
      changed_.wait(lock);
    } else {
      wait_for_room(lock, outgoing);
    }
  }
}

void SharedOutbox::wait_for_room(std::unique_lock<std::mutex>& lock, const Outgoing& outgoing) {
  led_ = true;
  shared_.room_wanted.store(1);
  send_queue();  // the receiver may have made room before room_wanted was set
  if (!outgoing.finished && !end_.may_have_ended()) {
    lock.unlock();
    signals_.wait({PeerSignals::Room}, Deadline::max());
    lock.lock();
    send_queue();
  }
  led_ = false;
  changed_.notify_all();
  if (!queue_.empty()) signals_.wake(PeerSignals::Background);  // one thread must lead
}

bool SharedOutbox::start_leading() {
  if (!has_queue_) return false;  // without the mutex, which a sender holds while copying
  const std::lock_guard lock(mutex_);
  if (queue_.empty() || led_ || end_.may_have_ended()) return false;
  shared_.room_wanted.store(1);
  send_queue();
  led_ = !queue_.empty();
  return led_;
}

void SharedOutbox::stop_leading() {
  const std::lock_guard lock(mutex_);
  send_queue();
  led_ = false;
  changed_.notify_all();
}

void SharedOutbox::send_queue() {
  while (!queue_.empty() && advance_or_fail(*queue_.front())) {
    queue_.front()->finished = true;
    queue_.pop_front();
    changed_.notify_all();
  }
  has_queue_ = !queue_.empty();
}

bool SharedOutbox::advance_or_fail(Outgoing& outgoing) {
  bool finished = false;
  const Status outcome = capture_status([&] { finished = advance(outgoing); });
  if (!outcome.ok()) end_.fail(outcome);
  return finished;
}

// Writes as much as finds room; true when the whole message is written.
bool SharedOutbox::advance(Outgoing& outgoing) {
  if (outgoing.image.size() <= kMaxInlineImage) return write_inline(outgoing);
  take_returned_blocks();
  if (!outgoing.announced && write_whole(outgoing)) return true;
  return write_parts(outgoing);
}

bool SharedOutbox::write_inline(const Outgoing& outgoing) {
  const size_t size = outgoing.image.size();
  if (!ring_.has_room(sizeof(SharedRecord) + size)) return false;
  record_.resize(sizeof(SharedRecord) + size);
  const SharedRecord record{
      .kind = SharedRecord::Inline, .size = size, .meta_size = outgoing.image.meta_size()};
  std::memcpy(record_.data(), &record, sizeof(record));
  outgoing.image.copy_out(0, std::span(record_).subspan(sizeof(record)));
  ring_.write(record_);
  notify_reader();
  return true;
}

void SharedOutbox::write_record(const SharedRecord& record) {
  ring_.write(std::as_bytes(std::span(&record, 1)));
  notify_reader();
}

bool SharedOutbox::write_whole(const Outgoing& outgoing) {
  if (!ring_.has_room(sizeof(SharedRecord))) return false;
  const size_t size = outgoing.image.size();
  const auto block = blocks_.allocate(size);
  if (!block) return false;
  if (size >= kWorthWaking) notify_reader();  // the reader wakes up meanwhile
  outgoing.image.copy_out(0, arena_.subspan(block->offset, size));
  write_record({.kind = SharedRecord::Whole,
                .block = block->number,
                .offset = block->offset,
                .size = size,
                .meta_size = outgoing.image.meta_size()});
  return true;
}

bool SharedOutbox::write_parts(Outgoing& outgoing) {
  const size_t size = outgoing.image.size();
  // The announcement and a first part need room, each with the length that stands before it.
  if (!ring_.has_room(2 * sizeof(SharedRecord) + 16)) return false;
  if (!outgoing.announced) {
    write_record(
        {.kind = SharedRecord::Announce, .size = size, .meta_size = outgoing.image.meta_size()});
    outgoing.announced = true;
  }
  while (outgoing.written < size) {
    if (!ring_.has_room(sizeof(SharedRecord))) return false;
    const uint64_t rest = size - outgoing.written;
    const auto block = blocks_.allocate_some(std::min(min_part_, rest), std::min(kMaxPart, rest));
    if (!block) return false;
    const uint64_t bytes = std::min(block->size, rest);
    outgoing.image.copy_out(outgoing.written, arena_.subspan(block->offset, bytes));
    write_record({.kind = SharedRecord::Part,
                  .block = block->number,
                  .offset = block->offset,
                  .size = bytes});
    outgoing.written += bytes;
    take_returned_blocks();
  }
  return true;
}

void SharedOutbox::take_returned_blocks() {
  const uint64_t now = shared_.returned.load();
  if (now - returned_ > kBlocks) raise_malformed("it gave back more blocks than exist");
  for (; returned_ != now; ++returned_) {
    const uint32_t number = shared_.returns[returned_ % kBlocks].load(std::memory_order_relaxed);
    if (!blocks_.give_back(number)) {
      raise_malformed(fmt::format("it gave back block {}, which it had not", number));
    }
  }
}

// Wakes one thread: the foreground reader if it attends, else the background reader.
void SharedOutbox::notify_reader() {
  const auto notify_if_asleep = [this](std::atomic<uint32_t>& reader,
                                       PeerSignals::Sleeper sleeper) {
    if (reader.load() == SharedDirection::Asleep &&
        reader.exchange(SharedDirection::Awake) == SharedDirection::Asleep) {
      signals_.notify(sleeper);
    }
  };
  if (shared_.foreground.load() != SharedDirection::Absent) {
    notify_if_asleep(shared_.foreground, PeerSignals::Foreground);
  } else {
    notify_if_asleep(shared_.background, PeerSignals::Background);
  }
}

}  // namespace cohort::internal
