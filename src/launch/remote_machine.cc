#include "launch/remote_machine.h"

#include <utility>

namespace cohort::cli {

RemoteMachine::RemoteMachine(std::shared_ptr<internal::Connection> connection, PostedCalls& calls,
                             TaskEvents events)
    : connection_(std::move(connection)), events_(std::move(events)) {
  const std::weak_ptr<bool> alive = alive_;
  connection_->start({.received =
                          [this, alive, &calls](const internal::Message& message) {
                            calls.post([this, alive, message] {
                              if (!alive.expired()) receive(message);
                            });
                          },
                      .ended =
                          [this, alive, &calls](const Status& why) {
                            calls.post([this, alive, why] {
                              if (!alive.expired()) lose(why);
                            });
                          }});
}

RemoteMachine::~RemoteMachine() {
  connection_->close({.code = Code::Cancelled, .message = "the run is over"});
}

void RemoteMachine::send(internal::Message message) {
  const Status status = capture_status([&] { connection_->send(std::move(message)); });
  if (!status.ok()) lose(status);
}

template <typename Message, typename Event>
void RemoteMachine::pass_on(const internal::Message& message, const Event& event) const {
  const auto about = decode<Message>(message);
  if (running_.contains(about.task)) event(about.task, about.value);
}

void RemoteMachine::receive(const internal::Message& message) {
  const Status status = capture_status([&] {
    switch (kind_of(message)) {
      case MachineMessage::Offer:
        offer_ = decode<MachineOffer>(message);
        return ask_clock();
      case MachineMessage::Held:
        ports_ = decode<MachineHeld>(message).ports;
        return;
      case MachineMessage::Line: {
        const auto line = decode<MachineLine>(message);
        note_line(line);
        return events_.line(line.task, line.stream, line.text);
      }
      case MachineMessage::Ended: {
        const auto ended = decode<MachineEnding>(message);
        if (running_.erase(ended.task) > 0) events_.ended(ended.task, ended.value);
        return;
      }
      case MachineMessage::Clock:
        return take_clock(decode<MachineClock>(message).time);
      case MachineMessage::Waits:
        return pass_on<MachineWaits>(message, events_.waits);
      case MachineMessage::Timeline:
        return pass_on<MachineTimeline>(message, events_.timeline);
      case MachineMessage::Progress:
        return pass_on<MachineProgress>(message, events_.progress);
      case MachineMessage::Place:
        return pass_on<MachinePlace>(message, events_.place);
      default:
        return;
    }
  });
  if (!status.ok()) lose(status);
}

void RemoteMachine::lose(const Status& why) {
  if (!lost_.ok()) return;
  lost_ = why.ok() ? Status{.code = Code::Unavailable, .message = "it left"} : why;
  const auto now = std::chrono::steady_clock::now();
  for (auto& [task, running] : std::exchange(running_, {})) {
    events_.ended(
        task, {.lost_machine = "the machine at " + offer_.address + " was lost: " + lost_.message,
               .seconds = std::chrono::duration<double>(now - running.since).count(),
               .last_lines = {running.last_lines.begin(), running.last_lines.end()}});
  }
}

// Keeps the lines that the machine would send with the end of the task, in case it is lost.
void RemoteMachine::note_line(const MachineLine& line) {
  constexpr size_t kLines = 10;
  const auto found = running_.find(line.task);
  if (found == running_.end()) return;
  std::deque<std::string>& lines = found->second.last_lines;
  lines.push_back(line.text);
  if (lines.size() > kLines) lines.pop_front();
}

void RemoteMachine::start(const TaskStart& start) {
  if (!lost_.ok()) {
    return events_.ended(start.task, {.not_started = "the machine was lost: " + lost_.message});
  }
  running_[start.task] = {.since = std::chrono::steady_clock::now()};
  send(encode(MachineStart{start}));
}

void RemoteMachine::signal(size_t task, int signal) {
  if (lost_.ok()) send(encode(MachineSignal{task, signal}));
}

void RemoteMachine::ask_place(size_t task) {
  if (lost_.ok()) send(encode(MachineWhere{task}));
}

void RemoteMachine::ask_clock() {
  constexpr int kQuestions = 8;
  if (!lost_.ok() || clock_questions_++ == kQuestions) return;
  clock_asked_at_ = std::chrono::steady_clock::now();
  send(encode(MachineClock{clock_asked_at_.time_since_epoch()}));
}

// The machine read its clock at some time between question and answer.
void RemoteMachine::take_clock(std::chrono::nanoseconds theirs) {
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - clock_asked_at_;
  if (took < quickest_) {
    quickest_ = took;
    clock_ahead_ = theirs - (clock_asked_at_.time_since_epoch() + took / 2);
  }
  ask_clock();
}

void RemoteMachine::say_goodbye() {
  if (lost_.ok()) send(encode(MachineGoodbye{}));
}

}  // namespace cohort::cli
