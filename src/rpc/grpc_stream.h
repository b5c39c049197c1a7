#pragma once

#include <deque>
#include <optional>
#include <string>

#include "rpc/chunks.h"
#include "rpc/pump.h"
#include "rpc/stream_call.h"
#include "transport/inbox.h"
#include "transport/traffic_counter.h"

namespace cohort::internal {

// Messages and the end of a connection, over a call of gRPC whose greeting is done. Lives until the
// call is over, whoever lets go of it before. Thread-safe.
class GrpcStream : public Inbox, public std::enable_shared_from_this<GrpcStream> {
 public:
  GrpcStream(std::shared_ptr<Pump> pump, std::shared_ptr<StreamCall> call, Peer self, Peer peer);
  ~GrpcStream() override;

  // Begins to read.
  void open();
  // Something has arrived, or the end has come, and nobody attends: runs on the pump.
  void set_listener(std::function<void()> listener);
  // Calls the listener for what has come before.
  void announce();

  enum class WhenFull { Wait, Grow };
  void send(Message message, WhenFull when_full);
  void close(const Status& why);

  const Peer& peer() const { return peer_; }
  Traffic traffic() const { return traffic_.read(); }
  Pump& pump() const { return *pump_; }

  std::optional<Message> take() override;
  std::optional<Status> ended() override;
  void wait(Reader reader, Deadline deadline) override;
  void wake(Reader reader) override;
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
  void on_nonsense(const Status& problem);
  void write_next(Lock& lock);
  void on_written(bool ok, size_t bytes);
  void finish_if_due(Lock& lock);
  void on_finished();
  void end(Lock& lock, const Status& to_reader, const Status& to_sender);
  void tell_listener(Lock& lock);
  void say_end(Lock& lock, const Status& why);
  void limit_closing_time(Lock& lock);
  void on_closing_limit();
  void release_if_over(Lock& lock);
  bool has_room(size_t bytes) const;
  bool has_appetite() const;

  const std::shared_ptr<Pump> pump_;
  const Peer self_;
  const Peer peer_;
  TrafficCounter traffic_;
  std::atomic<bool> news_ = false;  // take() or ended() has something
  std::atomic<bool> woken_ = false;
  MessageAssembler assembler_;  // of the one read at a time
  grpc::ByteBuffer read_buffer_;

  std::mutex mutex_;
  std::condition_variable room_;
  // Guarded by mutex_:
  std::shared_ptr<StreamCall> call_;  // null when it is over
  std::shared_ptr<const std::function<void()>> listener_;
  std::shared_ptr<grpc::Alarm> closing_limit_;
  uint64_t progress_ = 0;           // counts what was read and written,
  uint64_t progress_at_limit_ = 0;  // and had been when the limit was set
  std::deque<Message> incoming_;
  size_t incoming_bytes_ = 0;
  std::deque<Outgoing> outgoing_;
  size_t outgoing_bytes_ = 0;
  std::optional<Buffer> last_chunk_;  // to be sent after those: the end
  std::optional<Status> end_to_reader_;
  std::optional<Status> end_to_sender_;
  bool attended_ = false;
  bool reading_ = false;
  bool read_all_ = false;  // nothing comes from the other side any more
  bool writing_ = false;
  bool said_all_ = false;  // nothing goes to the other side any more
  bool finishing_ = false;
  bool finished_ = false;
};

}  // namespace cohort::internal
