#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cohort/graph.h"
#include "cohort/tensor.h"

// What a training has to show: numbers, distributions, pictures and text, in the event files that
// TensorBoard reads.

namespace cohort {

namespace internal {
class EventFile;
}

// Where numbers that describe a training go. Derive from it to send them elsewhere.
class ScalarSink {
 public:
  virtual ~ScalarSink() = default;
  virtual void add_scalar(const std::string& tag, double value, int64_t step) = 0;
  virtual void flush() {}
};

struct SummaryWriterOptions {
  // What was added is in the file at the latest with the first addition after so much time.
  std::chrono::milliseconds flush_interval{10'000};
  std::string filename_suffix = {};
  // For a training that goes on: TensorBoard drops the points of this step and later ones that are
  // in older files of the directory.
  std::optional<int64_t> purge_step = {};
};

// Writes one event file, "directory/events.out.tfevents.<seconds>.<host>.<process>.<number>". Runs
// that are to be compared have directories side by side. `tensorboard --logdir directory` shows
// them.
//
// Tags are paths: "loss/train" and "loss/test" stand together. Thread-safe.
class SummaryWriter : public ScalarSink {
 public:
  // Makes the directory where it is missing. Throws when the file cannot be made: PermissionDenied,
  // ResourceExhausted for a full disk, FailedPrecondition where a directory is a file.
  explicit SummaryWriter(const std::string& directory, const SummaryWriterOptions& options = {});
  ~SummaryWriter() override;  // closes; what close() would throw is logged
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // An empty tag, or one that is not UTF-8, is InvalidArgument, here and below.
  void add_scalar(const std::string& tag, double value, int64_t step) override;
  // How the elements of `values` are distributed. Elements that are not finite are left out, with a
  // warning; strings are InvalidArgument.
  void add_histogram(const std::string& tag, const Tensor& values, int64_t step);
  // A picture (height, width) or (channels, height, width) with 1 channel (grey), 3 (RGB) or 4
  // (RGBA). uint8 as it is; floats from 0 to 1, cut off outside. Others are InvalidArgument.
  void add_image(const std::string& tag, const Tensor& image, int64_t step);
  // Markdown.
  void add_text(const std::string& tag, std::string_view text, int64_t step);
  void add_graph(const Graph& graph);

  // Hands everything to the system, so that it survives the end of this program.
  void flush() override;
  // Adding afterwards is FailedPrecondition. Again is harmless.
  void close();
  const std::string& path() const;

 private:
  std::unique_ptr<internal::EventFile> file_;
};

// Values in an event file that are not one number.
struct SummaryHistogram {
  double min = 0, max = 0, sum = 0;
  int64_t count = 0;
};
struct SummaryImage {
  int height = 0, width = 0, channels = 0;
  std::string png = {};
};
struct SummaryText {
  std::string text = {};
};
struct SummaryGraph {
  int64_t nodes = 0;
};

// One value in an event file.
struct SummaryEvent {
  std::chrono::system_clock::time_point time = {};
  int64_t step = 0;
  std::string tag = {};
  std::variant<double, SummaryHistogram, SummaryImage, SummaryText, SummaryGraph> value = {};
};

// What is in an event file, of this library or another, in its order; values of other kinds are
// left out. NotFound without such a file; DataLoss, with its place, for a record that is damaged or
// cut short.
std::vector<SummaryEvent> read_events(const std::string& path);
// The same one by one, so that what comes before a damaged record is had.
void read_events(const std::string& path, const std::function<void(const SummaryEvent&)>& take);

}  // namespace cohort
