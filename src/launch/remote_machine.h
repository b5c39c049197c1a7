#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/event_loop.h"
#include "launch/machine_messages.h"
#include "transport/connection.h"

namespace cohort::cli {

// A machine that joined the run of this launcher.
class RemoteMachine : public TaskHost {
 public:
  // The messages of the machine come through `calls`, which outlives this object.
  RemoteMachine(std::shared_ptr<internal::Connection> connection, PostedCalls& calls,
                TaskEvents events);
  ~RemoteMachine() override;

  const MachineOffer& offer() const { return offer_; }
  const std::vector<int>& ports() const { return ports_; }
  const Status& lost() const { return lost_; }  // why the machine is lost, or OK

  void hold_ports(int count) { send(encode(MachineHold{count})); }
  void start(const TaskStart& start) override;
  void signal(size_t task, int signal) override;
  void ask_place(size_t task) override;
  std::chrono::nanoseconds clock_ahead() const override { return clock_ahead_; }
  void say_goodbye();

 private:
  void receive(const internal::Message& message);
  // Calls `event` unless the task has ended.
  template <typename Message, typename Event>
  void pass_on(const internal::Message& message, const Event& event) const;
  void lose(const Status& why);
  void note_line(const MachineLine& line);
  void ask_clock();
  void take_clock(std::chrono::nanoseconds theirs);
  void send(internal::Message message);

  const std::shared_ptr<internal::Connection> connection_;
  const TaskEvents events_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // watched by posted calls
  MachineOffer offer_;
  std::vector<int> ports_;
  struct Running {
    std::chrono::steady_clock::time_point since;
    std::deque<std::string> last_lines = {};
  };
  std::map<size_t, Running> running_;  // by task
  Status lost_;
  // The clock of the machine, from the quickest answer.
  int clock_questions_ = 0;
  std::chrono::steady_clock::time_point clock_asked_at_;
  std::chrono::nanoseconds quickest_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds clock_ahead_{};
};

}  // namespace cohort::cli
