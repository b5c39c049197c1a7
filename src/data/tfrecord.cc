#include "data/tfrecord.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/log.h"
#include "data/reader.h"

namespace cohort::data {
namespace internal {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kHeadBytes = 12;
constexpr size_t kTailBytes = 4;
// Small enough to stay in the processor's cache until the checksum is computed.
constexpr size_t kPieceBytes = 128 << 10;

template <typename T>
T load(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
void store(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

class TFRecordNode : public ReaderStage<TFRecordNode, class TFRecordReader, StringReaderNode> {
 public:
  std::string_view kind() const override { return "TFRecord"; }
  void check() const override {
    check_at_least("TFRecord", "length of a record", options_of_file.max_record_bytes, 0);
  }
  void fields(Fields& fields) override {
    fields.field("check_crc", options_of_file.check_crc);
    fields.field("max_record_bytes", options_of_file.max_record_bytes);
  }

  TFRecordOptions options_of_file;
};

class TFRecordReader : public StringReader {
 public:
  TFRecordReader(const TFRecordNode& node, std::unique_ptr<ByteSource> file)
      : file_(std::move(file), node.options_of_file) {}

 private:
  bool read(std::string& record) override { return file_.next(record); }
  void local_position(PositionFields& fields) override { file_.position(fields); }

  TFRecordFile file_;
};

}  // namespace

TFRecordFile::TFRecordFile(std::unique_ptr<ByteSource> file, const TFRecordOptions& options)
    : bytes_(std::move(file)), options_(options) {}

template <typename... Args>
void TFRecordFile::fail(fmt::format_string<Args...> text, Args&&... args) {
  raise(Code::DataLoss, "[TFRecord] '{}' record {}: {}", bytes_.name(), number_ - 1,
        fmt::format(text, std::forward<Args>(args)...));
}

void TFRecordFile::fail_at_end(size_t claimed, size_t found) {
  fail("it claims {} bytes, but the file ends after {}", claimed, found);
}

bool TFRecordFile::read_length(int64_t& length) {
  const std::string_view head = as_text(bytes_.window(kHeadBytes)).substr(0, kHeadBytes);
  if (head.empty()) return false;
  ++number_;
  broken_ = true;  // until the length is checked
  if (head.size() < kHeadBytes) fail("the file ends inside its length");
  const auto claimed = load<uint64_t>(head);
  if (options_.check_crc && masked_crc32c(head.substr(0, 8)) != load<uint32_t>(head.substr(8))) {
    fail("the checksum of its length is wrong; is this a TFRecord file?");
  }
  const auto limit = static_cast<uint64_t>(options_.max_record_bytes);
  if (claimed > limit) fail("it claims {} bytes; at most {} are allowed", claimed, limit);
  bytes_.consume(kHeadBytes);
  const int64_t left = bytes_.left();
  if (left >= 0 && left < static_cast<int64_t>(claimed + kTailBytes)) {
    fail("it claims {} bytes, but the file has {} more", claimed, left);
  }
  length = static_cast<int64_t>(claimed);
  broken_ = false;
  return true;
}

uint32_t TFRecordFile::copy_content(std::string& record, size_t length) {
  const std::string_view content = as_text(bytes_.window(length)).substr(0, length);
  if (content.size() < length) fail_at_end(length, content.size());
  record = content;
  bytes_.consume(length);
  return options_.check_crc ? masked_crc32c(record) : 0;
}

// Reads in pieces, so that each piece is still in the processor's cache for its checksum, and so
// that a damaged length does not allocate memory.
uint32_t TFRecordFile::read_content(std::string& record, size_t length) {
  uint32_t crc = 0;
  record.clear();
  if (bytes_.left() >= 0) record.reserve(length);
  while (record.size() < length) {
    const size_t before = record.size();
    record.resize(std::min(length, before + kPieceBytes));
    const auto piece = std::as_writable_bytes(std::span(record).subspan(before));
    const size_t got = bytes_.read(piece);
    if (got < piece.size()) fail_at_end(length, before + got);
    if (options_.check_crc) crc = extend_crc32c(crc, as_text(piece));
  }
  return mask_crc32c(crc);
}

uint32_t TFRecordFile::read_checksum() {
  std::array<char, kTailBytes> tail{};
  if (bytes_.read(std::as_writable_bytes(std::span(tail))) < kTailBytes) {
    fail("the file ends before its checksum");
  }
  return load<uint32_t>({tail.data(), tail.size()});
}

bool TFRecordFile::next(std::string& record) {
  int64_t length = 0;
  if (broken_ || !read_length(length)) return false;
  broken_ = true;  // until the whole record is read
  const auto bytes = static_cast<size_t>(length);
  const uint32_t found = bytes < BufferedBytes::kDirectBytes ? copy_content(record, bytes)
                                                             : read_content(record, bytes);
  const uint32_t stored = read_checksum();
  broken_ = false;
  if (options_.check_crc && found != stored) {
    fail("the checksum of its {} bytes is wrong", length);
  }
  return true;
}

void TFRecordFile::position(PositionFields& fields) {
  fields.flag(broken_);
  file_position(fields, bytes_, number_);
}

std::string tfrecord_head(std::string_view record) {
  std::string head;
  store(head, static_cast<uint64_t>(record.size()));
  store(head, masked_crc32c(head));
  return head;
}

std::string tfrecord_tail(std::string_view record) {
  std::string tail;
  store(tail, masked_crc32c(record));
  return tail;
}

void write_record(FileWriter& file, std::string_view record) {
  file.write(tfrecord_head(record));
  file.write(record);
  file.write(tfrecord_tail(record));
}

std::shared_ptr<Node> make_tfrecord() { return std::make_shared<TFRecordNode>(); }

}  // namespace internal

Dataset tfrecord(const Files& files, const TFRecordOptions& options) {
  return internal::add_stage<internal::TFRecordNode>(
      internal::names_of(files), [&](auto& node) { node.options_of_file = options; });
}

struct TFRecordWriter::Impl {
  internal::FileWriter file;
};

TFRecordWriter::TFRecordWriter(const std::string& path)
    : impl_(std::make_unique<Impl>(Impl{internal::FileWriter(path)})) {}

TFRecordWriter::~TFRecordWriter() {
  const Status failure = capture_status([&] { close(); });
  if (!failure.ok())
    cohort::internal::log_error("[TFRecordWriter] the file was not closed: {}",
                                failure.to_string());
}

void TFRecordWriter::write(std::string_view record) { internal::write_record(impl_->file, record); }

void TFRecordWriter::flush() { impl_->file.flush(); }

void TFRecordWriter::close() { impl_->file.close(); }

}  // namespace cohort::data
