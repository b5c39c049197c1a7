#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_identity.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "cohort/events.pb.h"
#include "cohort/ops.h"
#include "cohort/readers.h"
#include "cohort/summary.h"

namespace cohort {
namespace internal {
namespace {

constexpr int kStart = 1;  // SessionLog.SessionStatus.START

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
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
    if (std::chrono::floor<std::chrono::milliseconds>(Clock::now() - last_flush_) >=
        flush_interval_) {
      flush_locked();
    }
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
  Mutex mutex_;
  data::TFRecordWriter records_;  // guarded by mutex_, as the next
  Clock::time_point last_flush_ = Clock::now();
};

}  // namespace internal

namespace {

using internal::raise;

// Upper limits of the buckets, ascending. The last bucket has room for every number.
const std::vector<double>& limits() {
  static const std::vector<double> all = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> both;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) both.push_back(-*limit);
    both.push_back(0);
    both.insert(both.end(), positive.begin(), positive.end());
    return both;
  }();
  return all;
}

// Buckets from the first to the last that has a value. An empty bucket comes before them, because
// its limit is where the first bucket begins.
void add_buckets(const std::vector<int64_t>& counts, events::Histogram& histogram) {
  const auto is_full = [](int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_full);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_full).base();
  for (auto count = first == counts.begin() ? first : first - 1; count < last; ++count) {
    histogram.add_bucket_limit(limits()[static_cast<size_t>(count - counts.begin())]);
    histogram.add_bucket(static_cast<double>(*count));
  }
}

// How finite values are distributed, in buckets that grow by a tenth from 1e-12 on, to either side
// of 0, as TensorBoard's own writers cut them.
events::Histogram make_histogram(std::span<const double> values) {
  events::Histogram histogram;
  if (values.empty()) return histogram;
  std::vector<int64_t> counts(limits().size());
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    const auto limit = std::lower_bound(limits().begin(), limits().end(), value);
    ++counts[static_cast<size_t>(limit - limits().begin())];
  }
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  histogram.set_min(*least);
  histogram.set_max(*largest);
  histogram.set_num(static_cast<double>(values.size()));
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  add_buckets(counts, histogram);
  return histogram;
}

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

// A chunk of a PNG file: length, name, content, and the checksum of the last two.
std::string chunk(std::string_view name, std::string_view content) {
  std::string named(name);
  named += content;
  const auto sum = crc32(0, bytes_of(named), static_cast<uInt>(named.size()));
  return big_endian(static_cast<uint32_t>(content.size())) + named +
         big_endian(static_cast<uint32_t>(sum));
}

std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  const int code =
      compress(reinterpret_cast<Bytef*>(result.data()), &size, bytes_of(bytes), bytes.size());
  if (code != Z_OK) raise(Code::Internal, "[add_image] zlib failed with code {}", code);
  result.resize(size);
  return result;
}

char colour_type(int channels) { return channels == 1 ? 0 : channels == 3 ? 2 : 6; }

// The picture has rows of pixels, of one byte for each channel: 1 (grey), 3 (RGB) or 4 (RGBA).
std::string encode_png(const events::Summary::Image& picture, std::span<const uint8_t> bytes) {
  const auto height = static_cast<uint32_t>(picture.height());
  const auto width = static_cast<uint32_t>(picture.width());
  std::string header = big_endian(width) + big_endian(height);
  header +=
      {8, colour_type(picture.colorspace()), 0, 0, 0};  // bits; compression, filter, interlace
  const size_t row = size_t{width} * static_cast<size_t>(picture.colorspace());
  std::string rows;
  for (size_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(bytes.data()) + y * row, row);
  }
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", deflated(rows)) +
         chunk("IEND", "");
}

[[noreturn]] void refuse(const Tensor& image) {
  raise(Code::InvalidArgument,
        "[add_image] expected uint8 or floats of shape (height, width) or (1, 3 or 4 channels, "
        "height, width), got {} {}; cast() and reshape() it, or add the pictures of a batch one by "
        "one",
        to_string(image.dtype()), image.shape().to_string());
}

bool has_picture_shape(const Shape& shape) {
  if (shape.num_elements() == 0) return false;
  if (shape.rank() == 2) return true;
  return shape.rank() == 3 && (shape[0] == 1 || shape[0] == 3 || shape[0] == 4);
}

Tensor as_bytes(const Tensor& image) {
  if (image.dtype() == kUInt8) return image;
  if (!is_floating(image.dtype())) refuse(image);
  return cast(round(clip(cast(image, kFloat32), 0.f, 1.f) * 255.f), kUInt8);
}

// A picture of one of the forms that SummaryWriter::add_image takes. Throws InvalidArgument.
events::Summary::Image encode_image(const Tensor& image) {
  if (!has_picture_shape(image.shape())) refuse(image);
  const Tensor bytes = as_bytes(image);
  const bool grey = image.shape().rank() == 2;
  const Tensor rows = grey ? bytes : transpose(bytes, {1, 2, 0});
  const Shape& shape = rows.shape();
  events::Summary::Image encoded;
  encoded.set_height(static_cast<int32_t>(shape[0]));
  encoded.set_width(static_cast<int32_t>(shape[1]));
  encoded.set_colorspace(grey ? 1 : static_cast<int32_t>(shape[2]));
  encoded.set_encoded_image_string(encode_png(encoded, rows.data<uint8_t>()));
  return encoded;
}

bool is_utf8(const std::string& text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(text.data(),
                                                             static_cast<int>(text.size()));
}

// An event with one value.
class ValueEvent {
 public:
  ValueEvent(std::string_view what, const std::string& tag, int64_t step) {
    if (tag.empty()) {
      raise(Code::InvalidArgument, "[{}] the tag is empty; give the value a name", what);
    }
    if (!is_utf8(tag)) {  // readers would refuse this event and all events after it
      raise(Code::InvalidArgument, "[{}] the tag is not UTF-8; encode it in UTF-8", what);
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
    raise(Code::InvalidArgument, "[add_histogram] '{}' holds strings; expected numbers", tag);
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
  if (!failure.ok()) {
    internal::log_error("[SummaryWriter] cannot close the event file: {}", failure.to_string());
  }
}

void SummaryWriter::add_scalar(const std::string& tag, double value, int64_t step) {
  ValueEvent event("add_scalar", tag, step);
  event->set_simple_value(static_cast<float>(value));
  event.add_to(*file_);
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, int64_t step) {
  ValueEvent event("add_histogram", tag, step);
  *event->mutable_histo() = make_histogram(finite_elements(tag, values));
  event.add_to(*file_);
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, int64_t step) {
  ValueEvent event("add_image", tag, step);
  *event->mutable_image() = encode_image(image);
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
