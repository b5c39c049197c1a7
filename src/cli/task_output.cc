#include "cli/task_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/raise.h"

namespace cohort::cli {
namespace {

constexpr size_t kLongLine = 64 << 10;
// Of terminals: readable on dark and on light.
constexpr std::array kColours = {36, 33, 35, 32, 34, 31};

int descriptor(Stream stream) { return stream == Stream::Output ? STDOUT_FILENO : STDERR_FILENO; }

// All of it, in as few calls as there can be, so that lines of tasks do not mix.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

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

void TaskLog::add(std::string_view line) { file_ << line << '\n' << std::flush; }

bool is_colourful(int fd) { return isatty(fd) == 1 && std::getenv("NO_COLOR") == nullptr; }

Printer::Printer(std::vector<std::string> labels) {
  size_t width = 0;
  for (const std::string& label : labels) width = std::max(width, label.size());
  for (const Stream stream : {Stream::Output, Stream::Errors}) {
    const bool colourful = is_colourful(descriptor(stream));
    for (size_t i = 0; i < labels.size(); ++i) {
      const std::string plain = fmt::format("[{}]{:{}} ", labels[i], "", width - labels[i].size());
      prefixes_[static_cast<size_t>(stream)].push_back(
          colourful ? fmt::format("\033[{}m{}\033[0m", kColours[i % kColours.size()], plain)
                    : plain);
    }
  }
}

void Printer::line(size_t task, Stream stream, std::string_view text) {
  write_all(descriptor(stream),
            fmt::format("{}{}\n", prefixes_[static_cast<size_t>(stream)].at(task), text));
}

}  // namespace cohort::cli
