#include "base/log.h"
#include "cohort/data.h"
#include "data/file_writer.h"
#include "data/tfrecord.h"

namespace cohort::data {

struct TFRecordWriter::Impl {
  internal::FileWriter file;
};

TFRecordWriter::TFRecordWriter(const std::string& path)
    : impl_(std::make_unique<Impl>(Impl{internal::FileWriter(path)})) {}

TFRecordWriter::~TFRecordWriter() {
  const Status failure = capture_status([&] { close(); });
  if (!failure.ok()) cohort::internal::log_error("{}", failure.to_string());
}

void TFRecordWriter::write(std::string_view record) {
  impl_->file.write(internal::tfrecord_head(record));
  impl_->file.write(record);
  impl_->file.write(internal::tfrecord_tail(record));
}

void TFRecordWriter::flush() { impl_->file.flush(); }

void TFRecordWriter::close() { impl_->file.close(); }

}  // namespace cohort::data
