#include "data/reader.h"

#include <glob.h>

#include <algorithm>

#include "data/batch_rows.h"

namespace cohort::data::internal {
namespace {

class ReaderCursor : public StageCursor<ReaderNode> {
 public:
  using StageCursor::StageCursor;

  bool next(Element& out) override {
    while (reader_ || open_next()) {
      check_running(context_);
      if (reader_->next(out)) return true;
      reader_.reset();
    }
    return false;
  }
  bool has_blocks() const override { return node_.has_blocks(); }
  Block next_block(int64_t most) override {
    while (reader_ || open_next()) {
      check_running(context_);
      Block block = reader_->next_block(most);
      if (block.count > 0) return block;
      reader_.reset();
    }
    return {};
  }

 private:
  bool open_next() {
    Element name;
    if (!input_->next(name)) return false;
    in_stage(node_.kind(), index_++, [&] {
      const Tensor tensor = name.tensor();
      if (tensor.dtype() != kString || tensor.size() != 1) {
        raise(Code::InvalidArgument, "the name of a file must be one string, got {} of shape {}",
              to_string(tensor.dtype()), tensor.shape().to_string());
      }
      path_ = tensor.to<std::string>();
      reader_ = node_.read(open_bytes(path_));
    });
    return true;
  }

  void local_position(PositionFields& fields) override {
    bool is_open = reader_ != nullptr;
    fields.integer(index_);
    fields.flag(is_open);
    if (!is_open) return;
    fields.text(path_);
    if (fields.reading()) reader_ = node_.read(open_bytes(path_));
    reader_->position(fields);
  }

  std::string path_;
  std::unique_ptr<RecordReader> reader_;
  int64_t index_ = 0;
};

}  // namespace

CursorPtr ReaderNode::open(const Context& context) const {
  return std::make_unique<ReaderCursor>(*this, context);
}

bool RecordReader::next(Element& out) {
  const Block block = next_block(1);
  if (block.count == 0) return false;
  out = batch_row(block.rows, 0);
  return true;
}

bool StringReader::next(Element& out) {
  throw_if_error(std::exchange(failure_, {}));
  std::vector<std::string> record(1);
  if (!read(record[0])) return false;
  out = Element(Tensor::from(std::move(record), Shape{}));
  return true;
}

Block StringReader::next_block(int64_t most) {
  throw_if_error(std::exchange(failure_, {}));
  std::vector<std::string> block;
  failure_ = capture_status([&] {
    std::string record;
    while (static_cast<int64_t>(block.size()) < most && read(record)) {
      block.push_back(std::move(record));
      record.clear();
    }
  });
  if (block.empty()) throw_if_error(std::exchange(failure_, {}));
  if (block.empty()) return {};
  const auto count = static_cast<int64_t>(block.size());
  return {count, Element(Tensor::from(std::move(block)))};
}

void StringReader::position(PositionFields& fields) {
  fields.status(failure_);
  local_position(fields);
}

void file_position(PositionFields& fields, BufferedBytes& bytes, int64_t& records) {
  bool failed = bytes.failed();
  int64_t position = bytes.position();
  fields.flag(failed);
  fields.integer(position, 0, INT64_MAX);
  if (fields.reading() && failed) bytes.fail();
  if (!failed && (position < bytes.position() || !bytes.advance_to(position))) {
    raise_bad_state(fmt::format("'{}' is shorter than at the time of the save", bytes.name()));
  }
  fields.integer(records, 0, INT64_MAX);
}

}  // namespace cohort::data::internal

namespace cohort::data {
namespace {

struct Matches {
  glob_t found{};
  ~Matches() { ::globfree(&found); }
};

// Returns 1, which ends the search, if a directory cannot be listed for lack of resources: it may
// have matches. A directory that this user may not read has none.
int on_error(const char*, int error) {
  return cohort::internal::code_of_errno(error) == Code::ResourceExhausted ? 1 : 0;
}

void add_matches(const std::string& pattern, std::vector<std::string>& names) {
  Matches matches;
  const int result = ::glob(pattern.c_str(), GLOB_TILDE, on_error, &matches.found);
  if (result == GLOB_NOMATCH || (result == 0 && matches.found.gl_pathc == 0)) {
    internal::raise(Code::NotFound, "[Files] no file matches '{}'", pattern);
  }
  if (result != 0) {
    internal::raise(Code::ResourceExhausted,
                    "[Files] cannot list '{}': this process has no free file descriptors or no "
                    "memory; close files, or raise the limit (ulimit -n)",
                    pattern);
  }
  names.insert(names.end(), matches.found.gl_pathv,
               matches.found.gl_pathv + matches.found.gl_pathc);
}

}  // namespace

Files::Files(const std::vector<std::string>& paths)
    : names_(from_tensor_slices(Element(Tensor::from(std::vector<std::string>(paths))))) {}

Dataset files(const std::vector<std::string>& patterns) {
  if (patterns.empty())
    internal::raise(Code::InvalidArgument, "[Files] the list of patterns is empty");
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) add_matches(pattern, names);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return from_tensor_slices(Element(Tensor::from(std::move(names))));
}

}  // namespace cohort::data
