// Files of plain records: lines of text, records of one length, and the binary files of CIFAR.

#include "cohort/readers.h"
#include "data/batch_rows.h"
#include "data/reader.h"
#include "tensor/memory.h"

namespace cohort::data {
namespace internal {
namespace {

// Reads the records between a header and a footer.
class FixedRecords {
 public:
  FixedRecords(std::unique_ptr<ByteSource> file, std::string_view stage, int64_t bytes,
               int64_t header, int64_t footer)
      : bytes_(std::move(file)), stage_(stage), size_(bytes), footer_(footer) {
    if (!bytes_.advance_to(header)) {
      raise(Code::DataLoss, "[{}] '{}' is shorter than its header of {} bytes", stage_,
            bytes_.name(), header);
    }
  }

  // Returns the next record, which is valid until the next call. Empty at the end.
  std::string_view next() {
    const std::string_view text = as_text(bytes_.window(static_cast<size_t>(size_ + footer_)));
    if (static_cast<int64_t>(text.size()) < size_ + footer_) {
      const auto rest = static_cast<int64_t>(text.size());
      bytes_.consume(text.size());
      if (rest == footer_ || rest == 0) return {};
      raise(Code::DataLoss, "[{}] '{}' ends inside record {}: {} of {} bytes", stage_,
            bytes_.name(), number_, rest, size_ + footer_);
    }
    ++number_;
    bytes_.consume(static_cast<size_t>(size_));
    return text.substr(0, static_cast<size_t>(size_));
  }

  void position(PositionFields& fields) { file_position(fields, bytes_, number_); }
  int64_t number() const { return number_; }
  const std::string& name() const { return bytes_.name(); }

 private:
  BufferedBytes bytes_;
  std::string_view stage_;
  int64_t size_;
  int64_t footer_;
  int64_t number_ = 0;
};

class FixedNode : public ReaderStage<FixedNode, class FixedReader, StringReaderNode> {
 public:
  std::string_view kind() const override { return "FixedLengthRecords"; }
  void check() const override {
    check_at_least(kind(), "length of a record", bytes, 1);
    check_at_least(kind(), "length of the header", chosen.header, 0);
    check_at_least(kind(), "length of the footer", chosen.footer, 0);
    constexpr int64_t kMaxBytes = int64_t{1} << 40;
    if (bytes > kMaxBytes || chosen.header > kMaxBytes || chosen.footer > kMaxBytes) {
      raise(Code::InvalidArgument,
            "[{}] lengths above {} bytes are not supported, got {}, {} and {} for record, header "
            "and footer",
            kind(), kMaxBytes, bytes, chosen.header, chosen.footer);
    }
  }
  void fields(Fields& fields) override {
    fields.field("bytes", bytes);
    fields.field("header", chosen.header);
    fields.field("footer", chosen.footer);
  }

  int64_t bytes = 1;
  FixedLengthOptions chosen;
};

class FixedReader : public StringReader {
 public:
  FixedReader(const FixedNode& node, std::unique_ptr<ByteSource> file)
      : records_(std::move(file), node.kind(), node.bytes, node.chosen.header, node.chosen.footer) {
  }

 private:
  bool read(std::string& record) override {
    record = records_.next();
    return !record.empty();
  }
  void local_position(PositionFields& fields) override { records_.position(fields); }

  FixedRecords records_;
};

constexpr int64_t kImageBytes = 3 * 32 * 32;
const Shape kImageShape = {3, 32, 32};

class CifarNode : public ReaderStage<CifarNode, class CifarReader> {
 public:
  std::string_view kind() const override { return "Cifar"; }
  std::optional<ElementSpec> spec() const override {
    std::vector<TensorSpec> parts{{kUInt8, kImageShape}, {kInt64, {}}};
    if (fine) parts.push_back({kInt64, {}});
    return ElementSpec::tuple(std::move(parts));
  }
  void fields(Fields& fields) override { fields.field("fine", fine); }

  bool fine = false;
};

class CifarReader : public RecordReader {
 public:
  CifarReader(const CifarNode& node, std::unique_ptr<ByteSource> file)
      : classes_(node.fine ? std::vector{20, 100} : std::vector{10}),
        records_(std::move(file), "Cifar", kImageBytes + static_cast<int64_t>(classes_.size()), 0,
                 0) {}

  bool next(Element& out) override {
    const std::string_view record = records_.next();
    if (record.empty()) return false;
    auto image = cohort::internal::allocate_tensor(kUInt8, kImageShape);
    record.copy(reinterpret_cast<char*>(image.data), kImageBytes, classes_.size());
    std::vector<Tensor> parts{image.tensor};
    for (size_t i = 0; i < classes_.size(); ++i) {
      const auto label = static_cast<uint8_t>(record[i]);
      if (label >= classes_[i]) {
        raise(Code::DataLoss, "[Cifar] '{}' record {}: label {} is not one of {} classes",
              records_.name(), records_.number() - 1, label, classes_[i]);
      }
      parts.push_back(scalar_tensor<int64_t>(label));
    }
    out = Element::tuple(std::move(parts));
    return true;
  }
  void position(PositionFields& fields) override { records_.position(fields); }

 private:
  std::vector<int> classes_;  // number of classes of each label
  FixedRecords records_;
};

class TextNode : public ReaderStage<TextNode, class TextReader, StringReaderNode> {
 public:
  std::string_view kind() const override { return "TextLines"; }
  void check() const override {
    check_at_least("TextLines", "number of lines to skip", options_of_file.skip_lines, 0);
    check_at_least("TextLines", "length of a line", options_of_file.max_line_bytes, 1);
  }
  void fields(Fields& fields) override {
    fields.field("skip_lines", options_of_file.skip_lines);
    fields.field("max_line_bytes", options_of_file.max_line_bytes);
  }

  TextOptions options_of_file;
};

// Lines end with "\n", "\r\n" or the end of the file.
class TextReader : public StringReader {
 public:
  TextReader(const TextNode& node, std::unique_ptr<ByteSource> file)
      : bytes_(std::move(file)),
        max_bytes_(static_cast<size_t>(node.options_of_file.max_line_bytes)) {
    std::string_view skipped;
    for (int64_t i = 0; i < node.options_of_file.skip_lines && next_line(skipped); ++i) {
    }
  }

 private:
  bool read(std::string& record) override {
    std::string_view line;
    if (!next_line(line)) return false;
    record = line;
    return true;
  }
  void local_position(PositionFields& fields) override { file_position(fields, bytes_, number_); }

  // The line is valid until the next call.
  bool next_line(std::string_view& line) {
    std::string_view text = as_text(bytes_.window());
    if (text.empty()) return false;
    ++number_;
    size_t searched = 0;
    size_t end = 0;
    for (;;) {
      end = text.find('\n', searched);
      if (end != std::string_view::npos || text.size() > max_bytes_) break;
      searched = text.size();
      text = as_text(bytes_.window(searched + 1));
      if (text.size() == searched) break;
    }
    const bool ended = end != std::string_view::npos;
    const size_t length = ended ? end : text.size();
    if (length > max_bytes_) {
      bytes_.consume_line();
      raise(Code::DataLoss,
            "[TextLines] '{}' line {} is longer than {} bytes; set a larger max_line_bytes",
            bytes_.name(), number_, max_bytes_);
    }
    line = text.substr(0, length);
    if (ended && line.ends_with('\r')) line.remove_suffix(1);
    bytes_.consume(length + (ended ? 1 : 0));
    return true;
  }

  BufferedBytes bytes_;
  const size_t max_bytes_;
  int64_t number_ = 0;  // of the last line, from 1
};

}  // namespace

std::shared_ptr<Node> make_fixed_length_records() { return std::make_shared<FixedNode>(); }
std::shared_ptr<Node> make_cifar() { return std::make_shared<CifarNode>(); }
std::shared_ptr<Node> make_text_lines() { return std::make_shared<TextNode>(); }

}  // namespace internal

Dataset fixed_length_records(const Files& files, int64_t bytes, const FixedLengthOptions& options) {
  return internal::add_stage<internal::FixedNode>(internal::names_of(files), [&](auto& node) {
    node.bytes = bytes;
    node.chosen = options;
  });
}

Dataset cifar10(const Files& files) {
  return internal::add_stage<internal::CifarNode>(internal::names_of(files));
}

Dataset cifar100(const Files& files) {
  return internal::add_stage<internal::CifarNode>(internal::names_of(files),
                                                  [&](auto& node) { node.fine = true; });
}

Dataset text_lines(const Files& files, const TextOptions& options) {
  return internal::add_stage<internal::TextNode>(
      internal::names_of(files), [&](auto& node) { node.options_of_file = options; });
}

}  // namespace cohort::data
