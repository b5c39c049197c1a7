#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "cohort/readers.h"
#include "cohort/summary.h"
#include "summary/event_values.h"

namespace cohort {
namespace internal {
namespace {

constexpr int kStart = 1;  // SessionLog.SessionStatus.START

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// A name that no other writer has: TensorBoard reads the files of one directory together.
std::string new_path(const std::string& directory, const SummaryWriterOptions& options) {
  static std::atomic<int> next = 0;
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) {
    raise(code_of_errno(failed.value()), "[SummaryWriter] cannot make the directory '{}': {}",
          directory, failed.message());
  }
  return fmt::format("{}/events.out.tfevents.{:.0f}.{}.{}.{}{}", directory, seconds_since_1970(),
                     host_name(), getpid(), next++, options.filename_suffix);
}

}  // namespace

// The file that a SummaryWriter writes. Thread-safe.
class EventFile {
 public:
  EventFile(const std::string& directory, const SummaryWriterOptions& options)
      : flush_interval_(options.flush_interval),
        path_(new_path(directory, options)),
        records_(path_) {
    events::Event first;
    first.set_file_version("brain.Event:2");
    add(std::move(first));
    if (options.purge_step) {
      events::Event start;
      start.set_step(*options.purge_step);
      start.mutable_session_log()->set_status(kStart);
      add(std::move(start));
    }
    flush();
  }

  // Sets the event's time and writes the event.
  void add(events::Event event) {
    event.set_wall_time(seconds_since_1970());
    const std::string bytes = event.SerializeAsString();
    const std::lock_guard lock(mutex_);
    records_.write(bytes);
    if (Clock::now() - last_flush_ >= flush_interval_) flush_locked();
  }
  void flush() {
    const std::lock_guard lock(mutex_);
    flush_locked();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    records_.close();
  }
  const std::string& path() const { return path_; }

 private:
  void flush_locked() {
    records_.flush();
    last_flush_ = Clock::now();
  }

  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds flush_interval_;
  const std::string path_;
  std::mutex mutex_;
  data::TFRecordWriter records_;  // guarded by mutex_, as the next
  Clock::time_point last_flush_ = Clock::now();
};

}  // namespace internal

namespace {

using internal::raise;

bool is_utf8(const std::string& text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(text.data(),
                                                             static_cast<int>(text.size()));
}

// An event with one value.
class ValueEvent {
 public:
  ValueEvent(std::string_view what, const std::string& tag, int64_t step) {
    if (tag.empty()) raise(Code::InvalidArgument, "[{}] the tag is empty; name what it is", what);
    if (!is_utf8(tag)) {  // readers would refuse this event and all events after it
      raise(Code::InvalidArgument, "[{}] the tag is not UTF-8; encode it so", what);
    }
    event_.set_step(step);
    value_ = event_.mutable_summary()->add_value();
    value_->set_tag(tag);
  }
  events::Summary::Value* operator->() { return value_; }
  void add_to(internal::EventFile& file) { file.add(std::move(event_)); }

 private:
  events::Event event_;
  events::Summary::Value* value_;
};

std::vector<double> finite_elements(const std::string& tag, const Tensor& values) {
  if (values.dtype() == kString) {
    raise(Code::InvalidArgument, "[add_histogram] '{}' is of strings; expected numbers", tag);
  }
  const Tensor numbers = cast(values, kFloat64);
  std::vector<double> finite;
  std::ranges::copy_if(numbers.data<double>(), std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  const int64_t left_out = values.size() - static_cast<int64_t>(finite.size());
  if (left_out > 0) {
    internal::log_warning("[add_histogram] '{}': {} of {} elements are not finite and left out",
                          tag, left_out, values.size());
  }
  return finite;
}

}  // namespace

SummaryWriter::SummaryWriter(const std::string& directory, const SummaryWriterOptions& options)
    : file_(std::make_unique<internal::EventFile>(directory, options)) {}

SummaryWriter::~SummaryWriter() {
  const Status failure = capture_status([&] { close(); });
  if (!failure.ok()) internal::log_error("{}", failure.to_string());
}

void SummaryWriter::add_scalar(const std::string& tag, double value, int64_t step) {
  ValueEvent event("add_scalar", tag, step);
  event->set_simple_value(static_cast<float>(value));
  event.add_to(*file_);
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, int64_t step) {
  ValueEvent event("add_histogram", tag, step);
  *event->mutable_histo() = internal::make_histogram(finite_elements(tag, values));
  event.add_to(*file_);
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, int64_t step) {
  ValueEvent event("add_image", tag, step);
  *event->mutable_image() = internal::encode_image(image);
  event.add_to(*file_);
}

void SummaryWriter::add_text(const std::string& tag, std::string_view text, int64_t step) {
  constexpr int kStringType = 7;
  constexpr int kTensorClass = 2;
  ValueEvent event("add_text", tag, step);
  event->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  event->mutable_metadata()->set_data_class(kTensorClass);
  event->mutable_tensor()->set_dtype(kStringType);
  event->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  event->mutable_tensor()->add_string_val(std::string(text));
  event.add_to(*file_);
}

void SummaryWriter::add_graph(const Graph& graph) {
  events::GraphDef all;
  for (const NodeInfo& node : graph.nodes()) {
    events::GraphDef::NodeDef& written = *all.add_node();
    written.set_name(node.name);
    written.set_op(node.op);
    written.set_device(node.device);
    for (const std::string& input : node.inputs) written.add_input(input);
    for (const std::string& before : node.controls) written.add_input("^" + before);
  }
  events::Event event;
  event.set_graph_def(all.SerializeAsString());
  file_->add(std::move(event));
}

void SummaryWriter::flush() { file_->flush(); }
void SummaryWriter::close() { file_->close(); }
const std::string& SummaryWriter::path() const { return file_->path(); }

}  // namespace cohort
