#include "data/line_reader.h"
#include "data/string_reader.h"

namespace cohort::data {
namespace internal {
namespace {

class TextReader : public StringReader {
 public:
  TextReader(std::unique_ptr<ByteSource> file, const TextOptions& options)
      : bytes_(std::move(file)), lines_(bytes_, "TextLines", options.max_line_bytes) {
    std::string_view skipped;
    for (int64_t i = 0; i < options.skip_lines; ++i) {
      if (!lines_.next(skipped)) break;
    }
  }

 private:
  bool read(std::string& record) override {
    std::string_view line;
    if (!lines_.next(line)) return false;
    record = line;
    return true;
  }
  void save_file(StateWriter& state) override { save_position(state, bytes_, lines_.number()); }
  void restore_file(StateReader& state) override {
    lines_.set_number(restore_position(state, bytes_));
  }

  BufferedBytes bytes_;
  LineReader lines_;
};

class TextNode : public StringReaderNode<TextNode> {
 public:
  std::string_view kind() const override { return "TextLines"; }
  std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const override {
    return std::make_unique<TextReader>(std::move(file), options_of_file);
  }
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

}  // namespace

std::shared_ptr<Node> make_text_lines() { return std::make_shared<TextNode>(); }

}  // namespace internal

Dataset text_lines(const Files& files, const TextOptions& options) {
  auto node = internal::reader_on<internal::TextNode>(files);
  node->options_of_file = options;
  return internal::finish(node);
}

}  // namespace cohort::data
