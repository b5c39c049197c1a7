#include "cluster/gather.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "base/activity.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "cluster/lost_task.h"
#include "runtime/worker_pool.h"

namespace cohort::internal {
namespace {

using Clock = std::chrono::steady_clock;

// Who waits is told soon for whom, when a try has shown why, and then now and again.
constexpr auto kFirstNotice = std::chrono::milliseconds(2500);
constexpr auto kNoticeEvery = std::chrono::milliseconds(5000);
constexpr auto kOneTry = std::chrono::milliseconds(2000);

bool is_missing(Code code) { return code == Code::Unavailable || code == Code::DeadlineExceeded; }

// The tasks of one with_tasks(), and what became of them.
class Gatherer {
 public:
  Gatherer(const TaskDirectory& directory, const std::vector<std::string>& tasks,
           const Gathering& gathering,
           const std::function<void(size_t, const Link::Pointer&)>& body)
      : directory_(directory),
        tasks_(tasks),
        gathering_(gathering),
        body_(body),
        reasons_(tasks.size()),
        is_done_(tasks.size()) {}

  void go() {
    open_ = tasks_.size();
    for (size_t i = 0; i < tasks_.size(); ++i) {
      run_pool().submit([this, i] { work(i); });
    }
    wait();
    throw_failures();
  }

 private:
  void work(size_t i) {
    Link::Pointer link;
    Status status = capture_status([&] {
      link = reach(i);
      body_(i, link);
    });
    if (!status.ok() && link && link->ended()) status = lost_task(tasks_[i], status);
    const std::lock_guard lock(mutex_);
    reasons_[i] = std::move(status);
    is_done_[i] = true;
    --open_;
    ended_.notify_all();
  }

  Link::Pointer reach(size_t i) {
    Status told;  // the last reason that is more than silence, where there was one
    while (true) {
      Link::Pointer link;
      Status status = capture_status([&] {
        link = directory_.get(tasks_[i], std::min(gathering_.deadline, Clock::now() + kOneTry));
      });
      if (status.ok()) return link;
      if (!is_missing(status.code)) throw Error(std::move(status));
      if (told.ok() || status.code != Code::DeadlineExceeded) told = std::move(status);
      if (Clock::now() >= gathering_.deadline) throw Error(told);
      const std::lock_guard lock(mutex_);
      reasons_[i] = told;
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    WaitNote note;
    const auto began = Clock::now();
    Clock::duration patience = std::min<Clock::duration>(kFirstNotice, stall_patience());
    while (!ended_.wait_for(lock, patience, [&] { return open_ == 0; })) {
      patience = std::min<Clock::duration>(kNoticeEvery, stall_patience());
      note = WaitNote(WaitKind::Answer, fmt::format("[{}]", gathering_.what), open_tasks(), began);
      const std::string text =
          fmt::format("[{}] waiting for {}", gathering_.what, fmt::join(missing(), "; "));
      lock.unlock();
      gathering_.notice(text);
      lock.lock();
    }
  }

  std::vector<std::string> open_tasks() const {  // mutex_ is held
    std::vector<std::string> names;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (!is_done_[i]) names.push_back(tasks_[i]);
    }
    return names;
  }

  std::vector<std::string> missing() const {  // mutex_ is held
    std::vector<std::string> texts;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (!reasons_[i].ok()) texts.push_back(reasons_[i].message);
    }
    if (texts.empty()) texts.emplace_back("tasks to answer");
    return texts;
  }

  void throw_failures() const {
    std::vector<std::string> gone;
    for (const Status& reason : reasons_) {
      if (reason.ok()) continue;
      if (!is_missing(reason.code)) throw Error(reason);
      gone.push_back(reason.message);
    }
    if (gone.empty()) return;
    raise(Code::Unavailable, "[{}] {} of {} tasks cannot be reached: {}", gathering_.what,
          gone.size(), tasks_.size(), fmt::join(gone, "; "));
  }

  const TaskDirectory& directory_;
  const std::vector<std::string>& tasks_;
  const Gathering& gathering_;
  const std::function<void(size_t, const Link::Pointer&)>& body_;

  Mutex mutex_;
  std::condition_variable_any ended_;
  std::vector<Status> reasons_;  // why a task failed, or is not there yet; guarded by mutex_
  std::vector<bool> is_done_;    // guarded by mutex_, as the next
  size_t open_ = 0;
};

}  // namespace

void with_tasks(const TaskDirectory& directory, const std::vector<std::string>& tasks,
                const Gathering& gathering,
                const std::function<void(size_t, const Link::Pointer&)>& body) {
  Gatherer(directory, tasks, gathering, body).go();
}

}  // namespace cohort::internal
