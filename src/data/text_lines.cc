#include "data/reader.h"

namespace cohort::data {
namespace internal {
namespace {

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
      raise(Code::DataLoss, "[TextLines] '{}' line {}: longer than {} bytes", bytes_.name(),
            number_, max_bytes_);
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

std::shared_ptr<Node> make_text_lines() { return std::make_shared<TextNode>(); }

}  // namespace internal

Dataset text_lines(const Files& files, const TextOptions& options) {
  return internal::add_stage<internal::TextNode>(
      internal::names_of(files), [&](auto& node) { node.options_of_file = options; });
}

}  // namespace cohort::data
