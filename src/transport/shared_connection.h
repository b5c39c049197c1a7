#pragma once

#include <memory>
#include <vector>

#include "transport/shared_outbox.h"

namespace cohort::internal {

// What the threads of one side of a shared-memory connection have in common.
struct SharedSide {
  // `outgoing`: the direction in which this side sends.
  SharedSide(std::shared_ptr<SharedMapping> memory, std::shared_ptr<PeerSignals> sockets,
             int outgoing, Peer self, Peer peer);

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
  void announce(const SharedRecord& record);
  std::optional<Message> add_part(const SharedRecord& record);
  bool has_news() const { return ring_.has_record() || side_->end.may_have_ended(); }
  bool has_news_for(Reader reader) const;
  bool is_worth_spinning(Reader reader);

  const std::shared_ptr<SharedSide> side_;
  RingReader ring_;
  std::atomic<bool> attended_ = false;
  std::atomic<bool> was_attended_ = false;  // since the last look of the background reader
  // Belong to the thread that takes:
  std::vector<std::byte> record_;
  std::vector<std::byte> meta_;
  std::optional<Assembly> assembly_;
};

std::shared_ptr<Connection> make_shared_connection(std::shared_ptr<SharedSide> side);

}  // namespace cohort::internal
