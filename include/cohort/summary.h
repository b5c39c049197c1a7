#pragma once

#include <map>

#include "cohort/graph.h"
#include "cohort/internal/durations.h"

// Summaries are numbers, distributions, images and text in event files, which TensorBoard shows.

namespace cohort {

// ScalarSink receives the numbers that describe a training. Derive from it to send them elsewhere.
class ScalarSink {
 public:
  virtual ~ScalarSink() = default;
  virtual void add_scalar(const std::string& tag, double value, int64_t step) = 0;
  virtual void flush() {}
};

// SummaryWriterOptions sets the name of an event file and when it is flushed.
struct SummaryWriterOptions {
  // An addition flushes the file if the last flush was at least this long ago.
  std::chrono::milliseconds flush_interval{10'000};
  std::string filename_suffix = {};
  // For a training that continues: TensorBoard drops the points of this step and later steps that
  // are in older files of the directory.
  std::optional<int64_t> purge_step = {};
};

// SummaryWriter writes numbers, histograms, images, texts and graphs to an event file.
//
//   SummaryWriter writer(directory + "/run1");
//   writer.add_scalar("loss/train", 0.25, 100);
//   writer.add_histogram("kernel", w, 100);
//
// Give each run its own directory; `tensorboard --logdir` with their common directory compares the
// runs. Tags are paths: TensorBoard shows "loss/train" and "loss/test" together. The file is
// "directory/events.out.tfevents.<seconds>.<host>.<process>.<number>". Thread-safe.
class SummaryWriter : public ScalarSink {
 public:
  // Creates missing directories. If the file cannot be created, throws PermissionDenied,
  // ResourceExhausted (the disk is full) or FailedPrecondition (a directory of the path is a file).
  explicit SummaryWriter(const std::string& directory, const SummaryWriterOptions& options = {});
  ~SummaryWriter() override;  // closes the file and logs errors
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // The functions with a tag throw InvalidArgument if the tag is empty or not UTF-8.
  void add_scalar(const std::string& tag, double value, int64_t step) override;
  // Adds the distribution of the elements. Leaves out, with a warning, those that are not finite.
  // Throws InvalidArgument for strings.
  void add_histogram(const std::string& tag, const Tensor& values, int64_t step);
  // Adds an image of shape (height, width) or (channels, height, width), with 1 (grey), 3 (RGB) or
  // 4 (RGBA) channels. uint8, or floats that are clipped to 0 to 1; otherwise InvalidArgument.
  void add_image(const std::string& tag, const Tensor& image, int64_t step);
  // Adds text in Markdown.
  void add_text(const std::string& tag, std::string_view text, int64_t step);
  void add_graph(const Graph& graph);

  // Passes all additions to the operating system, so that they survive the end of this program.
  void flush() override;
  // Flushes and closes the file. Adding then throws FailedPrecondition. May be called again.
  void close();
  const std::string& path() const;

 private:
  internal::Owned<internal::EventFile> file_;
};

}  // namespace cohort

// ---- Scalars of graphs

namespace cohort::summary {

// Marks a scalar of the graph being built, which a hook writes under this tag, and returns it.
//
//   auto writer = std::make_shared<SummaryWriter>(directory);
//   summary::scalar("loss", loss);
//   SummarySaverHook hook({.scalars = summary::merge_all(), .summary_writer = writer});
//
// Open name scopes come before the tag: "train/loss". A tag that is taken gets a number: "loss_1".
// Throws FailedPrecondition if this thread builds no graph (use SummaryWriter::add_scalar() there),
// and InvalidArgument if the tag is empty or `value` is not one number of this graph.
Tensor scalar(const std::string& tag, const Tensor& value);

// Returns the scalars that the graph being built has marked so far, by tag. Throws
// FailedPrecondition if this thread builds no graph.
std::map<std::string, Tensor> merge_all();

}  // namespace cohort::summary
