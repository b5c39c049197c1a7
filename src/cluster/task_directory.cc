#include "cluster/task_directory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "base/activity.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "runtime/thread_pool.h"
#include "topology/address.h"

namespace cohort::internal {

std::string task_name(const DeviceName& device) {
  return task_name(device.job.value_or(""), device.task.value_or(0));
}

std::vector<std::string> task_names(const ClusterSpec& cluster) {
  std::vector<std::string> names;
  for (const std::string& job : cluster.jobs()) {
    for (const int index : cluster.task_indices(job)) names.push_back(task_name(job, index));
  }
  std::ranges::sort(names);
  return names;
}

std::string address_of(const ClusterSpec& cluster, const std::string& task) {
  const auto name = DeviceName::try_parse(task);
  if (name && name->job && name->task && cluster.has_task(*name->job, *name->task)) {
    return cluster.task_address(*name->job, *name->task);
  }
  raise(Code::NotFound, "[Cluster] there is no task {}; the cluster has {}", task,
        fmt::join(task_names(cluster), ", "));
}

namespace {

bool is_same_place(const std::string& a, const std::string& b) {
  const HostPort one = parse_address(a);
  const HostPort other = parse_address(b);
  return one.port == other.port &&
         (one.host == other.host || (is_loopback(one.host) && is_loopback(other.host)));
}

}  // namespace

TaskDirectory::TaskDirectory(std::shared_ptr<Peers> peers, std::optional<ClusterSpec> renamed)
    : peers_(std::move(peers)),
      renamed_(renamed.has_value()),
      cluster_(renamed ? std::move(*renamed) : peers_->cluster()),
      self_(find_self()) {}

std::string TaskDirectory::find_self() const {
  if (!renamed_) return peers_->self();
  std::vector<std::string> found;
  for (const std::string& task : task_names(cluster_)) {
    if (is_same_place(address_of(cluster_, task), peers_->address())) found.push_back(task);
  }
  if (found.size() != 1) {
    raise(Code::InvalidArgument,
          "[Session] the session's cluster must list the session's server, at {}, once, but lists "
          "it {} times",
          peers_->address(), found.size());
  }
  if (found[0] == peers_->self()) {
    raise(Code::InvalidArgument,
          "[Session] the session's cluster gives its server the name {}, under which that server "
          "was started; name it after another job, or leave the cluster out",
          found[0]);
  }
  return found[0];
}

Link::Pointer TaskDirectory::get(const std::string& task, Deadline deadline) const {
  if (!renamed_) return peers_->get(task, deadline);
  if (task == self_) return peers_->get(peers_->self(), deadline);
  const std::string where = address(task);
  Link::Pointer link;
  Status status = capture_status([&] { link = peers_->get_at(where, deadline); });
  if (!status.ok()) {
    status.message = fmt::format("task {} at {}: {}", task, where, status.message);
    throw Error(std::move(status));
  }
  return link;
}

namespace {

using Clock = std::chrono::steady_clock;

// The client hears what is waited for: first when a try has shown why, then every few seconds.
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
    Status reason;  // the last one that is more than silence, where there was one
    while (true) {
      Link::Pointer link;
      Status status = capture_status([&] {
        link = directory_.get(tasks_[i], std::min(gathering_.deadline, Clock::now() + kOneTry));
      });
      if (status.ok()) return link;
      if (!is_missing(status.code)) throw Error(std::move(status));
      if (reason.ok() || status.code != Code::DeadlineExceeded) reason = std::move(status);
      if (Clock::now() >= gathering_.deadline) throw Error(reason);
      const std::lock_guard lock(mutex_);
      reasons_[i] = reason;
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    WaitNote note;
    const auto began = Clock::now();
    Clock::duration until_notice = std::min<Clock::duration>(kFirstNotice, stall_limit());
    while (!ended_.wait_for(lock, until_notice, [&] { return open_ == 0; })) {
      until_notice = std::min<Clock::duration>(kNoticeEvery, stall_limit());
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
