#include "transport/shared_inbox.h"

#include <cstring>

#include "base/waiting.h"
#include "transport/copy.h"
#include "transport/nonsense.h"

namespace cohort::internal {
namespace {

PeerSignals::Bell bell_of(Inbox::Reader reader) {
  return reader == Inbox::Reader::Foreground ? PeerSignals::Foreground : PeerSignals::Background;
}

WritableImage copy_of(std::span<const std::byte> bytes) {
  WritableImage copy = allocate_image(bytes.size());
  copy_bytes(copy.data, bytes.data(), bytes.size());
  return copy;
}

}  // namespace

SharedSide::SharedSide(std::shared_ptr<SharedMapping> memory, std::shared_ptr<PeerSignals> sockets,
                       int outgoing, Peer self, Peer peer)
    : mapping(std::move(memory)),
      bells(std::move(sockets)),
      in(mapping->direction(1 - outgoing)),
      end(std::move(self), std::move(peer), in, mapping->direction(outgoing), *bells),
      outbox(mapping->direction(outgoing), mapping->arena(outgoing), *bells, end),
      returns(std::make_shared<BlockReturns>(mapping, 1 - outgoing, bells)) {}

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
    if (record_.size() < sizeof(record)) raise_nonsense("half a record");
    std::memcpy(&record, record_.data(), sizeof(record));
    if (record.meta_size > record.size) raise_nonsense("a message inside of its description");
    if (auto message = message_of(record)) return message;
  }
  return std::nullopt;
}

std::optional<Message> SharedInbox::message_of(const SharedRecord& record) {
  if (assembly_ && record.kind != SharedRecord::Part) raise_nonsense("a message inside of another");
  switch (record.kind) {
    case SharedRecord::Inline:
      return open_inline(record);
    case SharedRecord::Whole:
      return open_whole(record);
    case SharedRecord::Announce:
      announce(record);
      return std::nullopt;
    case SharedRecord::Part:
      return add_part(record);
  }
  raise_nonsense("a record of no kind");
}

Message SharedInbox::open_inline(const SharedRecord& record) const {
  const std::span<const std::byte> image = std::span(record_).subspan(sizeof(record));
  if (image.size() != record.size) raise_nonsense("a record is not as long as it says");
  const auto meta = image.first(record.meta_size);
  const bool has_payloads = record.size > record.meta_size;
  return open_image(meta, has_payloads ? copy_of(image).image : Buffer{image});
}

// The meta is copied first: the other process could change it between check and use. Payloads are
// bytes without a meaning here.
Message SharedInbox::open_whole(const SharedRecord& record) {
  const bool keep_little = side_->returns->lends_much(record.size);
  const Buffer image = side_->returns->lend(record);
  const auto meta = image.bytes.first(record.meta_size);
  meta_.assign(meta.begin(), meta.end());
  return open_image(meta_, keep_little ? copy_of(image.bytes).image : image);
}

void SharedInbox::announce(const SharedRecord& record) {
  assembly_ = Assembly{allocate_image(record.size), record.meta_size};
}

std::optional<Message> SharedInbox::add_part(const SharedRecord& record) {
  if (!assembly_) raise_nonsense("a part of no message");
  const size_t size = assembly_->image.image.bytes.size();
  if (record.size > size - assembly_->filled) raise_nonsense("parts longer than their message");
  const Buffer part = side_->returns->lend(record);
  copy_bytes(assembly_->image.data + assembly_->filled, part.bytes.data(), part.bytes.size());
  assembly_->filled += part.bytes.size();
  if (assembly_->filled < size) return std::nullopt;
  const Assembly whole = *std::exchange(assembly_, std::nullopt);
  return open_image(whole.image.image.bytes.first(whole.meta_size), whole.image.image);
}

std::optional<Status> SharedInbox::ended() {
  auto why = side_->end.why();
  // What the other side sent before it went comes first.
  if (why && !side_->end.is_ours() && ring_.has_record()) return std::nullopt;
  return why;
}

bool SharedInbox::has_news_for(Reader reader) const {
  return has_news() && (reader == Reader::Foreground || !attended_);
}

// Where threads come to read for themselves, the background only takes their cores by looking.
bool SharedInbox::is_worth_spinning(Reader reader) {
  return reader == Reader::Foreground || !was_attended_.exchange(false);
}

void SharedInbox::wait(Reader reader, Deadline deadline) {
  if (is_worth_spinning(reader) && spin_until([&] { return has_news_for(reader); })) return;
  auto& attendance = reader == Reader::Foreground ? side_->in.foreground : side_->in.background;
  attendance.store(SharedDirection::Asleep);
  if (!has_news_for(reader)) {
    if (side_->outbox.start_leading()) {
      side_->bells->wait({bell_of(reader), PeerSignals::Room}, deadline);
      side_->outbox.stop_leading();
    } else {
      side_->bells->wait({bell_of(reader)}, deadline);
    }
  }
  attendance.store(SharedDirection::Awake);
}

void SharedInbox::wake(Reader reader) { side_->bells->wake(bell_of(reader)); }

void SharedInbox::attend(bool in_foreground) {
  attended_ = in_foreground;
  was_attended_ = true;
  side_->in.foreground.store(in_foreground ? SharedDirection::Awake : SharedDirection::Absent);
  if (!in_foreground && (has_news() || side_->outbox.has_queue())) wake(Reader::Background);
}

}  // namespace cohort::internal
