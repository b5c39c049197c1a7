#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/mailbox.h"
#include "cli/node_messages.h"
#include "transport/connection.h"

namespace cohort::cli {

// A machine that joined the run of this launcher.
class Node : public TaskHost {
 public:
  // The machine's messages come through the mailbox, which outlives the node. `changed` is called
  // when the machine has offered itself, has ports, or is lost.
  Node(std::shared_ptr<internal::Connection> connection, Mailbox& mailbox, TaskEvents events,
       std::function<void()> changed);
  ~Node() override;

  const NodeOffer& offer() const { return offer_; }
  const std::vector<int>& ports() const { return ports_; }
  const Status& lost() const { return lost_; }  // why, or OK

  void hold_ports(int count);
  void start(const TaskStart& start) override;
  void signal(size_t task, int signal) override;
  void ask_place(size_t task) override;
  std::chrono::nanoseconds clock_ahead() const override { return clock_ahead_; }
  void say_goodbye();

 private:
  void receive(const internal::Message& message);
  void lose(const Status& why);
  bool runs(size_t task) const { return running_.contains(task); }
  void note_line(const NodeLine& line);
  void ask_clock();
  void take_clock(std::chrono::nanoseconds theirs);
  void send(internal::Message message);

  const std::shared_ptr<internal::Connection> connection_;
  const TaskEvents events_;
  const std::function<void()> changed_;
  std::shared_ptr<bool> alive_ =
      std::make_shared<bool>(true);  // watched by messages in the mailbox
  NodeOffer offer_;
  std::vector<int> ports_;
  struct Running {
    std::chrono::steady_clock::time_point since;
    std::deque<std::string> last_lines = {};
  };
  std::map<size_t, Running> running_;  // by task
  Status lost_;
  // The machine's clock, from the quickest answer.
  int clock_questions_ = 0;
  std::chrono::steady_clock::time_point clock_asked_at_;
  std::chrono::nanoseconds quickest_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds clock_ahead_{};
};

}  // namespace cohort::cli
