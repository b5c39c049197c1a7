#include "cli/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/raise.h"

namespace cohort::cli {

Mailbox::Mailbox() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) internal::raise(Code::ResourceExhausted, "[Run] no file descriptor is left");
}

void Mailbox::post(std::function<void()> what) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(what));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

void Mailbox::deliver() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t read_bytes = read(event_.get(), &count, sizeof count);
  }
  for (const auto& what : posted) what();
}

}  // namespace cohort::cli
