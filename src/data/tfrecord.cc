#include "data/tfrecord.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/crc32c.h"
#include "data/reader.h"

namespace cohort::data {
namespace internal {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kHeadBytes = 12;
constexpr size_t kTailBytes = 4;
constexpr size_t kPieceBytes = 16 << 10;

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

}  // namespace

TFRecordFile::TFRecordFile(std::unique_ptr<ByteSource> file, const TFRecordOptions& options)
    : bytes_(std::move(file)), options_(options) {}

template <typename... Args>
void TFRecordFile::fail(fmt::format_string<Args...> text, Args&&... args) {
  raise(Code::DataLoss, "[TFRecord] '{}' record {}: {}", bytes_.name(), number_ - 1,
        fmt::format(text, std::forward<Args>(args)...));
}

bool TFRecordFile::read_length(int64_t& length) {
  const std::string_view head = as_text(bytes_.window(kHeadBytes)).substr(0, kHeadBytes);
  if (head.empty()) return false;
  ++number_;
  broken_ = true;  // until the length proves right
  if (head.size() < kHeadBytes) fail("the file ends inside of its length");
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

bool TFRecordFile::next(std::string& record) {
  int64_t length = 0;
  if (broken_ || !read_length(length)) return false;
  const auto wanted = static_cast<size_t>(length) + kTailBytes;
  const std::string_view text = as_text(bytes_.window(wanted));
  if (text.size() < wanted) {
    broken_ = true;
    fail("it claims {} bytes, but the file ends after {}", length, text.size());
  }
  const std::string_view content = text.substr(0, static_cast<size_t>(length));
  const uint32_t stored = load<uint32_t>(text.substr(content.size()));
  // Piece by piece, so that the copy reads what the checksum has just brought near.
  uint32_t crc = 0;
  record.clear();
  record.reserve(content.size());
  for (size_t at = 0; at < content.size(); at += kPieceBytes) {
    const std::string_view piece = content.substr(at, kPieceBytes);
    if (options_.check_crc) crc = extend_crc32c(crc, piece);
    record.append(piece);
  }
  const bool good = !options_.check_crc || mask_crc32c(crc) == stored;
  bytes_.consume(wanted);
  if (!good) fail("the checksum of its {} bytes is wrong", length);
  return true;
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

namespace {

class TFRecordReader : public RecordReader {
 public:
  TFRecordReader(std::unique_ptr<ByteSource> file, const TFRecordOptions& options)
      : file_(std::move(file), options) {}

  bool next(Element& out) override {
    std::vector<std::string> record(1);
    if (!file_.next(record[0])) return false;
    out = Element(Tensor::from(std::move(record), Shape{}));
    return true;
  }

  bool has_blocks() const override { return true; }
  Block next_block(int64_t most) override {
    throw_if_error(std::exchange(failure_, {}));
    std::vector<std::string> block;
    failure_ = capture_status([&] {
      std::string record;
      while (static_cast<int64_t>(block.size()) < most && file_.next(record)) {
        block.push_back(std::move(record));
        record.clear();
      }
    });
    if (block.empty()) throw_if_error(std::exchange(failure_, {}));
    if (block.empty()) return {};
    const auto count = static_cast<int64_t>(block.size());
    return {count, Element(Tensor::from(std::move(block)))};
  }

  void save(StateWriter& state) override {
    state.status(failure_);
    save_position(state, file_.bytes(), file_.number());
  }
  void restore(StateReader& state) override {
    failure_ = state.status();
    file_.set_number(restore_position(state, file_.bytes()));
  }

 private:
  TFRecordFile file_;
  Status failure_;  // of the record behind the last block
};

class TFRecordNode : public ReaderNodeOf<TFRecordNode> {
 public:
  std::string_view kind() const override { return "TFRecord"; }
  std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const override {
    return std::make_unique<TFRecordReader>(std::move(file), options_of_file);
  }
  bool has_blocks() const override { return true; }
  std::optional<ElementSpec> spec() const override { return ElementSpec(TensorSpec{kString, {}}); }
  void check() const override {
    check_at_least("TFRecord", "length of a record", options_of_file.max_record_bytes, 0);
  }
  void fields(Fields& fields) override {
    fields.field("check_crc", options_of_file.check_crc);
    fields.field("max_record_bytes", options_of_file.max_record_bytes);
  }

  TFRecordOptions options_of_file;
};

}  // namespace

std::shared_ptr<Node> make_tfrecord() { return std::make_shared<TFRecordNode>(); }

}  // namespace internal

Dataset tfrecord(const Files& files, const TFRecordOptions& options) {
  auto node = internal::reader_on<internal::TFRecordNode>(files);
  node->options_of_file = options;
  return internal::finish(node);
}

}  // namespace cohort::data
