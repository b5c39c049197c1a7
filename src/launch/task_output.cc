#include "launch/task_output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/raise.h"
#include "launch/run_directory.h"

namespace cohort::cli {
namespace {

constexpr size_t kLongLine = 1 << 20;
constexpr std::chrono::milliseconds kLookForSignals{100};
// Colours that are readable on dark and on light terminals.
constexpr std::array kColours = {36, 33, 35, 32, 34, 31};

int descriptor(Stream stream) { return stream == Stream::Output ? STDOUT_FILENO : STDERR_FILENO; }

// How long write_out() may still wait for readers; empty: without a limit.
std::optional<std::chrono::milliseconds> time_left;

// Whether a signal that asks this process to end waits to be read.
bool is_asked_to_end() {
  sigset_t pending;
  if (sigpending(&pending) != 0) return false;
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGHUP) == 1;
}

// Waits until the file takes more bytes. False if the time is over.
bool wait_until_writable(int fd) {
  pollfd file{.fd = fd, .events = POLLOUT, .revents = 0};
  for (;;) {
    const auto limit = std::min(time_left.value_or(kLookForSignals), kLookForSignals);
    if (poll(&file, 1, static_cast<int>(limit.count())) > 0) return true;
    if (time_left) *time_left -= limit;
    if (time_left && time_left->count() <= 0) return false;
    if (is_asked_to_end()) hurry_readers();
  }
}

// The part after the last "\r" that is not at the end.
std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  return line.substr(line.rfind('\r') + 1);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty() && wait_until_writable(fd)) {
    // A pipe that is ready takes PIPE_BUF bytes at once.
    const ssize_t written = write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

constexpr std::string_view kErasedRow = "\r\033[K";
// The row below the lines on the terminal.
std::string row;

// The terminal with the row: standard error, as in other programs, or standard output. -1: none.
int row_descriptor() {
  static const int found = [] {
    const char* const kind = std::getenv("TERM");
    if (kind == nullptr || std::string_view(kind) == "dumb") return -1;
    for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
      if (isatty(fd) == 1) return fd;
    }
    return -1;
  }();
  return found;
}

size_t row_width() {
  constexpr size_t kUsual = 80;
  winsize size{};
  const bool known = ioctl(row_descriptor(), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : kUsual) - 1;
}

// Keeps a row below all that write_out() writes, cut to the width of the terminal; an empty text
// removes the row.
void show_row(const std::string& text) {
  const std::string before = std::exchange(row, shortened(text, row_width()));
  if (row != before) write_all(row_descriptor(), std::string(kErasedRow) + row);
}

bool is_control(char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; }

using Json = nlohmann::json;

bool is_number(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_number();
}
bool is_text(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_string();
}

// Whether it is an event of a timeline: one with a duration, or the name of a row.
bool is_event(const Json& event) {
  if (!event.is_object() || !is_text(event, "name") || !is_text(event, "ph")) return false;
  if (!is_number(event, "tid")) return false;
  if (event["ph"] == "M") return event.contains("args") && is_text(event["args"], "name");
  return event["ph"] == "X" && is_number(event, "ts") && is_number(event, "dur");
}

Json about_process(size_t task, const char* what, const Json& args) {
  return {{"name", what}, {"ph", "M"}, {"pid", task}, {"tid", 0}, {"args", args}};
}

}  // namespace

void hurry_readers() {
  if (!time_left) time_left = std::chrono::seconds(2);
}

void write_out(Stream stream, std::string_view text) {
  const int fd = descriptor(stream);
  const bool moves_row = !row.empty() && isatty(fd) == 1;
  if (moves_row) write_all(row_descriptor(), kErasedRow);
  write_all(fd, text);
  if (moves_row) write_all(row_descriptor(), row);
}

std::string printable(std::string_view text) {
  std::string result;
  text = last_state(text);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\033[")) {  // up to its final letter
      i = std::min(text.find_first_not_of("0123456789;?", i + 2), text.size());
    } else {
      result += is_control(text[i]) ? ' ' : text[i];
    }
  }
  return result;
}

std::string shortened_frame(const std::string& frame) {
  const size_t place = std::min(frame.rfind(" at "), frame.size());
  const size_t room = kReportWidth - std::min(kReportWidth, frame.size() - place + 3);
  return place <= room ? frame : frame.substr(0, room) + "..." + frame.substr(place);
}

std::string frame_lines(const std::vector<std::string>& frames, size_t count) {
  std::string text;
  for (size_t i = 0; i < std::min(count, frames.size()); ++i) {
    text += fmt::format("    #{:<2} {}\n", i, shortened_frame(frames[i]));
  }
  if (frames.size() > count) text += fmt::format("    ... {} more\n", frames.size() - count);
  return text;
}

void LineCutter::add(std::string_view bytes) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;) {
    begun_ += bytes.substr(0, end);
    take_(begun_);
    begun_.clear();
    bytes.remove_prefix(end + 1);
  }
  begun_ += bytes;
  if (begun_.size() > kLongLine) finish();
}

void LineCutter::finish() {
  if (begun_.empty()) return;
  take_(begun_);
  begun_.clear();
}

TaskLog::TaskLog(std::string path) : path_(std::move(path)), file_(path_, std::ios::app) {
  if (!file_) {
    internal::raise(Code::PermissionDenied, "[Run] '{}' cannot be written; see --log-dir", path_);
  }
}

std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  size_t end = width - std::min<size_t>(width, 3);
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string TaskLog::add(std::string_view line) {
  errno = 0;
  if (file_ << line << '\n' << std::flush) return "";
  file_.clear();  // there may be room for the next line
  return std::strerror(errno);
}

Printer::Printer(std::vector<std::string> labels) {
  size_t width = 0;
  for (const std::string& label : labels) width = std::max(width, label.size());
  for (const Stream stream : {Stream::Output, Stream::Errors}) {
    Look& look = looks_[static_cast<size_t>(stream)];
    look.terminal = isatty(descriptor(stream)) == 1;
    look.colourful = look.terminal && std::getenv("NO_COLOR") == nullptr;
    for (size_t i = 0; i < labels.size(); ++i) {
      const std::string plain = fmt::format("[{}]{:{}} ", labels[i], "", width - labels[i].size());
      look.prefixes.push_back(
          look.colourful ? fmt::format("\033[{}m{}\033[0m", kColours[i % kColours.size()], plain)
                         : plain);
    }
  }
}

void Printer::line(size_t task, Stream stream, std::string_view text) {
  const Look& look = looks_[static_cast<size_t>(stream)];
  if (look.terminal) text = last_state(text);
  const bool coloured = look.terminal && text.find('\033') != std::string_view::npos;
  write_out(stream,
            fmt::format("{}{}{}\n", look.prefixes.at(task), text, coloured ? "\033[0m" : ""));
}

ProgressView::ProgressView(std::string run_directory, std::vector<std::string> labels,
                           PrintLine print, std::chrono::milliseconds interval)
    : run_directory_(std::move(run_directory)),
      labels_(std::move(labels)),
      print_(std::move(print)),
      interval_(interval),
      printed_(Clock::now()) {}

bool ProgressView::is_live() const { return row_descriptor() >= 0; }

void ProgressView::set(size_t task, const internal::ProgressNote& note) {
  const bool changes =
      note.text.empty() ? notes_.erase(task) > 0 : std::exchange(notes_[task], note) != note;
  if (!changes) return;
  write_down();
  show();
}

void ProgressView::write_down() const {
  std::map<std::string, std::string> progress;
  for (const auto& [task, note] : notes_) progress[labels_.at(task)] = note.text;
  write_progress_file(run_directory_, progress);
}

void ProgressView::show() {
  const auto first =
      std::ranges::find_if(notes_, [](const auto& each) { return !each.second.quiet; });
  const bool shown = first != notes_.end();
  if (is_live()) {
    show_row(shown ? fmt::format("[{}] {}", labels_.at(first->first), printable(first->second.text))
                   : "");
  } else if (shown && Clock::now() - printed_ >= interval_) {
    printed_ = Clock::now();
    if (!first->second.printed) print_(first->first, first->second.text);
  }
}

TraceFile::TraceFile(std::string path, std::vector<std::string> labels)
    : path_(std::move(path)), labels_(std::move(labels)) {
  if (std::ofstream(path_)) return;
  internal::raise(Code::PermissionDenied, "[Run] --trace: '{}' cannot be written", path_);
}

void TraceFile::add(size_t task, std::string_view lines, std::chrono::nanoseconds clock_ahead) {
  const std::chrono::nanoseconds zero = began_.time_since_epoch() + clock_ahead;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    Json event = Json::parse(lines.substr(0, end), nullptr, false);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!is_event(event)) continue;
    event["pid"] = task;
    if (event["ph"] == "X") {
      event["ts"] = event["ts"].get<double>() - static_cast<double>(zero.count()) / 1e3;
    }
    events_ += ",\n" + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

void TraceFile::write() const {
  std::ofstream file(path_);
  file << R"({"displayTimeUnit":"ms","traceEvents":[)";
  for (size_t task = 0; task < labels_.size(); ++task) {
    file << (task == 0 ? "\n" : ",\n")
         << about_process(task, "process_name", {{"name", labels_[task]}}).dump() << ",\n"
         << about_process(task, "process_sort_index", {{"sort_index", task}}).dump();
  }
  file << events_ << "\n]}\n";
  if (!file.flush()) {
    internal::raise(Code::DataLoss,
                    "[Run] --trace: '{}' is incomplete: not all of it could be written", path_);
  }
}

}  // namespace cohort::cli
