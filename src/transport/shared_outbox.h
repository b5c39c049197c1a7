#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "transport/block_arena.h"
#include "transport/message_image.h"
#include "transport/shared_end.h"
#include "transport/shared_record.h"
#include "transport/shared_ring.h"

namespace cohort::internal {

// The sending half of a shared-memory connection. What finds no room waits in a queue, in order;
// whoever waits for room moves the whole queue on. Thread-safe.
class SharedOutbox {
 public:
  SharedOutbox(SharedDirection& shared, std::span<std::byte> arena, PeerSignals& bells,
               SharedEnd& end);

  enum class WhenFull { Wait, Queue };
  // Throws what ended the connection. Queue: returns at once, and a reader sends the rest later.
  void send(Message message, WhenFull when_full);

  // For a reader that goes to sleep: whether something is in the queue and nobody else waits for
  // room. Then it must wait for PeerSignals::Room too, and call stop_leading() afterwards.
  bool start_leading();
  void stop_leading();
  bool has_queue() const { return has_queue_; }
  // Wakes who waits in send().
  void end();

 private:
  struct Outgoing {
    explicit Outgoing(Message message) : image(std::move(message)) {}
    MessageImage image;
    size_t written = 0;  // in parts, once announced
    bool announced = false;
    bool finished = false;
  };
  bool advance_or_fail(Outgoing& outgoing);
  bool advance(Outgoing& outgoing);
  bool write_inline(const Outgoing& outgoing);
  bool write_whole(const Outgoing& outgoing);
  bool write_parts(Outgoing& outgoing);
  void write_record(const SharedRecord& record);
  void pump();
  void take_returned_blocks();
  void ring_reader();
  void await(std::unique_lock<std::mutex>& lock, const Outgoing& outgoing);
  void wait_for_room(std::unique_lock<std::mutex>& lock, const Outgoing& outgoing);

  SharedDirection& shared_;
  const std::span<std::byte> arena_;
  const uint64_t min_part_;
  PeerSignals& bells_;
  SharedEnd& end_;
  std::atomic<bool> has_queue_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  RingWriter ring_;
  BlockArena blocks_;
  uint64_t returned_ = 0;  // blocks that came back
  std::vector<std::byte> record_;
  std::deque<std::shared_ptr<Outgoing>> queue_;
  bool led_ = false;  // somebody waits for room
};

}  // namespace cohort::internal
