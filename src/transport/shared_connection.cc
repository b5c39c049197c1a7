#include "transport/shared_connection.h"

#include <cstring>

#include "base/waiting.h"

namespace cohort::internal {
namespace {

PeerSignals::Sleeper sleeper_of(Inbox::Reader reader) {
  return reader == Inbox::Reader::Foreground ? PeerSignals::Foreground : PeerSignals::Background;
}

Buffer copy_of(std::span<const std::byte> bytes) {
  std::shared_ptr<std::byte> copy = allocate_payload(bytes.size());
  copy_bytes(copy.get(), bytes.data(), bytes.size());
  return {{copy.get(), bytes.size()}, copy};
}

}  // namespace

SharedSide::SharedSide(SharedParts parts, int outgoing, Peer self, Peer peer)
    : mapping(std::move(parts.mapping)),
      signals(std::move(parts.signals)),
      in(mapping->direction(1 - outgoing)),
      end(std::move(self), std::move(peer), in, mapping->direction(outgoing), *signals),
      outbox(mapping->direction(outgoing), mapping->arena(outgoing), *signals, end),
      returns(std::make_shared<BlockReturns>(mapping, 1 - outgoing, signals)) {}

SharedInbox::SharedInbox(std::shared_ptr<SharedSide> side)
    : side_(std::move(side)), ring_(side_->in) {}

std::optional<Message> SharedInbox::take() {
  if (side_->end.is_ours()) return std::nullopt;
  std::optional<Message> message;
  const Status outcome = capture_status([&] { message = take_checked(); });
  if (!outcome.ok()) side_->end.fail(outcome);
  return message;
}

std::optional<Message> SharedInbox::take_checked() {
  while (ring_.read(record_)) {
    side_->returns->offer_room();
    SharedRecord record;
    if (record_.size() < sizeof(record)) raise_malformed("half a record");
    std::memcpy(&record, record_.data(), sizeof(record));
    if (record.meta_size > record.size) raise_malformed("a message inside its description");
    if (auto message = message_of(record)) return message;
  }
  return std::nullopt;
}

std::optional<Message> SharedInbox::message_of(const SharedRecord& record) {
  if (assembly_ && record.kind != SharedRecord::Part) raise_malformed("a message inside another");
  switch (record.kind) {
    case SharedRecord::Inline:
      return open_inline(record);
    case SharedRecord::Whole:
      return open_whole(record);
    case SharedRecord::Announce:
      assembly_ = Assembly{allocate_payload(record.size), record.size, record.meta_size};
      return std::nullopt;
    case SharedRecord::Part:
      return add_part(record);
  }
  raise_malformed("a record of no kind");
}

Message SharedInbox::open_inline(const SharedRecord& record) const {
  const std::span<const std::byte> image = std::span(record_).subspan(sizeof(record));
  if (image.size() != record.size) raise_malformed("a record is not as long as it says");
  const auto meta = image.first(record.meta_size);
  const bool has_payloads = record.size > record.meta_size;
  // The next record overwrites this one, and payloads may live longer.
  return open_image(meta, has_payloads ? copy_of(image) : Buffer{image});
}

// The meta is copied first: the other process could change it between check and use. Payloads have
// no meaning here.
Message SharedInbox::open_whole(const SharedRecord& record) {
  const bool keep_little = side_->returns->lends_much(record.size);
  const Buffer image = side_->returns->lend(record);
  const auto meta = image.bytes.first(record.meta_size);
  meta_.assign(meta.begin(), meta.end());
  return open_image(meta_, keep_little ? copy_of(image.bytes) : image);
}

std::optional<Message> SharedInbox::add_part(const SharedRecord& record) {
  if (!assembly_) raise_malformed("a part of no message");
  if (record.size > assembly_->size - assembly_->filled)
    raise_malformed("parts longer than their message");
  const Buffer part = side_->returns->lend(record);
  copy_bytes(assembly_->image.get() + assembly_->filled, part.bytes.data(), part.bytes.size());
  assembly_->filled += part.bytes.size();
  if (assembly_->filled < assembly_->size) return std::nullopt;
  const Assembly whole = *std::exchange(assembly_, std::nullopt);
  const Buffer image{{whole.image.get(), whole.size}, whole.image};
  return open_image(image.bytes.first(whole.meta_size), image);
}

std::optional<Status> SharedInbox::ended() {
  auto why = side_->end.why();
  // What the other side sent before its end comes first.
  if (why && !side_->end.is_ours() && ring_.has_record()) return std::nullopt;
  return why;
}

void SharedInbox::wait(Reader reader, Deadline deadline) {
  if (is_worth_spinning(reader) && spin_until([&] { return has_news_for(reader); })) return;
  auto& attendance = reader == Reader::Foreground ? side_->in.foreground : side_->in.background;
  // The sender writes first and looks at this afterwards, and this thread looks for news once more
  // after this. So one of the two sees the other.
  attendance.store(SharedDirection::Asleep);
  if (!has_news_for(reader)) {
    if (side_->outbox.start_leading()) {
      side_->signals->wait({sleeper_of(reader), PeerSignals::Room}, deadline);
      side_->outbox.stop_leading();
    } else {
      side_->signals->wait({sleeper_of(reader)}, deadline);
    }
  }
  attendance.store(SharedDirection::Awake);
}

void SharedInbox::wake(Reader reader) { side_->signals->wake(sleeper_of(reader)); }

void SharedInbox::attend(bool in_foreground) {
  attended_ = in_foreground;
  was_attended_ = true;
  side_->in.foreground.store(in_foreground ? SharedDirection::Awake : SharedDirection::Absent);
  if (!in_foreground && (has_news() || side_->outbox.has_queue())) wake(Reader::Background);
}

namespace {

class SharedConnection : public Connection {
 public:
  explicit SharedConnection(std::shared_ptr<SharedSide> side)
      : side_(side), delivery_("shared-memory", std::make_shared<SharedInbox>(std::move(side))) {}
  ~SharedConnection() override { SharedConnection::close(dropped()); }

  void start(Events events) override { delivery_.start(std::move(events)); }

  void send(Message message) override { write(std::move(message), delivery_.when_full()); }
  void post(Message message) override { write(std::move(message), WhenFull::Grow); }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }
  void wake() override { delivery_.wake(); }

  void close(const Status& why) override {
    side_->end.close(why);
    side_->outbox.end();
  }

  const Peer& peer() const override { return side_->end.peer(); }
  std::string_view kind() const override { return "shared-memory"; }
  Traffic traffic() const override { return delivery_.traffic(); }

 private:
  void write(Message message, WhenFull when_full) {
    check_no_mutex_held("sends");
    // Before the message goes: a caller that has the answer finds the message counted.
    delivery_.sent(size_of(message));
    side_->outbox.send(std::move(message), when_full);
  }

  const std::shared_ptr<SharedSide> side_;
  Delivery delivery_;  // last: its destructor waits for the events, which use the other members
};

}  // namespace

std::shared_ptr<Connection> make_shared_connection(SharedParts parts, int outgoing, Peer self,
                                                   Peer peer) {
  return std::make_shared<SharedConnection>(
      std::make_shared<SharedSide>(std::move(parts), outgoing, std::move(self), std::move(peer)));
}

}  // namespace cohort::internal
