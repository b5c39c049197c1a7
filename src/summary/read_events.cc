#include <algorithm>

#include "base/raise.h"
#include "cohort/event_file.h"
#include "cohort/events.pb.h"
#include "cohort/summary.h"
#include "data/byte_source.h"
#include "data/tfrecord.h"

namespace cohort {
namespace {

// What TensorBoard's own writers add to the tag of a text.
constexpr std::string_view kTextSuffix = "/text_summary";

// Limits a number to the range of an integer. NaN and negative numbers become 0.
double within(double number, double limit) { return number > 0 ? std::min(number, limit) : 0; }

SummaryHistogram read_histogram(const events::Histogram& from) {
  return {.min = from.min(),
          .max = from.max(),
          .sum = from.sum(),
          .count = static_cast<int64_t>(within(from.num(), 1e18))};
}

SummaryImage read_image(const events::Summary::Image& from) {
  return {.height = from.height(),
          .width = from.width(),
          .channels = from.colorspace(),
          .png = from.encoded_image_string()};
}

// Returns false for an unknown kind of value.
bool read_value(const events::Summary::Value& from, SummaryEvent& to) {
  to.tag = from.tag();
  switch (from.value_case()) {
    case events::Summary::Value::kSimpleValue:
      to.value = double{from.simple_value()};
      return true;
    case events::Summary::Value::kHisto:
      to.value = read_histogram(from.histo());
      return true;
    case events::Summary::Value::kImage:
      to.value = read_image(from.image());
      return true;
    case events::Summary::Value::kTensor:
      if (from.metadata().plugin_data().plugin_name() != "text") return false;
      if (to.tag.ends_with(kTextSuffix)) to.tag.resize(to.tag.size() - kTextSuffix.size());
      to.value =
          SummaryText{from.tensor().string_val_size() > 0 ? from.tensor().string_val(0) : ""};
      return true;
    default:
      return false;
  }
}

std::chrono::system_clock::time_point time_of(const events::Event& event) {
  const std::chrono::duration<double> seconds(within(event.wall_time(), 4e9));
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(seconds));
}

void read_event(const events::Event& event, const std::function<void(const SummaryEvent&)>& take) {
  SummaryEvent read{.time = time_of(event), .step = event.step()};
  for (const events::Summary::Value& value : event.summary().value()) {
    if (read_value(value, read)) take(read);
  }
  events::GraphDef graph;
  if (event.has_graph_def() && graph.ParseFromString(event.graph_def())) {
    read.tag = "graph";
    read.value = SummaryGraph{graph.node_size()};
    take(read);
  }
}

}  // namespace

std::vector<SummaryEvent> read_events(const std::string& path) {
  std::vector<SummaryEvent> all;
  read_events(path, [&](const SummaryEvent& event) { all.push_back(event); });
  return all;
}

void read_events(const std::string& path, const std::function<void(const SummaryEvent&)>& take) {
  data::internal::TFRecordFile file(data::internal::open_file(path), {});
  std::string record;
  while (file.next(record)) {
    events::Event event;
    if (!event.ParseFromString(record)) {
      internal::raise(Code::DataLoss, "[Events] '{}' has a record that is not an event", path);
    }
    read_event(event, take);
  }
}

}  // namespace cohort
