// The first pass stores the elements in memory or in a file; later passes read them from there.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>

#include "data/file_writer.h"
#include "data/reader.h"
#include "data/stage.h"
#include "data/tfrecord.h"

namespace cohort::data {
namespace internal {
namespace {

// What a complete pass left in memory.
struct Stored {
  std::vector<Element> elements;
  std::string start;  // the input's position before the pass: what makes it again
};

class CacheNode : public PassThroughNode<CacheNode> {
 public:
  CacheNode() = default;
  // A copy may get another input, so it starts empty.
  CacheNode(const CacheNode& other) : PassThroughNode(other), file(other.file) {}

  std::string_view kind() const override { return "Cache"; }
  CursorPtr open(const Context& context) const override;
  int64_t cardinality() const override { return input().cardinality(); }
  void fields(Fields& fields) override { fields.field("file", file); }

  std::shared_ptr<const Stored> stored() const {
    const std::lock_guard lock(mutex_);
    return stored_;
  }
  void publish(std::shared_ptr<const Stored> complete) const {
    const std::lock_guard lock(mutex_);
    if (!stored_) stored_ = std::move(complete);
  }

  std::string file;  // empty: memory

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Stored> stored_;
};

std::string position_of(Cursor& cursor) {
  StateWriter state;
  cursor.save(state);
  return state.bytes();
}

// What both kinds of cache share: a position is a number of elements and where the input began. A
// pass that is not complete is made again when it is restored.
class CacheCursor : public Cursor {
 public:
  CacheCursor(const CacheNode& node, const Context& context) : node_(node), context_(context) {}

  void save(StateWriter& state) override {
    state.stage("Cache");
    state.integer(at_);
    state.text(start_);
  }
  void restore(StateReader& state) override {
    state.stage("Cache");
    const int64_t count = state.integer(0, INT64_MAX);
    const std::string start = state.text();
    if (input_) {
      StateReader begin(start);
      input_->restore(begin);
      start_ = start;
    }
    Element skipped;
    while (at_ < count) {
      if (!next(skipped)) raise_bad_state("the cached dataset has fewer elements");
    }
  }

 protected:
  void begin_pass() {
    input_ = node_.input().open(context_);
    start_ = position_of(*input_);
  }

  const CacheNode& node_;
  const Context context_;
  CursorPtr input_;    // null once the elements are stored
  std::string start_;  // the input's position before its first element
  int64_t at_ = 0;
};

class MemoryCacheCursor : public CacheCursor {
 public:
  MemoryCacheCursor(const CacheNode& node, const Context& context)
      : CacheCursor(node, context), stored_(node.stored()) {
    if (stored_) {
      start_ = stored_->start;
    } else {
      begin_pass();
    }
  }

  bool next(Element& out) override {
    if (stored_) {
      if (at_ == static_cast<int64_t>(stored_->elements.size())) return false;
      out = stored_->elements[static_cast<size_t>(at_++)];
      return true;
    }
    check_running(context_);
    if (ended_ || !input_->next(out)) {
      if (!std::exchange(ended_, true)) {
        node_.publish(std::make_shared<Stored>(Stored{std::move(seen_), start_}));
      }
      return false;
    }
    seen_.push_back(out);
    ++at_;
    return true;
  }

 private:
  std::shared_ptr<const Stored> stored_;
  std::vector<Element> seen_;
  bool ended_ = false;
};

constexpr std::string_view kFileHead = "cohort cache 1";
constexpr std::string_view kFileEnd = "end of cohort cache";

// The file is a TFRecord file: a head, one record per element, an end. It gets its name when it is
// complete.
class FileCacheCursor : public CacheCursor {
 public:
  FileCacheCursor(const CacheNode& node, const Context& context) : CacheCursor(node, context) {
    if (std::filesystem::exists(node.file)) {
      open_stored();
      return;
    }
    static std::atomic<int64_t> count = 0;
    partial_ = fmt::format("{}.{}.{}.partial", node.file, ::getpid(), count.fetch_add(1));
    writer_.emplace(partial_);
    write(kFileHead);
    begin_pass();
    write(start_);
  }
  ~FileCacheCursor() override {
    if (!writer_) return;
    writer_.reset();
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);
  }

  bool next(Element& out) override {
    check_running(context_);
    return file_ ? next_stored(out) : next_made(out);
  }

 private:
  void open_stored() {
    file_.emplace(open_bytes(node_.file), TFRecordOptions{.max_record_bytes = int64_t{1} << 40});
    std::string record;
    if (!file_->next(record) || record != kFileHead || !file_->next(start_)) {
      raise(Code::DataLoss, "[Cache] '{}' is not a cache; delete it, or give another name",
            node_.file);
    }
  }

  bool next_stored(Element& out) {
    if (ended_) return false;
    std::string record;
    if (!file_->next(record)) {
      ended_ = true;
      raise(Code::DataLoss, "[Cache] '{}' ends after {} elements; delete it", node_.file, at_);
    }
    if (record == kFileEnd) {
      ended_ = true;
      return false;
    }
    StateReader reader(record);
    out = reader.element();
    ++at_;
    return true;
  }

  bool next_made(Element& out) {
    if (ended_ || !input_->next(out)) {
      if (!std::exchange(ended_, true)) complete();
      return false;
    }
    StateWriter record;
    record.element(out);
    write(record.bytes());
    ++at_;
    return true;
  }

  void write(std::string_view record) {
    writer_->write(tfrecord_head(record));
    writer_->write(record);
    writer_->write(tfrecord_tail(record));
  }

  void complete() {
    write(kFileEnd);
    writer_->close();
    writer_.reset();
    std::filesystem::rename(partial_, node_.file);
  }

  std::optional<TFRecordFile> file_;  // reading
  std::optional<FileWriter> writer_;  // or writing
  std::string partial_;
  bool ended_ = false;
};

CursorPtr CacheNode::open(const Context& context) const {
  if (file.empty()) return std::make_unique<MemoryCacheCursor>(*this, context);
  return std::make_unique<FileCacheCursor>(*this, context);
}

}  // namespace

std::shared_ptr<Node> make_cache() { return std::make_shared<CacheNode>(); }

}  // namespace internal

Dataset Dataset::cache() const {
  return internal::finish(internal::stage_on<internal::CacheNode>(node_));
}

Dataset Dataset::cache(const std::string& file) const {
  if (file.empty()) internal::raise(Code::InvalidArgument, "[Cache] the name of the file is empty");
  auto node = internal::stage_on<internal::CacheNode>(node_);
  node->file = file;
  return internal::finish(node);
}

}  // namespace cohort::data
