#include "data/line_reader.h"
#include "data/reader.h"

namespace cohort::data {
namespace internal {
namespace {

class TextReader : public RecordReader {
 public:
  TextReader(std::unique_ptr<ByteSource> file, const TextOptions& options)
      : bytes_(std::move(file)), lines_(bytes_, "TextLines", options.max_line_bytes) {
    std::string_view skipped;
    for (int64_t i = 0; i < options.skip_lines; ++i) {
      if (!lines_.next(skipped)) break;
    }
  }

  bool next(Element& out) override {
    std::string_view line;
    if (!lines_.next(line)) return false;
    out = Element(Tensor(std::string(line)));
    return true;
  }

  bool has_blocks() const override { return true; }
  Block next_block(int64_t most) override {
    throw_if_error(std::exchange(failure_, {}));
    std::vector<std::string> block;
    std::string_view line;
    failure_ = capture_status([&] {
      while (static_cast<int64_t>(block.size()) < most && lines_.next(line)) {
        block.emplace_back(line);
      }
    });
    if (block.empty()) throw_if_error(std::exchange(failure_, {}));
    if (block.empty()) return {};
    const auto count = static_cast<int64_t>(block.size());
    return {count, Element(Tensor::from(std::move(block)))};
  }

  void save(StateWriter& state) override {
    state.status(failure_);
    save_position(state, bytes_, lines_.number());
  }
  void restore(StateReader& state) override {
    failure_ = state.status();
    lines_.set_number(restore_position(state, bytes_));
  }

 private:
  BufferedBytes bytes_;
  LineReader lines_;
  Status failure_;  // of the line behind the last block
};

class TextNode : public ReaderNodeOf<TextNode> {
 public:
  std::string_view kind() const override { return "TextLines"; }
  std::unique_ptr<RecordReader> read(std::unique_ptr<ByteSource> file) const override {
    return std::make_unique<TextReader>(std::move(file), options_of_file);
  }
  bool has_blocks() const override { return true; }
  std::optional<ElementSpec> spec() const override { return ElementSpec(TensorSpec{kString, {}}); }
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
