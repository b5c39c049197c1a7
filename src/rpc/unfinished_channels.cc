#include "rpc/unfinished_channels.h"

#include "rpc/grpc_time.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// How often the end of the process is noticed while a channel is kept.
constexpr std::chrono::milliseconds kMoment{50};
// gRPC gives up a connection attempt after 20 s.
constexpr std::chrono::seconds kLongest{30};

bool is_connecting(grpc::Channel& channel) {
  return channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_CONNECTING;
}

}  // namespace

struct UnfinishedChannels::Kept {
  std::shared_ptr<grpc::Channel> channel;
  Deadline until;
};

std::shared_ptr<grpc::Channel> UnfinishedChannels::guard(std::shared_ptr<grpc::Channel> channel) {
  // Each channel holds it, so that one that static destructors drop finds it, too.
  static const auto all = std::make_shared<UnfinishedChannels>();
  grpc::Channel* const same = channel.get();
  return {same, [all = all, held = std::move(channel)](grpc::Channel*) mutable {
            if (is_connecting(*held)) all->keep(std::move(held));
          }};
}

UnfinishedChannels::~UnfinishedChannels() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.Shutdown();
  }
  thread_.reset();
  run();  // where no thread has emptied the queue, which is due before its end
}

void UnfinishedChannels::keep(std::shared_ptr<grpc::Channel> channel) {
  const std::lock_guard lock(mutex_);
  if (!thread_) thread_.emplace("channels", [this](const std::stop_token&) { run(); });
  await_change(std::make_unique<Kept>(Kept{std::move(channel), steady_clock::now() + kLongest}));
}

void UnfinishedChannels::await_change(std::unique_ptr<Kept> kept) {
  grpc::Channel& channel = *kept->channel;
  channel.NotifyOnStateChange(GRPC_CHANNEL_CONNECTING, to_grpc_time(steady_clock::now() + kMoment),
                              &queue_, kept.release());
}

void UnfinishedChannels::run() {
  void* tag = nullptr;
  bool changed = false;
  while (queue_.Next(&tag, &changed)) {
    std::unique_ptr<Kept> kept;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    kept.reset(static_cast<Kept*>(tag));
    const bool over = changed || steady_clock::now() >= kept->until;
    if (!over && !stopping_) await_change(std::move(kept));
  }
}

}  // namespace cohort::internal
