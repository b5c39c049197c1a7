#pragma once

#include <deque>
#include <optional>

#include "rpc/completion_queue_thread.h"
#include "rpc/message_chunks.h"
#include "rpc/stream_call.h"
#include "transport/delivery.h"

namespace cohort::internal {

// Messages and the end of a connection, over a call of gRPC whose handshake is done. Lives until
// the call is over. Thread-safe.
class GrpcStream : public Inbox, public std::enable_shared_from_this<GrpcStream> {
 public:
  GrpcStream(std::shared_ptr<CompletionQueueThread> queue_thread, std::shared_ptr<StreamCall> call,
             Peer self, Peer peer);

  // Begins to read.
  void open() {
    Lock lock(mutex_);
    read_next(lock);
  }
  // `listener` runs on the queue thread when a message or the end arrives and no thread attends.
  void set_listener(std::function<void()> listener);
  // Calls the listener for what has arrived before.
  void announce();

  void send(Message message, WhenFull when_full);
  void close(const Status& why);

  // Counts the chunks that came, and those that went except the last one of each message: the
  // network takes a short message also when it does not reach the other side.
  uint64_t progress() const { return moved_; }

  const Peer& peer() const { return peer_; }
  CompletionQueueThread& queue_thread() const { return *queue_thread_; }

  std::optional<Message> take() override;
  std::optional<Status> ended() override {
    const std::lock_guard lock(mutex_);
    return incoming_.empty() ? end_ : std::nullopt;
  }
  void wait(Reader reader, Deadline deadline) override;
  void wake(Reader) override {
    woken_ = true;
    queue_thread_->wake();
  }
  void attend(bool in_foreground) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Outgoing {
    MessageCutter cutter;
    size_t bytes;
  };
  void read_next(Lock& lock);
  void on_read(bool ok);
  void on_chunk(grpc::ByteBuffer& chunk);
  void on_arrived(MessageAssembler::Arrived arrived);
  void on_malformed(const Status& problem);
  void write_next(Lock& lock);
  void on_written(bool ok, size_t bytes);
  void confirm_end(Lock& lock);
  void on_confirmed();
  void finish_if_due(Lock& lock);
  void on_finished();
  void end(Lock& lock, const Status& why);
  void notify_listener(Lock& lock);
  void send_end(Lock& lock, const Status& why);
  void limit_closing_time(Lock& lock);
  void on_closing_limit();
  void release_if_over(Lock& lock);
  bool has_room(size_t bytes) const;
  bool wants_more() const;

  const std::shared_ptr<CompletionQueueThread> queue_thread_;
  const Peer self_;
  const Peer peer_;
  std::atomic<bool> news_ = false;  // take() or ended() has something
  std::atomic<bool> woken_ = false;
  std::atomic<uint64_t> moved_ = 0;  // chunks, see progress()
  MessageAssembler assembler_;       // one chunk at a time is read
  grpc::ByteBuffer read_buffer_;

  std::mutex mutex_;
  std::condition_variable room_;
  // Guarded by mutex_:
  std::shared_ptr<StreamCall> call_;  // null when it is over
  std::shared_ptr<const std::function<void()>> listener_;
  std::shared_ptr<grpc::Alarm> closing_limit_;
  int num_limits_ = 0;              // that have passed since everything was sent
  uint64_t progress_ = 0;           // chunks that were read and written
  uint64_t progress_at_limit_ = 0;  // the same when the limit was set
  std::deque<Message> incoming_;
  size_t incoming_bytes_ = 0;
  std::deque<Outgoing> outgoing_;
  size_t outgoing_bytes_ = 0;
  std::optional<Buffer> last_chunk_;  // the end, to be sent after the messages
  std::optional<Status> end_;
  bool attended_ = false;
  bool reading_ = false;
  bool read_all_ = false;  // nothing follows from the other side
  bool writing_ = false;
  bool sent_all_ = false;      // nothing follows to the other side
  bool peer_has_all_ = false;  // the other side has read, or ended, everything
  bool confirmed_ = false;     // the server knows that this side has read everything
  bool finishing_ = false;
  bool finished_ = false;
};

// A connection by gRPC. Its events run on the thread that waits at the queue, or on a thread that
// waits for an answer.
class GrpcConnection : public Connection {
 public:
  explicit GrpcConnection(std::shared_ptr<GrpcStream> stream);
  ~GrpcConnection() override;

  void start(Events events) override;
  void send(Message message) override;
  void post(Message message) override { write(std::move(message), WhenFull::Grow); }
  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }
  void wake() override { delivery_.wake(); }
  void close(const Status& why) override { stream_->close(why); }
  const Peer& peer() const override { return stream_->peer(); }
  std::string_view kind() const override { return "grpc"; }
  Traffic traffic() const override { return delivery_.traffic(); }
  uint64_t progress() const override { return stream_->progress(); }

 private:
  void write(Message message, WhenFull when_full);

  const std::shared_ptr<GrpcStream> stream_;
  Delivery delivery_;
};

}  // namespace cohort::internal
