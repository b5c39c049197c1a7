#include "data/reader.h"

#include "data/rows.h"

namespace cohort::data {
namespace internal {
namespace {

class ReaderCursor : public StageCursor {
 public:
  ReaderCursor(const ReaderNode& node, const Context& context)
      : StageCursor(node, context), reader_node_(node) {}

  bool next(Element& out) override {
    while (reader_ || open_next()) {
      check_running(context_);
      if (reader_->next(out)) return true;
      reader_.reset();
    }
    return false;
  }
  bool has_blocks() const override { return reader_node_.has_blocks(); }
  Block next_block(int64_t most) override {
    while (reader_ || open_next()) {
      check_running(context_);
      Block block = reader_->next_block(most);
      if (block.count > 0) return block;
      reader_.reset();
    }
    return {};
  }

  void save(StateWriter& state) override {
    state.stage(reader_node_.kind());
    state.integer(index_);
    state.flag(reader_ != nullptr);
    if (reader_) {
      state.text(path_);
      reader_->save(state);
    }
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.stage(reader_node_.kind());
    index_ = state.integer();
    if (state.flag()) {
      path_ = state.text();
      reader_ = reader_node_.read(open_bytes(path_));
      reader_->restore(state);
    }
    input_->restore(state);
  }

 private:
  bool open_next() {
    Element name;
    if (!input_->next(name)) return false;
    in_stage(reader_node_.kind(), index_++, [&] {
      const Tensor tensor = name.tensor();
      if (tensor.dtype() != kString || tensor.size() != 1) {
        raise(Code::InvalidArgument, "the name of a file must be one string, got {} of shape {}",
              to_string(tensor.dtype()), tensor.shape().to_string());
      }
      path_ = tensor.to<std::string>();
      reader_ = reader_node_.read(open_bytes(path_));
    });
    return true;
  }

  const ReaderNode& reader_node_;
  std::string path_;
  std::unique_ptr<RecordReader> reader_;
  int64_t index_ = 0;
};

}  // namespace

CursorPtr ReaderNode::open(const Context& context) const {
  return std::make_unique<ReaderCursor>(*this, context);
}

void save_position(StateWriter& state, const BufferedBytes& bytes, int64_t record) {
  state.flag(bytes.failed());
  state.integer(bytes.position());
  state.integer(record);
}

int64_t restore_position(StateReader& state, BufferedBytes& bytes) {
  const bool failed = state.flag();
  const int64_t position = state.integer(0, INT64_MAX);
  if (failed) {
    bytes.fail();
    return state.integer(0, INT64_MAX);
  }
  if (position < bytes.position() || !bytes.advance_to(position)) {
    raise_bad_state(fmt::format("'{}' is shorter than it was", bytes.name()));
  }
  return state.integer(0, INT64_MAX);
}

}  // namespace internal

Files::Files(const std::vector<std::string>& paths)
    : names_(from_tensor_slices(Element(Tensor::from(std::vector<std::string>(paths))))) {}

}  // namespace cohort::data
