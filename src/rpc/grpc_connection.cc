#include "rpc/grpc_connection.h"

#include "base/mutex.h"
#include "base/raise.h"
#include "rpc/grpc_errors.h"
#include "rpc/grpc_settings.h"

namespace cohort::internal {
namespace {

// What may wait on either side before the sender does.
constexpr size_t kMaxWaitingBytes = size_t{32} << 20;
constexpr size_t kMaxWaitingMessages = 1024;
// How long the other side may make no progress while the connection ends.
constexpr std::chrono::seconds kClosingTime{2};
// How many times that a server waits, at most, for the other side to read the end.
constexpr int kMaxLimits = 5;

}  // namespace

GrpcStream::GrpcStream(std::shared_ptr<CompletionQueueThread> queue_thread,
                       std::shared_ptr<StreamCall> call, Peer self, Peer peer)
    : queue_thread_(std::move(queue_thread)),
      self_(std::move(self)),
      peer_(std::move(peer)),
      call_(std::move(call)) {
  queue_thread_->attach();
}

void GrpcStream::set_listener(std::function<void()> listener) {
  Lock lock(mutex_);
  listener_ =
      listener ? std::make_shared<const std::function<void()>>(std::move(listener)) : nullptr;
}

void GrpcStream::announce() {
  Lock lock(mutex_);
  const auto listener = listener_;
  if (!news_ || !listener) return;
  lock.unlock();
  if (!queue_thread_->post([listener](bool) { (*listener)(); })) (*listener)();
}

// After the end everything is read and forgotten, because only reading notices the end of the call.
bool GrpcStream::wants_more() const {
  if (end_) return true;
  return incoming_.size() < kMaxWaitingMessages && incoming_bytes_ < kMaxWaitingBytes;
}

void GrpcStream::read_next(Lock&) {
  if (reading_ || read_all_ || finishing_ || !wants_more()) return;
  reading_ = true;
  call_->read(&read_buffer_, CompletionQueueThread::tag(
                                 [self = shared_from_this()](bool ok) { self->on_read(ok); }));
}

void GrpcStream::on_read(bool ok) {
  grpc::ByteBuffer chunk;
  ++moved_;
  {
    Lock lock(mutex_);
    reading_ = false;
    ++progress_;
    read_all_ = read_all_ || !ok;
    if (ok) {
      chunk.Swap(&read_buffer_);
      read_next(lock);  // the other side goes on sending while this chunk is taken apart
    } else {
      sent_all_ = true;
      // finish() says more on the caller's side.
      if (call_->finishes_alone()) end(lock, lost_connection(peer_, {}));
      finish_if_due(lock);
      release_if_over(lock);
    }
  }
  if (ok) on_chunk(chunk);
}

void GrpcStream::on_chunk(grpc::ByteBuffer& chunk) {
  const ReceivedBytes bytes(chunk);
  MessageAssembler::Arrived arrived;
  const Status problem = capture_status([&] { arrived = assembler_.add(bytes.pieces()); });
  if (problem.ok()) {
    on_arrived(std::move(arrived));
  } else {
    on_malformed(problem);
  }
}

void GrpcStream::on_arrived(MessageAssembler::Arrived arrived) {
  Lock lock(mutex_);
  if (arrived.message && !end_) {
    incoming_bytes_ += size_of(*arrived.message);
    incoming_.push_back(std::move(*arrived.message));
    news_ = true;
    notify_listener(lock);
  }
  if (arrived.closed) {
    end(lock, closed_by_peer(*arrived.closed, peer_));
    sent_all_ = true;
    peer_has_all_ = true;
    confirm_end(lock);
    finish_if_due(lock);
    if (call_ && !closing_limit_) limit_closing_time(lock);
  }
}

void GrpcStream::on_malformed(const Status& problem) {
  Lock lock(mutex_);
  end(lock, problem);
  peer_has_all_ = true;  // no reason to wait for a peer that sends such bytes
  send_end(lock, problem);
}

std::optional<Message> GrpcStream::take() {
  Lock lock(mutex_);
  if (incoming_.empty()) return std::nullopt;
  Message message = std::move(incoming_.front());
  incoming_.pop_front();
  incoming_bytes_ -= size_of(message);
  news_ = !incoming_.empty() || end_;
  if (call_) read_next(lock);
  return message;
}

void GrpcStream::wait(Reader, Deadline deadline) {
  queue_thread_->poll_until([this] { return news_.load() || woken_.load(); }, deadline);
  woken_ = false;
}

void GrpcStream::attend(bool in_foreground) {
  Lock lock(mutex_);
  attended_ = in_foreground;
  if (in_foreground || !news_ || !listener_) return;
  queue_thread_->post([listener = listener_](bool) { (*listener)(); });
}

void GrpcStream::notify_listener(Lock& lock) {
  const auto listener = listener_;
  const bool attended = attended_;
  if (!attended && !listener) return;
  lock.unlock();
  if (!queue_thread_->is_polling_here()) {
    if (attended) {
      queue_thread_->wake();
    } else {
      queue_thread_->post([listener](bool) { (*listener)(); });
    }
  } else if (!attended) {
    (*listener)();
  }
  lock.lock();
}

bool GrpcStream::has_room(size_t bytes) const {
  return outgoing_bytes_ == 0 ||
         (outgoing_bytes_ + bytes <= kMaxWaitingBytes && outgoing_.size() < kMaxWaitingMessages);
}

void GrpcStream::send(Message message, WhenFull when_full) {
  check_no_mutex_held("sends");
  const size_t bytes = size_of(message);
  MessageCutter cutter(std::move(message));
  Lock lock(mutex_);
  const auto may_go = [&] { return end_ || has_room(bytes); };
  if (when_full == WhenFull::Wait && !may_go()) {
    queue_thread_->keep_polled();
    room_.wait(lock, may_go);
  }
  if (end_) throw_if_error(*end_);
  outgoing_.push_back({std::move(cutter), bytes});
  outgoing_bytes_ += bytes;
  write_next(lock);
  if (!outgoing_.empty()) queue_thread_->keep_polled();
}

// Releases the lock while gRPC writes to the socket; `writing_` keeps other threads away.
void GrpcStream::write_next(Lock& lock) {
  if (writing_ || sent_all_) return;
  std::vector<Buffer> chunk;
  size_t bytes = 0;  // of a message that ends with this chunk
  if (!outgoing_.empty()) {
    chunk = outgoing_.front().cutter.next();
    if (outgoing_.front().cutter.at_end()) {
      bytes = outgoing_.front().bytes;
      outgoing_.pop_front();
    }
  } else if (last_chunk_) {
    chunk.push_back(*std::exchange(last_chunk_, {}));
    sent_all_ = true;
  } else {
    return;
  }
  writing_ = true;
  const std::shared_ptr<StreamCall> call = call_;  // the call may be over before write() returns
  lock.unlock();
  call->write(to_byte_buffer(chunk),
              CompletionQueueThread::tag(
                  [self = shared_from_this(), bytes](bool ok) { self->on_written(ok, bytes); }));
  lock.lock();
}

void GrpcStream::on_written(bool ok, size_t bytes) {
  Lock lock(mutex_);
  writing_ = false;
  ++progress_;
  if (bytes == 0) ++moved_;
  sent_all_ = sent_all_ || !ok;
  outgoing_bytes_ -= bytes;
  if (sent_all_) {
    outgoing_.clear();
    outgoing_bytes_ = 0;
  }
  room_.notify_all();
  write_next(lock);
  confirm_end(lock);
  finish_if_due(lock);
  release_if_over(lock);
}

void GrpcStream::end(Lock& lock, const Status& why) {
  if (end_) return;
  end_ = why;
  news_ = true;
  room_.notify_all();
  if (call_) read_next(lock);
  notify_listener(lock);
}

void GrpcStream::send_end(Lock& lock, const Status& why) {
  if (sent_all_ || !call_) return;
  last_chunk_ = close_chunk(why, self_.name);
  limit_closing_time(lock);
  write_next(lock);
  queue_thread_->keep_polled();
}

void GrpcStream::limit_closing_time(Lock&) {
  queue_thread_->attach();
  progress_at_limit_ = progress_;
  closing_limit_ = std::make_shared<grpc::Alarm>();
  closing_limit_->Set(
      queue_thread_->queue(), to_grpc_time(std::chrono::steady_clock::now() + kClosingTime),
      CompletionQueueThread::tag([self = shared_from_this(), alarm = closing_limit_](bool elapsed) {
        if (elapsed) self->on_closing_limit();
        self->queue_thread_->detach();
      }));
}

void GrpcStream::on_closing_limit() {
  Lock lock(mutex_);
  if (!call_) return;
  const bool is_stuck = progress_ == progress_at_limit_;
  const bool confirms = sent_all_ && !peer_has_all_ && call_->finishes_alone();
  if (confirms && (is_stuck || ++num_limits_ >= kMaxLimits)) {
    peer_has_all_ = true;
    finish_if_due(lock);
  } else if (is_stuck) {
    return call_->cancel();
  }
  limit_closing_time(lock);
}

// The caller's part in the end of a connection that the server has closed.
void GrpcStream::confirm_end(Lock&) {
  if (!peer_has_all_ || !sent_all_ || writing_ || finishing_ || confirmed_) return;
  if (!call_ || call_->finishes_alone()) return;
  confirmed_ = true;
  writing_ = true;
  call_->end_writes(
      CompletionQueueThread::tag([self = shared_from_this()](bool) { self->on_confirmed(); }));
}

void GrpcStream::on_confirmed() {
  Lock lock(mutex_);
  writing_ = false;
  finish_if_due(lock);
  release_if_over(lock);
}

void GrpcStream::close(const Status& why) {
  Lock lock(mutex_);
  if (end_) return;
  incoming_.clear();
  incoming_bytes_ = 0;
  end(lock, closed_here(why, peer_));
  send_end(lock, why);
}

// A server that has closed the connection finishes the call only after the other side has read
// everything, because this process may end then: the sockets of an ended process answer with a
// reset, on which gRPC drops what it has not read yet.
void GrpcStream::finish_if_due(Lock&) {
  const bool due = read_all_ || (sent_all_ && peer_has_all_ && call_ && call_->finishes_alone());
  if (!due || finishing_ || writing_) return;
  finishing_ = true;
  call_->finish(
      CompletionQueueThread::tag([self = shared_from_this()](bool) { self->on_finished(); }));
}

void GrpcStream::on_finished() {
  Lock lock(mutex_);
  finished_ = true;
  end(lock, lost_connection(peer_, call_->outcome()));
  release_if_over(lock);
}

void GrpcStream::release_if_over(Lock& lock) {
  if (!finished_ || reading_ || writing_ || !call_) return;
  const std::shared_ptr<StreamCall> call = std::move(call_);
  if (closing_limit_) closing_limit_->Cancel();
  lock.unlock();
  queue_thread_->detach();
}

GrpcConnection::GrpcConnection(std::shared_ptr<GrpcStream> stream)
    : stream_(std::move(stream)), delivery_(stream_) {
  stream_->set_listener(delivery_.deliver_pending());
}

GrpcConnection::~GrpcConnection() {
  stream_->set_listener({});
  stream_->close(dropped());
}

void GrpcConnection::start(Events events) {
  delivery_.start(std::move(events));
  stream_->announce();
}

void GrpcConnection::send(Message message) {
  // The thread that polls must not wait: no other thread reads meanwhile.
  const bool polls = stream_->queue_thread().is_polling_here();
  write(std::move(message), polls ? WhenFull::Grow : delivery_.when_full());
}

void GrpcConnection::write(Message message, WhenFull when_full) {
  // Before the message goes: a caller that has the answer finds the message counted.
  delivery_.sent(size_of(message));
  stream_->send(std::move(message), when_full);
}

}  // namespace cohort::internal
