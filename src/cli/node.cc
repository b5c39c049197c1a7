#include "cli/node.h"

#include <utility>

namespace cohort::cli {

Node::Node(std::shared_ptr<internal::Connection> connection, Mailbox& mailbox, TaskEvents events,
           std::function<void()> changed)
    : connection_(std::move(connection)), events_(std::move(events)), changed_(std::move(changed)) {
  const std::weak_ptr<bool> alive = alive_;
  connection_->start({.received =
                          [this, alive, &mailbox](const internal::Message& message) {
                            mailbox.post([this, alive, message] {
                              if (!alive.expired()) receive(message);
                            });
                          },
                      .ended =
                          [this, alive, &mailbox](const Status& why) {
                            mailbox.post([this, alive, why] {
                              if (!alive.expired()) lose(why);
                            });
                          }});
}

Node::~Node() { connection_->close({.code = Code::Cancelled, .message = "the run is over"}); }

void Node::send(internal::Message message) {
  const Status status = capture_status([&] { connection_->send(std::move(message)); });
  if (!status.ok()) lose(status);
}

void Node::receive(const internal::Message& message) {
  const Status status = capture_status([&] {
    switch (kind_of(message)) {
      case NodeMessage::Offer:
        offer_ = decode<NodeOffer>(message);
        ask_clock();
        return changed_();
      case NodeMessage::Held:
        ports_ = decode<NodeHeld>(message).ports;
        return changed_();
      case NodeMessage::Line: {
        const auto line = decode<NodeLine>(message);
        note_line(line);
        return events_.line(line.task, line.stream, line.text);
      }
      case NodeMessage::Ended: {
        const auto ended = decode<NodeEnding>(message);
        if (running_.erase(ended.task) > 0) events_.ended(ended.task, ended.ending);
        return;
      }
      case NodeMessage::Waits: {
        const auto told = decode<NodeWaits>(message);
        if (runs(told.task)) events_.waits(told.task, told.waits);
        return;
      }
      case NodeMessage::Clock:
        return take_clock(decode<NodeClock>(message).time);
      case NodeMessage::Timeline: {
        const auto told = decode<NodeTimeline>(message);
        if (runs(told.task)) events_.timeline(told.task, told.lines);
        return;
      }
      case NodeMessage::Progress: {
        const auto told = decode<NodeProgress>(message);
        if (runs(told.task)) events_.progress(told.task, told.note);
        return;
      }
      case NodeMessage::Place: {
        const auto told = decode<NodePlace>(message);
        if (runs(told.task)) events_.place(told.task, told.place);
        return;
      }
      default:
        return;
    }
  });
  if (!status.ok()) lose(status);
}

void Node::lose(const Status& why) {
  if (!lost_.ok()) return;
  lost_ = why.ok() ? Status{.code = Code::Unavailable, .message = "it left"} : why;
  const auto now = std::chrono::steady_clock::now();
  for (auto& [task, running] : std::exchange(running_, {})) {
    events_.ended(
        task, {.lost_machine = "the machine at " + offer_.address + " was lost: " + lost_.message,
               .seconds = std::chrono::duration<double>(now - running.since).count(),
               .last_lines = {running.last_lines.begin(), running.last_lines.end()}});
  }
  changed_();
}

// Keeps what the machine would send with the end of the task, in case the machine is lost.
void Node::note_line(const NodeLine& line) {
  constexpr size_t kLines = 10;
  const auto found = running_.find(line.task);
  if (found == running_.end()) return;
  std::deque<std::string>& lines = found->second.last_lines;
  lines.push_back(line.text);
  if (lines.size() > kLines) lines.pop_front();
}

void Node::hold_ports(int count) { send(encode(NodeHold{count})); }

void Node::start(const TaskStart& start) {
  if (!lost_.ok()) {
    return events_.ended(start.task, {.not_started = "the machine was lost: " + lost_.message});
  }
  running_[start.task] = {.since = std::chrono::steady_clock::now()};
  send(encode(NodeStart{start}));
}

void Node::signal(size_t task, int signal) {
  if (lost_.ok()) send(encode(NodeSignal{task, signal}));
}

void Node::ask_place(size_t task) {
  if (lost_.ok()) send(encode(NodeWhere{task}));
}

void Node::ask_clock() {
  constexpr int kQuestions = 8;
  if (!lost_.ok() || clock_questions_++ == kQuestions) return;
  clock_asked_at_ = std::chrono::steady_clock::now();
  send(encode(NodeClock{clock_asked_at_.time_since_epoch()}));
}

// The machine read its clock at some time between question and answer.
void Node::take_clock(std::chrono::nanoseconds theirs) {
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - clock_asked_at_;
  if (took < quickest_) {
    quickest_ = took;
    clock_ahead_ = theirs - (clock_asked_at_.time_since_epoch() + took / 2);
  }
  ask_clock();
}

void Node::say_goodbye() {
  if (lost_.ok()) send(encode(NodeGoodbye{}));
}

}  // namespace cohort::cli
