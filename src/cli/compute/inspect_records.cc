#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/compute/inspect_kinds.h"
#include "cohort/data.h"
#include "cohort/example.pb.h"

namespace cohort::cli {
namespace {

// The features of a tf.Example; nothing when the record is none.
std::string example_text(const std::string& record) {
  data::proto::Example example;
  if (!example.ParseFromString(record) || example.features().feature().empty()) return "";
  const std::map<std::string, data::proto::Feature> features(example.features().feature().begin(),
                                                             example.features().feature().end());
  std::string text;
  for (const auto& [name, feature] : features) {
    const bool floats = feature.has_float_list(), numbers = feature.has_int64_list();
    const int count = floats    ? feature.float_list().value_size()
                      : numbers ? feature.int64_list().value_size()
                                : feature.bytes_list().value_size();
    text += fmt::format("  {:<30} {} x {}\n", name, count,
                        floats ? "float32" : (numbers ? "int64" : "string"));
  }
  return text;
}

}  // namespace

bool begins_as_tfrecord(const std::string& path) {
  bool has_record = false;
  const Status status = capture_status(
      [&] { has_record = data::tfrecord(path).iterate().next_optional().has_value(); });
  return status.ok() && has_record;
}

void inspect_tfrecord(const std::string& path, const InspectOptions&) {
  size_t count = 0, bytes = 0, shortest = SIZE_MAX, longest = 0;
  std::string first;
  const Status status = capture_status([&] {
    for (const data::Element& element : data::tfrecord(path)) {
      const auto record = element.to<std::string>();
      if (count++ == 0) first = record;
      bytes += record.size();
      shortest = std::min(shortest, record.size());
      longest = std::max(longest, record.size());
    }
  });
  if (!status.ok() && count == 0) throw_if_error(status);
  fmt::print("TFRecord file {}\n{} records, {:.1f} MB", path, count,
             static_cast<double>(bytes) * 1e-6);
  if (count > 0) fmt::print(", of {} to {} bytes", shortest, longest);
  const std::string features = example_text(first);
  if (!features.empty()) fmt::print("\nthe first is a tf.Example with\n{}", features);
  if (features.empty()) fmt::print("\n");
  throw_if_error(status);  // behind what came before the damage
}

}  // namespace cohort::cli
