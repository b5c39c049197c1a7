#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "transport/delivery.h"
#include "transport/message_image.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

// Whether and why a shared-memory connection has ended. An ended connection stays so, with the same
// reason. Thread-safe.
class SharedEnd {
 public:
  SharedEnd(Peer self, Peer peer, SharedDirection& in, SharedDirection& out, PeerSignals& signals)
      : self_(std::move(self)), peer_(std::move(peer)), in_(in), out_(out), signals_(signals) {}

  // Ends the connection: leaves `why` for the other side and wakes all sleepers. Does nothing when
  // ended.
  void close(const Status& why);
  // The same because the other side broke the protocol.
  void fail(const Status& why);

  // Nothing while the connection has not ended.
  std::optional<Status> why();
  // Whether this side ended the connection: then what arrived is not read any more.
  bool is_ours() const { return ours_.load(std::memory_order_acquire); }
  // Quick: whether why() may have a status.
  bool may_have_ended() const {
    return known_.load(std::memory_order_acquire) || signals_.is_broken() ||
           in_.closed.load(std::memory_order_acquire) != 0;
  }

  const Peer& peer() const { return peer_; }

 private:
  bool set(Status why, bool ours);
  void write_close_status(const Status& why);
  Status read_close_status() const;

  const Peer self_;
  const Peer peer_;
  SharedDirection& in_;
  SharedDirection& out_;
  PeerSignals& signals_;
  std::atomic<bool> known_ = false;
  std::atomic<bool> ours_ = false;
  Mutex mutex_;
  std::optional<Status> why_;  // guarded by mutex_
};

// The sending half of a shared-memory connection. A message that finds no room waits in a queue; a
// thread that waits for room moves the whole queue on. Thread-safe.
class SharedOutbox {
 public:
  SharedOutbox(SharedDirection& shared, std::span<std::byte> arena, PeerSignals& signals,
               SharedEnd& end);

  // Throws what ended the connection. Grow: returns at once, and a reader sends the rest later.
  void send(Message message, WhenFull when_full);

  // For a reader that goes to sleep: whether messages are in the queue and no other thread waits
  // for room. Then the reader must wait as PeerSignals::Room too, and call stop_leading()
  // afterwards.
  bool start_leading();
  void stop_leading();
  bool has_queue() const { return has_queue_; }
  // Wakes the threads inside send().
  void end() {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    has_queue_ = false;
    changed_.notify_all();
  }

 private:
  struct Outgoing {
    explicit Outgoing(Message message) : image(std::move(message)) {}
    MessageImage image;
    size_t written = 0;  // bytes, in parts
    bool announced = false;
    bool finished = false;
  };
  bool advance_or_fail(Outgoing& outgoing);
  bool advance(Outgoing& outgoing);
  bool write_inline(const Outgoing& outgoing);
  bool write_whole(const Outgoing& outgoing);
  bool write_parts(Outgoing& outgoing);
  void write_record(const SharedRecord& record);
  void send_queue();
  void take_returned_blocks();
  void notify_reader();
  void await(std::unique_lock<std::mutex>& lock, const Outgoing& outgoing);
  void wait_for_room(std::unique_lock<std::mutex>& lock, const Outgoing& outgoing);

  SharedDirection& shared_;
  const std::span<std::byte> arena_;
  const uint64_t min_part_;
  PeerSignals& signals_;
  SharedEnd& end_;
  std::atomic<bool> has_queue_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  RingWriter ring_;
  BlockArena blocks_;
  uint64_t returned_ = 0;  // blocks that the receiver gave back
  std::vector<std::byte> record_;
  std::deque<std::shared_ptr<Outgoing>> queue_;
  bool led_ = false;  // a thread waits for room
};

// What the threads of one side of a shared-memory connection have in common.
struct SharedSide {
  // `outgoing`: the direction in which this side sends.
  SharedSide(SharedParts parts, int outgoing, Peer self, Peer peer);

  const std::shared_ptr<SharedMapping> mapping;
  const std::shared_ptr<PeerSignals> signals;
  SharedDirection& in;
  SharedEnd end;
  SharedOutbox outbox;
  const std::shared_ptr<BlockReturns> returns;
};

// The receiving half of a shared-memory connection.
class SharedInbox : public Inbox {
 public:
  explicit SharedInbox(std::shared_ptr<SharedSide> side);

  std::optional<Message> take() override;
  std::optional<Status> ended() override;
  void wait(Reader reader, Deadline deadline) override;
  void wake(Reader reader) override;
  void attend(bool in_foreground) override;

 private:
  // A long message of which parts have arrived.
  struct Assembly {
    std::shared_ptr<std::byte> image;
    size_t size = 0;
    size_t meta_size = 0;
    size_t filled = 0;
  };
  std::optional<Message> take_checked();
  std::optional<Message> message_of(const SharedRecord& record);
  Message open_inline(const SharedRecord& record) const;
  Message open_whole(const SharedRecord& record);
  std::optional<Message> add_part(const SharedRecord& record);
  bool has_news() const { return ring_.has_record() || side_->end.may_have_ended(); }
  bool has_news_for(Reader reader) const {
    return has_news() && (reader == Reader::Foreground || !attended_);
  }
  // Where other threads read for themselves, a spinning background reader only takes their cores.
  bool is_worth_spinning(Reader reader) {
    return reader == Reader::Foreground || !was_attended_.exchange(false);
  }

  const std::shared_ptr<SharedSide> side_;
  RingReader ring_;
  std::atomic<bool> attended_ = false;
  std::atomic<bool> was_attended_ = false;  // since the last look of the background reader
  // Belong to the thread that takes:
  std::vector<std::byte> record_;
  std::vector<std::byte> meta_;
  std::optional<Assembly> assembly_;
};

std::shared_ptr<Connection> make_shared_connection(SharedParts parts, int outgoing, Peer self,
                                                   Peer peer);

}  // namespace cohort::internal
