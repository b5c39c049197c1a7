#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "base/thread.h"

namespace cohort::internal {

// Channels that their users drop while they connect. gRPC 1.51 loses the connection of a channel
// that is destroyed in that state: the socket stays open until the server closes it. So a channel
// is kept until it has connected or failed. Thread-safe.
class UnfinishedChannels {
 public:
  ~UnfinishedChannels();

  // The same channel; when its last user drops it, it is destroyed as soon as that loses nothing.
  static std::shared_ptr<grpc::Channel> guard(std::shared_ptr<grpc::Channel> channel);

 private:
  struct Kept;

  void keep(std::shared_ptr<grpc::Channel> channel);
  // Has the queue deliver it when its state changes, or after a moment. The lock is held.
  void await_change(std::unique_ptr<Kept> kept);
  void run();

  grpc::CompletionQueue queue_;
  Mutex mutex_;
  bool stopping_ = false;         // guarded by mutex_, as the next
  std::optional<Thread> thread_;  // started for the first channel
};

}  // namespace cohort::internal
