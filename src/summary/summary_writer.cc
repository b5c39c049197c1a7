#include <google/protobuf/stubs/common.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/ops.h"
#include "cohort/summary.h"
#include "summary/event_file.h"
#include "summary/histogram.h"
#include "summary/image.h"

namespace cohort {
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
    if (!is_utf8(tag)) {  // readers would refuse the event, and all behind it
      raise(Code::InvalidArgument, "[{}] the tag is not UTF-8; write it in letters of that", what);
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

SummaryWriter::SummaryWriter(const std::string& folder, const SummaryWriterOptions& options)
    : file_(std::make_unique<internal::EventFile>(folder, options)) {}

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
